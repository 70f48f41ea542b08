"""What differential privacy costs: Jigsaw and other methods on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from fedjigsaw import Jigsaw, Privacy, datasets, metrics, partition
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers
from fedjigsaw.privacy.dp import epsilon_of, multiplier_for
from reproduction.experiments.private_methods import METHODS, Problem
from reproduction.studies import Floats, Ints, Row

S1, S1_BOUNDS = "s1", (0.0, 1e6)
FIRST_SEED = 100  # smaller ones were used to choose the mechanism
N_CLUSTERS, N_SITES, N_ROWS = 15, 10, 100_000
BOUNDS = (-1.0, 1.0)
WIDTHS = {  # standard deviation of a cluster, by number of columns
    "tight": {2: 0.03, 8: 0.05, 16: 0.06},
    "mid": {2: 0.06, 8: 0.12, 16: 0.15},
    "wide": {2: 0.1, 8: 0.2, 16: 0.25},
}
APART = 4.0  # standard deviations between centers, if some draw has them
STARTS = 10  # of k-means without privacy
AS_DEEP: dict[str, Any] = {"n_init": 1, "max_iter": 20, "patience": 0, "assign": "nearest"}
SERVER_ROWS, SERVER_POINTS = 20, 100  # of each cluster, and spread over the bounds


def cost(
    method: str,
    n_columns: int,
    width: str,
    split: str,
    epsilon: float,
    seed: int,
    cells: str = "own",
    delta: float = 1e-6,
) -> Row:
    """Cluster with one method, and relate the objective to that without privacy.

    Parameters
    ----------
    method : "jigsaw", or a name of :data:`METHODS`.
    width : of the clusters, of :data:`WIDTHS`; "s1" is the data set S1 instead.
    cells : Jigsaw's.
    """
    seed += FIRST_SEED
    data, bounds = (mixture(n_columns, width, seed), BOUNDS) if width != S1 else (_s1(), S1_BOUNDS)
    sites = partition.split(split, data.y, N_SITES, rng=seed, alpha=0.3, min_size=100)
    started = perf_counter()
    if method == "jigsaw":
        promise = Privacy(epsilon, delta, bounds, cells=cells, insecure_seed=seed)
        model = Jigsaw(N_CLUSTERS, random_state=seed)
        centers = model.fit(data.X, clients=sites, privacy=promise).cluster_centers_
    else:
        parts = tuple(data.X[sites == site] for site in np.unique(sites))
        told = (epsilon, delta, seed, *bounds, data.server_rows)
        centers = METHODS[method](Problem(parts, N_CLUSTERS, *told))
    seconds = round(perf_counter() - started, 3)
    return {"ratio": data.ratio(centers), "n_found": len(centers), "seconds": seconds}


def projections(
    dataset: str, n_clusters: int, releases: int, seed: int, epsilon: float | None = None
) -> Row:
    """Cluster features of length 1 once, by a share of a budget that several releases have.

    They stand for projections: DeepFeCA would release centers in every round, for every head.
    """
    data, delta, privacy = datasets.load(dataset), 1e-6, None
    if epsilon is not None:
        share = epsilon_of(multiplier_for(epsilon, delta) * releases**0.5, delta)
        privacy = Privacy(share, delta, BOUNDS, cells="own", insecure_seed=seed)
    rows = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    sites = partition.split("iid", data.y, N_SITES, rng=0)
    found = Jigsaw(n_clusters, random_state=seed, **AS_DEEP).fit(
        rows, clients=sites, privacy=privacy
    )
    purity = metrics.purity(labels_true=data.y, labels_pred=found.labels_)
    return {"n_found": found.n_clusters_, "purity": purity}


@dataclass(frozen=True)
class Mixture:
    """Rows of equally likely Gaussian clusters, clipped to the bounds.

    Parameters
    ----------
    best : objective of k-means on all rows, without privacy.
    server_rows : other rows: a few of each cluster, and points spread over the bounds.
    """

    X: Floats
    y: Ints
    best: float
    server_rows: Floats

    def ratio(self, centers: Floats) -> float:
        """Return the objective of centers, over that of k-means without privacy."""
        _, distances = nearest_centers(self.X, centers)
        return float(distances @ distances) / self.best


@lru_cache(1)
def mixture(n_columns: int, width: str, seed: int, n_rows: int = N_ROWS) -> Mixture:
    """Draw rows; they depend on these values alone."""
    rng, std = default_rng([seed, n_columns]), WIDTHS[width][n_columns]
    centers = _centers(n_columns, std, rng)
    y = rng.integers(N_CLUSTERS, size=n_rows)
    X = _around(centers[y], std, rng)
    best = kmeans(X, N_CLUSTERS, rng=rng, init=centers).inertia
    best = min(best, kmeans(X, N_CLUSTERS, rng=rng, n_init=STARTS).inertia)
    few = _around(np.repeat(centers, SERVER_ROWS, axis=0), std, rng)
    spread = rng.uniform(*BOUNDS, size=(SERVER_POINTS, n_columns))
    return Mixture(X, y, best, np.concatenate([few, spread]))


def _s1() -> Mixture:
    rows = datasets.load(S1)
    best = kmeans(rows.X, N_CLUSTERS, rng=np.random.default_rng(0), n_init=20).inertia
    return Mixture(rows.X, rows.y, best, np.empty((0, 2)))


def _centers(n_columns: int, std: float, rng: Generator) -> Floats:
    """Draw centers that are well apart, or the best of 200 draws."""
    limit, largest, best = 1 - 2 * std, -1.0, np.empty(0)
    for _ in range(200):
        centers = rng.uniform(-limit, limit, size=(N_CLUSTERS, n_columns))
        gaps = np.linalg.norm(centers[:, None] - centers, axis=2)
        gap = float(gaps[~np.eye(N_CLUSTERS, dtype=bool)].min())
        if gap > largest:
            largest, best = gap, centers
        if gap > APART * std:
            break
    return best


def _around(centers: Floats, std: float, rng: Generator) -> Floats:
    return np.clip(centers + std * rng.standard_normal(centers.shape), *BOUNDS)
