"""DeepFeCA: learn features from unlabeled images that stay at their clients.

Requires torch: ``pip install 'fedjigsaw[deep]'``. ``import fedjigsaw`` does not load this package.
"""

from fedjigsaw.errors import ExtraError, requires_extra

try:
    import torch
except ImportError as error:
    raise ExtraError(requires_extra("fedjigsaw.deep", "torch", "deep")) from error

from fedjigsaw.deep.augment import Augmentation
from fedjigsaw.deep.deepfeca import CentralDeepCluster, DeepFeCA
from fedjigsaw.deep.execution import Execution, check_device
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.objective import Objective
from fedjigsaw.deep.schedule import Schedule
from fedjigsaw.deep.state import State
from fedjigsaw.threads import register_library

register_library(torch.get_num_threads)

__all__ = [
    "Augmentation",
    "CentralDeepCluster",
    "DeepFeCA",
    "Execution",
    "ImageSet",
    "Objective",
    "Schedule",
    "State",
    "check_device",
]
