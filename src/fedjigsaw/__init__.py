"""One-shot federated clustering: every client sends one small summary, once.

>>> import fedjigsaw
>>> data = fedjigsaw.datasets.load("gaussian-grid")
>>> clients = fedjigsaw.partition.iid(len(data.X), 10, rng=0)
>>> feca = fedjigsaw.FeCA(n_clusters=15, random_state=0).fit(data.X, clients=clients)
>>> feca.cluster_centers_.shape
(15, 2)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedjigsaw import datasets, metrics, partition, sources
    from fedjigsaw.comparison import Comparison, compare
    from fedjigsaw.engine import (
        Client,
        Engine,
        FederatedMethod,
        SerialEngine,
        run_rounds,
    )
    from fedjigsaw.errors import (
        CountsWarning,
        FedJigsawError,
        FewerClustersWarning,
        UncertainNumberWarning,
    )
    from fedjigsaw.estimator import FederatedClusterer
    from fedjigsaw.loading import load
    from fedjigsaw.messages import Broadcast, Failure, Model, Summary, Transcript
    from fedjigsaw.methods import register
    from fedjigsaw.methods.central import CentralKMeans
    from fedjigsaw.methods.dckmeans import DCKMeans
    from fedjigsaw.methods.feca import FeCA
    from fedjigsaw.methods.fuzzy import FuzzyCMeans
    from fedjigsaw.methods.jigsaw import Jigsaw
    from fedjigsaw.methods.kfed import KFed
    from fedjigsaw.methods.lloyd import FederatedLloyd
    from fedjigsaw.methods.match_averaging import MatchAveraging
    from fedjigsaw.methods.mufc import Mufc
    from fedjigsaw.parallel import ProcessEngine
    from fedjigsaw.privacy import Guard, Privacy
    from fedjigsaw.sites.federated import FederatedPreparation

__version__ = "0.1.0"

__all__ = [
    "Broadcast",
    "CentralKMeans",
    "Client",
    "Comparison",
    "CountsWarning",
    "DCKMeans",
    "Engine",
    "Failure",
    "FeCA",
    "FedJigsawError",
    "FederatedClusterer",
    "FederatedLloyd",
    "FederatedMethod",
    "FederatedPreparation",
    "FewerClustersWarning",
    "FuzzyCMeans",
    "Guard",
    "Jigsaw",
    "KFed",
    "MatchAveraging",
    "Model",
    "Mufc",
    "Privacy",
    "ProcessEngine",
    "SerialEngine",
    "Summary",
    "Transcript",
    "UncertainNumberWarning",
    "compare",
    "datasets",
    "load",
    "metrics",
    "partition",
    "register",
    "run_rounds",
    "sources",
]

# module -> its public names: imported when first used, so that a command starts, and can be
# stopped, before the libraries for numbers are loaded
_MODULES = {
    "comparison": ("Comparison", "compare"),
    "contract": ("FederatedMethod",),
    "engine": ("Client", "Engine", "FederatedMethod", "SerialEngine", "run_rounds"),
    "errors": (
        "CountsWarning",
        "FedJigsawError",
        "FewerClustersWarning",
        "UncertainNumberWarning",
    ),
    "estimator": ("FederatedClusterer",),
    "loading": ("load",),
    "messages": ("Broadcast", "Failure", "Model", "Summary", "Transcript"),
    "methods": ("register",),
    "methods.central": ("CentralKMeans",),
    "methods.dckmeans": ("DCKMeans",),
    "methods.feca": ("FeCA",),
    "methods.fuzzy": ("FuzzyCMeans",),
    "methods.jigsaw": ("Jigsaw",),
    "methods.kfed": ("KFed",),
    "methods.lloyd": ("FederatedLloyd",),
    "methods.match_averaging": ("MatchAveraging",),
    "methods.mufc": ("Mufc",),
    "parallel": ("ProcessEngine",),
    "privacy": ("Guard", "Privacy"),
    "sites.federated": ("FederatedPreparation",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_PARTS = {"datasets", "kernels", "metrics", "parameters", "partition", "sources"} | {
    module.partition(".")[0] for module in _MODULES
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f"fedjigsaw.{_HOMES[name]}"), name)
        elif name in _PARTS:
            value = import_module(f"fedjigsaw.{name}")
        else:
            raise AttributeError(f"module 'fedjigsaw' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
