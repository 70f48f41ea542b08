"""Parquet files that hold the rows of several clients, with the client of each row in a column."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.text import TextFormat, plain
from fedjigsaw.errors import DataError, broken, quote_names
from fedjigsaw.io.readers import BATCH_ROWS, open_reader


class ClientReader:
    """The rows of one client, from the row groups that hold some."""

    text = TextFormat()
    told = hint = ""
    n_rows: int | None = None

    def __init__(self, path: Path, groups: Sequence[int], column: str, value: Any) -> None:
        self.path, self.groups, self.column, self.value = path, list(groups), column, value
        self.names = [name for name in open_reader(path).names if name != column]

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        wanted = list(dict.fromkeys([*names, self.column]))
        with _opened(self.path) as file:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=self.groups, columns=wanted):
                own = pc.equal(plain(batch.column(self.column)), self.value)
                yield [batch.column(name).filter(own) for name in names]


def clients_of_groups(path: Path, column: str) -> Iterator[list[Any]]:
    """Yield the clients that have rows in a row group, for each row group of a file."""
    names = open_reader(path).names
    if path.suffix != ".parquet" or column not in names:
        raise DataError(
            f"{path} must be a Parquet file with the column {column!r}. "
            f"It has {quote_names(names)}."
        )
    with _opened(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            values = file.read_row_group(group, columns=[column]).column(0)
            if values.null_count:
                row = start + pc.index(pc.is_null(values), True).as_py() + 1
                raise DataError(f"{path}, row {row}, column {column!r}: the client is missing.")
            start += len(values)
            yield values.unique().to_pylist()


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise DataError(broken(path, ".parquet", error)) from error
