"""Run federated methods over a network with Flower.

Needs ``pip install 'fedjigsaw[flower]'``.
"""

from importlib.util import find_spec

from fedjigsaw.errors import ExtraError, requires_extra

if find_spec("flwr") is None:
    raise ExtraError(requires_extra("fedjigsaw.flower", "flwr", "flower"))
