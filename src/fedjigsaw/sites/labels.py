"""Write the labels of a site's rows as a Parquet or CSV file."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedjigsaw.errors import DataError, ParameterError, unsupported
from fedjigsaw.io.atomic import open_whole
from fedjigsaw.io.regular import ending
from fedjigsaw.io.tables import Names, as_names
from fedjigsaw.sites.assign import Assigned


def _parquet_writer(file: Any, schema: pa.Schema) -> Any:
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(file, schema)


WRITERS: dict[str, Any] = {".parquet": _parquet_writer, ".csv": pa.csv.CSVWriter}
COLUMNS = ("row", "label", "distance")


def write_labels(
    path: Path | str,
    parts: Iterable[Assigned],
    *,
    id_column: Names = None,
    distances: bool = False,
    replace: bool = True,
) -> int:
    """Write what :func:`~fedjigsaw.sites.assign` yields, whole or not at all, for you alone.

    The first column is the number of the row, from 1 on: so no line is blank where a row has no
    label, and readers that skip blank lines keep it.

    Parameters
    ----------
    path : the result; the ending of its name, .parquet or .csv, decides the format.
    parts : labels of some rows after the other.
    id_column : the names of the id columns, if the parts have any.
    distances : whether to write the distance of each row to its center, too.
    replace : whether an existing file is replaced; otherwise it is a DataError.

    Returns
    -------
    int
        The number of rows written.

    Raises
    ------
    DataError
        If the file cannot be written, or its ending is another one.
    ParameterError
        If an id column is named row, label or distance, or there are no parts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from fedjigsaw.sites import Assigned, write_labels
    >>> path = Path(tempfile.mkdtemp(), "labels.csv")
    >>> part = Assigned(pa.array([0, None, 1]), pa.array([3.0, None, 2.0]))
    >>> write_labels(path, [part], distances=True)
    3
    >>> path.read_text().split()
    ['"row","label","distance"', '1,0,3', '2,,', '3,1,2']
    """
    path = Path(path)
    if ending(path) not in WRITERS:
        raise DataError(unsupported(f"write {path}", path.suffix, WRITERS), file=path)
    names = as_names(id_column)
    for name in (name for name in names if name in COLUMNS):
        raise ParameterError(
            f"The id column cannot be {name!r}: the result has a column of that name. "
            "Rename it in the data first."
        )
    batches = _batches(parts, names, distances)
    first = next(batches, None)
    if first is None:
        raise ParameterError(f"Cannot write {path}: there are no labels to write.")
    n_rows = 0
    try:
        with (
            open_whole(path, replace=replace, private=True) as file,
            WRITERS[ending(path)](file, first.schema) as writer,
        ):
            for batch in chain([first], batches):
                writer.write_batch(batch)
                n_rows += batch.num_rows
    except pa.ArrowException as error:
        raise DataError(f"Cannot write {path}: {error}", file=path) from error
    return n_rows


def _batches(
    parts: Iterable[Assigned], names: Sequence[str], distances: bool
) -> Iterator[pa.RecordBatch]:
    first = 1
    for part in parts:
        last = first + len(part.labels)
        columns = {"row": pa.array(np.arange(first, last, dtype=np.int64))}
        columns |= zip(names, part.ids, strict=True)
        columns["label"] = part.labels
        if distances:
            columns["distance"] = part.distances
        yield pa.RecordBatch.from_pydict(columns)
        first = last
