"""Names of columns in files that people made: CSV and Excel."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.text import MISSING, TextFormat, to_numbers
from fedjigsaw.columns.words import PAIRS, UNNAMED
from fedjigsaw.errors import DataError, error_at
from fedjigsaw.io.detection import KINDS

DAY = "[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{2}|[0-9]{4})"
DAY += "|[0-9]{1,2}[-/. ]{0,2}[A-Za-z]{3,9}[-/. ]{0,2}[0-9]{4}"
DATE = f"^({DAY})([ T][0-9:.Z+-]*)?$"
NUMBER = re.compile("|".join((DATE, *(pattern for _, pattern in KINDS.values()))))
BOUNDS = "<>≤≥="  # <5 is a value that is too small to be measured
TRUTHS = ("true", "false")
MAX_TITLE = 30  # lines in which the names of columns are looked for, below a title
BELOW = 5  # lines below the names by which these are known


def name_columns(path: Path, header: Sequence[str], columns: Sequence[pa.Array]) -> list[str]:
    """Return the name of each column, or "" for columns without a name and without values.

    A single column without a name, such as the index that pandas writes, is called "unnamed".
    """
    names = [name.strip() for name in header]
    nameless = [j for j, name in enumerate(names) if not name and _has_values(columns[j])]
    if len(nameless) > 1:
        where = ", ".join(str(j + 1) for j in nameless[:5])
        raise DataError(f"{path} has columns without a name: {where}. Give each a name.")
    for j in nameless:
        names[j] = UNNAMED
    return names


def check_header(path: Path, names: Sequence[str], columns: Sequence[pa.Array]) -> None:
    """Raise if the first line of a file looks like data: names of columns leave the site.

    The error does not show that line, for it is about a person.
    """
    like = [j for j, name in enumerate(names) if name.lower() in TRUTHS or _is_number(name)]
    like = [] if _counts_up([name for name in names if name]) else like
    like = like or [j for j, name in enumerate(names) if _is_answer(name, columns[j])]
    again = _in_own_column(names, columns)
    texts = [j for j in again if _is_text(names[j], columns[j])]
    if not like and texts and len(again) >= max(2, sum(map(bool, names))):
        row = _row_of(names, columns)
        if row >= 0:
            what = ", has the names of the columns again. Delete this row."
            raise error_at(path, what, row=row + 1)
    if like or texts:
        raise DataError(
            f"{path} has no header line: its first line looks like data. Add a line with the names "
            "of the columns. A name must not be a number, a date, or a value of its own column; "
            f"see column {(like or texts)[0] + 1}."
        )


class Title(NamedTuple):
    """Lines above the names of the columns; the hint says what to do about them, or is empty."""

    hint: str = ""
    is_sure: bool = False

    def refuse(self, path: Path) -> None:
        """Raise if there surely is a title, for its words would be taken for names of columns."""
        if self.is_sure:
            raise DataError(f"{path} does not begin with one line of names. {self.hint}")


def find_title(rows: Sequence[Sequence[str]], first: int, what: str) -> Title:
    """Find the line that the names of the columns seem to be in, if that is not the first one.

    It has texts where the lines below it have numbers. Lines above it have fewer values; or as
    many, and not all of those numbers. The latter may also be a second line of names or units, and
    a line of units may have gaps.

    Parameters
    ----------
    rows : cells of the first lines.
    first : the number of the first of them.
    what : what a line is called.

    Examples
    --------
    >>> rows = [["age", "bmi"], ["61", "27.5"], ["70", "22.1"]]
    >>> find_title([["Ward 3"], [], *rows], 1, "line").hint
    'The names of the columns seem to be in line 3: delete the lines above it.'
    """
    filled = [sum(map(bool, row)) for row in rows]
    for place in range(1, len(rows) - 2):
        names = [name for name in rows[place] if name]
        texts = [name for name in names if name not in MISSING]
        if len(texts) < 2 or any(map(_is_value, texts)):
            continue
        below = [row for row in rows[place + 1 : place + 1 + BELOW] if any(row)]
        if any(len(row) != len(rows[place]) for row in below):
            continue
        where = [j for j in _with_numbers(below) if rows[place][j] in texts]
        is_wider = max(1, *filled[:place]) < filled[place]
        is_sure = len(where) > 1 and len(below) == BELOW
        # where texts come further down, too, such as X among chromosomes, they are values
        is_sure = is_sure and not _have_texts(rows[place + 1 :], where)
        n_numbers = [_n_numbers(row, where) for row in rows[:place]]
        if not where or len(where) in n_numbers:
            continue
        are_names = len(set(texts)) == len(names)
        is_title = are_names and (is_wider or (is_sure and filled[place] == max(filled[:place])))
        # units are often the same, and not every column has one
        is_second = is_sure and not is_wider and not any(n_numbers)
        if is_title or is_second:
            return Title(_above(rows[0], filled[: place + 1], first, what), is_sure)
    return Title()


def _above(top: Sequence[str], filled: Sequence[int], first: int, what: str) -> str:
    """Say what to do about the lines down to the last of those in which cells were counted."""
    last = first + len(filled) - 1
    if filled[0] < filled[-1] or any(map(_is_number, top)):
        return f"The names of the columns seem to be in {what} {last}: delete the {what}s above it."
    return (
        f"The {what}s {first} to {last} have no numbers where those below have them: keep only "
        f"the one with the names of the columns. If one of them is a row of data, move that {what} "
        "further down."
    )


def _with_numbers(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns that have numbers or dates only."""
    columns = ([cell for cell in cells if cell] for cells in zip(*rows, strict=True))
    return [j for j, cells in enumerate(columns) if cells and all(map(_is_number, cells))]


def _n_numbers(row: Sequence[str], where: Sequence[int]) -> int:
    return sum(_is_number(row[j]) for j in where if j < len(row))


def _have_texts(rows: Sequence[Sequence[str]], where: Sequence[int]) -> bool:
    """Tell whether cells of these columns are neither numbers nor marks of missing values."""
    cells = [row[j] for row in rows for j in where if j < len(row)]
    return any(cell and not _is_value(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    """Tell whether a cell is a number in any format, or a date; none begins with a letter."""
    cell = cell.strip()
    return not cell[:1].isalpha() and NUMBER.match(cell) is not None


def _is_value(cell: str) -> bool:
    """Tell whether a cell is a number, a bound, a date or a mark of a missing value: no name."""
    return cell in MISSING or _is_number(cell.lstrip(BOUNDS))


def _is_answer(name: str, values: pa.Array) -> bool:
    """Tell whether a name is a word for yes or no, and all texts in its column are, too."""
    pairs = [{*pair} for pair in PAIRS if name.lower() in pair]
    texts = {text.strip().lower() for text in values.to_pylist() if text} if pairs else set()
    return bool(texts - {""}) and any(texts - {""} <= pair for pair in pairs)


def _counts_up(names: Sequence[str]) -> bool:
    """Tell whether names are 0, 1, 2, ... as pandas writes them: that is no row of data."""
    names = names[1:] if names[:1] == [UNNAMED] else names
    starts = [[str(j + start) for j in range(len(names))] for start in (0, 1)]
    return len(names) > 2 and list(names) in starts


def _in_own_column(names: Sequence[str], columns: Sequence[pa.Array]) -> list[int]:
    """Return the places of names that are also values of their own column."""
    # not by Arrow, which imports pandas to compare with a text: that takes a second
    pairs = zip(names, columns, strict=True)
    return [j for j, (name, values) in enumerate(pairs) if name and name in values.to_pylist()]


def _row_of(names: Sequence[str], columns: Sequence[pa.Array]) -> int:
    """Return the first row that has the name of each column, or -1."""
    n_rows = len(columns[0])
    same = [pc.equal(values, name) for name, values in zip(names, columns, strict=True)]
    whole = np.logical_and.reduce([flags.to_numpy(zero_copy_only=False) for flags in same])
    return int(whole.argmax()) if n_rows and whole.any() else -1


def _is_text(name: str, values: pa.Array) -> bool:
    """Tell whether a name that is a value of its own column is one of several texts there.

    Where it is the only one, it is the mark of a box that was ticked. Among numbers, it is a
    header that was repeated, which is found where the numbers are read.
    """
    others = values.filter(pc.and_(pc.not_equal(values, name), pc.not_equal(values, "")))
    return len(others) > 0 and to_numbers(others, TextFormat()) is None


def _has_values(values: pa.Array) -> bool:
    return bool(pc.any(pc.not_equal(pc.utf8_trim_whitespace(values), "")).as_py())
