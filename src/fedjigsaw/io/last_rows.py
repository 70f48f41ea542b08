"""The last row of a file that people made: a total of the others, or a note, is no row."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedjigsaw._typing import Floats
from fedjigsaw._validation import repeated
from fedjigsaw.columns.text import TextFormat, to_numbers
from fedjigsaw.columns.words import TOTALS
from fedjigsaw.errors import MAX_VALUE, DataError, shorten

Read = Callable[[Sequence[str]], Iterable[Sequence[pa.Array]]]  # some columns of all rows
FEWEST = 10  # numbers whose sum is no chance
PRECISION = 1e-6
ADVICE = (
    "Delete it: it would count as a row. If it is a row like the others, move it up: only the last "
    "one is looked at."
)


def check_last(
    path: Path, names: Sequence[str], rows: Sequence[Sequence[str]], text: TextFormat, read: Read
) -> None:
    """Raise if the last row is a total of the others, or a note: it would count as a row.

    A total begins with a word such as "total", which no row above has there, and has values for
    some columns only; or it has numbers alone, each the sum of its column. A note is the only value
    of its row, and several words; above, its column has single words.

    Parameters
    ----------
    path : the file.
    names : of all columns.
    rows : the last ones, as texts.
    text : how numbers are written.
    read : reads columns of all rows. It is called if the numbers of the last row are larger than
        those above them, and these add up to no more, which is rare.
    """
    cells = rows[-1]
    filled = [j for j, cell in enumerate(cells) if cell.strip()]
    if not filled or filled[-1] >= len(names):
        return
    word, what = cells[filled[0]].strip(), _kind(filled, len(names), rows)
    if what:
        raise DataError(
            f"{path}: its last row has {shorten(repr(word), MAX_VALUE)} in column "
            f"{names[filled[0]]!r}, and seems to {what}. {ADVICE}"
        )
    named = [j for j in filled if names[j]]  # others are not read
    if named and _is_sum(named, names, rows, text, read):
        number = shorten(cells[named[0]].strip(), MAX_VALUE)
        raise DataError(
            f"{path}: its last row seems to sum up the others: {number} in column "
            f"{names[named[0]]!r} is the sum of all values above it. {ADVICE}"
        )


def _kind(filled: Sequence[int], n_columns: int, rows: Sequence[Sequence[str]]) -> str:
    """Say what the last row seems to do, by its first word; empty if that is no such word."""
    if len(filled) == n_columns:
        return ""
    place = filled[0]
    word = rows[-1][place].strip()
    above = [row[place].strip() for row in rows[:-1] if _n_filled(row) > 1 and place < len(row)]
    if len(filled) > 1:
        is_total = word.rstrip(": ").lower() in TOTALS and word not in above
        return "sum up the others" if is_total else ""
    is_note = _is_phrase(word) and bool(above) and not any(map(_is_phrase, above))
    return "be a note" if is_note else ""


def _n_filled(row: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


def _is_phrase(text: str) -> bool:
    """Tell whether a text is more than one word."""
    return len(text.split()) > 1 and any(sign.isalpha() for sign in text)


def _is_sum(
    filled: Sequence[int],
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    text: TextFormat,
    read: Read,
) -> bool:
    """Tell whether all values of the last row are sums of their columns."""
    whole = [row for row in rows if len(row) == len(names)]
    wanted = [names[j] for j in filled]
    if len(rows[-1]) != len(names) or not {*repeated(names)}.isdisjoint(wanted):
        return False  # an error later on
    before, last = np.empty(len(filled)), np.empty(len(filled))
    for n, j in enumerate(filled):
        numbers = to_numbers(pa.array([row[j] for row in whole], pa.string()), text)
        if numbers is None or not _may_sum_up(numbers):
            return False
        before[n], last[n] = numbers[-2:]
    sums = _sums(read(wanted), text, len(filled))
    if not np.allclose(sums, 2 * last, rtol=PRECISION, atol=0):
        return False
    # numbers that double from row to row: the row before would be a sum as well
    return not np.allclose(sums - last, 2 * before, rtol=4 * PRECISION, atol=0)


def _may_sum_up(numbers: Floats) -> bool:
    """Tell whether the last number may be the sum of a column, of which these are the last ones."""
    above, last = np.nan_to_num(numbers[:-1]), abs(numbers[-1])
    if np.count_nonzero(above) < FEWEST or not np.abs(above).max() < last < np.inf:
        return False
    # the last number of a sorted column is its largest one, but others add up to more
    mixed = above.min() < 0 < above.max()
    return bool(mixed or abs(above.sum()) <= (1 + PRECISION) * last)


def _sums(batches: Iterable[Sequence[pa.Array]], text: TextFormat, n_columns: int) -> Floats:
    """Add up columns; the sum is NaN where a value is no number."""
    sums = np.zeros(n_columns)
    for columns in batches:
        for j, values in enumerate(columns):
            numbers = to_numbers(values, text)
            sums[j] += np.nan if numbers is None else np.nansum(numbers)
    return sums
