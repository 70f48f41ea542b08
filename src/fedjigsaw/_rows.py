"""Rows that are not yet what methods compute with: float32, sparse, or with weights.

Methods compute in double precision. Other rows stay as they are until they are needed, and are then
converted in blocks, or for one client at a time: all of them at once could exceed the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import DataTypeError, ParameterError

BLOCK = 2**20  # numbers that are converted at a time
MOST_COPIED = 2**27  # numbers of one client that are copied for a method without weights: 1 GB


@dataclass(frozen=True)
class Weighted:
    """The rows of a client, and how many copies each of them stands for.

    Parameters
    ----------
    rows : array or CSR matrix of shape (n, d)
    weights : array of shape (n,)
        Whole numbers > 0.
    """

    rows: Any
    weights: Floats


def unweighted(data: Any) -> tuple[Any, Floats | None]:
    """Return rows and their weights; None if they have none.

    Examples
    --------
    >>> unweighted(np.ones((2, 1)))[1] is None
    True
    """
    return (data.rows, data.weights) if isinstance(data, Weighted) else (data, None)


def is_sparse(X: Any) -> bool:
    """Tell whether data are a sparse matrix or array of SciPy, without loading SciPy."""
    return hasattr(X, "toarray") and hasattr(X, "nnz")


def refuse_lazy(X: Any) -> None:
    """Raise a DataTypeError for a LazyFrame of polars: NumPy would take it for a single value."""
    if type(X).__name__ == "LazyFrame":
        raise DataTypeError(
            "A LazyFrame has no rows yet. Give the table that its method collect() returns."
        )


def is_plain(X: Any) -> bool:
    """Tell whether rows need no conversion."""
    return isinstance(X, np.ndarray) and X.dtype == np.float64


def dense(X: Any) -> Floats:
    """Return rows as an array in double precision.

    Examples
    --------
    >>> dense(np.ones((1, 2), np.float32)).dtype
    dtype('float64')
    """
    rows = X.toarray() if is_sparse(X) else X
    return np.ascontiguousarray(rows, dtype=np.float64)


def in_blocks(X: Any, block: int = BLOCK) -> Iterator[tuple[slice, Floats]]:
    """Yield rows in double precision, and which they are; those that are so already in one piece.

    Examples
    --------
    >>> rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    >>> [(part, values.tolist()) for part, values in in_blocks(rows, block=4)]
    [(slice(0, 2, None), [[0.0, 1.0], [2.0, 3.0]]), (slice(2, 3, None), [[4.0, 5.0]])]
    """
    n_rows, width = X.shape
    if is_plain(X):
        yield slice(0, n_rows), X
        return
    step = max(1, block // width)
    for start in range(0, n_rows, step):
        part = slice(start, min(start + step, n_rows))
        yield part, dense(X[part])


def ready(data: Any, *, weighted: bool, owner: str) -> Any:
    """Return the rows of one client as its method computes with them.

    They are in double precision; sparse ones stay sparse.

    Parameters
    ----------
    weighted : whether the method takes weights; otherwise it gets copies of the rows.
    owner : name of the method, for errors.
    """
    if isinstance(data, Weighted):
        rows = ready(data.rows, weighted=weighted, owner=owner)
        if weighted:
            return Weighted(rows, data.weights)
        n_rows = int(data.weights.sum())
        if n_rows * rows.shape[1] > MOST_COPIED:
            raise ParameterError(
                f"{owner} does not compute with sample_weight: it needs a copy of each row for "
                f"each unit of its weight, {n_rows:,} rows for one client, which is too many. Use "
                "smaller weights, or Jigsaw or another method that computes with weights."
            )
        return np.repeat(rows, data.weights.astype(np.int64), axis=0)
    if is_sparse(data):
        return data if data.dtype == np.float64 else data.astype(np.float64)
    return dense(data) if getattr(data, "dtype", None) == np.float32 else data


def read_only(data: Any) -> Any:
    """Return the same rows, for a method that must not change them in place.

    They may be the caller's own, and they are labeled when all clients have answered.

    Examples
    --------
    >>> rows = np.zeros((1, 2))
    >>> read_only(rows).flags.writeable, rows.flags.writeable
    (False, True)
    """
    if isinstance(data, Weighted):
        return Weighted(read_only(data.rows), read_only(data.weights))
    if not isinstance(data, np.ndarray):
        return data
    view = data.view()
    view.flags.writeable = False
    return view


def n_converted(data: Any, *, weighted: bool) -> int:
    """Return how many numbers :func:`ready` makes of the rows of a client."""
    rows, weights = unweighted(data)
    if weights is not None and not weighted:
        return int(weights.sum()) * int(rows.shape[1])
    if getattr(rows, "dtype", None) != np.float32:
        return 0
    return int(rows.nnz if is_sparse(rows) else rows.size)


def n_bytes(rows: Any) -> int:
    """Return the bytes of rows as they are, dense or sparse."""
    if not is_sparse(rows):
        return int(rows.nbytes)
    return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)


def stack(parts: list[Any]) -> Any:
    """Put rows one after the other."""
    if len(parts) == 1:
        return parts[0]
    if not is_sparse(parts[0]):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")
