"""Open a site's data for a round: which columns, in which order, and how they are scaled."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import (
    DataError,
    NoiseWarning,
    ParameterError,
    invalid,
    quote_names,
    warn,
)
from fedjigsaw.io.readers import as_arrow
from fedjigsaw.io.regular import stem
from fedjigsaw.io.tables import Names, Table, open_file, open_table
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.validation import check_name


class Progress(Protocol):
    """Anything that can be called with a number of rows, to show how far a function is.

    Functions call it after each batch of a file, with the number of rows in that batch. What it
    returns is ignored; an error that it raises ends the function.

    Examples
    --------
    >>> from fedjigsaw import sites
    >>> from fedjigsaw.io.tables import from_array
    >>> stats = sites.measure(from_array([[30.0]] * 5), client="bern", progress=print)
    5
    """

    def __call__(self, n_rows: int, /) -> object:
        """Take the number of rows of one more batch."""


def quiet(n_rows: int) -> None:
    """Ignore the progress: the default of every function here.

    Parameters
    ----------
    n_rows : ignored.
    """


def site_name(client: str | None, table: Table) -> str:
    """Return the name of the site: by default that of its file, without the ending."""
    return check_name(stem(table.path) if client is None else client)


def open_data(
    data: Path | str | Table,
    columns: Sequence[str] | None = None,
    *,
    id_column: Names = None,
    drop_missing: bool = False,
    encoding: Encoding | None = None,
    decimal: str | None = None,
) -> Table:
    """Open a file, or take a table that is already open, with the columns that are wanted.

    Parameters
    ----------
    data : the path of a file, or a table.
    columns : names of the columns, in this order
        None takes all of a table, and all of a file but those that look like identifiers.
    id_column : one or more columns to carry along unchanged.
    drop_missing : skip rows with missing values; False makes them a DataError when they are read.
    encoding : how the columns of the file become columns of numbers; None takes them as they are.
    decimal : the decimal sign of a file of text, "." or ","; None detects it.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the file cannot be read, or has no such columns.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import open_data
    >>> open_data(from_array([[30.0, 1.5]], ["age", "dose"]), ["dose"]).columns
    ('dose',)
    """
    if isinstance(data, Table):
        data = data if encoding is None else data.encoded(encoding)
        return data.select(columns, id_column=id_column, drop_missing=drop_missing)
    return open_table(
        data,
        columns=columns,
        id_column=id_column,
        drop_missing=drop_missing,
        encoding=encoding,
        decimal=decimal,
    )


def with_all_columns(data: Path | str | Table) -> Table:
    """Open a file with all of its columns, or take a table that is already open."""
    return data if isinstance(data, Table) else open_file(data)


def raw_columns(table: Table, names: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
    """Yield columns by name as they stand in the file, batch by batch; nothing without names."""
    if not names:
        return
    for values in table.reader.batches(list(names)):
        yield dict(zip(names, map(as_arrow, values), strict=True))


def prepare(
    data: Path | str | Table,
    *,
    scaler: Scaler | None = None,
    columns: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    drop_missing: bool = False,
    decimal: str | None = None,
) -> Table:
    """Open data for clustering, with the columns that the scaler and the server ask for.

    Rows are not scaled here: :func:`summarize` does that.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    scaler : the common scaler, or None.
    columns : names of the columns to cluster
        None takes those of the scaler, or without a scaler all of them. With a scaler, they must be
        those of the scaler.
    order : the same columns in the order that the server wants.
    drop_missing : skip rows with missing values; False makes them a DataError when they are read.
    decimal : the decimal sign of a file of text, "." or ","; None detects it.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the file cannot be read, or its columns are not those of `order`.
    ParameterError
        If `columns` are not those of the scaler.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import prepare
    >>> prepare(from_array([[30.0, 1.5]], ["age", "dose"]), order=["dose", "age"]).columns
    ('dose', 'age')
    """
    encoding = None
    if scaler is not None:
        if columns is not None and set(columns) != set(scaler.columns):
            path = data.path if isinstance(data, Table) else data
            allowed = f"those of the scaler, {quote_names(scaler.columns)}"
            raise ParameterError(invalid("columns", str(path), allowed, quote_names(columns)))
        columns, encoding = scaler.columns, scaler.encoding
    table = open_data(data, columns, drop_missing=drop_missing, encoding=encoding, decimal=decimal)
    return table if order is None else _in_order(table, tuple(order), scaler)


def scaled_rows(table: Table, scaler: Scaler | None, progress: Progress) -> Iterator[Floats]:
    """Read a table batch by batch, without rows that have missing values; raise if all have."""
    for batch in table.batches():
        yield scale(batch.rows, scaler)
        progress(len(batch.kept))
    table.check_complete()


def scale(rows: Floats, scaler: Scaler | None) -> Floats:
    """Scale rows, if there is a scaler."""
    return rows if scaler is None else scaler.scale(rows)


def bounds_in_order(privacy: Privacy, columns: Sequence[str], order: Sequence[str]) -> Privacy:
    """Return a promise about columns as one about the same columns in another order."""
    low, high = privacy.limits(len(columns))
    where = [list(columns).index(name) for name in order]
    return replace(privacy, bounds=(low[where], high[where]))


def scale_bounds(privacy: Privacy, scaler: Scaler | None) -> Privacy:
    """Return the same promise with its bounds scaled as rows are."""
    if scaler is None:
        return privacy
    low, high = map(scaler.scale, privacy.limits(len(scaler.columns)))
    return replace(privacy, bounds=(low, high))


def _in_order(table: Table, order: tuple[str, ...], scaler: Scaler | None) -> Table:
    # a scaler has one order of columns, so with a scaler the table cannot be put into another
    if sorted(order) != sorted(table.columns) or (scaler is not None and scaler.columns != order):
        ours, theirs = quote_names(table.columns), quote_names(order)
        raise DataError(
            f"The columns of {table.path} ({ours}) differ from those of the run ({theirs}).",
            file=table.path,
        )
    return replace(table, columns=order)


def check_clipped(table: Table, n_rows: int, n_outside: int) -> None:
    """Raise if no rows were read; warn if some were clipped to the bounds of a promise."""
    table.check_complete()
    if n_outside:
        warn(
            f"{n_outside} of {n_rows} rows of {table.path} are outside the bounds and were "
            "clipped. If there are many, the bounds are too narrow.",
            NoiseWarning,
        )
