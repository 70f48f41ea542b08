r"""Weighted k-means that escapes poor local optima: the server's solver.

The problem is that of :mod:`fedjigsaw.kernels.kmeans`: rows :math:`x_n` with weights :math:`w_n`
and at most k centers; minimize :math:`\sum_n w_n \min_j \|x_n - c_j\|^2`. The search for them is
:mod:`fedjigsaw.kernels.local_search`, on distinct rows of a common scale.
"""

from collections.abc import Iterator

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import Solution, partition_of
from fedjigsaw.kernels.local_search import MANY, Search

SAMPLE, PER_CENTER = 20_000, 200  # rows of a sample, in all and for each center, at least


def solve(
    X: Floats,
    weights: Floats,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    max_iter: int = 300,
    tol: float = 1e-4,
    n_tries: int | None = None,
    backend: Backend | None = None,
    fast: bool | None = None,
) -> Solution:
    """Cluster weighted rows around at most `n_clusters` centers, better than restarts do.

    The result does not depend on the order of the rows, and equal rows act as one row with the sum
    of their weights.

    Parameters
    ----------
    weights : shape (n,), > 0.
    max_iter, tol : stopping rule of Lloyd's iterations. `tol` is relative to the objective: stop
        when moving the centers to their means gains less than that.
    n_tries : number of unsuccessful moves after which the search ends. None chooses it by the
        number of clusters; 0 makes no moves.
    backend : finds the nearest centers of rows, and sums of these, if it is a
        :class:`~fedjigsaw.kernels.backends.HoldingBackend`; otherwise, NumPy or compiled code does.
        None is the one that the environment asks for.
    fast : whether compiled code runs Lloyd's iterations; None decides by the size and the backend.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> solution = solve(X, np.array([1.0, 3.0, 1.0, 1.0]), 2, rng=np.random.default_rng(0))
    >>> solution.centers.ravel().tolist(), solution.counts.tolist(), solution.inertia
    ([0.75, 10.5], [4.0, 2.0], 1.25)
    """
    rows, w, inverse = distinct_rows(X, weights)
    k = min(n_clusters, len(rows))
    n_tries = patience(n_clusters) if n_tries is None else n_tries
    search = Search(_scaled(rows), w, rng, max_iter, tol, k, backend, fast)
    n_sampled = max(SAMPLE, PER_CENTER * k)
    if len(rows) > MANY * n_sampled:
        labels = search.by_samples(k, n_sampled, n_tries).labels
    else:
        labels = search.start(k, n_tries).labels
    return partition_of(X, labels[inverse], weights)


def improve(
    X: Floats,
    weights: Floats,
    centers: Floats,
    *,
    max_iter: int = 300,
    n_tries: int = 10,
    backend: Backend | None = None,
) -> Floats:
    """Improve known centers by Lloyd's iterations and by moves that promise a gain.

    Much faster than :func:`solve` where the rows have changed little since the centers were found.
    `n_tries` and `backend` are as there.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> sorted(improve(X, np.ones(4), np.array([[0.0], [1.0]])).ravel().tolist())
    [0.5, 10.5]
    """
    rows, w, _ = distinct_rows(X, weights)
    middle = rows.mean(axis=0)
    scale = np.abs(rows - middle).max() or 1.0
    rng, k = np.random.default_rng(0), len(centers)
    search = Search((rows - middle) / scale, w, rng, max_iter, 1e-4, k, backend)
    shift = middle + scale * search.middle
    state = search.improve(search.settle((centers - shift) / scale), n_tries)
    found: Floats = state.centers * scale + shift
    return found


def solve_each(
    X: Floats,
    weights: Floats,
    max_clusters: int,
    *,
    rng: np.random.Generator,
    max_iter: int = 300,
    tol: float = 1e-4,
    fast: bool | None = None,
) -> Iterator[Solution]:
    """Yield solutions for every number of clusters, from `max_clusters` down to 1.

    Each starts from the previous one without the center that is needed least. With fewer distinct
    rows than `max_clusters`, the first solution has one center per distinct row. `fast` is as in
    :func:`solve`.
    """
    rows, w, inverse = distinct_rows(X, weights)
    k = min(max_clusters, len(rows))
    search = Search(_scaled(rows), w, rng, max_iter, tol, k, fast=fast)
    state = search.start(k)
    first = search.work
    state = search.improve(state, patience(max_clusters))
    while True:
        yield partition_of(X, state.labels[inverse], weights)
        if len(state.centers) == 1:
            return
        search.limit = search.work + first / 2  # the start is close to a solution
        state = search.improve(search.remove_one(state), patience(len(state.centers)) // 4)


def patience(n_clusters: int) -> int:
    """Return the default number of unsuccessful moves after which the search ends."""
    return 10 + n_clusters // 2


def distinct_rows(X: Floats, weights: Floats) -> tuple[Floats, Floats, Ints]:
    """Return distinct rows sorted by coordinates, their total weights, and the index of each row
    of `X` among them."""
    inverse = np.empty(len(X), dtype=np.int64)
    order = np.argsort(X[:, 0], kind="stable")
    if (np.diff(X[order, 0]) > 0).all():  # no ties: the other columns do not matter
        inverse[order] = np.arange(len(X))
        return X[order], weights[order], inverse
    order = np.lexsort(X.T[3::-1])
    if not (np.diff(X[order, :4], axis=0) != 0).any(axis=1).all():  # compare all columns
        order = np.lexsort((weights, *X.T[::-1]))
    new = np.append(True, (np.diff(X[order], axis=0) != 0).any(axis=1))
    inverse[order] = np.cumsum(new) - 1
    return X[order[new]], np.add.reduceat(weights[order], np.flatnonzero(new)), inverse


def _scaled(X: Floats) -> Floats:
    """Center the rows and scale them to at most 1: squares and their products stay in range.

    In place: there may be a million rows.
    """
    X -= X.mean(axis=0)
    X /= max(X.max(), -X.min()) or 1.0
    return X
