"""Validation of input: data, tables with names of columns, client names and client ids.

Tables of pandas, polars and Arrow are used without loading any of these libraries.
"""

import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from math import isfinite, isinf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw._rows import BLOCK, is_sparse, refuse_lazy
from fedjigsaw._typing import Ints, Rows
from fedjigsaw.errors import DataError, DataTypeError, ParameterError, invalid, quote_names
from fedjigsaw.parameters import is_integer

MAX_NAME_LENGTH = 200
MAX_MAGNITUDE = 1e100  # sums of squares over rows stay finite
DATES = ("m", "M")  # NumPy's kinds of durations and dates
DATE_NAMES = ("date", "time", "duration")  # what names of such types begin with elsewhere
TEXT_NAMES = ("object", "str", "cat", "large_string", "dictionary", "enum")  # those of texts
MAX_COUNT = 2**53  # whole numbers up to here are exact in every format
MAX_SAMPLES = 2**40  # rows of one client; the sum over thousands of clients is still exact


def check_data(estimator: Any, X: Any, *, owner: str, reset: bool = True) -> Any:
    """Return the rows as finite float64 or float32, or raise a DataError.

    Rows of float32 stay so. Sparse rows become a CSR matrix, if the estimator takes them.

    Parameters
    ----------
    estimator : scikit-learn estimator that knows the number and the names of the columns, or
        learns them if `reset` is True. None if the data are those of a function.
    owner : name of the owner of the data in errors, for instance ``"client 'a'"``.
    """
    if not reset and _is_plain(X, estimator):  # of many small clients: checks cost more than work
        return _check_sizes(X, owner)
    # here, since scikit-learn takes seconds to load and a federation's server and agents need none
    from sklearn.utils.validation import check_array, validate_data

    takes_sparse = getattr(estimator, "takes_sparse", False)
    if is_sparse(X) and not takes_sparse:
        who = "A function" if estimator is None else type(estimator).__name__
        raise DataTypeError(
            f"{who} does not take sparse data, and the data of {owner} are sparse. Convert them "
            "with .toarray(), or use Jigsaw or another method that does."
        )
    _refuse(X, owner)
    if isinstance(X, np.ma.MaskedArray):  # NumPy would use the numbers below the mask
        X = np.ma.filled(X.astype(np.float64) if X.dtype.kind in "biu" else X, np.nan)
    check = partial(validate_data, estimator, reset=reset) if estimator is not None else check_array
    try:
        rows = check(
            X,
            accept_sparse="csr" if takes_sparse else False,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
        )
    except (TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(_unusable(X, owner, reason)) from error
    return _check_sizes(_canonical(rows) if is_sparse(rows) else rows, owner, X)


def _refuse(X: Any, owner: str) -> None:
    """Raise an error for data of which NumPy would use other numbers than are meant."""
    refuse_lazy(X)
    dtype, kinds = getattr(X, "dtype", None), _kinds(X)
    if isinstance(X, (list, tuple)):
        if X and all(getattr(part, "ndim", 0) == 2 for part in X):
            raise DataError(
                f"The data of {owner} must be one table; got {len(X)}. Those of several clients "
                'are for fit_clients: fit_clients({"bern": X1, "oslo": X2}).'
            )
        with suppress(ValueError):  # rows of different lengths, which scikit-learn refuses
            dtype = np.asarray(X[:1]).dtype
    # the number of a date depends on the unit of storage, which may differ between clients
    dates = [f"column {name!r}" for name, kind in kinds if _is_date(kind)]
    if dates or _is_date(dtype):
        raise DataTypeError(
            f"The data of {owner} have dates or durations ({[*dates, 'all columns'][0]}). Convert "
            "them to numbers in one unit, for instance days since a date, or use "
            "FederatedPreparation."
        )
    if twice := repeated(name for name, _ in kinds):  # only later versions of scikit-learn tell
        raise DataError(
            f"The data of {owner} have several columns named {quote_names(twice)}. Rename all but "
            "one of each."
        )


def _kinds(X: Any) -> list[tuple[Any, Any]]:
    """Return the name and the type of each column of a table; nothing for other data."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # pandas and polars
        return list(zip(X.columns, X.dtypes, strict=False))
    if hasattr(X, "column_names") and hasattr(X, "schema"):  # pyarrow
        return list(zip(X.column_names, X.schema.types, strict=False))
    return []


def _is_date(kind: Any) -> bool:
    """Tell whether a type of NumPy, pandas, polars or pyarrow is one of dates or durations."""
    return getattr(kind, "kind", "") in DATES or str(kind).lower().startswith(DATE_NAMES)


def _canonical(rows: Any) -> Any:
    """Return a CSR matrix that stores no entry twice, with indices of 32 bits if they fit."""
    if rows.indices.dtype != np.int32 and max(rows.nnz, rows.shape[1]) < 2**31:
        small = (part.astype(np.int32) for part in (rows.indices, rows.indptr))
        rows = type(rows)((rows.data, *small), shape=rows.shape)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _is_plain(X: Any, estimator: Any) -> bool:
    """Say whether data are rows of as many columns as expected that need no conversion."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype == np.float64
        and X.flags.c_contiguous
        and len(X) > 0
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
    )


def _check_sizes(rows: Any, owner: str, X: Any = None) -> Any:
    """Return the rows if all numbers in them are finite, and neither too large nor too small.

    Errors name columns as the table X does from which the rows are, if it is one.
    """
    values = rows.data[:, None] if is_sparse(rows) else rows
    largest, n_bad, first = 0.0, 0, (0, 0)
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        size = np.abs(values[start : start + step], dtype=np.float64)
        if (most := float(size.max())) <= MAX_MAGNITUDE:  # not so if it is NaN
            largest = max(largest, most)
            continue
        bad = np.argwhere(~(size <= MAX_MAGNITUDE))
        first = first if n_bad else (start + int(bad[0, 0]), int(bad[0, 1]))
        n_bad += len(bad)
    advice = "Rescale them first."
    if n_bad:
        value, (row, column) = values[first], first
        if is_sparse(rows):
            column = int(rows.indices[row])
            row = int(np.searchsorted(rows.indptr, row, side="right")) - 1
        names = [repr(name) for name, _ in _kinds(X)]
        shown = "NaN" if isnan(value) else "infinity (inf)" if isinf(value) else f"{value:g}"
        where = f"row {row}, column {names[column] if names else column}"
        got = f"{shown} in {where} ({n_bad} such values in total)"
        allowed = f"finite, at most {MAX_MAGNITUDE:g} in size"
        advice = advice if isfinite(value) else "Drop these rows or impute the values."
        raise DataError(invalid("data", owner, allowed, got, advice))
    if 0 < largest < 1 / MAX_MAGNITUDE:
        got = f"a largest absolute value of {largest:g}"
        allowed = f"zero or at least {1 / MAX_MAGNITUDE:g} in size"
        raise DataError(invalid("data", owner, allowed, got, advice))
    return rows


def _unusable(X: Any, owner: str, reason: str) -> str:
    """Say why data cannot be used, without printing them as scikit-learn does."""
    try:
        shape = np.shape(X)
    except ValueError:  # rows of different lengths
        shape = ()
    if len(shape) == 1:
        advice = "Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."
        return f"The data of {owner} must be a 2-D array; got shape {shape}. {advice}"
    if " features, but " in reason or "feature names" in reason.lower():
        return f"Cannot use the data of {owner}: {reason}."
    reason = re.split(r":? array=| \[", reason, maxsplit=1)[0]  # the values come last
    text = [str(name) for name, kind in _kinds(X) if str(kind).lower().startswith(TEXT_NAMES)]
    which = "A column" if len(text) == 1 else "Columns"
    advice = f" {which} of text: {quote_names(text)}. Leave out text, or use FederatedPreparation."
    return f"Cannot use the data of {owner} as a table of numbers: {reason}.{advice * bool(text)}"


def distinct(values: Any, what: str, owner: str) -> tuple[Any, Ints, Ints]:
    """Return the distinct values of one per row, the number of each row's, and how often each is.

    A DataError says that values are missing, not in one column, or cannot be sorted.

    Examples
    --------
    >>> [part.tolist() for part in distinct(["b", "a", "b"], "labels", "a split")]
    [['a', 'b'], [1, 0, 1], [1, 2]]
    """
    column = as_column(values, what, owner)
    row = first_missing(column)
    if row is not None:
        raise DataError(
            f"Some {what} of {owner} are missing, the first one in row {row}. Leave out these rows."
        )
    try:
        return np.unique(column, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise DataError(
            f"Cannot sort the {what} of {owner}: {error}. Use only numbers or only strings."
        ) from error


def as_column(values: Any, what: str, owner: str) -> np.ndarray:
    """Return one value per row as an array."""
    try:
        column = _as_array(values)
    except (TypeError, ValueError):
        got = "rows of different lengths"
    else:
        if column.ndim == 1 and len(column):
            return column
        got = f"shape {column.shape}" if column.ndim else type(values).__name__
    raise DataError(invalid(what, owner, "1-D, and not empty", got))


def _as_array(values: Any) -> np.ndarray:
    """Return an array, in which numbers beside texts stay numbers, unlike in NumPy."""
    listed = isinstance(values, (list, tuple))
    mixed = listed and len({isinstance(value, str) for value in values}) > 1
    return np.asarray(values, dtype=object if mixed else None)


def first_missing(column: np.ndarray) -> int | None:
    """Return the first row of a column without a value: None, NaN, NaT, or pandas' NA."""
    for row, value in enumerate(column) if column.dtype.kind == "O" else ():
        try:
            if value is None or bool(value != value):
                return row
        except TypeError:  # pandas' NA is neither equal to itself nor different
            return row
        except ValueError:  # an array
            continue
    rows = [] if column.dtype.kind == "O" else np.flatnonzero(column != column).tolist()
    return rows[0] if rows else None


def check_path(path: object, owner: str) -> Path:
    """Return the path of a file, or raise a ParameterError if it is none."""
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(invalid("path", owner, "the path of a file", repr(path)))
    return Path(path)


def check_name(name: str) -> str:
    """Return the name of a client, or raise a DataError if it is not allowed."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        allowed = f"printable and 1 to {MAX_NAME_LENGTH} characters long"
        raise DataError(invalid("name", "a client", allowed, repr(name)))
    return name


def name_clients(ids: Iterable[Hashable], *, owner: str) -> list[str]:
    """Convert integer or string ids to names; two ids must not have the same name."""
    ids = list(ids)
    for client in ids:
        if not (isinstance(client, str) or is_integer(client)):
            advice = "Convert whole numbers to integers first." if isinstance(client, float) else ""
            raise DataTypeError(
                invalid("client ids", owner, "integers or strings", repr(client), advice)
            )
    names = [check_name(str(client)) for client in ids]
    twice = sorted(repeated(names))
    if twice:
        raise DataError(invalid("client ids", owner, "unique as strings", f"{twice} twice"))
    return names


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def rows_by_client(n_rows: int, clients: Any, *, owner: str) -> dict[str, Rows]:
    """Return the rows of each client, in ascending order; None is a single client."""
    if clients is None:
        return {"0": slice(None)}
    try:
        ids = _as_array(clients)
    except ValueError as error:
        raise DataError(f"Cannot convert the clients of {owner} to an array: {error}") from error
    if ids.shape != (n_rows,):
        allowed = f"one id per row, shape ({n_rows},)"
        raise DataError(invalid("clients", owner, allowed, f"shape {ids.shape}"))
    allowed = "all integers or all strings"
    if ids.dtype.kind == "O":  # check one by one, to name the row
        text = isinstance(ids[0], str)
        for row, client in enumerate(ids):
            if isinstance(client, str) != text or not (text or is_integer(client)):
                got = f"{client!r} in row {row}"
                raise DataTypeError(invalid("client ids", owner, allowed, got))
        ids = ids.astype(str)
    if ids.dtype.kind in "mM":  # NumPy would turn some units into integers
        raise DataTypeError(invalid("client ids", owner, allowed, ids.dtype))
    found, block = np.unique(ids, return_inverse=True)
    names = name_clients(found.tolist(), owner=owner)
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block)).tolist()
    parts = [order[start:end] for start, end in pairwise([0, *ends])]
    return dict(zip(names, parts, strict=True))


def column_names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a table; None if data have no names."""
    refuse_lazy(X)
    names = getattr(X, "column_names", None)  # Arrow
    if names is None:
        names = getattr(X, "columns", None)  # pandas, polars
    if names is None or callable(names) or not hasattr(X, "shape"):
        return None
    return list(names)


def select(X: Any, names: Sequence[Any]) -> Any:
    """Return some columns of a table, in this order."""
    return X.loc[:, list(names)] if hasattr(X, "loc") else X.select(list(names))


def without(X: Any, name: str | None) -> Any:
    """Return a table without the columns of a name; data that have none stay as they are."""
    names = column_names(X) or []
    if name is None or name not in names:
        return X
    others = [i for i, other in enumerate(names) if other != name]  # by place: names may repeat
    if hasattr(X, "iloc"):
        return X.iloc[:, others]
    return X.select(others) if hasattr(X, "column_names") else X.drop(name)


def take_clients(X: Any, clients: Any, *, owner: str) -> tuple[Any, Any]:
    """Return the rows and the client of each; if that is a column, it is taken out of the rows.

    Parameters
    ----------
    clients : name of a column of `X`, or anything else, which is returned as it is.
    """
    if not isinstance(clients, str):
        return X, clients
    names = column_names(X) or []
    if names.count(clients) != 1 or len(names) == 1:
        has = quote_names(names) or "no names of columns"
        raise DataError(
            f"clients={clients!r} of {owner} must name one column of X, and X must have others; "
            f"it has {has}. Give a DataFrame, or an array with the client of each row."
        )
    return without(X, clients), X[clients]


def in_order(X: Any, names: Sequence[Any] | None, *, client: str, first: str = "") -> Any:
    """Return a client's table with its columns in this order; other data stay as they are.

    Parameters
    ----------
    names : columns that all clients must have, or None if the first client had no names.
    first : the client that has them, for errors.
    """
    found = column_names(X)
    if found is None or names is None or found == list(names):
        return X
    if Counter(found) == Counter(names):
        return select(X, names)
    lacking = [name for name in names if name not in found]
    what = f"no column {quote_names(lacking)}" if lacking else f"the columns {quote_names(found)}"
    whom = f"client {first!r}" if first else "the first client"
    raise DataError(
        f"Client {client!r} has {what}, unlike {whom}, which has {quote_names(list(names))}. Give "
        "all clients the same columns; their order does not matter."
    )
