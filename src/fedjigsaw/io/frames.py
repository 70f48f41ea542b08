"""Tables in memory, of mixed columns: pandas, polars, Arrow, dicts of columns, and arrays."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._rows import refuse_lazy
from fedjigsaw._typing import Rows
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.errors import DataError, DataTypeError
from fedjigsaw.io.readers import BATCH_ROWS
from fedjigsaw.io.tables import Table, check_names


class FrameReader:
    """An Arrow table in memory."""

    text = TextFormat()
    told = hint = ""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.names: list[str] = table.column_names
        self.n_rows: int | None = table.num_rows

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield columns in blocks of rows."""
        for start in range(0, self.table.num_rows, BATCH_ROWS):
            part = self.table.slice(start, BATCH_ROWS)
            yield [_one_piece(part.column(name)) for name in names]


def from_frame(
    X: Any, columns: Sequence[str] | None = None, *, rows: Rows | None = None, name: str = "X"
) -> Table:
    """Make a table from columns in memory; the index of a pandas table is not among them.

    Parameters
    ----------
    X : pandas or polars DataFrame, Arrow table, mapping of names to columns, or 2-D array.
    columns : names of the columns of an array; x0, x1, ... by default.
    rows : which rows to take; all by default.
    name : of the table in errors.

    Examples
    --------
    >>> from_frame({"age": [61, 35], "sex": ["f", None]}).columns
    ('age', 'sex')
    """
    arrow = to_arrow(X, columns)
    if rows is not None and not isinstance(rows, slice):
        arrow = arrow.take(pa.array(rows))
    check_names(Path(name), arrow.column_names)
    reader = FrameReader(arrow)
    return Table(Path(name), tuple(reader.names), reader)


def has_names(X: Any) -> bool:
    """Whether data are a table with names of columns, not an array."""
    refuse_lazy(X)
    if isinstance(X, Mapping):
        return not hasattr(X, "shape")  # some sparse matrices are dicts, too
    # a pandas Series has no stream in early versions: `to_arrow` refuses it in all of them
    return isinstance(X, pa.Table) or hasattr(X, "__arrow_c_stream__") or hasattr(X, "iloc")


def to_arrow(X: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Return data as an Arrow table; NaN and None are null."""
    if isinstance(X, pa.Table):
        found = X
    elif isinstance(X, Mapping):
        found = _from_columns({str(name): values for name, values in X.items()})
    elif hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas, whose own stream adds the index
        names = [str(name) for name in X.columns]
        found = _joined(names, [_from_values(n, X.iloc[:, j]) for j, n in enumerate(names)])
    elif hasattr(X, "__arrow_c_stream__") and len(getattr(X, "shape", ())) == 2:
        # not a single column; NumPy would convert all of a polars table to tell, or fail at that
        found = _without_order(pa.table(X))
    else:
        found = _from_array(np.asarray(X), columns)
    plain = [_without_views(column) for column in found.columns]
    return pa.table(plain, names=found.column_names)


def _from_array(array: np.ndarray, columns: Sequence[str] | None) -> pa.Table:
    if array.ndim != 2:
        raise DataError(f"A table or a 2-D array is needed; got an array of shape {array.shape}.")
    names = [str(name) for name in columns or (f"x{j}" for j in range(array.shape[1]))]
    if len(names) != array.shape[1]:
        raise DataError(f"{len(names)} columns are needed; the array has {array.shape[1]}.")
    return _joined(names, [_from_values(n, array[:, j]) for j, n in enumerate(names)])


def _from_columns(columns: Mapping[str, Any]) -> pa.Table:
    found = {name: _from_values(name, values) for name, values in columns.items()}
    lengths = {len(values) for values in found.values()}
    if len(lengths) > 1:
        raise DataError(f"The columns of X differ in length: {sorted(lengths)[:5]} rows.")
    return _joined(list(found), list(found.values()))


def _joined(names: list[str], columns: list[Any]) -> pa.Table:
    # not from a dict: two columns of one name are an error of their own, which names them
    return pa.Table.from_arrays(columns, names=names)


def _from_values(name: str, values: Any) -> Any:
    """Convert one column; values of several types become texts."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        return pa.chunked_array(values)
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:
        texts = [None if _is_missing(value) else _as_text(name, value) for value in values]
        return pa.array(texts, pa.string())
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        text = f"Cannot use column {name!r} of X: it is no list of values."
        raise DataTypeError(text, column=name) from error


def _is_missing(value: Any) -> bool:
    return value is None or bool(np.isscalar(value) and value != value)


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, (str, bool, int, float, np.generic)):
        return str(value)
    raise DataTypeError(
        f"Column {name!r} of X has a value of type {type(value).__name__}; numbers, dates and "
        "texts can be used.",
        column=name,
    )


def _without_order(table: pa.Table) -> pa.Table:
    """Return categories as unordered ones: an Enum of polars has an order for sorting alone."""
    fields = []
    for old in table.schema:
        kind = old.type
        if pa.types.is_dictionary(kind) and kind.ordered:
            kind = pa.dictionary(kind.index_type, kind.value_type, ordered=False)
        fields.append(pa.field(old.name, kind))
    return table.cast(pa.schema(fields))


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as one of the two types that functions of Arrow know, whatever they are."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pc.cast(column, pa.dictionary(kind.index_type, pa.large_string(), kind.ordered))
    return pc.cast(column, pa.large_string()) if pa.types.is_string_view(kind) else column


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):  # empty, in some versions
        return pa.array([], column.type)
    return found
