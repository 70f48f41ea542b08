"""A site's own data: CSV, Parquet, NPY and NPZ files, read in batches of bounded memory.

Columns are selected by name and returned in the order of the selection, whatever their order in the
file. A value that is not a finite number is an error that names its column, row and value; rows are
counted from 1, without the header.
"""

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw._typing import Floats, Ints
from fedjigsaw._validation import MAX_MAGNITUDE
from fedjigsaw.errors import DataError, invalid, unreadable

BATCH_ROWS = 65_536
# what a reader raises if a file is not what the ending of its name says
BROKEN = (OSError, ValueError, EOFError, MemoryError, pa.ArrowException, zipfile.BadZipFile)


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes
    ----------
    rows : shape (n_kept, d), the rows without missing values.
    kept : shape (n,), which of the n rows of the batch these are.
    ids : the id column of all n rows, or None.
    """

    rows: Floats
    kept: npt.NDArray[np.bool_]
    ids: pa.Array | None


class Reader(Protocol):
    """One file format: names of its columns, number of rows if known, columns batch by batch."""

    names: list[str]
    n_rows: int | None

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]: ...


@dataclass(frozen=True)
class Table:
    """An open file of rows, with a selection of its columns."""

    path: Path
    columns: tuple[str, ...]
    reader: Reader
    id_column: str | None = None
    drop_missing: bool = False

    @property
    def n_rows(self) -> int | None:
        """Number of rows in the file, or None if the format does not tell without reading it."""
        return self.reader.n_rows

    def select(
        self,
        columns: Sequence[str] | None = None,
        *,
        id_column: str | None = None,
        drop_missing: bool = False,
    ) -> Self:
        """Return the same file with other columns, as :func:`open_table` would."""
        id_column = id_column or self.id_column
        drop_missing = drop_missing or self.drop_missing
        if columns is None:
            columns = [name for name in self.columns if name != id_column]
        wanted = tuple(columns)
        self._check_columns([*wanted, id_column] if id_column else wanted)
        if not wanted or len(set(wanted)) < len(wanted):
            raise DataError(invalid("columns", str(self.path), "at least one, each once", wanted))
        return replace(self, columns=wanted, id_column=id_column, drop_missing=drop_missing)

    def _check_columns(self, columns: Sequence[str]) -> None:
        names = self.reader.names
        unknown = [name for name in columns if name not in names]
        if unknown:
            allowed = "among " + ", ".join(map(repr, names[:20]))
            got = ", ".join(map(repr, unknown))
            raise DataError(invalid("columns", str(self.path), allowed, got))

    def batches(self) -> Iterator[Batch]:
        """Yield all rows in the order of the file; a value that is not a number is an error."""
        wanted = [*self.columns, self.id_column] if self.id_column else list(self.columns)
        start = 0
        for values in self.reader.batches(wanted):
            rows = self._numbers(values[: len(self.columns)], start)
            kept: npt.NDArray[np.bool_] = np.logical_not(np.isnan(rows).any(axis=1))
            if not kept.all() and not self.drop_missing:
                raise DataError(self._missing())
            ids = values[-1] if self.id_column else None
            yield Batch(rows[kept], kept, ids)
            start += len(rows)
        if not start:
            raise DataError(f"{self.path} has no rows.")

    def read(
        self,
        *,
        max_rows: int,
        rng: np.random.Generator,
        progress: Callable[[int], object] = lambda n_rows: None,
    ) -> tuple[Floats, int]:
        """Read all rows without missing values, or a uniform random sample of `max_rows` of them.

        Returns
        -------
        The rows, and the number of rows without missing values in the file.
        """
        blocks, n_seen = [], 0
        keys: list[Floats] = []
        for batch in self.batches():
            blocks.append(batch.rows)
            keys.append(rng.random(len(batch.rows)))
            n_seen += len(batch.rows)
            progress(len(batch.kept))
            if sum(map(len, blocks)) > 2 * max_rows:  # keep those with the smallest keys
                blocks, keys = _smallest(blocks, keys, max_rows)
        if n_seen > max_rows:
            blocks, keys = _smallest(blocks, keys, max_rows)
        if not n_seen:
            raise DataError(f"{self.path} has no row without missing values.")
        return np.concatenate(blocks), n_seen

    def _numbers(self, columns: Sequence[Any], start: int) -> Floats:
        rows = np.empty((len(columns[0]), len(columns)))
        for j, (name, values) in enumerate(zip(self.columns, columns, strict=True)):
            rows[:, j] = self._column(name, values, start)
        return rows

    def _column(self, name: str, values: Any, start: int) -> Floats:
        numbers = values.astype(np.float64) if isinstance(values, np.ndarray) else _cast(values)
        if numbers is None:
            row, value = _first_text(values)
            raise DataError(self._refused(name, start + row, repr(value)))
        too_large = np.flatnonzero(np.abs(numbers) > MAX_MAGNITUDE)
        if len(too_large):
            row = int(too_large[0])
            raise DataError(self._refused(name, start + row, f"{numbers[row]:g}"))
        return numbers

    def _refused(self, name: str, row: int, value: str) -> str:
        where = f"column {name!r} of {self.path}"
        return invalid(
            "values",
            where,
            "finite numbers",
            f"{value} in row {row + 1}",
            "Correct it, or choose the columns to use with --columns.",
        )

    def _missing(self) -> str:
        """Count the missing values of each column for an error; this reads the file again."""
        counts = np.zeros(len(self.columns), dtype=np.int64)
        start = 0
        for values in self.reader.batches(self.columns):
            rows = self._numbers(values, start)
            counts += np.isnan(rows).sum(axis=0)
            start += len(rows)
        found = ", ".join(
            f"{n} in {name!r}" for name, n in zip(self.columns, counts, strict=True) if n
        )
        advice = "Skip these rows with --drop-missing, or fill in the values first."
        return f"{self.path} has missing values: {found}. {advice}"


def open_table(
    path: Path | str,
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    drop_missing: bool = False,
) -> Table:
    """Open a file by the ending of its name: .csv, .parquet, .npy or .npz.

    Parameters
    ----------
    columns : names of the columns to read, in this order; None selects all but the id column.
    id_column : a column to carry along unchanged; it need not be numeric.
    drop_missing : skip rows with missing values instead of raising an error.
    """
    path = Path(path)
    reader = _open_reader(path)
    _check_names(path, reader.names)
    table = Table(path, tuple(reader.names), reader)
    return table.select(columns, id_column=id_column, drop_missing=drop_missing)


def from_array(rows: Any, columns: Sequence[str] | None = None) -> Table:
    """Make a table from rows in memory; its columns are x0, x1, ... by default.

    Examples
    --------
    >>> from_array([[1.0, 2.0]]).columns
    ('x0', 'x1')
    """
    reader = ArrayReader(np.asarray(rows), columns)
    return Table(Path("an array"), tuple(reader.names), reader)


# --------------------------------------------------------------------------------------- readers


class CsvReader:
    """CSV with commas, semicolons or tabs: whichever the header has most of."""

    n_rows = None

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

    def __init__(self, array: np.ndarray, names: Sequence[str] | None) -> None:
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise DataError(f"a 2-D array of numbers is needed; got {array.dtype}, {array.shape}")
        self.array = array
        self.n_rows: int | None = len(array)
        self.names = [str(name) for name in names or (f"x{j}" for j in range(array.shape[1]))]
        if len(self.names) != array.shape[1]:
            raise DataError(f"{array.shape[1]} column names are needed; got {len(self.names)}")

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        where = [self.names.index(name) for name in names]
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
                names = arrays["columns"].tolist() if "columns" in arrays else None
        super().__init__(array, names)


MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "n/a"]

READERS: dict[str, Any] = {
    ".csv": CsvReader,
    ".parquet": ParquetReader,
    ".npy": NumpyReader,
    ".npz": NumpyReader,
}


# ----------------------------------------------------------------------------------------- parts


def _open_reader(path: Path) -> Reader:
    if path.suffix not in READERS:
        allowed = "one of " + ", ".join(READERS)
        raise DataError(invalid("ending", str(path), allowed, repr(path.suffix)))
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file.")
    try:
        reader: Reader | None = READERS[path.suffix](path) if path.stat().st_size else None
    except (FileNotFoundError, PermissionError) as error:
        raise DataError(unreadable(path, error)) from error
    except BROKEN as error:
        raise DataError(_broken(path, error)) from error
    if reader is None:
        raise DataError(f"{path} is empty.")
    return reader


def _check_names(path: Path, names: Sequence[str]) -> None:
    unprintable = [name for name in names if not name.isprintable()]
    if unprintable:
        allowed = "named in printable characters"
        raise DataError(invalid("columns", str(path), allowed, unprintable[:5]))
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path} has several columns named {', '.join(map(repr, repeated))}.")


def _cast(values: pa.Array) -> Floats | None:
    """Cast to numbers, with NaN for missing values; None if a value is not a number."""
    try:
        values = _plain(values)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = pc.utf8_trim_whitespace(values)
            missing = pc.is_in(values, value_set=pa.array(MISSING, values.type))
            values = pc.if_else(missing, pa.scalar(None, values.type), values)
        elif not (
            pa.types.is_integer(values.type)
            or pa.types.is_floating(values.type)
            or pa.types.is_boolean(values.type)
            or pa.types.is_decimal(values.type)
            or pa.types.is_null(values.type)
        ):
            return None
        cast = pc.cast(values, pa.float64(), safe=False)
    except pa.ArrowException:
        return None
    numbers: Floats = cast.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _plain(values: pa.Array) -> pa.Array:
    """Replace indices into a dictionary by their values."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _first_text(values: pa.Array) -> tuple[int, object]:
    """Find the first value that is not a number, for the error message."""
    row = next(i for i in range(len(values)) if _cast(values[i : i + 1]) is None)
    return row, _plain(values)[row].as_py()


def _smallest(
    blocks: list[Floats], keys: list[Floats], n: int
) -> tuple[list[Floats], list[Floats]]:
    """Keep the n rows with the smallest keys, in the order of the file."""
    rows, order = np.concatenate(blocks), np.concatenate(keys)
    chosen: Ints = np.sort(np.argpartition(order, n - 1)[:n])
    return [rows[chosen]], [order[chosen]]


def _broken(path: Path, error: Exception) -> str:
    reason = " ".join(str(error).split())[:200]
    kind = path.suffix[1:].upper()
    return f"{path} cannot be read as {kind}: {reason or type(error).__name__}"
