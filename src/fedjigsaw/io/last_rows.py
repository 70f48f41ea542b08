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

    A total has a word such as "total", which no row above has there: as its first value, if it has
    values for some columns only, or as its only text. A note is the only value of its row, and
    several words; above, its column has single words.

    Parameters
    ----------
    path : the file.
    names : of all columns.
    rows : the last ones, as texts.
    """
    cells = [cell.strip() for cell in rows[-1]]
    filled = [j for j, cell in enumerate(cells) if cell]
    texts = [j for j in filled if cells[j][0].isalpha()]
    if not filled or filled[-1] >= len(names) or (len(filled) == len(names) and len(texts) != 1):
        return
    place = texts[0] if len(texts) == 1 else filled[0]
    what = _kind(cells[place], place, len(filled), rows)
    if what:
        raise DataError(
            f"{path}: its last row has {shorten(repr(cells[place]), MAX_VALUE)} in column "
            f"{names[place]!r}, and seems to {what}. {ADVICE}",
            file=path,
            column=names[place],
        )


def _kind(word: str, place: int, n_filled: int, rows: Sequence[Sequence[str]]) -> str:
    """Say what the last row seems to do, by one of its words; empty if that is no such word."""
    others = [row for row in rows[:-1] if sum(map(bool, map(str.strip, row))) > 1]
    above = [row[place].strip() for row in others if place < len(row)]
    if n_filled > 1:
        is_total = word.rstrip(": ").lower() in TOTALS and word not in above
        return "sum up the others" if is_total else ""
    is_note = _is_phrase(word) and bool(above) and not any(map(_is_phrase, above))
    return "be a note" if is_note else ""


def _is_phrase(text: str) -> bool:
    """Tell whether a text is more than one word."""
    return len(text.split()) > 1 and any(sign.isalpha() for sign in text)
