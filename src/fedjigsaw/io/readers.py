"""Readers of CSV, Parquet, NPY and NPZ files: names of columns, and columns in batches."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw.columns.text import TextFormat
from fedjigsaw.errors import DataError, unreadable
from fedjigsaw.io.regular import check_regular

BATCH_ROWS = 65_536
# what a reader raises if a file is not what the ending of its name says
BROKEN = (OSError, ValueError, EOFError, MemoryError, pa.ArrowException, zipfile.BadZipFile)


class Reader(Protocol):
    """One file format: names of its columns, number of rows if known, columns batch by batch."""

    names: list[str]
    n_rows: int | None
    text: TextFormat  # how numbers are written, where they are texts

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]: ...


def open_reader(path: Path) -> Reader:
    """Open a file by the ending of its name."""
    check_regular(path)
    if path.suffix not in READERS:
        supported = ", ".join(READERS)
        raise DataError(
            f"Cannot read {path}: unsupported file type {path.suffix!r}. Supported: {supported}."
        )
    try:
        reader: Reader | None = READERS[path.suffix](path) if path.stat().st_size else None
    except (FileNotFoundError, PermissionError) as error:
        raise DataError(unreadable(path, error)) from error
    except BROKEN as error:
        raise DataError(_broken(path, error)) from error
    if reader is None:
        raise DataError(f"{path} is empty.")
    return reader


class CsvReader:
    """CSV with commas, semicolons or tabs: whichever the header has most of."""

    n_rows = None
    text = TextFormat()

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            header = file.readline(1_000_000)
        plain = re.sub(rb'"[^"]*"', b"", header)  # signs inside quotes are part of a name
        delimiter = max(",;\t", key=lambda sign: plain.count(sign.encode()))
        # in a file of one column an empty line is a missing value, and in others no row at all
        self.parse = pa.csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            ignore_empty_lines=delimiter.encode() in plain,
        )
        with self._open({}) as stream:
            self.names = stream.schema.names

    def _open(self, types: dict[str, Any], names: Sequence[str] | None = None) -> Any:
        convert = pa.csv.ConvertOptions(column_types=types, include_columns=names)
        read = pa.csv.ReadOptions(block_size=4_000_000)
        return pa.csv.open_csv(
            self.path, read_options=read, parse_options=self.parse, convert_options=convert
        )

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        # as text, so that a bad value can be shown as it stands in the file
        types = dict.fromkeys(names, pa.string())
        try:
            with self._open(types, names) as stream:
                for batch in stream:
                    yield batch.columns
        except (OSError, pa.ArrowException) as error:
            raise DataError(_broken(self.path, error)) from error


class ParquetReader:
    """Parquet, streamed by row group; only the selected columns are read."""

    text = TextFormat()

    def __init__(self, path: Path) -> None:
        self.path = path
        with pa.parquet.ParquetFile(path) as file:
            self.names = file.schema_arrow.names
            self.n_rows = file.metadata.num_rows

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        try:
            # read ahead one megabyte per column, not (as is the default) the whole file
            with pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=2**20) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=list(dict.fromkeys(names))):
                    yield [batch.column(name) for name in names]
        except (OSError, pa.ArrowException) as error:
            raise DataError(_broken(self.path, error)) from error


class ArrayReader:
    """A 2-D array. Columns are x0, x1, ... by default."""

    text = TextFormat()

    def __init__(self, array: np.ndarray, names: Sequence[str] | None) -> None:
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise DataError(f"a 2-D array of numbers is needed; got {array.dtype}, {array.shape}")
        self.array = array
        self.n_rows: int | None = len(array)
        self.names = [str(name) for name in names or (f"x{j}" for j in range(array.shape[1]))]
        if len(self.names) != array.shape[1]:
            raise DataError(f"{array.shape[1]} column names are needed; got {len(self.names)}")

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        places = {name: j for j, name in enumerate(self.names)}
        where = [places[name] for name in names]
        for start in range(0, len(self.array), BATCH_ROWS):
            block = np.asarray(self.array[start : start + BATCH_ROWS])
            yield [block[:, j] for j in where]


class NumpyReader(ArrayReader):
    """NPY: its array. NPZ: the array named X, or the only one.

    An NPZ file may name its columns in an array of strings called "columns".
    """

    def __init__(self, path: Path) -> None:
        names = None
        if path.suffix == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with np.load(path, allow_pickle=False) as arrays:
                keys = [key for key in arrays if key != "columns"]
                if "X" not in keys and len(keys) != 1:
                    raise ValueError(f"an array named X is needed; there are {keys}")
                array = arrays["X" if "X" in keys else keys[0]]
                names = _names(arrays["columns"]) if "columns" in arrays else None
        super().__init__(array, names)


def _names(array: np.ndarray) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise ValueError(
            f"columns must be a 1-D array of strings; got {array.dtype}, {array.shape}"
        )
    return [str(name) for name in array.astype(str).tolist()]


READERS: dict[str, Any] = {
    ".csv": CsvReader,
    ".parquet": ParquetReader,
    ".npy": NumpyReader,
    ".npz": NumpyReader,
}


def _broken(path: Path, error: Exception) -> str:
    reason = " ".join(str(error).split())[:200]
    kind = path.suffix[1:].upper()
    return f"{path} cannot be read as {kind}: {reason or type(error).__name__}"
