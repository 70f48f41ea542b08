"""Readers of files by format: names of columns, and columns in batches."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.text import TextFormat, is_text
from fedjigsaw.errors import DataError, about, broken, unreadable, unsupported
from fedjigsaw.io.excel import ExcelReader
from fedjigsaw.io.regular import check_regular, ending
from fedjigsaw.io.text_files import TextReader

BATCH_ROWS = 65_536
# Row groups of more bytes than this, and of more than so many times those of the file, are refused.
MAX_BYTES, MAX_RATIO = 2**28, 300
MAX_TEXTS = 2**27  # bytes of the texts in a batch of Parquet
LISTS = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}  # how Parquet stores each text once
DELTAS = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}  # ways beside that Arrow cannot keep so
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


def open_reader(path: Path, decimal: str | None = None) -> Reader:
    """Open a file by the ending of its name; its decimal sign is found out if it is None."""
    kind = ending(path)
    with about(file=path):
        check_regular(path)
        if kind not in READERS:
            raise DataError(unsupported(f"read {path}", kind, READERS))
        make = READERS[kind]
        given = {"decimal": decimal} if make in (TextReader, ExcelReader) else {}
        try:
            if not path.stat().st_size:
                raise DataError(f"{path} is empty.")
            reader: Reader = make(path, **given)
            return reader
        except DataError:
            raise
        except (FileNotFoundError, PermissionError) as error:
            raise DataError(unreadable(path, error)) from error
        except BROKEN as error:
            raise DataError(broken(path, kind, error)) from error


def as_arrow(values: pa.Array | np.ndarray) -> pa.Array:
    """Return a column as readers yield it, which may be one of NumPy, as a column of Arrow."""
    return pa.array(values) if isinstance(values, np.ndarray) else values


class ParquetReader:
    """Parquet, streamed by row group; only the selected columns are read."""

    text = TextFormat()
    told = hint = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_parquet(path) as file:
            self.names = file.names
            self.n_rows = file.content.metadata.num_rows

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        with open_parquet(self.path) as file:
            yield from file.batches(names)


@dataclass(frozen=True)
class ParquetContent:
    """An open Parquet file, in batches whose texts fit into memory.

    A text that is the same in many rows is stored once, so that a file of a kilobyte can hold
    gigabytes of texts. Where that may be, texts are read as places in a list of different ones, and
    only as many rows at a time are made of them as fit. Others are read as they are: lists of texts
    that do not repeat, such as ids, take several times as long.

    Attributes
    ----------
    content : the file.
    names : of its columns.
    listed : columns of texts that are stored as such a list, and their types.
    lists : the file once more, with these columns as lists.
    """

    content: Any
    names: list[str]
    listed: Mapping[str, pa.DataType]
    lists: Any

    def batches(
        self, names: Sequence[str], groups: Sequence[int] | None = None
    ) -> Iterator[list[Any]]:
        """Yield some columns, from all row groups or from some."""
        wanted = list(dict.fromkeys(names))
        groups = range(self.content.num_row_groups) if groups is None else groups
        listed = [name for name in wanted if name in self.listed]
        grows = self._most_bytes(listed, groups) > MAX_TEXTS
        file = self.lists if grows else self.content
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=wanted):
            for part in _that_fit(batch):
                columns = dict(zip(wanted, part.columns, strict=True))
                for name in listed if grows else ():
                    columns[name] = columns[name].cast(self.listed[name])
                yield [columns[name] for name in names]

    def _most_bytes(self, listed: Sequence[str], groups: Sequence[int]) -> int:
        """Return how many bytes a batch would have if all its texts were the longest of a list."""
        longest, n_rows = 0, 0
        for group in groups if listed else ():
            n_rows += self.content.metadata.row_group(group).num_rows
            # a row group has one list for each column, which comes with its first row
            first = next(self.lists.iter_batches(1, row_groups=[group], columns=listed), None)
            longest = max(longest, sum(map(_longest, first.columns)) if first is not None else 0)
        return longest * min(n_rows, BATCH_ROWS)


@contextmanager
def open_parquet(path: Path) -> Iterator[ParquetContent]:
    """Open a Parquet file; one that cannot be read, or would fill the memory, is a DataError."""
    from pyarrow.parquet import ParquetFile

    # read ahead one megabyte per column, not (as is the default) the whole file
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**20}
    try:
        with ExitStack() as stack:
            file = stack.enter_context(ParquetFile(path, **options))
            _check_groups(path, file.metadata)
            lists, listed = file, _listed(file.schema_arrow, file.metadata)
            if listed:
                options |= {"metadata": file.metadata, "read_dictionary": list(listed)}
                lists = stack.enter_context(ParquetFile(path, **options))
            yield ParquetContent(file, file.schema_arrow.names, listed, lists)
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, pa.ArrowException) as error:
        raise DataError(broken(path, ".parquet", error), file=path) from error


def _check_groups(path: Path, about: Any) -> None:
    """Raise if a row group needs far more memory than the file."""
    most = max(MAX_BYTES, MAX_RATIO * path.stat().st_size)
    for i in range(about.num_row_groups):
        if (needed := about.row_group(i).total_byte_size) > most:
            raise DataError(
                f"{path} cannot be read: a row group needs {needed:,} bytes, over {MAX_RATIO} "
                "times what the file has. If you trust it, save it without compression."
            )


def _listed(schema: Any, about: Any) -> dict[str, pa.DataType]:
    """Return the columns of texts that are stored as a list of different ones in every group."""
    texts = {field.name: field.type for field in schema if is_text(field.type)}
    n_columns = about.num_columns if texts else 0
    places = {about.schema.column(j).path: j for j in range(n_columns)}
    for group in map(about.row_group, range(about.num_row_groups)):
        for name in list(texts):
            encodings = group.column(places[name]).encodings
            if not LISTS.intersection(encodings) or DELTAS.intersection(encodings):
                del texts[name]
    return texts


def _that_fit(batch: Any) -> Iterator[Any]:
    """Split a batch into parts whose texts fit into memory."""
    if len(batch) > 1 and sum(map(_text_bytes, batch.columns)) > MAX_TEXTS:
        middle = len(batch) // 2
        yield from _that_fit(batch.slice(0, middle))
        yield from _that_fit(batch.slice(middle))
    else:
        yield batch


def _longest(values: Any) -> int:
    """Return the bytes of the longest text in the list of a column."""
    return pc.max(pc.binary_length(values.dictionary)).as_py() or 0


def _text_bytes(values: Any) -> int:
    """Return how many bytes a column of texts will have, with the text of each row in it."""
    if not pa.types.is_dictionary(values.type) or not is_text(values.type.value_type):
        return 0
    lengths = pc.binary_length(values.dictionary)
    return pc.sum(pc.take(lengths, values.indices)).as_py() or 0


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
    """NPY: its array."""

    def __init__(self, path: Path) -> None:
        try:
            super().__init__(np.load(path, mmap_mode="r", allow_pickle=False), None)
        except OSError:
            raise
        except Exception as error:  # NumPy promises no kind for broken files
            raise ValueError(str(error)) from error


def _check_numbers(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or dtype.kind not in "biuf":
        raise DataError(f"a 2-D array of numbers is needed; got {dtype}, {shape}")
    if shape[1] > MAX_COLUMNS:
        raise DataError(f"it has {shape[1]:,} columns, more than {MAX_COLUMNS:,}")


READERS: dict[str, Any] = {
    **{f".{kind}{packed}": TextReader for kind in ("csv", "tsv", "txt") for packed in ("", ".gz")},
    ".xlsx": ExcelReader,
    ".parquet": ParquetReader,
    ".npy": NumpyReader,
}
