"""Rows that repeat: a cell of copies of one row would look like a cluster of its own."""

import numpy as np

from fedjigsaw._rows import is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import Problem
from fedjigsaw.number.grain import grain_of
from fedjigsaw.number.sizes import MAX_CELLS, ROWS_PER_CELL, n_cells

FEW = 20  # different rows, up to which they may well be all the values that there are
REPEATED = 0.5  # share of different rows below which most rows repeat
ENOUGH = MAX_CELLS * ROWS_PER_CELL  # different rows, from which on there is no lack of them
SAMPLE = 20 * ENOUGH  # rows that show nearly all different ones, if these are not enough


def without_copies(problem: Problem) -> Problem:
    """Look for as many cells as the different rows of a client are worth, if most rows repeat.

    Rows that repeat in columns of steps are no copies: different things have the same value there.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> client = Problem(rows, n_cells(500), np.random.default_rng(0))
    >>> [without_copies(client._replace(X=X)).n_clusters for X in (rows.repeat(10, axis=0), rows)]
    [20, 100]
    """
    X, n, _, weights = problem
    n_rows = X.shape[0] if weights is None else weights.sum()
    n_seen = _n_different(X)
    if not FEW < n_seen <= min(REPEATED * n_rows, ENOUGH):
        return problem
    if (grain_of(X, weights=weights) > 0).any():
        return problem
    return problem._replace(n_clusters=min(n, n_cells(n_seen)))


def _n_different(X: Floats) -> int:
    """Return the number of different rows, or one that is enough."""
    n_rows = int(X.shape[0])
    if is_sparse(X):  # a search would cost more than it is worth; weights are seen
        return n_rows
    first = X[: 2 * ENOUGH, 0]
    n_first = len(np.unique(first))
    if n_first == n_rows or n_first > ENOUGH:
        return n_first
    chosen: Ints | slice = slice(None)
    if n_rows > SAMPLE:
        chosen = np.random.default_rng(0).choice(n_rows, SAMPLE, replace=False)
    return len(np.unique(X[chosen], axis=0))
