"""The study "peers": Jigsaw and other methods by the objective of k-means, and its tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import partition
from fedjigsaw._random import stream
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.bench.fed_hire import FedHIRE
from fedjigsaw.bench.generated import load_any
from fedjigsaw.bench.study import PlainCell, Plan
from fedjigsaw.errors import FewerClustersWarning
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.kmeans import Problem, Solution, kmeans, nearest_centers, squared_distances
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import make
from fedjigsaw.methods.mufc import Mufc
from fedjigsaw.report.provenance import provenance

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer

CELLTYPE = "celltype/celltype.npz"  # in FEDJIGSAW_DATA: X of shape (12009, 10), client of each row
N_CLIENTS = 10
DIRICHLET = {"dirichlet(0.3)": 0.3, "dirichlet(0.1)": 0.1}
STARTS = 50  # of k-means on the pooled rows, to which objectives are related

# name -> title, number of clusters, splits
SETS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "celltype": ("celltype", 4, ("as published",)),
    "s1": ("S1", 15, ("iid", *DIRICHLET)),
    "s4": ("S4", 15, ("iid", *DIRICHLET)),
    "unequal": ("unequal sizes", 12, ("iid", "dirichlet(0.3)")),
    "k50": ("k = 50", 50, ("iid", "dirichlet(0.3)")),
    "digits": ("digits", 10, ("iid", "dirichlet(0.3)")),
}


class PublishedMufc(Mufc):
    """MUFC as published: clients send the bins of the seeds of k-means++, which are rows.

    It is here to be compared, and not in the table of methods, since rows must not leave.
    """

    def search(
        self, problems: Sequence[Problem], broadcasts: Sequence[Broadcast]
    ) -> list[Solution]:
        """Return the cells around the seeds of each client."""
        return [_around_seeds(problem.X, problem.n_clusters, problem.rng) for problem in problems]


def _around_seeds(X: Floats, k: int, rng: np.random.Generator) -> Solution:
    from sklearn.cluster import kmeans_plusplus

    seed = int(rng.integers(2**31))
    k = min(k, len(np.unique(X, axis=0)))
    centers, _ = kmeans_plusplus(X, k, random_state=seed, n_local_trials=1)
    labels, distances = nearest_centers(X, centers)
    counts: Floats = np.bincount(labels, minlength=k).astype(np.float64)
    sse: Floats = np.bincount(labels, distances**2, minlength=k).astype(np.float64)
    return Solution(centers, labels, counts, sse, np.zeros(k))


def _published_mufc(data: Floats, k: int, seed: int) -> FederatedClusterer:
    """Return it with the bins of the paper: the range of the data over the root of their number."""
    width = float(np.ptp(data, axis=0).max() / np.sqrt(len(data)))
    return PublishedMufc(k, bin_width=width, random_state=seed)


def _fed_hire(data: Floats, k: int, seed: int) -> FederatedClusterer:
    """Return it for data whose columns have about unit variance, as its authors use it."""
    return FedHIRE(k, unit=float(data.std(axis=0).mean()), random_state=seed)


def _named(name: str, params: Mapping[str, Any], data: Floats, k: int, seed: int) -> Any:
    return make(name, k, seed, **params)


Make = Callable[[Floats, int, int], "FederatedClusterer"]  # of rows, number of clusters, seed
PEERS: dict[str, Make] = {
    "Jigsaw": partial(_named, "jigsaw", {}),
    "Jigsaw, detail=4": partial(_named, "jigsaw", {"detail": 4}),
    "FeCA": partial(_named, "feca", {}),
    "k-FED": partial(_named, "kfed", {}),
    "M-Avg": partial(_named, "match", {}),
    "DC-k-means": partial(_named, "dc", {}),
    "MUFC": partial(_named, "mufc", {}),
    "MUFC, seeds": _published_mufc,
    "Fed-HIRE": _fed_hire,
    "Jigsaw, 6 rounds": partial(_named, "jigsaw", {"n_rounds": 6}),
    "Fed-Lloyd, 6 rounds": partial(_named, "lloyd", {"n_rounds": 5}),
    "Fed-Lloyd, 21 rounds": partial(_named, "lloyd", {"n_rounds": 20}),
    "FKM, 6 rounds": partial(_named, "lloyd", {"n_rounds": 5, "step": "kmeans"}),
    "Centralized, 1 start": partial(_named, "central", {"n_init": 1}),
}


@dataclass(frozen=True)
class PeerCell(PlainCell):
    """One method on one data set and split.

    Parameters
    ----------
    dataset : a key of :data:`SETS`.
    split : "iid", a key of :data:`DIRICHLET`, or "as published".
    label : a key of :data:`PEERS`.
    """

    dataset: str
    split: str
    label: str
    seed: int = 0

    def lacks(self) -> str:
        """Say which data are missing, and where they come from."""
        if self.dataset == "celltype" and not celltype_file().is_file():
            return (
                f"The data set celltype needs {CELLTYPE} in the folder FEDJIGSAW_DATA, with arrays "
                "X and client: see docs/peers.md."
            )
        return ""

    def compute(self) -> Row:
        data, clients = federation(self.dataset, self.split, self.seed)
        method = PEERS[self.label](data, SETS[self.dataset][1], self.seed)
        started = process_time()
        with warnings.catch_warnings():  # the row says how many clusters were found
            warnings.simplefilter("ignore", FewerClustersWarning)
            method.fit(data, clients=clients)
        seconds = process_time() - started
        n_clients = len(np.unique(clients))
        return {
            **self.as_row(),
            "n_clients": n_clients,
            "n_found": method.n_clusters_,
            **ratios(method, data, clients, best(self.dataset)),
            "bytes_per_client": method.transcript_.bytes_up / n_clients,
            "rounds": method.n_iter_,
            "cpu_seconds": seconds,
            **provenance(),
        }


def ratios(
    method: FederatedClusterer, data: Floats, clients: Ints, least: float
) -> dict[str, float]:
    """Return the objective relative to the least one, by nearest centers and by local labels."""
    local = method.labels_ if method.pools_data else method.predict(data, clients=clients)
    induced = squared_distances(data, method.cluster_centers_, local).sum()
    return {"ratio": method.inertia_ / least, "ratio_local": float(induced) / least}


def federation(name: str, split: str, seed: int) -> tuple[Floats, Ints]:
    """Return the rows of a data set and the client of each."""
    if name == "celltype":
        return _celltype()
    data = _load(name)
    kind, alpha = ("iid", 1.0) if split == "iid" else ("dirichlet", DIRICHLET[split])
    k = SETS[name][1]
    least = min(k, len(data.X) // (10 * N_CLIENTS))
    clients = partition.split(kind, data.y, N_CLIENTS, rng=seed, alpha=alpha, min_size=least)
    return data.X, clients


@cache
def best(name: str) -> float:
    """Return the least objective known: k-means on the pooled rows, many starts, and moves."""
    rows = federation(name, "iid", 0)[0]
    k, rng = SETS[name][1], stream(0, 0, "the pooled rows")
    started = kmeans(rows, k, rng=rng, n_init=STARTS, tol=0.0).inertia
    moved = solve(rows, np.ones(len(rows)), k, rng=rng, tol=0.0).centers
    return min(started, kmeans(rows, k, rng=rng, init=moved, tol=0.0).inertia)


_load = cache(load_any)


def celltype_file() -> Path:
    """Return where the data set celltype is expected."""
    return Path(os.environ.get("FEDJIGSAW_DATA", ".")) / CELLTYPE


@cache
def _celltype() -> tuple[Floats, Ints]:
    with np.load(celltype_file(), allow_pickle=False) as arrays:
        return arrays["X"].astype(np.float64), arrays["client"].astype(np.int64)


def plans() -> tuple[Plan, ...]:
    """Return all plans: every method on every split of every data set."""
    return tuple(
        Plan(f"{name}/{split}/{label}", PeerCell(name, split, label))
        for name, (_, _, splits) in SETS.items()
        for split in splits
        for label in PEERS
        if label != "Fed-HIRE" or name == "s1"  # minutes on others: see `fed_hire`
    )
