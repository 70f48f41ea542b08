"""One column of a clean copy: how its values are converted, and what is said about it."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.dates import exchanged
from fedjigsaw.columns.lenient import best_format, is_ambiguous, nulls, read_leniently
from fedjigsaw.columns.schema import (
    BOOLEAN,
    CATEGORY,
    DATE,
    NUMBER,
    REFUSE,
    TEXT_KINDS,
    Column,
    to_days,
)
from fedjigsaw.columns.text import Flags, TextFormat, has_days, plain
from fedjigsaw.columns.values import MUST_BE, SECONDS_PER_DAY, read_levels, show_value
from fedjigsaw.errors import DataError, counted, error_at
from fedjigsaw.sites.schema_count import LONGEST

MOST = 0.5  # of the values of a column: if more would become missing, nothing is written


@dataclass
class CopiedColumn:
    """Converts one column, and counts."""

    column: Column
    path: Path
    text: TextFormat
    factor: float
    levels: Mapping[str, str]
    schema_text: TextFormat  # with the marks of the schema alone
    absent: Sequence[str]
    asked: Sequence[str]  # of these, marks that were given for this column alone
    n_rows: int = 0
    n_missing: int = 0
    n_outside: int = 0
    n_present: int = 0
    n_gone: int = 0  # values that become missing
    n_unasked: int = 0  # of them, without a mark for this column alone
    first_gone: str = ""
    first_outside: str = ""
    mark: str = ""  # the first value outside, as --missing takes it
    n_mapped: Counter[str] = field(default_factory=Counter)
    has_time: bool | None = None  # of a date; None if that is not known yet
    pattern: str = ""

    def convert(self, values: pa.Array) -> pa.Array:
        raw = plain(values)
        if self.levels:
            values = self._map(read_levels(values, self.text))
        if self.column.kind == DATE and not self.pattern:
            self._find_format(values)
        reading = read_leniently(self.column, values, self.text, self.pattern)
        if reading.unreadable.any():
            raise self._unreadable(values, reading.unreadable)
        numbers = reading.numbers
        if self.column.kind in (NUMBER, DATE):
            numbers = self.factor * np.where(self._are_days(numbers, self.absent), np.nan, numbers)
        low, high = self.column.range or (-np.inf, np.inf)
        outside = reading.outside
        if self.column.kind not in TEXT_KINDS:
            outside = (numbers < low) | (numbers > high)
        self.n_outside += int(outside.sum())
        if outside.any() and not self.first_outside:
            self.first_outside = self._first(raw, outside)
            self.mark = str(raw[int(np.argmax(outside))].as_py()).removesuffix(" 00:00:00")
        found = self._build(values, numbers)
        present = ~self._missing(raw, self.schema_text)
        treated = self.column.outside == "missing" and self.column.kind != CATEGORY
        gone = present & (nulls(found) | outside) if treated else present & nulls(found)
        self._note_gone(raw, gone, reading.numbers)
        self.n_present += int(present.sum())
        self.n_rows += len(found)
        self.n_missing += found.null_count
        return found

    def _map(self, levels: pa.Array) -> pa.Array:
        old = pa.array(list(self.levels), pa.string())
        known = read_levels(old, replace(self.text, missing=(), marks=()))
        places = pc.index_in(levels, value_set=known)
        for entry in pc.value_counts(places.drop_null()).to_pylist():
            self.n_mapped[old[entry["values"]].as_py()] += entry["counts"]
        new = pa.array(list(self.levels.values()), pa.string()).take(places)
        return pc.coalesce(new, levels)

    def _note_gone(self, raw: pa.Array, gone: Flags, numbers: Floats) -> None:
        if not gone.any():
            return
        self.first_gone = self.first_gone or self._first(raw, gone)
        self.n_gone += int(gone.sum())
        alone = replace(self.text, missing=(), marks=tuple(self.asked))
        asked = self._missing(raw, alone) | self._are_days(numbers, self.asked)
        self.n_unasked += int((gone & ~asked).sum())

    def _first(self, raw: pa.Array, flags: Flags) -> str:
        place = int(np.argmax(flags))
        return f"the first is {show_value(raw, place, LONGEST)} in row {self.n_rows + place + 1}"

    def check(self) -> None:
        """Refuse a copy of which most values of this column would be outside, or missing."""
        name, measured = self.column.name, self.column.kind in (NUMBER, DATE)
        if measured and self.column.outside != "missing" and self.n_outside > MOST * self.n_present:
            what = (
                f": {self.n_outside:,} of {self.n_present:,} values would be outside of the range "
                "of the schema, and no command would take the copy. Nothing was written. Is the "
                "unit right, and the range of the schema?"
            )
            raise error_at(self.path, what, column=name, parameter="factors")
        if self.n_unasked > MOST * self.n_present:
            what = (
                f": {self.n_unasked:,} of {self.n_present:,} values would become missing; "
                f"{self.first_gone}. Nothing was written. Is the unit right, and the range of the "
                "schema? A mark for so many missing values is given for its column alone."
            )
            raise error_at(self.path, what, column=name, parameter="missing_in")

    def _build(self, values: pa.Array, numbers: Floats) -> pa.Array:
        if self.column.kind in TEXT_KINDS:
            return read_levels(values, self.text)
        if self.column.kind == NUMBER:
            return _array(numbers, pa.float64())
        if self.column.kind == BOOLEAN:
            return _array(numbers, pa.bool_())
        timed = numbers % 1 > 0  # not of a missing value, which is NaN
        if self.has_time is None:
            self.has_time = self._may_have_time(values, numbers)
        if self.has_time:
            return _array(numbers * SECONDS_PER_DAY, pa.timestamp("s"))
        if timed.any():
            what = "has a time of day, and the dates of the first rows have none."
            raise self._bad_value(values, timed, f"{what} Write all of them alike.")
        return _array(numbers, pa.date32())

    def _may_have_time(self, values: pa.Array, numbers: Floats) -> bool:
        """Tell by the first dates of a column whether they may have a time of day."""
        if has_days(values.type):
            return bool(pa.types.is_timestamp(values.type))
        if np.isnan(numbers).all():  # nothing is known of those that come later
            return True
        return any(code in self.pattern for code in ("%H", "%I")) or bool((numbers % 1 > 0).any())

    def _missing(self, raw: pa.Array, text: TextFormat) -> Flags:
        return read_leniently(self.column, raw, text, self.pattern).missing

    def _are_days(self, numbers: Floats, marks: Sequence[str]) -> Flags:
        """Say of each value whether it is a day that a mark means, however both are written."""
        days = [d for m in marks for d in _days(m)] if self.column.kind == DATE else []
        found: Flags = np.isin(np.floor(numbers), days)
        return found

    def _find_format(self, values: pa.Array) -> None:
        found, name = best_format(self.column, values, self.text), self.column.name
        if is_ambiguous(self.column, values, self.text):
            what = (
                ": dates can be read with the day or with the month first. Say which: "
                f"{found!r} or {exchanged(found)!r}."
            )
            raise error_at(self.path, what, column=name, parameter="date_formats")
        self.pattern = found

    def _bad_value(self, values: pa.Array, bad: Flags, what: str, parameter: str = "") -> DataError:
        """Return an error about the first bad value, which its text begins with."""
        place = int(np.argmax(bad))
        return error_at(
            self.path,
            f": {show_value(values, place, LONGEST)} {what}",
            row=self.n_rows + place + 1,
            column=self.column.name,
            parameter=parameter,
        )

    def _unreadable(self, values: pa.Array, bad: Flags) -> DataError:
        column = self.column
        advice, field = "count it as missing", "missing"
        if column.kind == DATE:
            advice, field = "give the format", "date_formats"
        if column.kind == BOOLEAN:
            advice, field = "say what it means", "levels"
        reason = MUST_BE[column.kind]
        if self.pattern and column.kind == DATE:
            reason += f" as in {self.pattern}"
        what = f"is not {reason}. Correct it, or {advice}."
        return self._bad_value(values, bad, what, field)

    def say(self, source: str | None) -> list[str]:
        """Return what was changed, in words."""
        name, found = self.column.name, []
        if source is None:
            found.append(f"{name!r} is empty: all its values are missing.")
        elif source != name:
            found.append(f"{source!r} is now {name!r}.")
        if self.factor != 1:
            unit = f" ({self.column.unit})" if self.column.unit else ""
            found.append(f"{name!r}: values x {self.factor:.6g}{unit}.")
        found += [
            f"{name!r}: {old!r} is now {new!r} in {counted(self.n_mapped[old], 'row')}."
            for old, new in self.levels.items()
        ]
        if self.n_gone:
            values = counted(self.n_gone, "value counts", "values count")
            found.append(f"{name!r}: {values} as missing from now on; {self.first_gone}.")
        if self.n_outside:
            values = counted(self.n_outside, "value is", "values are")
            text = f"{values} outside of the range or categories; {self.first_outside}."
            if self.column.outside == REFUSE and self.column.kind != CATEGORY:
                mark = shlex.quote(f"{name}:{self.mark}")
                text += (
                    " They are kept as they are, and `check` will refuse the copy: correct them, "
                    f"or count this one as missing, `--missing {mark}`."
                )
            found.append(f"{name!r}: {text}")
        return found


def _array(numbers: Floats, kind: pa.DataType) -> pa.Array:
    missing = np.isnan(numbers)
    filled = np.where(missing, 0.0, numbers)
    if kind == pa.float64():
        return pa.array(filled, mask=missing)
    if kind == pa.bool_():
        return pa.array(filled > 0, mask=missing)
    whole = np.rint(filled).astype(np.int32 if kind == pa.date32() else np.int64)
    return pa.array(whole, mask=missing).cast(kind)


def _days(text: str) -> list[float]:
    """Return the day that a text such as 9999-12-31 means, if it means one."""
    try:
        return [to_days(date.fromisoformat(text))]
    except ValueError:
        return []
