"""Columns of a file as rows of numbers; an error names the place of a value that is none."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedjigsaw._typing import Floats
from fedjigsaw.columns.text import TextFormat, plain, to_numbers
from fedjigsaw.errors import MAX_VALUE, DataError, error_at, shorten
from fedjigsaw.io.readers import Reader
from fedjigsaw.validation import MAX_MAGNITUDE

MANY = 100  # columns from which on they are cast together
NOT_FINITE = "is not a finite number"
NO_NUMBERS = "For columns of dates, categories or answers, make a schema (fedjigsaw schema init)."


@dataclass(frozen=True)
class Numbers:
    """What makes rows of numbers from the columns of a file.

    Parameters
    ----------
    path : the file, for the text of an error.
    reader : says how numbers are written in the file, and what may be wrong with it.
    """

    path: Path
    reader: Reader

    def rows(self, names: Sequence[str], columns: Sequence[Any], start: int) -> Floats:
        """Return the rows of a batch, with NaN for missing values.

        A value that is not a number, or too large, is a DataError. There are `start` rows before
        the batch.
        """
        if len(columns) > MANY and not isinstance(columns[0], np.ndarray):
            together = _cast_together(columns, self.reader.text)
            if together is not None:
                return together
        pairs = zip(names, columns, strict=True)
        return _side_by_side([self._column(name, values, start) for name, values in pairs])

    def _column(self, name: str, values: Any, start: int) -> Floats:
        if isinstance(values, np.ndarray):
            numbers = values.astype(np.float64)
        elif (found := to_numbers(values, self.reader.text)) is not None:
            numbers = found
        else:
            row, value = _first_text(values, self.reader.text)
            above = to_numbers(values[:row], self.reader.text)
            raise self._refused(name, start + row, value, above)
        if not are_small(numbers) and (large := np.abs(numbers) > MAX_MAGNITUDE).any():
            row = int(large.argmax())
            limit = f"is too large; at most {MAX_MAGNITUDE:g} can be clustered"
            reason = limit if np.isfinite(numbers[row]) else NOT_FINITE
            shown = f"{numbers[row]:g}"
            raise self._refused(name, start + row, shown, numbers[:row], reason)
        return numbers

    def _refused(
        self, name: str, row: int, value: str, above: Floats | None, reason: str = NOT_FINITE
    ) -> DataError:
        # below a number, the file is what it should be
        first = above is not None and len(above) == row and np.isnan(above).all()
        hint = (self.reader.hint or (NO_NUMBERS if reason == NOT_FINITE else "")) if first else ""
        what = f": {value} {reason}. Correct the value, or leave this column out. {hint}".rstrip()
        return error_at(self.path, what, row=row + 1, column=name, parameter="columns")


def _cast_together(columns: Sequence[pa.Array], text: TextFormat) -> Floats | None:
    """Cast many columns of one type at once; None if a value must be looked at alone.

    With thousands of columns, the calls cost more than the work.
    """
    if len({column.type for column in columns}) > 1:
        return None
    numbers = to_numbers(pa.concat_arrays(columns), text)
    if numbers is None:
        return None
    if not are_small(numbers) and (np.abs(numbers) > MAX_MAGNITUDE).any():
        return None
    return numbers.reshape(len(columns), -1).T.copy()


def _side_by_side(columns: Sequence[Floats]) -> Floats:
    """Return rows made of columns. Each part of the rows stays in the cache until it is whole."""
    rows = np.empty((len(columns[0]), len(columns)))
    step = max(1, 2**15 // len(columns))
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        for j, column in enumerate(columns):
            rows[part, j] = column[part]
    return rows


def are_small(numbers: Floats) -> bool:
    """Tell by one quick pass that no number is missing or too large; False is no proof of one."""
    return bool(np.einsum("i,i", numbers, numbers) < MAX_MAGNITUDE**2 / 4)


def _first_text(values: pa.Array, text: TextFormat) -> tuple[int, str]:
    """Find the first value that is not a number, and show it, for the error message."""
    ends = range(len(values))
    row = bisect_left(ends, True, key=lambda i: to_numbers(values[: i + 1], text) is None)
    try:
        value = plain(values)[row].as_py()
    except (OverflowError, ValueError, LookupError):  # a date or time zone that Python lacks
        return row, f"a value of type {values.type}"
    if isinstance(value, str) and "\n" in value:
        first = shorten(repr(value.splitlines()[0]), MAX_VALUE)
        return row, f"{first}, and more lines (is a quotation mark missing?),"
    shown = shorten(repr(value), MAX_VALUE)
    return row, f"{shown} {_hint(values[row : row + 1], text)}".rstrip()


def _hint(value: pa.Array, text: TextFormat) -> str:
    """Say how numbers are written in the file, if a value is a number that is written else."""
    formats = [TextFormat(*signs) for signs in (".,", ",.", ".'", ",'", ". ", ", ")]
    if all(to_numbers(value, form) is None for form in formats):
        return ""
    sign = "comma" if text.decimal == "," else "point"
    return f"(the first rows have a decimal {sign})"
