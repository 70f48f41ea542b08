"""A site's own data: CSV, Excel, Parquet and NPY files, read in batches of bounded memory.

Columns are selected by name and returned in the order of the selection, whatever their order in the
file. A value that is not a finite number is an error that names its column, row and value; rows are
counted from 1, without the header.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.errors import (
    DataError,
    DataTypeError,
    DataWarning,
    ParameterError,
    error_at,
    invalid,
    quote_names,
    warn,
)
from fedjigsaw.io.encoded import EncodedReader
from fedjigsaw.io.identifiers import find_not_measured
from fedjigsaw.io.numeric import Numbers, are_small
from fedjigsaw.io.readers import ArrayReader, Reader, open_reader
from fedjigsaw.io.renamed import RenamedReader, other_forms
from fedjigsaw.validation import column_names, repeated

Names = str | Sequence[str] | None  # one name, several, or none


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes
    ----------
    rows : shape (n_kept, d), the rows without missing values.
    kept : shape (n,), which of the n rows of the batch these are.
    ids : the id columns of all n rows.
    """

    rows: Floats
    kept: npt.NDArray[np.bool_]
    ids: tuple[pa.Array, ...]


@dataclass
class Tally:
    """How many rows the latest reading of a file has seen, and skipped for missing values."""

    rows: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Table:
    """An open file of rows, with a selection of its columns.

    :func:`open_table` and :func:`from_array` make one. All selections of one file share one tally.

    Attributes
    ----------
    path : the file; "an array" for rows in memory.
    columns : names of the columns that are read, in their order.
    reader : reads the file in batches.
    id_columns : columns that are carried along unchanged.
    drop_missing : whether rows with missing values are skipped; otherwise they are a DataError.
    left_out : columns that were left out since they look like identifiers.
    tally : how many rows the latest reading has seen, and skipped.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> table = from_array([[30.0, 1.5], [40.0, 2.5]], ["age", "dose"]).select(["dose"])
    >>> table.n_rows, [batch.rows.tolist() for batch in table.batches()]
    (2, [[[1.5], [2.5]]])
    """

    path: Path
    columns: tuple[str, ...]
    reader: Reader
    id_columns: tuple[str, ...] = ()
    drop_missing: bool = False
    left_out: tuple[str, ...] = ()
    tally: Tally = field(default_factory=Tally, compare=False, repr=False)

    @property
    def n_rows(self) -> int | None:
        """Number of rows in the file, or None if the format does not tell without reading it."""
        return self.reader.n_rows

    def select(
        self,
        columns: Sequence[str] | None = None,
        *,
        id_column: Names = None,
        drop_missing: bool = False,
    ) -> Self:
        """Return the same file with other columns, as :func:`open_table` would."""
        id_columns = as_names(id_column) or self.id_columns
        drop_missing = drop_missing or self.drop_missing
        left_out = self.left_out if columns is None else ()
        if columns is None:
            columns = [name for name in self.columns if name not in id_columns]
        wanted = tuple(columns)
        self._check_columns([*wanted, *id_columns])
        if not wanted:
            raise DataError("No columns selected.")
        for name in repeated(wanted):
            raise DataError(f"Column {name!r} is selected twice.", column=name)
        for name in repeated(id_columns):
            raise DataError(f"The id column {name!r} is given twice.", column=name)
        return replace(
            self,
            columns=wanted,
            id_columns=id_columns,
            drop_missing=drop_missing,
            left_out=left_out,
        )

    def without_identifiers(self, id_columns: Sequence[str] = ()) -> Self:
        """Return the same file without columns that look like identifiers; warn if there are some.

        Columns that look like codes stay, with a warning. Id columns are carried along and not
        used, so that they are no reason to warn.
        """
        names = [name for name in self.columns if name not in id_columns]
        found, codes = find_not_measured(self.reader, names)
        if codes:
            warn(
                f"{self.path}: {quote_names(codes)} {'seem' if codes[1:] else 'seems'} to hold "
                "codes, such as postcodes or account numbers, which count as numbers here. Name "
                "the columns to use, or make a schema (`fedjigsaw schema init`).",
                DataWarning,
                parameter="columns",
            )
        if not found:
            return self
        are = "look like identifiers and are" if found[1:] else "looks like an identifier and is"
        warn(
            f"{self.path}: {quote_names(found)} {are} left out. To choose for yourself, "
            "name the columns to use.",
            DataWarning,
            parameter="columns",
        )
        kept = tuple(name for name in self.columns if name not in found)
        return replace(self, columns=kept, left_out=tuple(found))

    def check_named(self) -> None:
        """Raise if columns were left out for their values: under privacy, values decide nothing."""
        if self.left_out:
            raise DataError(
                f"{self.path} has columns that look like identifiers. Under differential privacy, "
                "values must not decide which columns are used: name them.",
                file=self.path,
                parameter="columns",
            )

    def called(self, names: Sequence[str]) -> Self:
        """Return the same file with its columns called as here, however letters are composed."""
        forms = other_forms(self.reader.names, names)
        if not forms:
            return self
        columns = tuple(forms.get(name, name) for name in self.columns)
        return replace(self, columns=columns, reader=RenamedReader(self.reader, forms))

    def encoded(self, encoding: Encoding) -> Self:
        """Return the same file, with the features of an encoding as its columns."""
        raw = self.reader.reader if isinstance(self.reader, EncodedReader) else self.reader
        raw = replace(self, reader=raw).called(encoding.sources).reader
        reader = EncodedReader(self.path, raw, encoding)
        return replace(self, columns=encoding.features, reader=reader)

    def without_blank_rows(self) -> Self:
        """Return the same file; if it is encoded, without rows that have no value in any column.

        Without an encoding, a row with a missing value is skipped, or an error, in any case.
        """
        if not isinstance(self.reader, EncodedReader):
            return self
        raw, encoding = self.reader.reader, self.reader.encoding
        reader = EncodedReader(self.path, raw, encoding, skip_blank=True)
        return replace(self, reader=reader)

    def _check_columns(self, columns: Sequence[str]) -> None:
        names = self.reader.names
        known = set(names)
        unknown = [name for name in columns if name not in known]
        if unknown:
            if isinstance(self.reader, EncodedReader):
                names = self.reader.reader.names  # features are not in the file
            raise DataError(
                f"{self.path} has no column {quote_names(unknown)}. It has {quote_names(names)}.",
                file=self.path,
                column=unknown[0],
            )

    def batches(self) -> Iterator[Batch]:
        """Yield all rows in the order of the file; a value that is not a number is an error.

        The tally counts the rows anew.
        """
        numbers, n_columns, start = Numbers(self.path, self.reader), len(self.columns), 0
        self.tally.rows = self.tally.skipped = 0
        for values in self.reader.batches([*self.columns, *self.id_columns]):
            rows = numbers.rows(self.columns, values[:n_columns], start)
            kept: npt.NDArray[np.bool_] = np.ones(len(rows), dtype=np.bool_)
            if not are_small(rows.ravel()):
                np.logical_not(np.isnan(rows).any(axis=1), out=kept)
            whole = bool(kept.all())
            if not whole and not self.drop_missing:
                advice = "Skip these rows, or fill in the values first."
                raise self._missing("has missing values", advice, "drop_missing")
            start += len(rows)
            self.tally.rows = start
            self.tally.skipped += len(rows) - int(kept.sum())
            yield Batch(rows if whole else rows[kept], kept, tuple(values[n_columns:]))
        if not start:
            raise self.no_rows()

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
        self.check_complete()
        pa.default_memory_pool().release_unused()  # what was needed to read is needed no more
        return _join(blocks), n_seen

    def check_complete(self) -> None:
        """Raise if the latest reading has skipped all rows."""
        if self.tally.skipped == self.tally.rows:
            advice = "Fill them in, or leave out a column that is empty."
            raise self._missing("has no row without missing values", advice, "columns")

    def no_rows(self) -> DataError:
        """Return the error that a file without rows is."""
        return error_at(self.path, f" has no rows. {self.reader.hint}".rstrip())

    def _missing(self, what: str, advice: str, parameter: str) -> DataError:
        """Return an error that counts the missing values of columns; this reads the file again."""
        counts = np.zeros(len(self.columns), dtype=np.int64)
        numbers, start = Numbers(self.path, self.reader), 0
        for values in self.reader.batches(self.columns):
            rows = numbers.rows(self.columns, values, start)
            counts += np.isnan(rows).sum(axis=0)
            start += len(rows)
        found = {name: n for name, n in zip(self.columns, counts, strict=True) if n}
        text = f"{what}: {', '.join(f'{n} in {name!r}' for name, n in found.items())}. {advice}"
        text, column = f"{self.path} {text}", next(iter(found))
        return DataError(text, parameter=parameter, file=self.path, column=column)


def open_file(path: Path | str, decimal: str | None = None) -> Table:
    """Open a file with all of its columns, also those that look like identifiers."""
    if decimal not in (None, ".", ","):
        raise ParameterError(invalid("decimal", "a table", '"." or ","', repr(decimal)))
    if not isinstance(path, str | os.PathLike):
        raise DataTypeError(
            f"The path of a file is needed; got an object of type {type(path).__name__}. For rows "
            "in memory, use fedjigsaw.io.tables.from_array."
        )
    path = Path(path)
    reader = open_reader(path, decimal)
    check_names(path, reader.names)
    return Table(path, tuple(reader.names), reader)


def open_table(
    path: Path | str,
    *,
    columns: Sequence[str] | None = None,
    id_column: Names = None,
    drop_missing: bool = False,
    encoding: Encoding | None = None,
    decimal: str | None = None,
) -> Table:
    """Open a file by the ending of its name: .csv, .xlsx, .parquet, .npy, ...

    Parameters
    ----------
    path : the file. It is read only when rows are asked for, but for its names of columns.
    columns : names of the columns to read, in this order; None selects all but the id columns and
        those that look like identifiers, with a DataWarning, also about codes.
    id_column : one or more columns to carry along unchanged; they need not be numeric.
    drop_missing : skip rows with missing values instead of raising an error.
    encoding : how the columns of the file become columns of numbers; None takes them as they are.
    decimal : the decimal sign of a file of text, "." or ","; None detects it.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If the file cannot be read, is of an unknown kind, lacks a column, or has numbers such as
        7.470 that can be read in two ways.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedjigsaw.io.tables import open_table
    >>> path = Path(tempfile.mkdtemp(), "bern.csv")
    >>> _ = path.write_text("name;age\\nA;30,5\\nB;31\\n")
    >>> table = open_table(path, columns=["age"], id_column="name")
    >>> [(batch.rows.tolist(), batch.ids[0].to_pylist()) for batch in table.batches()]
    [([[30.5], [31.0]], ['A', 'B'])]
    """
    columns = None if columns is None else tuple(columns)  # an Index has no truth value
    table = open_file(path, decimal).called([*(columns or ()), *as_names(id_column)])
    if encoding is not None:
        table = table.encoded(encoding)
        columns = encoding.features if columns is None else columns
    elif columns is None:
        table = table.without_identifiers(as_names(id_column))
    return table.select(columns, id_column=id_column, drop_missing=drop_missing)


def from_array(rows: Any, columns: Sequence[str] | None = None) -> Table:
    """Make a table from rows in memory, for functions that read files.

    Parameters
    ----------
    rows : array or data frame of numbers, of shape (n_samples, n_features).
    columns : names of the columns; None takes those of a data frame, and x0, x1, ... of an array.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        If rows are not a 2-D array of numbers, or there is not one name for each column.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from_array([[1.0, 2.0]]).columns
    ('x0', 'x1')
    """
    names = column_names(rows) if columns is None else list(columns)  # an Index has no truth value
    reader = ArrayReader(np.asarray(rows), names)
    return Table(Path("an array"), tuple(reader.names), reader)


def as_names(names: Names) -> tuple[str, ...]:
    """Return names as a tuple.

    Examples
    --------
    >>> as_names("patient"), as_names(["patient", "visit"]), as_names(None)
    (('patient',), ('patient', 'visit'), ())
    """
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


# ----------------------------------------------------------------------------------------- parts


def check_names(path: Path, names: Sequence[str]) -> None:
    unprintable = [name for name in names if not name.isprintable()]
    if unprintable:
        allowed = "named in printable characters"
        raise DataError(invalid("columns", str(path), allowed, unprintable[:5]), file=path)
    twice = sorted(repeated(names))[:5]
    if twice:
        raise DataError(
            f"{path} has several columns named {quote_names(twice)}. Rename all but one of each in "
            "the file.",
            file=path,
            column=twice[0],
        )


def _join(blocks: list[Floats]) -> Floats:
    """Concatenate blocks and free each on the way: large data are never there twice."""
    rows = np.empty((sum(map(len, blocks)), blocks[0].shape[1]))
    end = len(rows)
    while blocks:
        block = blocks.pop()
        rows[end - len(block) : end] = block
        end -= len(block)
    return rows


def _smallest(
    blocks: list[Floats], keys: list[Floats], n: int
) -> tuple[list[Floats], list[Floats]]:
    """Keep the n rows with the smallest keys, in the order of the file."""
    rows, order = np.concatenate(blocks), np.concatenate(keys)
    chosen: Ints = np.sort(np.argpartition(order, n - 1)[:n])
    return [rows[chosen]], [order[chosen]]
