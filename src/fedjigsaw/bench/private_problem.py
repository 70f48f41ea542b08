"""Generated data for studies of privacy: Gaussian clusters within public bounds, over sites."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator, default_rng

from fedjigsaw import partition
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers

N_CLUSTERS, N_SITES, N_ROWS = 15, 10, 100_000
BOUNDS = (-1.0, 1.0)
WIDTHS = {  # standard deviation of a cluster, by number of columns
    "tight": {2: 0.03, 8: 0.05, 16: 0.06},
    "mid": {2: 0.06, 8: 0.12, 16: 0.15},
    "wide": {2: 0.1, 8: 0.2, 16: 0.25},
}
APART = 4.0  # standard deviations between centers, if some draw has them
STARTS = 10  # of k-means without privacy
SERVER_ROWS, SERVER_POINTS = 20, 100  # of each cluster, and spread over the bounds


@dataclass(frozen=True)
class Problem:
    """Rows at sites, and what is asked about them.

    Parameters
    ----------
    sites : rows of each site, within the bounds.
    low, high : public bounds of all columns.
    server_rows : rows that a server needs of its own, for methods that ask for some.
    """

    sites: tuple[Floats, ...]
    n_clusters: int
    epsilon: float
    delta: float
    seed: int
    low: float = BOUNDS[0]
    high: float = BOUNDS[1]
    server_rows: Floats | None = None

    @property
    def n_columns(self) -> int:
        return int(self.sites[0].shape[1])

    @property
    def pooled(self) -> Floats:
        """All rows in one place, for methods that trust the server with them."""
        return np.concatenate(self.sites)

    def unit(self, X: Floats) -> Floats:
        """Map rows from the bounds to (-1, 1); rows outside are clipped."""
        return np.clip(2 * (X - self.low) / (self.high - self.low) - 1, -1, 1)

    def from_unit(self, X: Floats) -> Floats:
        """Map points back from (-1, 1)."""
        return self.low + (X + 1) * (self.high - self.low) / 2


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


def site_of_rows(y: Ints, split: str, seed: int) -> Ints:
    """Return the site of each row: "iid", or "dirichlet" with alpha = 0.3."""
    return partition.split(split, y, N_SITES, rng=seed, alpha=0.3, min_size=100)


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
