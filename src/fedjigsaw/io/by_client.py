"""Parquet files that hold the rows of several clients, with the client of each row in a column."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedjigsaw._arrow import pc
from fedjigsaw.columns.text import TextFormat, plain
from fedjigsaw.errors import DataError, error_at, quote_names
from fedjigsaw.io.readers import open_parquet, open_reader
from fedjigsaw.io.regular import ending


class ClientReader:
    """The rows of one client, from the row groups that hold some."""

    text = TextFormat()
    told = hint = ""
    n_rows: int | None = None

    def __init__(self, path: Path, groups: Sequence[int], column: str, value: Any) -> None:
        self.path, self.groups, self.column, self.value = path, list(groups), column, value
        self.names = [name for name in open_reader(path).names if name != column]

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        with open_parquet(self.path) as file:
            for *columns, clients in file.batches([*names, self.column], self.groups):
                own = pc.equal(plain(clients), self.value)
                yield [values.filter(own) for values in columns]


def clients_of_groups(path: Path, column: str) -> Iterator[list[Any]]:
    """Yield the clients that have rows in a row group, for each row group of a file."""
    names = open_reader(path).names
    if ending(path) != ".parquet" or column not in names:
        raise DataError(
            f"{path} must be a Parquet file with the column {column!r}. "
            f"It has {quote_names(names)}.",
            file=path,
            column=column,
        )
    with open_parquet(path) as file:
        start = 0
        for group in range(file.content.num_row_groups):
            found: dict[Any, None] = {}
            for (values,) in file.batches([column], [group]):
                if values.null_count:
                    row = start + pc.index(pc.is_null(values), True).as_py() + 1
                    raise error_at(path, ": the client is missing.", row=row, column=column)
                start += len(values)
                found.update(dict.fromkeys(values.unique().to_pylist()))
            yield list(found)
