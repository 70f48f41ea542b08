"""Other ways to find the number of clusters, on the pooled rows of the sets of "auto-hard".

They see rows, which no server of a federation does. Those that try several numbers of clusters try
only those of :func:`candidates`, among which the true one always is.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.bench.hard_sets import FIRST_SEED, HARD_SETS
from fedjigsaw.bench.study import PlainCell
from fedjigsaw.io.rows import Row
from fedjigsaw.report.provenance import provenance

MOST_ROWS = 3000  # drawn at random where a set has more
MOST_COLUMNS_FULL = 20  # beyond, mixtures with full covariances take too long
STARTS, MIXTURE_STARTS = 10, 3  # of k-means and of mixtures
MIN_CLUSTER_SIZE = 15  # of HDBSCAN: half of the smallest cluster
RIDGE = 1e-4  # of the variance, so that columns with few values have no infinite likelihood


def candidates(true: int) -> list[int]:
    """Return the numbers of clusters that are tried: 1 to 12, and around the true one if larger.

    Examples
    --------
    >>> candidates(45)[12:]
    [22, 33, 44, 45, 46, 56, 68]
    """
    around = [true // 2, true * 3 // 4, true - 1, true, true + 1, true * 5 // 4, -(-true * 3 // 2)]
    return sorted({*range(1, 13), *(around if true > 10 else [])})


def silhouette(X: Floats, true: int) -> int:
    """Return the k of k-means with the largest mean silhouette; it is at least 2."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances, silhouette_score

    distances = pairwise_distances(X)
    found = {}
    for k in candidates(true)[1:]:
        labels = KMeans(k, n_init=STARTS, random_state=0).fit_predict(X)
        if len(np.unique(labels)) > 1:
            found[k] = silhouette_score(distances, labels, metric="precomputed")
    return max(found, key=lambda k: found[k])


def bic(X: Floats, true: int) -> int:
    """Return the k of the Gaussian mixture with the least BIC, of full and diagonal ones."""
    from sklearn.mixture import GaussianMixture

    shapes = ["diag"] + ["full"] * (X.shape[1] <= MOST_COLUMNS_FULL)
    ridge = RIDGE * float(X.var())
    found = {}
    for shape in shapes:
        for k in candidates(true):
            options = {"covariance_type": shape, "reg_covar": ridge, "n_init": MIXTURE_STARTS}
            found[k, shape] = GaussianMixture(k, **options, random_state=0).fit(X).bic(X)
    return min(found, key=lambda pair: found[pair])[0]


def hdbscan(X: Floats, true: int) -> int:
    """Return the number of clusters of HDBSCAN; rows that are all noise are one cluster."""
    from sklearn.cluster import HDBSCAN

    labels = HDBSCAN(min_cluster_size=MIN_CLUSTER_SIZE, copy=True).fit_predict(X)
    return max(1, int(labels.max()) + 1)


PEERS: dict[str, Callable[[Floats, int], int]] = {
    "silhouette": silhouette,
    "BIC": bic,
    "HDBSCAN": hdbscan,
}


@dataclass(frozen=True)
class PooledCell(PlainCell):
    """A method of :data:`PEERS` on the pooled rows of one set."""

    dataset: str
    method: str
    seed: int = 0

    def compute(self) -> Row:
        chosen, seed = HARD_SETS[self.dataset], FIRST_SEED + self.seed
        X = chosen.draw(seed).X
        X = X[np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]]
        started = process_time()
        with warnings.catch_warnings():  # mixtures that have not converged, duplicate rows
            warnings.simplefilter("ignore")
            found = PEERS[self.method](X, chosen.n_clusters)
        numbers = {"n_found": found, "seconds": round(process_time() - started, 3)}
        known = {"kind": chosen.kind, "true_k": chosen.n_clusters}
        return {**self.as_row(), **known, **numbers, **provenance()}
