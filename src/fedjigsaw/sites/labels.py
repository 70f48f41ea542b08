"""Write the labels of a site's rows as a Parquet or CSV file."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io.atomic import open_whole
from fedjigsaw.sites.assign import Assigned

WRITERS: dict[str, Any] = {".parquet": pa.parquet.ParquetWriter, ".csv": pa.csv.CSVWriter}
COLUMNS = ("label", "distance")


def write_labels(
    path: Path,
    parts: Iterable[Assigned],
    *,
    id_column: str | None = None,
    distances: bool = False,
    replace: bool = True,
) -> int:
    """Write what :func:`~fedjigsaw.sites.assign` yields, whole or not at all.

    Parameters
    ----------
    path : the result; the ending of its name, .parquet or .csv, decides the format.
    id_column : the name of the first column, if the parts have ids.
    distances : whether to write the distance of each row to its center, too.
    replace : whether an existing file is replaced; otherwise it is a DataError.

    Returns
    -------
    The number of rows written.
    """
    if path.suffix not in WRITERS:
        supported = ", ".join(WRITERS)
        raise DataError(
            f"Cannot write {path}: unsupported file type {path.suffix!r}. Supported: {supported}."
        )
    if id_column in COLUMNS:
        raise ParameterError(
            f"The id column cannot be {id_column!r}: the result has a column of that name. "
            "Rename it in the data first."
        )
    batches = (_batch(part, id_column, distances) for part in parts)
    first = next(batches)
    n_rows = 0
    try:
        with (
            open_whole(path, replace=replace) as file,
            WRITERS[path.suffix](file, first.schema) as writer,
        ):
            for batch in chain([first], batches):
                writer.write_batch(batch)
                n_rows += batch.num_rows
    except pa.ArrowException as error:
        raise DataError(f"Cannot write {path}: {error}") from error
    return n_rows


def _batch(part: Assigned, id_column: str | None, distances: bool) -> pa.RecordBatch:
    columns = {} if part.ids is None else {str(id_column): part.ids}
    columns["label"] = part.labels
    if distances:
        columns["distance"] = part.distances
    return pa.RecordBatch.from_pydict(columns)
