"""Excel files (.xlsx), with the extra "excel": the first visible sheet, row by row, as texts."""

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fedjigsaw.errors import (
    DataError,
    DataWarning,
    ExtraError,
    broken,
    counted,
    error_at,
    quote_names,
    requires_extra,
    warn,
)
from fedjigsaw.io.detection import Found, find_text_format, in_words
from fedjigsaw.io.headers import MAX_TITLE, Title, check_header, find_title, name_columns
from fedjigsaw.io.last_rows import check_last

BATCH, SAMPLE = 4096, 2048  # rows
PROLOG = 2**16  # bytes
MAX_PART, MAX_TEXTS = 2**32, 2**28  # bytes of a sheet, which is streamed, and of what is not
MAX_TREE = 2**24  # bytes of what becomes a tree in memory, such as styles, and takes 25 times that
# Parts of more bytes than this, and of more than so many times their size in the file, are refused.
# Excel's sheets are packed to a tenth, or to a fiftieth if all cells are alike.
MAX_BYTES, MAX_RATIO = 2**26, 200
MAX_ROWS, MAX_COLUMNS, MAX_CELL = 2**20, 2**14, 2**15 - 1  # as in Excel
ERRORS = ("#N/A", "#DIV/0!", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#NAME?", "#GETTING_DATA")
EMPTY = frozenset(("", *ERRORS))
MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s+ref="(([A-Z]+)([0-9]+):([A-Z]+)([0-9]+))"')
HIDDEN = rb'\b(?=[^<>]*\bhidden="(?:1|true)")'
ROW = re.compile(rb"<(?:\w+:)?row" + HIDDEN + rb"[^<>]*>\s*<(?:\w+:)?c\b")  # with cells
ENDS = rb'(?=[^<>]*\bmin="(\d+)")(?=[^<>]*\bmax="(\d+)")'
COLUMN = re.compile(rb"<(?:\w+:)?col" + HIDDEN + ENDS)
MAX_MERGED = 2**16  # blocks of merged cells that are looked at
CHUNK, OVERLAP = 2**20, 2**9  # bytes of a sheet that are searched at once, and of a match
Row = tuple[Any, ...]


class ExcelReader:
    """The first visible sheet of an Excel file. Formulas have the values that Excel stored."""

    n_rows = None

    def __init__(self, path: Path, decimal: str | None = None) -> None:
        self.path, self.decimal = path, decimal
        with _broken_files(path):
            _check_parts(path)
        with self._sheet() as (sheet, told):
            rows = list(islice(_filled(sheet), SAMPLE + 1))
            self.merged, n_hidden, hidden = _looks(sheet)
        title = self._find_title(rows[:MAX_TITLE])
        title.refuse(path)
        self.hint = title.hint or (_other_sheets(told) if told else "")
        try:
            self._open_rows(rows, told)
        except DataError as error:
            raise DataError(f"{error} {self.hint}".rstrip(), **error.subject) from None
        columns = [name for j, name in enumerate(self.all_names) if name and j in hidden]
        what = counted(n_hidden, "row") if n_hidden else ""
        what += f"{', ' if what else ''}column {quote_names(columns)}" if columns else ""
        if what:
            warn(f"{path}: hidden cells are used like others: {what}.", DataWarning)

    def _open_rows(self, rows: list[Row], told: str) -> None:
        path = self.path
        if not rows:
            raise DataError(f"{path} is empty.")
        self.header = _trimmed(rows[0])
        self.width = len(self.header)
        self._check_merged_names(rows)
        cut = [self._cut(row, n) for n, row in enumerate(rows[1:])]
        sample = _columns(cut, range(self.width), ".")
        self.all_names = name_columns(path, [_text(cell, ".") for cell in self.header], sample)
        check_header(path, self.all_names, sample)
        self._check_formulas([j for j in range(self.width) if all(row[j] is None for row in cut)])
        found = self._find_format(cut)
        self.text, self.decided = found.text, found.decided
        if cut and len(rows) <= SAMPLE:
            self._check_last(cut)
        self.names = [name for name in self.all_names if name]
        self.told = ", ".join(filter(None, (told, in_words("utf-8", ",", found.text, found.guess))))

    def batches(self, names: Sequence[str]) -> Iterator[list[Any]]:
        where = [self.all_names.index(name) for name in names]
        below = self._first_row() + 1 if self.merged else 0
        n_rows, last, decided = 0, list[Row](), self.decided
        for rows in self._rows():
            if not decided:
                found = self._find_format(rows, n_rows)
                decided = found.decided
                if found.text.decimal != self.text.decimal:
                    raise DataError(
                        f"{self.path}: texts tell only below row {n_rows} that a comma is decimal. "
                        "Name the decimal sign.",
                        file=self.path,
                        parameter="decimal",
                    )
            self._check_merged(rows, below + n_rows, where)
            yield _columns(rows, where, self.text.decimal)
            n_rows += len(rows)
            last = [*last, *rows][-SAMPLE:]
        if n_rows >= SAMPLE:  # of fewer rows, all were seen when the file was opened
            self._check_last(last)

    def _rows(self) -> Iterator[list[Row]]:
        """Yield all rows below the names, some at a time."""
        with self._sheet() as (sheet, _):
            rows = islice(_filled(sheet), 1, None)
            n_rows = 0
            while batch := list(islice(rows, BATCH)):
                yield [self._cut(row, n_rows + n) for n, row in enumerate(batch)]
                n_rows += len(batch)

    def _find_format(self, rows: Sequence[Row], start: int = 0) -> Found:
        """Find how numbers are written, which cells of text alone tell; raise if it is in doubt."""
        texts = [tuple(cell if isinstance(cell, str) else None for cell in row) for row in rows]
        columns = _columns(texts, range(self.width), ".")
        # a sheet has no commas between columns, which would tell that a point is decimal
        found = find_text_format(self.path, self.all_names, columns, ";", start, self.decimal)
        found.check()
        return found

    def _check_last(self, rows: Sequence[Row]) -> None:
        texts = [[_text(cell, self.text.decimal) for cell in row] for row in rows]
        check_last(self.path, self.all_names, texts)

    def _find_title(self, rows: Sequence[Row]) -> Title:
        width = max((len(_trimmed(row)) for row in rows), default=0)
        cells = [[_text(cell, ".").strip() for cell in row[:width]] for row in rows]
        cells = [[*row, *[""] * (width - len(row))] for row in cells]  # empty ones may lack
        title = find_title(cells, 1, "row")
        return find_title(cells, self._first_row(), "row") if title.hint else title

    def _first_row(self) -> int:
        """Return the number of the first row that is not empty."""
        with self._sheet() as (sheet, _):
            rows = enumerate(sheet.iter_rows(values_only=True), start=1)
            return next(n for n, row in rows if any(cell is not None for cell in row))

    def _check_formulas(self, empty: Sequence[int]) -> None:
        """Raise if a column is empty because the program that wrote it computed no values."""
        if not empty:
            return
        with self._sheet(data_only=False) as (sheet, _):
            for row in islice(_filled(sheet), 1, SAMPLE):
                found = [j for j in empty if j < len(row) and _is_formula(row[j])]
                if found:
                    what = (
                        ", has formulas without saved values. Open the file in Excel or "
                        "LibreOffice, and save it."
                    )
                    raise error_at(self.path, what, column=self.all_names[found[0]])

    def _check_merged_names(self, rows: Sequence[Row]) -> None:
        """Raise if names are merged over several rows, or over columns that have values."""
        top = self._first_row() if self.merged else 0
        for block in self.merged:
            named = block.top == top and block.left < self.width
            where = slice(block.without_value.start, block.without_value.stop)
            if named and any(_trimmed(row[where]) for row in rows[1:]):
                raise DataError(
                    f"{self.path}: the cells {block.name} are merged, where the names of the "
                    "columns should be. Unmerge them in Excel or LibreOffice, write a name for "
                    "each column into one row, and delete other rows above the data."
                )

    def _check_merged(self, rows: Sequence[Row], first: int, where: Sequence[int]) -> None:
        """Raise if cells of these columns are merged: all but the first would be missing values.

        The number of the first of the rows is that of the sheet.
        """
        for block in self.merged:
            inside = first <= block.top < first + len(rows)
            empty = [j for j in where if j in block.without_value]
            if inside and empty and rows[block.top - first][block.left] is not None:
                what = (
                    f": the cells {block.name} are merged, so only the first of them has a value. "
                    "Unmerge them in Excel or LibreOffice, and write the value into each cell that "
                    "it is for."
                )
                raise error_at(self.path, what, column=self.all_names[empty[0]])

    def _cut(self, row: Row, n: int) -> Row:
        """Return as many cells as there are names; a value beyond them is an error."""
        if any(cell is not None for cell in row[self.width :]):
            what = (
                ", has values in columns without a name. The first row of the sheet must be the "
                "names of the columns; put notes elsewhere."
            )
            raise error_at(self.path, what, row=n + 1)
        return (*row, *(None,) * (self.width - len(row)))[: self.width]

    @contextmanager
    def _sheet(self, *, data_only: bool = True) -> Iterator[tuple[Any, str]]:
        reader = _openpyxl().ExcelReader
        with _broken_files(self.path), ExitStack() as stack:
            opened = reader(self.path, read_only=True, data_only=data_only, keep_links=False)
            stack.callback(opened.archive.close)
            # as openpyxl's load_workbook does, but with an archive that limits what it reads whole
            opened.archive = stack.enter_context(_Archive(self.path))
            opened.read_chartsheet = lambda *_: None  # no table, and openpyxl fails on empty ones
            with warnings.catch_warnings(action="ignore"):  # about styles and the like
                opened.read()
            book = opened.wb
            shown = [s for s in book.worksheets if s.sheet_state == "visible"]
            if not shown:
                raise DataError(f"{self.path} has no visible sheet.")
            sheet, others = shown[0], [s.title for s in book.worksheets if s is not shown[0]]
            sheet.reset_dimensions()  # programs write wrong ones
            yield sheet, f"sheet {sheet.title!r}, not {quote_names(others)}" if others else ""


@contextmanager
def _broken_files(path: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # openpyxl promises no kind of error for broken files
        if isinstance(error.__cause__, DataError):  # what the archive raised, in openpyxl's words
            raise error.__cause__ from None
        raise DataError(broken(path, ".xlsx", error)) from error


def _other_sheets(told: str) -> str:
    return (
        f"It was read from {told}. If the data are on another sheet, move that to the front, "
        "or save it as a file of its own."
    )


def _openpyxl() -> Any:
    try:
        from openpyxl.reader import excel
    except ImportError:
        raise ExtraError(requires_extra("Reading Excel files", "openpyxl", "excel")) from None
    return excel


class _Archive(zipfile.ZipFile):
    """A file whose parts are read whole only if they are small; sheets and texts are streamed."""

    def read(self, name: str | zipfile.ZipInfo, pwd: bytes | None = None) -> bytes:
        part = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        if part.file_size > MAX_TREE:
            raise DataError(_too_large(str(self.filename), part))
        return super().read(name, pwd)


def _too_large(path: Path | str, part: zipfile.ZipInfo) -> str:
    return (
        f"{path} cannot be read: {part.filename[:100]!r} inside it has {part.file_size:,} bytes. "
        "Save the sheet as CSV."
    )


def _check_parts(path: Path) -> None:
    """Raise if parts of the file would not fit into memory once they are unpacked.

    XML with entities, which Excel does not write, can grow without end.
    """
    size = path.stat().st_size
    with zipfile.ZipFile(path) as file:
        for part in file.infolist():
            limit = MAX_PART if "/worksheets/" in part.filename else MAX_TEXTS
            packed = min(part.compress_size, size)  # what a part says of itself may be wrong
            if part.file_size > min(limit, max(MAX_BYTES, MAX_RATIO * packed)):
                raise DataError(_too_large(path, part))
            with file.open(part) as content:
                if b"<!DOCTYPE" in content.read(PROLOG).replace(b"\0", b""):
                    raise DataError(f"{path} cannot be read: it was not written by Excel.")


def _filled(sheet: Any) -> Iterator[Row]:
    """Yield rows from the first to the last that has a value; error cells are empty."""
    n_empty, began = 0, False
    for n, row in enumerate(sheet.iter_rows(values_only=True)):
        if n >= MAX_ROWS or len(row) > MAX_COLUMNS:
            raise ValueError(f"it has more than {MAX_ROWS:,} rows or {MAX_COLUMNS:,} columns")
        cells = tuple(None if type(cell) is str and cell in EMPTY else cell for cell in row)
        if cells.count(None) == len(cells):
            n_empty += 1
            continue
        for _ in range(n_empty if began else 0):
            yield ()
        n_empty, began = 0, True
        yield cells


class _Block(NamedTuple):
    """Cells that were merged, and the columns in which some of them have no value of their own."""

    name: str
    top: int
    left: int
    without_value: range


def _looks(sheet: Any) -> tuple[list[_Block], int, set[int]]:
    """Return the blocks of merged cells, the number of hidden rows, and which columns are hidden.

    openpyxl does not tell them of a sheet that is streamed.
    """
    from openpyxl.utils import column_index_from_string

    found: dict[tuple[bytes, ...], None] = {}
    tail, n_rows, columns = b"", 0, set[int]()
    with sheet._get_source() as source:
        while len(found) < MAX_MERGED and (chunk := source.read(CHUNK)):
            text = tail + chunk
            found.update(dict.fromkeys(match.groups() for match in MERGED.finditer(text)))
            n_rows += sum(match.end() > len(tail) for match in ROW.finditer(text))
            for first, last in COLUMN.findall(text):
                columns.update(range(int(first) - 1, min(int(last), MAX_COLUMNS)))
            tail = chunk[-OVERLAP:]
    blocks = []
    for name, left, top, right, bottom in found:
        first, last = (column_index_from_string(side.decode()) - 1 for side in (left, right))
        empty = range(first + (int(top) == int(bottom)), last + 1)
        blocks.append(_Block(name.decode(), int(top), first, empty))
    blocks.sort(key=lambda block: (block.top, block.left))  # the file has any order
    return blocks, n_rows, columns


def _is_formula(cell: Any) -> bool:
    return str(cell).startswith("=") or type(cell).__name__.endswith("Formula")


def _trimmed(row: Row) -> Row:
    filled = [j for j, cell in enumerate(row) if cell is not None]
    return row[: filled[-1] + 1] if filled else ()


def _columns(rows: Sequence[Row], where: Sequence[int], decimal: str) -> list[pa.Array]:
    return [pa.array([_text(row[j], decimal) for row in rows], pa.string()) for j in where]


def _text(cell: Any, decimal: str) -> str:
    """Write a cell as in a file of text: numbers in the format of the file, dates as 2024-12-31."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, int | float):
        return repr(cell).replace(".", decimal)
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(" ", "seconds")
    text = str(cell)
    if len(text) > MAX_CELL:
        raise ValueError(f"a cell has more than {MAX_CELL:,} characters")
    return text
