r"""k-means, the kernel that all methods share.

The problem: rows :math:`x_n \in R^d` with weights :math:`w_n \ge 0` and a number k; find centers

.. math:: \min_{c_1, \dots, c_k} \; \sum_n w_n \min_j \|x_n - c_j\|^2 .

A backend (:mod:`fedjigsaw.kernels.backends`) solves it by k-means++ seeding, Lloyd's iterations and
restarts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DataError, invalid
from fedjigsaw.kernels.backends import Backend, default_backend
from fedjigsaw.kernels.matching import pairwise_distances


@dataclass(frozen=True)
class Solution:
    r"""A clustering of one set of rows, with all that a method may want to know about it.

    Attributes
    ----------
    centers : shape (k, d); each is exactly the weighted mean of its rows.
    labels : shape (n,), the center of each row (-1 for a row of weight zero).
    counts : shape (k,), total weight of each cluster.
    sse : shape (k,), :math:`G_i = \sum_{n \in i} w_n \|x_n - c_i\|^2`.
    extents : shape (k,), largest distance of a cluster's row to its center.
    """

    centers: Floats
    labels: Ints
    counts: Floats
    sse: Floats
    extents: Floats

    @property
    def inertia(self) -> float:
        return float(self.sse.sum())


def kmeans(
    X: Floats,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    weights: Floats | None = None,
    n_init: int = 10,
    max_iter: int = 300,
    tol: float = 1e-4,
    init: Floats | None = None,
    backend: Backend | None = None,
) -> Solution:
    """Cluster the rows of `X` around at most `n_clusters` centers.

    There are never more centers than distinct rows, and no center is empty.

    Parameters
    ----------
    weights : shape (n,), how much each row counts; None counts each once. A row of weight w acts
        as w copies of it.
    n_init : restarts; the best one is kept.
    max_iter, tol : when a restart ends, as in :class:`sklearn.cluster.KMeans`.
    init : centers to start from, instead of k-means++; then `n_init` has no effect.
    backend : where to search for the clusters; None is
        :func:`~fedjigsaw.kernels.backends.default_backend`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> solution = kmeans(X, 2, rng=np.random.default_rng(0))
    >>> sorted(solution.centers.ravel().tolist()), solution.inertia
    ([0.5, 10.5], 1.0)
    """
    if weights is not None:
        _check_weights(weights, len(X))
    used = slice(None) if weights is None else np.flatnonzero(weights)
    rows, w = X[used], None if weights is None else weights[used]
    labels = (backend or default_backend()).labels(
        rows,
        count_distinct(rows, at_most=n_clusters),
        weights=w,
        n_init=n_init,
        max_iter=max_iter,
        tol=tol,
        rng=rng,
        init=init,
    )
    return _solution(rows, labels, w, len(X), used)


def nearest_centers(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest center of each row, and the distance to it; memory stays bounded for any n.

    Examples
    --------
    >>> labels, distances = nearest_centers(np.array([[0.0], [4.0]]), np.array([[5.0], [1.0]]))
    >>> labels.tolist(), distances.tolist()
    ([1, 0], [1.0, 1.0])
    """
    middle = centers.mean(axis=0)
    shifted = centers - middle
    norms = np.einsum("ij,ij->i", shifted, shifted)
    rounding = 4 * (X.shape[1] + 4) * np.finfo(np.float64).eps
    labels = np.empty(len(X), dtype=np.int64)
    for part in blocks(len(X), X.shape[1] + 16 * len(centers)):  # small enough for the cache
        rows = X[part] - middle
        scores = norms - 2 * (rows @ shifted.T)  # squared distance, less the row's own norm
        labels[part] = scores.argmin(axis=1)
        slack = rounding * (np.einsum("ij,ij->i", rows, rows) + norms.max())
        close = (scores <= (scores.min(axis=1) + slack)[:, None]).sum(axis=1) > 1
        if close.any():  # too close to tell after rounding: exact distances decide
            labels[part][close] = pairwise_distances(X[part][close], centers).argmin(axis=1)
    return labels, np.sqrt(squared_distances(X, centers, labels))


def partition_of(X: Floats, labels: Ints, weights: Floats) -> Solution:
    """Means, counts and spreads of given clusters; those without rows are left out.

    Examples
    --------
    >>> X, weights = np.array([[0.0], [4.0], [9.0]]), np.array([3.0, 1.0, 1.0])
    >>> partition_of(X, np.array([0, 0, 2]), weights).centers.ravel().tolist()
    [1.0, 9.0]
    """
    return _solution(X, labels, weights, len(X), slice(None))


# ---------------------------------------------------------------------------------------- parts


def _solution(
    X: Floats, labels: Ints, w: Floats | None, n_rows: int, used: slice | Ints
) -> Solution:
    """Means, counts and spreads of the clusters that are not empty."""
    _, labels = np.unique(labels, return_inverse=True)
    w = np.ones(len(X)) if w is None else w
    k = int(labels.max()) + 1
    counts: Floats = np.bincount(labels, w, minlength=k).astype(np.float64)
    centers = label_sums(X, labels, w, k) / counts[:, None]
    order = coordinate_order(centers)  # no trace of the order of the rows
    centers, counts, labels = centers[order], counts[order], np.argsort(order)[labels]
    squared = squared_distances(X, centers, labels)
    extents = np.zeros(k)
    np.maximum.at(extents, labels, squared)
    all_labels = np.full(n_rows, -1, dtype=np.int64)
    all_labels[used] = labels
    sse: Floats = np.bincount(labels, w * squared, minlength=k).astype(np.float64)
    return Solution(centers, all_labels, counts, sse, np.sqrt(extents))


def _check_weights(weights: Floats, n_rows: int) -> None:
    if (
        weights.shape != (n_rows,)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or not weights.any()
    ):
        allowed = f"finite, >= 0, not all zero, shape ({n_rows},)"
        raise DataError(invalid("weights", "k-means", allowed, f"others, shape {weights.shape}"))


def cluster_means(X: Floats, labels: Ints) -> Floats:
    """Means of the clusters that have rows, in the order of their labels: half a Lloyd step.

    Examples
    --------
    >>> cluster_means(np.array([[0.0], [5.0], [2.0]]), np.array([3, 7, 3])).ravel().tolist()
    [1.0, 5.0]
    """
    _, labels = np.unique(labels, return_inverse=True)
    counts = np.bincount(labels)
    means: Floats = label_sums(X, labels, np.ones(len(X)), len(counts)) / counts[:, None]
    return means


def count_distinct(X: Floats, *, at_most: int) -> int:
    """Number of different rows, or `at_most` if there are more."""
    if len(np.unique(X[:, 0])) >= at_most:  # different in one column is different: cheap, usual
        return at_most
    return min(at_most, len(np.unique(X, axis=0)))


def label_sums(X: Floats, labels: Ints, w: Floats, k: int) -> Floats:
    """Weighted sum of the rows of each cluster: a sparse product beats all of numpy's ways.

    Examples
    --------
    >>> label_sums(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), np.ones(3), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    n = len(labels)
    sums: Floats = csc_array((w, labels, np.arange(n + 1)), shape=(k, n)) @ X
    return sums


def coordinate_order(X: Floats) -> Ints:
    """The rows in the order of their first columns, then of their next ones."""
    first = np.argsort(X[:, 0], kind="stable")
    if (np.diff(X[first, 0]) > 0).all():  # no ties, as usual: the other columns have no say
        return first
    return np.lexsort(X.T[::-1])


def squared_distances(X: Floats, centers: Floats, labels: Ints) -> Floats:
    """Squared distance of each row to the center of its label, from differences: exact anywhere."""
    squared = np.empty(len(X))
    for part in blocks(len(X), X.shape[1], 2**15):  # small enough for the cache
        difference = X[part] - centers[labels[part]]
        np.einsum("ij,ij->i", difference, difference, out=squared[part])
    return squared


def blocks(n_rows: int, width: int, most: int = 2**22) -> Iterator[slice]:
    """Cut rows into blocks of at most so many floats, when each needs `width`; usually 32 MB."""
    step = max(1, most // width)
    return (slice(start, start + step) for start in range(0, n_rows, step))
