"""The last row of a file that people made: a total of the others, or a note, is no row."""

from collections.abc import Sequence
from pathlib import Path

from fedjigsaw.columns.words import TOTALS
from fedjigsaw.errors import MAX_VALUE, DataError, shorten

ADVICE = (
    "Delete it: it would count as a row. If it is a row like the others, move it up: only the last "
    "one is looked at."
)


def check_last(path: Path, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Raise if the last row is a total of the others, or a note: it would count as a row.

    A total begins with a word such as "total", which no row above has there, and has values for
    some columns only. A note is the only value of its row, and several words; above, its column has
    single words.

    Parameters
    ----------
    path : the file.
    names : of all columns.
    rows : the last ones, as texts.
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
