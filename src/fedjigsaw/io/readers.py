"""Readers of files by format: names of columns, and columns in batches."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fedjigsaw.columns.text import TextFormat
from fedjigsaw.errors import DataError, broken, unreadable, unsupported
from fedjigsaw.io.excel import ExcelReader
from fedjigsaw.io.npz import PackedArrays
from fedjigsaw.io.regular import check_regular, ending
from fedjigsaw.io.text_files import TextReader

BATCH_ROWS = 65_536
MAX_COLUMNS = 2**20  # of an array: a header of a few bytes can claim any number
# what a reader raises if a file is not what the ending of its name says
BROKEN = (OSError, ValueError, EOFError, MemoryError, pa.ArrowException, zipfile.BadZipFile)


class Reader(Protocol):
    """One file format: names of its columns, number of rows if known, columns batch by batch."""

    names: list[str]
    n_rows: int | None
    text: TextFormat  # how numbers are written, where they are texts
    told: str  # what was detected, in words, if anything
    hint: str  # what seems to be wrong with the file, in case that it cannot be used

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]: ...


def open_reader(path: Path) -> Reader:
    """Open a file by the ending of its name."""
    check_regular(path)
    kind = ending(path)
    if kind not in READERS:
        raise DataError(unsupported(f"read {path}", kind, READERS))
    try:
        reader: Reader | None = READERS[kind](path) if path.stat().st_size else None
    except DataError:
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise DataError(unreadable(path, error)) from error
    except BROKEN as error:
        raise DataError(broken(path, kind, error)) from error
    if reader is None:
        raise DataError(f"{path} is empty.")
    return reader


def as_arrow(values: pa.Array | np.ndarray) -> pa.Array:
    """Return a column as readers yield it, which may be one of NumPy, as a column of Arrow."""
    return pa.array(values) if isinstance(values, np.ndarray) else values


class ParquetReader:
    """Parquet, streamed by row group; only the selected columns are read."""

    text = TextFormat()
    told = hint = ""

    def __init__(self, path: Path) -> None:
        from pyarrow.parquet import ParquetFile

        self.path = path
        with ParquetFile(path) as file:
            self.names = file.schema_arrow.names
            self.n_rows = file.metadata.num_rows

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        from pyarrow.parquet import ParquetFile

        try:
            # read ahead one megabyte per column, not (as is the default) the whole file
            with ParquetFile(self.path, pre_buffer=False, buffer_size=2**20) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=list(dict.fromkeys(names))):
                    yield [batch.column(name) for name in names]
        except (OSError, pa.ArrowException) as error:
            raise DataError(broken(self.path, ".parquet", error)) from error


class ArrayReader:
    """A 2-D array. Columns are x0, x1, ... by default."""

    text = TextFormat()
    told = hint = ""

    def __init__(self, array: np.ndarray, names: Sequence[str] | None) -> None:
        _check_numbers(array.dtype, array.shape)
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
        try:
            array, names = _load(path)
        except (OSError, ValueError):
            raise
        except Exception as error:  # neither NumPy nor zipfile promise a kind for broken files
            raise ValueError(str(error)) from error
        try:
            super().__init__(array, names)
        except DataError as error:
            raise ValueError(str(error)) from error


def _load(path: Path) -> tuple[np.ndarray, list[str] | None]:
    if ending(path) == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False), None
    with PackedArrays(path) as arrays:
        keys = [key for key in arrays.parts if key != "columns"]
        if "X" not in keys and len(keys) != 1:
            raise ValueError(f"an array named X is needed; there are {keys}")
        key = "X" if "X" in keys else keys[0]
        _check_numbers(*arrays.kind(key))  # before it is unpacked
        return arrays.read(key), _names(arrays) if "columns" in arrays.parts else None


def _check_numbers(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise DataError(f"a 2-D array of numbers is needed; got {dtype}, {shape}")
    if shape[1] > MAX_COLUMNS:
        raise DataError(f"it has {shape[1]:,} columns, more than {MAX_COLUMNS:,}")


def _names(arrays: PackedArrays) -> list[str]:
    dtype, shape = arrays.kind("columns")
    if len(shape) != 1 or dtype.kind not in "US":
        raise ValueError(f"columns must be a 1-D array of strings; got {dtype}, {shape}")
    return [str(name) for name in arrays.read("columns").astype(str).tolist()]


READERS: dict[str, Any] = {
    **{f".{kind}{packed}": TextReader for kind in ("csv", "tsv", "txt") for packed in ("", ".gz")},
    ".xlsx": ExcelReader,
    ".parquet": ParquetReader,
    ".npy": NumpyReader,
    ".npz": NumpyReader,
}
