"""DeepFeCA: learn the features, too, from unlabeled images that stay where they are.

Needs torch: ``pip install 'fedjigsaw[deep]'``. ``import fedjigsaw`` does not load this room.
"""

from fedjigsaw.errors import ExtraError, invalid

try:
    import torch  # noqa: F401
except ImportError as error:
    advice = "Install it with `pip install 'fedjigsaw[deep]'`."
    raise ExtraError(invalid("torch", "fedjigsaw.deep", "installed", "none", advice)) from error

from fedjigsaw._threads import find_libraries_again
from fedjigsaw.deep.deepfeca import CentralDeepCluster, DeepFeCA
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.parameters import check_device
from fedjigsaw.deep.state import State

find_libraries_again()  # torch has brought its own

__all__ = ["CentralDeepCluster", "DeepFeCA", "ImageSet", "State", "check_device"]
