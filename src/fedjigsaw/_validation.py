"""Validation of input: data, client names and client ids."""

from collections import Counter
from collections.abc import Hashable, Iterable
from math import isfinite, isinf, isnan
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Rows
from fedjigsaw.errors import DataError, DataTypeError, invalid
from fedjigsaw.parameters import is_integer

MAX_NAME_LENGTH = 200
MAX_MAGNITUDE = 1e100  # sums of squares over rows stay finite
MAX_SAMPLES = 2**40  # rows of one client; the sum over thousands of clients is still exact


def check_data(estimator: Any, X: Any, *, owner: str, reset: bool) -> Floats:
    """Return the rows as finite float64, or raise a DataError.

    Parameters
    ----------
    estimator : scikit-learn estimator that knows the number and the names of the columns, or
        learns them if `reset` is True.
    owner : name of the owner of the data in errors, for instance ``"client 'a'"``.
    """
    if not reset and _is_plain(X, estimator):  # of many small clients: checks cost more than work
        return _check_sizes(X, owner)
    # here, since scikit-learn takes seconds to load and a federation's server and agents need none
    from sklearn.utils.validation import validate_data

    try:
        rows: Floats = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False
        )
    except (TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(_unusable(X, owner, reason)) from error
    return _check_sizes(rows, owner)


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


def _check_sizes(rows: Floats, owner: str) -> Floats:
    """Return the rows if all numbers in them are finite, and neither too large nor too small."""
    size = np.abs(rows)
    if 0 < size.max(initial=0) < 1 / MAX_MAGNITUDE:
        got = f"a largest absolute value of {size.max():g}"
        allowed = f"zero or at least {1 / MAX_MAGNITUDE:g} in size"
        raise DataError(invalid("data", owner, allowed, got, "Rescale them first."))
    if not (size <= MAX_MAGNITUDE).all():
        bad = np.argwhere(~(size <= MAX_MAGNITUDE))
        row, column = (int(i) for i in bad[0])
        value = float(rows[row, column])
        shown = "NaN" if isnan(value) else "infinity (inf)" if isinf(value) else f"{value:g}"
        got = f"{shown} in row {row}, column {column} ({len(bad)} such values in total)"
        allowed = f"finite, at most {MAX_MAGNITUDE:g} in size"
        advice = (
            "Rescale them first." if isfinite(value) else "Drop these rows or impute the values."
        )
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
    if " features, but " in reason or "feature names" in reason:
        return f"Cannot use the data of {owner}: {reason}."
    return f"Cannot use the data of {owner} as a table of numbers: {reason}."


def check_name(name: str) -> str:
    """Return the name of a client, or raise a DataError if it is not allowed."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        allowed = f"printable and 1 to {MAX_NAME_LENGTH} characters long"
        raise DataError(invalid("name", "a client", allowed, repr(name)))
    return name


def name_clients(ids: Iterable[Hashable], *, owner: str) -> list[str]:
    """Convert integer or string ids to names; two ids must not have the same name."""
    names = []
    for client in ids:
        if not (isinstance(client, str) or is_integer(client)):
            allowed = "integers or strings"
            advice = "Convert whole numbers to integers first." if isinstance(client, float) else ""
            raise DataTypeError(invalid("client ids", owner, allowed, repr(client), advice))
        names.append(check_name(str(client)))
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
        mixed = (
            isinstance(clients, (list, tuple)) and len({isinstance(c, str) for c in clients}) > 1
        )
        ids = np.asarray(clients, dtype=object if mixed else None)
    except ValueError as error:
        raise DataError(
            f"Cannot convert the clients of {owner} to an array of ids: {error}"
        ) from error
    if ids.shape != (n_rows,):
        allowed = f"one id per row, shape ({n_rows},)"
        raise DataError(invalid("clients", owner, allowed, f"shape {ids.shape}"))
    if ids.dtype.kind == "O":  # check one by one, to name the row
        for row, client in enumerate(ids):
            if not (isinstance(client, str) or is_integer(client)):
                got = f"{client!r} in row {row}"
                raise DataTypeError(invalid("client ids", owner, "integers or strings", got))
        if len({isinstance(client, str) for client in ids}) > 1:
            allowed = "all integers or all strings"
            raise DataTypeError(invalid("client ids", owner, allowed, "both kinds"))
        ids = ids.astype(str)
    distinct, block = np.unique(ids, return_inverse=True)
    names = name_clients(distinct.tolist(), owner=owner)
    order = np.argsort(block, kind="stable")
    cuts = np.cumsum(np.bincount(block))[:-1]
    return dict(zip(names, np.split(order, cuts), strict=True))
