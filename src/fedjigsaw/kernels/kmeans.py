r"""k-means, the kernel that all methods share.

The problem: rows :math:`x_n \in R^d` with weights :math:`w_n \ge 0` and a number k; find centers

.. math:: \min_{c_1, \dots, c_k} \; \sum_n w_n \min_j \|x_n - c_j\|^2 .

A backend (:mod:`fedjigsaw.kernels.backends`) solves it by k-means++ seeding, Lloyd's iterations and
restarts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fedjigsaw._rows import dense, in_blocks, is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DataError, invalid
from fedjigsaw.kernels.backends import (
    Backend,
    SklearnBackend,
    default_backend,
    hold,
)
from fedjigsaw.kernels.labels import find_nearest

BLOCK = 2**16  # rows of several clients whose statistics are computed together, in the cache


@dataclass(frozen=True)
class Solution:
    r"""A clustering of one set of rows, with its statistics.

    Attributes
    ----------
    centers : shape (k, d), the weighted mean of the rows of each cluster.
    labels : shape (n,), the cluster of each row (-1 for a row of weight zero).
    counts : shape (k,), total weight of each cluster.
    sse : shape (k,), :math:`G_i = \sum_{n \in i} w_n \|x_n - c_i\|^2`.
    extents : shape (k,), largest distance of a row of the cluster to its center.
    """

    centers: Floats
    labels: Ints
    counts: Floats
    sse: Floats
    extents: Floats

    @property
    def inertia(self) -> float:
        """Objective of the clustering: the sum of `sse`."""
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

    There are at most as many centers as distinct rows, and no cluster is empty. Rows may be a CSR
    matrix, which scikit-learn clusters as it is.

    Parameters
    ----------
    X : shape (n, d), the rows.
    n_clusters : most centers to look for.
    rng : source of random numbers; the same state gives the same clusters.
    weights : shape (n,), weight of each row; None gives every row the weight 1. A row of weight w
        acts as w copies of it.
    n_init : number of restarts; the best one is kept.
    max_iter, tol : stopping rule of a restart, as in :class:`sklearn.cluster.KMeans`.
    init : shape (n_clusters, d), centers of a single start, instead of k-means++; `n_init` has no
        effect.
    backend : backend that searches for the clusters; None is
        :func:`~fedjigsaw.kernels.backends.default_backend`.

    Returns
    -------
    Solution
        With `centers`, `labels` of the rows, and `counts`, `sse` and `extents` of the clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.kernels.kmeans import kmeans
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> solution = kmeans(X, 2, rng=np.random.default_rng(0))
    >>> sorted(solution.centers.ravel().tolist()), solution.inertia
    ([0.5, 10.5], 1.0)
    """
    problem, starts = Problem(X, n_clusters, rng, weights), None if init is None else [init]
    return _solve([problem], starts, backend, n_init=n_init, max_iter=max_iter, tol=tol)[0]


class Problem(NamedTuple):
    """One set of rows, as in :func:`kmeans`."""

    X: Floats
    n_clusters: int
    rng: np.random.Generator
    weights: Floats | None = None


def kmeans_many(
    problems: Sequence[Problem],
    *,
    n_init: int = 10,
    max_iter: int = 300,
    tol: float = 1e-4,
    backend: Backend | None = None,
) -> list[Solution]:
    """Cluster many sets of rows, as :func:`kmeans` does each of them, with the same bits.

    A backend that can take many small sets in one call is much faster than one call for each.

    Examples
    --------
    >>> sets = [np.array([[0.0], [1.0], [10.0]]), np.array([[5.0], [6.0]])]
    >>> problems = [Problem(X, 2, np.random.default_rng(0)) for X in sets]
    >>> [found.centers.ravel().tolist() for found in kmeans_many(problems)]
    [[0.5, 10.0], [5.0, 6.0]]
    """
    return _solve(problems, None, backend, n_init=n_init, max_iter=max_iter, tol=tol)


def settle_many(
    problems: Sequence[Problem],
    starts: Sequence[Floats],
    *,
    max_iter: int = 300,
    tol: float = 1e-4,
    backend: Backend | None = None,
) -> list[Solution]:
    """Run Lloyd's iterations on many sets of dense rows, each from given centers.

    There is one array of centers, of which none coincide, for each problem.

    Examples
    --------
    >>> problem = Problem(np.array([[0.0], [1.0], [10.0]]), 2, np.random.default_rng(0))
    >>> settle_many([problem], [np.array([[0.0], [4.0]])])[0].centers.ravel().tolist()
    [0.5, 10.0]
    """
    return _solve(problems, starts, backend, n_init=1, max_iter=max_iter, tol=tol)


def _solve(
    problems: Sequence[Problem],
    starts: Sequence[Floats] | None,
    backend: Backend | None,
    **options: Any,
) -> list[Solution]:
    """Return the solution of each problem, from given centers or by restarts."""
    chosen = backend or default_backend()
    used = [_used(problem) for problem in problems]
    labels: dict[int, Ints] = {}
    labels_many = getattr(chosen, "labels_many", None)
    if labels_many is not None:
        batch = [i for i, (X, _, _) in enumerate(used) if not is_sparse(X)]
        found = labels_many(
            [used[i][0] for i in batch],
            [problems[i].n_clusters if starts is None else len(starts[i]) for i in batch],
            weights=[used[i][1] for i in batch],
            rngs=[problems[i].rng for i in batch],
            starts=None if starts is None else [starts[i] for i in batch],
            **options,
        )
        labels = dict(zip(batch, found, strict=True))
    for i, (X, weights, _) in enumerate(used):
        if i not in labels:
            labels[i] = (SklearnBackend() if is_sparse(X) else chosen).labels(
                X,
                count_distinct(X, at_most=problems[i].n_clusters),
                weights=weights,
                rng=problems[i].rng,
                init=None if starts is None else starts[i],
                **options,
            )
    solutions: list[Solution] = []
    for part in _in_parts([BLOCK + 1 if is_sparse(X) else len(X) for X, _, _ in used]):
        solutions += _solutions(
            [X for X, _, _ in used[part]],
            [labels[i] for i in range(len(used))[part]],
            [weights for _, weights, _ in used[part]],
        )
    return [
        one if rows is None else _with_all_labels(one, rows, problem.X.shape[0])
        for one, (_, _, rows), problem in zip(solutions, used, problems, strict=True)
    ]


def _used(problem: Problem) -> tuple[Floats, Floats | None, Ints | None]:
    """Return the rows that have a weight, their weights, and which they are, if not all."""
    X, weights = problem.X, problem.weights
    if weights is None:
        return X, None, None
    n_rows = X.shape[0]
    if (
        weights.shape != (n_rows,)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or not weights.any()
    ):
        allowed = f"finite, >= 0, not all zero, shape ({n_rows},)"
        got = f"shape {weights.shape}"
        if weights.shape == (n_rows,):
            got = f"values from {weights.min():g} to {weights.max():g}"
        raise DataError(invalid("weights", "k-means", allowed, got))
    rows = np.flatnonzero(weights)
    return X[rows], weights[rows], rows


def _with_all_labels(found: Solution, rows: Ints, n_rows: int) -> Solution:
    """Give rows without weight the label -1."""
    labels = np.full(n_rows, -1, dtype=np.int64)
    labels[rows] = found.labels
    return replace(found, labels=labels)


def _in_parts(sizes: Sequence[int]) -> Iterator[slice]:
    """Divide clients into parts of about `BLOCK` rows; sparse rows are alone."""
    start, n_rows = 0, 0
    for i, size in enumerate(sizes):
        if n_rows and n_rows + size > BLOCK:
            yield slice(start, i)
            start, n_rows = i, 0
        n_rows += size
    if n_rows:
        yield slice(start, len(sizes))


def nearest_centers(
    X: Floats, centers: Floats, *, n_threads: int = 1, backend: Backend | None = None
) -> tuple[Ints, Floats]:
    """Return the nearest center of each row and the distance to it, in bounded memory.

    Of several nearest centers it is the first one. The number of threads changes no bit. A backend
    that holds rows, on a GPU say, computes it there.

    Examples
    --------
    >>> labels, distances = nearest_centers(np.array([[0.0], [4.0]]), np.array([[5.0], [1.0]]))
    >>> labels.tolist(), distances.tolist()
    ([1, 0], [1.0, 1.0])
    """
    if not is_sparse(X):
        held = hold(X, None, len(centers), backend)
        return held.label(centers) if held else find_nearest(X, centers, n_threads)
    found = [find_nearest(rows, centers, n_threads) for _, rows in in_blocks(X)]
    labels, distances = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(distances)


def partition_of(X: Floats, labels: Ints, weights: Floats | None = None) -> Solution:
    """Return the statistics of given clusters; labels without rows are left out.

    Without weights, every row has the weight 1.

    Examples
    --------
    >>> X, weights = np.array([[0.0], [4.0], [9.0]]), np.array([3.0, 1.0, 1.0])
    >>> partition_of(X, np.array([0, 0, 2]), weights).centers.ravel().tolist()
    [1.0, 9.0]
    """
    return _solutions([X], [labels], [weights])[0]


def _solutions(
    rows: Sequence[Floats], labels: Sequence[Ints], weights: Sequence[Floats | None]
) -> list[Solution]:
    """Compute the statistics of clusters from the labels of each client's rows.

    Rows are compared with the first of their cluster, so that a column in which all are equal has
    that value, however large it is.
    """
    X = rows[0] if len(rows) == 1 else np.concatenate(rows)
    n, ends = X.shape[0], np.cumsum([len(part) for part in labels])
    w = np.concatenate(
        [np.ones(len(p)) if w is None else w for p, w in zip(labels, weights, strict=True)]
    )
    owners = np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0))
    places = np.concatenate(labels)
    most = int(places.max()) + 1
    places += owners * most
    used = np.bincount(places, minlength=len(rows) * most) > 0
    places = (np.cumsum(used) - 1)[places]
    k = int(used.sum())
    first = np.empty(k, dtype=np.int64)
    first[places[::-1]] = np.arange(n)[::-1]
    owner = owners[first]
    counts: Floats = np.bincount(places, w, minlength=k).astype(np.float64)
    if is_sparse(X):
        centers = label_sums(X, places, w, k) / counts[:, None]
    else:
        offsets = X[first[places]]
        np.subtract(X, offsets, out=offsets)
        centers = X[first] + label_sums(offsets, places, w, k) / counts[:, None]
    order = np.lexsort((centers[:, 0], owner))  # does not depend on the order of the rows
    if ((np.diff(centers[order, 0]) == 0) & (np.diff(owner[order]) == 0)).any():
        order = np.lexsort((*centers.T[::-1], owner))
    centers, counts, places = centers[order], counts[order], np.argsort(order)[places]
    squared = squared_distances(X, centers, places)
    extents = np.zeros(k)
    np.maximum.at(extents, places, squared)
    sse: Floats = np.bincount(places, w * squared, minlength=k).astype(np.float64)
    extents = np.sqrt(extents)
    starts = np.searchsorted(owner, np.arange(len(rows) + 1))  # of the clusters of each client
    places -= starts[owners]
    row, solutions = 0, []
    for a, b, end in zip(starts[:-1].tolist(), starts[1:].tolist(), ends.tolist(), strict=True):
        solutions.append(
            Solution(centers[a:b], places[row:end], counts[a:b], sse[a:b], extents[a:b])
        )
        row = end
    return solutions


def lloyd_step(X: Floats, weights: Floats, centers: Floats) -> tuple[Floats, Ints]:
    """Move each center to the mean of its rows, and return the labels, too.

    A center without rows stays.

    Examples
    --------
    >>> X, weights = np.array([[0.0], [4.0]]), np.array([3.0, 1.0])
    >>> lloyd_step(X, weights, np.array([[1.0], [9.0]]))[0].tolist()
    [[1.0], [9.0]]
    """
    labels, k = nearest_centers(X, centers)[0], len(centers)
    counts: Floats = np.bincount(labels, weights, minlength=k).astype(np.float64)
    return means_of(label_sums(X, labels, weights, k), counts, centers), labels


def means_of(sums: Floats, counts: Floats, centers: Floats) -> Floats:
    """Return the means of the rows at each center; one without rows stays."""
    filled = (counts > 0)[:, None]
    means: Floats = np.where(filled, sums / np.where(filled, counts[:, None], 1), centers)
    return means


def count_distinct(X: Floats, *, at_most: int) -> int:
    """Count distinct rows, up to `at_most`."""
    if is_sparse(X):
        return _count_distinct_sparse(X, at_most)
    if len(np.unique(X[:, 0])) >= at_most:  # cheap, and usually enough
        return at_most
    return min(at_most, len(np.unique(X, axis=0)))


def _count_distinct_sparse(X: Any, at_most: int) -> int:
    """Count distinct rows of a CSR matrix, as far as needed."""
    seen: set[tuple[bytes, bytes]] = set()
    for start, end in pairwise(X.indptr.tolist()):
        places, values = X.indices[start:end], X.data[start:end]
        there = values != 0
        seen.add((places[there].tobytes(), values[there].tobytes()))
        if len(seen) == at_most:
            break
    return len(seen)


def label_sums(X: Floats, labels: Ints, w: Floats, k: int) -> Floats:
    """Return the weighted sum of the rows of each cluster, shape (k, d).

    A sparse matrix product is the fastest way: ``np.add.at`` and loops over clusters are slower.

    Examples
    --------
    >>> label_sums(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), np.ones(3), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    from scipy.sparse import csc_array

    n = len(labels)
    sums = csc_array((w, labels, np.arange(n + 1)), shape=(k, n)) @ X
    found: Floats = dense(sums) if is_sparse(sums) else sums
    return found


def coordinate_order(X: Floats) -> Ints:
    """Return the indices that sort rows by their first column, then by the next ones."""
    first = np.argsort(X[:, 0], kind="stable")
    if (np.diff(X[first, 0]) > 0).all():  # no ties: the other columns do not matter
        return first
    return np.lexsort(X.T[::-1])


def squared_distances(X: Floats, centers: Floats, labels: Ints) -> Floats:
    """Return the squared distance of each row to the center of its label.

    Computed from differences, so that rows far from the origin lose no digits.
    """
    squared, sparse = np.empty(X.shape[0]), is_sparse(X)
    # small enough for the cache; sparse rows take longer to convert than to compute with
    for part in blocks(X.shape[0], X.shape[1], 2**20 if sparse else 2**15):
        difference = (dense(X[part]) if sparse else X[part]) - centers[labels[part]]
        np.einsum("ij,ij->i", difference, difference, out=squared[part])
    return squared


def blocks(n_rows: int, width: int, max_floats: int = 2**22) -> Iterator[slice]:
    """Yield slices of rows so that a block needs at most `max_floats` floats, `width` per row."""
    step = max(1, max_floats // width)
    return (slice(start, start + step) for start in range(0, n_rows, step))
