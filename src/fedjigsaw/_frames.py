"""Tables with names of columns (pandas, polars, Arrow), without loading any of these libraries."""

from collections.abc import Sequence
from typing import Any

from fedjigsaw._rows import refuse_lazy
from fedjigsaw.errors import DataError, quote_names


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
    names = None if name is None else column_names(X)
    if names is None or name not in names:
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
    names = column_names(X)
    if names is None:
        raise DataError(
            f"clients={clients!r} of {owner} names a column, but X has no names of columns. Give "
            "a DataFrame, or an array with the client of each row."
        )
    if names.count(clients) != 1:
        found = "two columns" if clients in names else "no column"
        raise DataError(
            f"X of {owner} has {found} {clients!r}, which should hold the client of each row. It "
            f"has {quote_names(names)}."
        )
    if len(names) == 1:
        raise DataError(f"X of {owner} has no column besides {clients!r}: there is nothing to use.")
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
    lacking = [name for name in names if name not in found]
    extra = [name for name in found if name not in set(names)]
    if not lacking and not extra and len(found) == len(names):
        return select(X, names)
    parts = [f"has no column {quote_names(lacking)}"] if lacking else []
    parts += [f"has the column {quote_names(extra)}"] if extra else []
    parts = parts or ["has a column twice"]
    whom = f"client {first!r}" if first else "the first client"
    raise DataError(
        f"Client {client!r} {' and '.join(parts)}, unlike {whom}. Give all clients the same "
        "columns; their order does not matter."
    )
