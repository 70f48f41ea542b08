"""One-shot federated clustering: every client sends one small summary, once.

>>> import fedjigsaw
>>> data = fedjigsaw.datasets.load("gaussian-grid")
>>> clients = fedjigsaw.partition.iid(len(data.X), 10, rng=0)
>>> feca = fedjigsaw.FeCA(n_clusters=15, random_state=0).fit(data.X, clients=clients)
>>> feca.cluster_centers_.shape
(15, 2)
"""

from fedjigsaw import datasets, metrics, partition
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.contract import FederatedMethod
from fedjigsaw.engine import Client, Engine, ProcessEngine, SerialEngine, run_rounds
from fedjigsaw.errors import CountsWarning, FedJigsawError, FewerClustersWarning
from fedjigsaw.messages import Broadcast, Failure, Model, Summary, Transcript
from fedjigsaw.methods.central import CentralKMeans
from fedjigsaw.methods.feca import FeCA
from fedjigsaw.methods.fuzzy import FuzzyCMeans
from fedjigsaw.methods.jigsaw import Jigsaw
from fedjigsaw.methods.kfed import KFed
from fedjigsaw.methods.match_averaging import MatchAveraging
from fedjigsaw.privacy import Guard

__version__ = "0.1.0"

__all__ = [
    "Broadcast",
    "CentralKMeans",
    "Client",
    "CountsWarning",
    "Engine",
    "Failure",
    "FeCA",
    "FedJigsawError",
    "FederatedClusterer",
    "FederatedMethod",
    "FewerClustersWarning",
    "FuzzyCMeans",
    "Guard",
    "Jigsaw",
    "KFed",
    "MatchAveraging",
    "Model",
    "ProcessEngine",
    "SerialEngine",
    "Summary",
    "Transcript",
    "datasets",
    "metrics",
    "partition",
    "run_rounds",
]
