"""Jigsaw on the sets of sets.toml: the number of clusters that it finds, and labels by shapes.

Beside it are other ways to find the number of clusters, on the pooled rows. They see rows, which no
server of a federation does. Those that try several numbers of clusters try only those of
:func:`candidates`, among which the true one always is.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from fedjigsaw import Guard, Jigsaw, metrics, partition
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import NO_GUARD
from reproduction.experiments.measures import k_doubt
from reproduction.experiments.sets import FIRST_SEED, HARD_SETS, classes_of
from reproduction.experiments.shapes import BACKGROUND
from reproduction.studies import Floats, Ints, Row

N_CLIENTS, FEWEST_ROWS = 10, 25  # of the splits without small clients
MOST_ROWS = 3000  # of all small clients together
MIXED = 0.25  # deviation of the noise by which rows are ordered for small clients, in all classes


@dataclass(frozen=True)
class Split:
    """How rows are split over clients.

    Parameters
    ----------
    alpha : of the Dirichlet distribution of classes over ten clients; None is an even split.
    rows : smallest and largest number of rows of small clients; None is ten clients.
    by_class : whether a small client's rows are of similar classes.
    guarded : whether summaries pass the default guard.
    """

    alpha: float | None = None
    rows: tuple[int, int] | None = None
    by_class: bool = False
    guarded: bool = False


SPLITS = {
    "iid": Split(),
    "dirichlet(0.3)": Split(alpha=0.3),
    "dirichlet(0.1)": Split(alpha=0.1),
    "12 rows": Split(rows=(12, 12)),
    "12 rows by class": Split(rows=(12, 12), by_class=True),
    "5-25 rows": Split(rows=(5, 25), guarded=True),
    "5-25 rows by class": Split(rows=(5, 25), by_class=True, guarded=True),
}
OPTIONS: dict[str, dict[str, Any]] = {
    'shape="round"': {},
    'shape="elongated"': {"shape": "elongated"},
    'shape="any"': {"shape": "any"},
    "noise=True": {"noise": True},
}
MOST_POOLED = 3000  # drawn at random where a set has more
MOST_COLUMNS_FULL = 20  # beyond, mixtures with full covariances take too long
STARTS, MIXTURE_STARTS = 10, 3  # of k-means and of mixtures
MIN_CLUSTER_SIZE = 15  # of HDBSCAN: half of the smallest cluster
RIDGE = 1e-4  # of the variance, so that columns with few values have no infinite likelihood


def auto(dataset: str, split: str, seed: int) -> Row:
    """Let Jigsaw find the number of clusters of one set, and time a run with it given."""
    chosen, how, seed = HARD_SETS[dataset], SPLITS[split], FIRST_SEED + seed
    data, clients = dealt(chosen.rows(seed), how, seed)
    guard = Guard() if how.guarded else NO_GUARD
    found, seconds = _timed(Jigsaw("auto", random_state=seed), data.X, clients, guard)
    inside = data.y != BACKGROUND
    numbers = {
        "true_k": chosen.k,
        "n_found": found.n_clusters_,
        "ari": metrics.ari(data.y[inside], found.labels_[inside]),
        "seconds": round(seconds, 3),
    }
    if how.rows is None:  # small clients, which have hardly more rows than k, tell nothing
        given = Jigsaw(chosen.k, random_state=seed)
        numbers["seconds_given"] = round(_timed(given, data.X, clients, guard)[1], 3)
    return {**numbers, **k_doubt(found, data, clients)}


def pooled(dataset: str, method: str, seed: int) -> Row:
    """Find the number of clusters of one set from its pooled rows."""
    chosen, seed = HARD_SETS[dataset], FIRST_SEED + seed
    X = chosen.rows(seed).X
    X = X[np.random.default_rng(seed).permutation(len(X))[:MOST_POOLED]]
    started = process_time()
    found = PEERS[method](X, chosen.k)
    return {"true_k": chosen.k, "n_found": found, "seconds": round(process_time() - started, 3)}


def shaped(dataset: str, split: str, option: str, seed: int) -> Row:
    """Let Jigsaw find the number of clusters with an option about shapes."""
    chosen, seed = HARD_SETS[dataset], FIRST_SEED + seed
    data, clients = dealt(chosen.rows(seed), SPLITS[split], seed)
    method = Jigsaw("auto", random_state=seed, **OPTIONS[option])
    found, _ = _timed(method, data.X, clients, NO_GUARD)
    return {
        "true_k": chosen.k,
        "n_found": found.n_clusters_,
        "ari": metrics.ari(data.y, found.labels_),
        "confidence": round(found.k_confidence_, 3),
    }


def dealt(data: Dataset, split: Split, seed: int) -> tuple[Dataset, Ints]:
    """Return the rows that take part, and the client of each."""
    rng = np.random.default_rng([seed, 2])
    if split.rows is None:
        if split.alpha is None:
            return data, partition.iid(len(data.X), N_CLIENTS, rng=rng)
        classes = classes_of(data, seed)
        return data, partition.dirichlet(
            classes, N_CLIENTS, alpha=split.alpha, rng=rng, min_size=FEWEST_ROWS
        )
    if len(data.X) > MOST_ROWS:
        kept = np.sort(rng.permutation(len(data.X))[:MOST_ROWS])
        data = Dataset(data.X[kept], data.y[kept], None, data.name)
    order = rng.permutation(len(data.X))
    if split.by_class:
        classes = classes_of(data, seed)
        blur = MIXED * (classes.max() + 1)
        order = np.argsort(classes + rng.normal(scale=blur, size=len(classes)))
    clients = np.empty(len(order), dtype=np.int64)
    clients[order] = _consecutive(len(order), *split.rows, rng)
    return data, clients


def _consecutive(n_rows: int, fewest: int, most: int, rng: np.random.Generator) -> Ints:
    """Return client ids 0, 0, ..., 1, 1, ...; the last client takes a rest that is too small."""
    sizes = rng.integers(fewest, most + 1, size=n_rows // fewest)
    ends = np.cumsum(sizes)
    ends = ends[ends <= n_rows - fewest]
    return np.searchsorted(ends, np.arange(n_rows), side="right")


def _timed(method: Jigsaw, X: Floats, clients: Ints, guard: Guard) -> tuple[Jigsaw, float]:
    """Fit a method; return it and the processor's seconds."""
    started = process_time()
    method.fit(X, clients=clients, guard=guard)
    return method, process_time() - started


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


PEERS = {"silhouette": silhouette, "BIC": bic, "HDBSCAN": hdbscan}
