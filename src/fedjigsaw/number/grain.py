"""How coarse each column of a client is: columns of few values seem to have clusters."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedjigsaw._rows import is_sparse
from fedjigsaw._typing import Floats

GRAIN = "grain"  # tensor of a summary
UNKNOWN = -1.0  # grain of a column in which too few rows have the same value to tell
MAX_VALUES = 1000  # of more different values, the steps are too small to matter
FIRST, DISTINCT = 256, 0.95  # rows of a column without steps, and their share of distinct values
SMALL = 64  # rows of a client that rarely shares values
MIN_ROWS = 5  # rows that share a value before it may tell anything
NEARLY_ALL = 0.9  # share of the rows that have common values, in a column of steps
DENSE = 0.5  # share of the steps that are common values: others are just rarer
MANY_STEPS = 10  # common values of which that can be said
MISSING = 0.25  # share of the rows that one value beside the steps may have
MANY = 20  # times as many rows are enough to tell that a column has no common values
TWO_VALUES, STEPS = 6, 12  # see `grain_of`


def grain_of(X: Any, min_rows: int = MIN_ROWS, weights: Floats | None = None) -> Floats:
    r"""Return for each column the variance that hides its steps, 0 if it has none, or `UNKNOWN`.

    Columns of few values, such as yes and no, seem to have clusters: their values. Noise of the
    right size hides them, and leaves real clusters, which differ in several columns. A column of
    two values h apart gets :math:`h^2 / 6`: the least with which splitting rows by the categories
    of one column never pays (the worst case is three equally frequent ones, in three columns of
    two values). Values in steps of h get :math:`h^2 / 12`, the variance of rounding.

    Only values that at least `min_rows` rows share have a say, so that no row is told; that a value
    reaches this number is. A row of weight w counts as w rows.

    Examples
    --------
    >>> n = np.arange(120)
    >>> grain_of(np.column_stack([n % 2, n % 5, n**0.5, 0 * n])).round(3).tolist()
    [0.167, 0.083, 0.0, -1.0]
    """
    if weights is None and not is_sparse(X) and min_rows <= len(X) <= SMALL:
        # small clients: in no column do enough rows share a value, usually
        ordered = np.sort(X, axis=0)
        if not (ordered[min_rows - 1 :] == ordered[: len(X) - min_rows + 1]).any():
            return np.full(X.shape[1], _unshared(len(X), min_rows))
    return np.array([_grain(column, min_rows, weights) for column in _columns(X)])


def _unshared(n_rows: int, min_rows: int) -> float:
    """Return the grain of a column of which too few rows share a value."""
    return 0.0 if n_rows >= MANY * min_rows else UNKNOWN


def _columns(X: Any) -> Iterator[Floats]:
    if not is_sparse(X):
        yield from X.T
        return
    by_column = X.tocsc()
    for j in range(X.shape[1]):
        yield by_column[:, [j]].toarray().ravel()


def _grain(column: Floats, min_rows: int, weights: Floats | None) -> float:
    """Return the grain of a column; only what at least `min_rows` rows share decides."""
    first = column[:FIRST]
    if len(first) > SMALL and len(np.unique(first)) > DISTINCT * len(first):  # usually enough
        return 0.0
    if weights is None:
        values, counts = np.unique(column, return_counts=True)
    else:
        values, places = np.unique(column, return_inverse=True)
        counts = np.bincount(places, weights).astype(np.int64)
    n_rows = counts.sum()
    shared = counts >= min_rows
    common = values[shared]
    if len(common) > MAX_VALUES:
        return 0.0
    if counts[shared].sum() < n_rows / 2:  # few rows cannot tell whether more would share
        return _unshared(n_rows, min_rows)
    if len(common) < 2:
        return UNKNOWN
    if counts[shared].sum() < NEARLY_ALL * n_rows and not _is_dense(common):
        return 0.0  # some values are common, and many rows lie between them
    rows = counts[shared]
    rarest = int(rows.argmin())
    step = _step(common)
    if not step and rows[rarest] <= MISSING * n_rows:  # perhaps a mean for missing values
        common = np.delete(common, rarest)
        step = _step(common)
    return step**2 / (TWO_VALUES if len(common) == 2 else STEPS)


def _is_dense(values: Floats) -> bool:
    """Tell whether many values are equally spaced, and most of the places between them occur."""
    step = _step(values) if len(values) >= MANY_STEPS else 0.0
    return step > 0 and len(values) > DENSE * (values[-1] - values[0]) / step


def _step(values: Floats) -> float:
    """Return the distance of equally spaced values, of which some may not occur; 0 for others."""
    step = float(np.diff(values).min())
    places = (values - values[0]) / step
    return step if (np.abs(places - np.rint(places)) <= 1e-6).all() else 0.0
