"""Jigsaw and other methods by the objective of k-means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from fedjigsaw import FederatedClusterer, partition
from fedjigsaw.kernels.kmeans import Problem, Solution, kmeans, nearest_centers, squared_distances
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import Broadcast
from fedjigsaw.methods import make
from fedjigsaw.methods.mufc import Mufc
from reproduction.experiments.cells import dataset
from reproduction.studies import Floats, Ints, Row

CELLTYPE = "celltype/celltype.npz"  # in FEDJIGSAW_DATA: X of shape (12009, 10), client of each row
N_CLIENTS = 10
STARTS = 50  # of k-means on the pooled rows, to which objectives are related
N_CLUSTERS = {"celltype": 4, "s1": 15, "s4": 15, "unequal": 12, "k50": 50, "digits": 10}


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


PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Jigsaw": ("jigsaw", {}),
    "Jigsaw, detail=4": ("jigsaw", {"detail": 4}),
    "FeCA": ("feca", {}),
    "k-FED": ("kfed", {}),
    "M-Avg": ("match", {}),
    "DC-k-means": ("dc", {}),
    "MUFC": ("mufc", {}),
    "Jigsaw, 6 rounds": ("jigsaw", {"n_rounds": 6}),
    "Fed-Lloyd, 6 rounds": ("lloyd", {"n_rounds": 5}),
    "Fed-Lloyd, 21 rounds": ("lloyd", {"n_rounds": 20}),
    "FKM, 6 rounds": ("lloyd", {"n_rounds": 5, "step": "kmeans"}),
    "Centralized, 1 start": ("central", {"n_init": 1}),
}


def fit(dataset: str, split: str, label: str, seed: int) -> Row:
    """Fit one method of :data:`PEERS`, or "MUFC, seeds", on one data set and split."""
    (data, clients), k, least = federation(dataset, split, seed), N_CLUSTERS[dataset], best(dataset)
    if label == "MUFC, seeds":
        method: FederatedClusterer = _published_mufc(data, k, seed)
    else:
        name, params = PEERS[label]
        method = make(name, k, seed, **params)
    started = process_time()
    method.fit(data, clients=clients)
    seconds = process_time() - started
    local = method.labels_ if method.pools_data else method.predict(data, clients=clients)
    induced = squared_distances(data, method.cluster_centers_, local).sum()
    return {
        "n_found": method.n_clusters_,
        "ratio": method.inertia_ / least,
        "ratio_local": float(induced) / least,
        "bytes_per_client": method.transcript_.bytes_up / len(np.unique(clients)),
        "rounds": method.n_iter_,
        "cpu_seconds": round(seconds, 3),
    }


def federation(name: str, split: str, seed: int) -> tuple[Floats, Ints]:
    """Return the rows of a data set and the client of each."""
    if name == "celltype":
        return _celltype()
    data = dataset(name)
    kind, _, alpha = split.rstrip(")").partition("(")
    k = N_CLUSTERS[name]
    least = min(k, len(data.X) // (10 * N_CLIENTS))
    clients = partition.split(
        kind, data.y, N_CLIENTS, rng=seed, alpha=float(alpha or 1), min_size=least
    )
    return data.X, clients


@cache
def best(name: str) -> float:
    """Return the least objective known: k-means on the pooled rows, many starts, and moves."""
    rows = federation(name, "iid", 0)[0]
    k, rng = N_CLUSTERS[name], np.random.default_rng(0)
    started = kmeans(rows, k, rng=rng, n_init=STARTS, tol=0.0).inertia
    moved = solve(rows, np.ones(len(rows)), k, rng=rng, tol=0.0).centers
    return min(started, kmeans(rows, k, rng=rng, init=moved, tol=0.0).inertia)


@cache
def _celltype() -> tuple[Floats, Ints]:
    path = Path(os.environ.get("FEDJIGSAW_DATA", ".")) / CELLTYPE
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["X"].astype(np.float64), arrays["client"].astype(np.int64)
