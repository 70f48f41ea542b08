"""Check a site's file against the common schema. What it finds is for the site alone."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.affixes import advice_for
from fedjigsaw.columns.dates import DAY_FIRST, MONTH_FIRST
from fedjigsaw.columns.lenient import (
    Reading,
    best_format,
    count_exchanged,
    exchanged,
    is_ambiguous,
    read_leniently,
)
from fedjigsaw.columns.ranges import Spread, show_code, spread_of
from fedjigsaw.columns.schema import (
    BOOLEAN,
    DATE,
    IGNORE,
    NUMBER,
    ORDERED,
    REFUSE,
    TEXT_KINDS,
    Column,
    Schema,
    from_days,
)
from fedjigsaw.columns.text import TextFormat, count_told
from fedjigsaw.columns.units import fitting_units
from fedjigsaw.columns.values import MUST_BE, read_levels, show_value
from fedjigsaw.columns.words import are_answers, close_names, may_be_missing, same_answers
from fedjigsaw.errors import DataError, shorten
from fedjigsaw.io.tables import Table
from fedjigsaw.sites.preparation import Progress, quiet, raw_columns, with_all_columns

MAX_UNKNOWN = 10_000  # different values that are no category, which are counted
SHOWN = 5  # of them, in words
MAX_OPTIONS = 100  # values for which a category is proposed
LONGEST = 60  # characters of a value
TRIED = 1000  # values that cannot be read, of which the first few different ones are shown
MOST, FEW = 0.5, 0.1


@dataclass(frozen=True)
class ColumnCheck:
    """How one column of a file fits the schema.

    Attributes
    ----------
    n_unreadable : values that are not of the column's kind.
    n_outside : values outside of its range, or none of its categories.
    unknown : values that are no category -> number of rows.
    problems : why the file cannot be used as it is.
    remarks : what a person should know besides.
    options : of ``fedjigsaw schema apply`` that may help, as pairs of option and value.
    """

    name: str
    kind: str
    n_rows: int = 0
    n_missing: int = 0
    n_unreadable: int = 0
    n_outside: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def share_missing(self) -> float:
        """Share of rows without a value."""
        return self.n_missing / self.n_rows if self.n_rows else 0.0


@dataclass(frozen=True)
class FileCheck:
    """How a file fits the schema: one entry for each column of the schema.

    Attributes
    ----------
    others : columns of the file that the schema does not name.
    """

    path: Path
    n_rows: int
    columns: tuple[ColumnCheck, ...]
    others: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the file can be used as it is."""
        return not any(column.problems for column in self.columns)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of ``fedjigsaw schema apply`` that may help."""
        return tuple(option for column in self.columns for option in column.options)


def check_file(
    data: Path | Table, schema: Schema, *, min_rows: int = 5, progress: Progress = quiet
) -> FileCheck:
    """Check a file against the schema, in bounded memory.

    Parameters
    ----------
    min_rows : categories that fewer rows have are not proposed for the schema.
    """
    table = with_all_columns(data)
    names = table.reader.names
    used = [column for column in schema.columns if column.kind != IGNORE]
    found = {column.name: _Count(column) for column in used if column.name in set(names)}
    text, n_rows = table.reader.text.with_missing(schema.missing), 0
    for columns in raw_columns(table, list(found) or names[:1]):
        for name, count in found.items():
            count.add(columns[name], text)
        n = len(next(iter(columns.values())))
        n_rows += n
        progress(n)
    if not n_rows:
        raise DataError(f"{table.path} has no rows.")
    known = {column.name for column in schema.columns}
    others = [name for name in names if name not in known]
    checks = []
    for column in schema.columns:
        if column.name in found:
            checks.append(found[column.name].result(min_rows))
        elif column.kind == IGNORE:
            checks.append(ColumnCheck(column.name, IGNORE, n_rows))
        else:
            checks.append(_absent(column, others, n_rows, table.reader.hint))
    return FileCheck(table.path, n_rows, tuple(checks), tuple(others))


def _absent(column: Column, others: Sequence[str], n_rows: int, hint: str) -> ColumnCheck:
    close = close_names(column.name, others)
    guess = f" Is it {close[0]!r}?" if close else ""
    problem = f"The file has no such column.{guess}"
    if not close and hint:
        problem = f"The file has no such column. {hint}"
    elif not close:
        empty = shlex.quote(column.name)
        problem = (
            "The file has no such column: add an empty one with `fedjigsaw schema apply FILE "
            f"--empty {empty} ...`, or ignore it in the schema of all sites."
        )
        if others:  # an empty column would lose the values of one that has another name
            rename = shlex.quote(f"...={column.name}")
            problem += f" If it has another name in the file, give that: `--rename {rename}`."
    options = ((("--rename", f"{close[0]}={column.name}"),)) if close else ()
    return ColumnCheck(column.name, column.kind, n_rows, problems=(problem,), options=options)


# --------------------------------------------------------------------------------------- counting


@dataclass
class _Count:
    """Counts what is right and wrong in one column, batch by batch."""

    column: Column
    pattern: str = ""
    ambiguous: bool = False
    n_rows: int = 0
    n_missing: int = 0
    n_unreadable: int = 0
    n_outside: int = 0
    unreadable: dict[str, int] = field(default_factory=dict)  # value -> first row
    n_ordered: int = 0  # dates in the format of the schema
    n_exchanged: int = 0  # dates that fit with day and month exchanged
    first_outside: tuple[int, str] | None = None
    unknown: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)  # words that count as missing
    spread: Spread = field(init=False)

    def __post_init__(self) -> None:
        self.spread = spread_of(self.column.kind, 1)

    def add(self, values: pa.Array, text: TextFormat) -> None:
        if self.column.kind == DATE and not self.pattern:
            self.pattern = best_format(self.column, values, text)
            self.ambiguous = is_ambiguous(self.column, values, text)
        if self.column.kind == DATE and exchanged(self.column.format):
            fits, both = count_exchanged(values, text, self.column.format)
            self.n_ordered, self.n_exchanged = self.n_ordered + fits, self.n_exchanged + both
        reading = read_leniently(self.column, values, text, self.pattern)
        self._note_places(values, reading)
        self.n_rows += len(values)
        self.n_missing += int(reading.missing.sum())
        self.n_unreadable += int(reading.unreadable.sum())
        self.n_outside += int(reading.outside.sum())
        if self.column.kind in (NUMBER, DATE):
            self.spread.add(reading.numbers)
        if self.column.kind in (*TEXT_KINDS, BOOLEAN):
            self.absent += count_told(values, text.keeping(self.column.categories))
        if self.column.kind in TEXT_KINDS and reading.outside.any():
            self._count_unknown(read_levels(values, text).filter(pa.array(reading.outside)))

    def _count_unknown(self, levels: pa.Array) -> None:
        if len(self.unknown) < MAX_UNKNOWN:
            for entry in pc.value_counts(levels).to_pylist():
                self.unknown[entry["values"]] += entry["counts"]

    def _note_places(self, values: pa.Array, reading: Reading) -> None:
        for place in np.flatnonzero(reading.unreadable)[:TRIED].tolist():
            if len(self.unreadable) <= SHOWN:
                self.unreadable.setdefault(str(values[place].as_py()), self.n_rows + place + 1)
        if self.first_outside is None:
            self.first_outside = self._first(values, reading.outside)

    def _first(self, values: pa.Array, flags: np.ndarray) -> tuple[int, str] | None:
        if not flags.any():
            return None
        place = int(np.argmax(flags))
        return self.n_rows + place + 1, show_value(values, place, LONGEST)

    # ------------------------------------------------------------------------------------ verdict

    def result(self, min_rows: int) -> ColumnCheck:
        verdict = _Verdict(self)
        verdict.judge(min_rows)
        return ColumnCheck(
            self.column.name,
            self.column.kind,
            self.n_rows,
            self.n_missing,
            self.n_unreadable,
            self.n_outside,
            dict(self.unknown.most_common()),
            tuple(verdict.problems),
            tuple(verdict.remarks),
            tuple(verdict.options),
        )

    @property
    def n_readable(self) -> int:
        return self.n_rows - self.n_missing - self.n_unreadable


@dataclass
class _Verdict:
    """Puts what was counted into words."""

    count: _Count
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)  # yes and no in other words -> category

    def judge(self, min_rows: int) -> None:
        column, count = self.count.column, self.count
        if count.n_unreadable:
            self._unreadable()
        if count.ambiguous:
            self.problems.append("Dates can be read with the day or with the month first.")
            self.options.append(("--date-format", f"{column.name}={DAY_FIRST}"))
            self.remarks.append(f"If the month is first, it is {MONTH_FIRST}.")
        self._day_and_month()
        n_missing = count.n_missing + (count.n_outside if column.outside == "missing" else 0)
        if column.missing == REFUSE and n_missing:
            self.problems.append(
                f"{_values(n_missing)} missing, which the schema refuses: skip these rows "
                "with --drop-missing, or fill in the values."
            )
        elif count.n_missing == count.n_rows:
            self.remarks.append("There are no values at all.")
        self._absent()
        if column.kind in TEXT_KINDS:
            self._categories(min_rows)
        elif count.first_outside is not None:
            self._outside(*count.first_outside)
        if column.kind in (NUMBER, DATE):
            self._codes(min_rows)
        if column.kind == NUMBER:
            self._units()
            if column.scale == "log" and (count.spread.low <= -1).any():
                self.remarks.append("Values of -1 or less have no logarithm and count as missing.")

    def _day_and_month(self) -> None:
        column, count = self.count.column, self.count
        other = exchanged(column.format)
        if not count.n_exchanged or count.n_exchanged < max(
            count.n_ordered, count.n_rows - count.n_missing if count.n_unreadable else 0
        ):
            return
        if count.n_unreadable:
            self.remarks.append(f"All dates are written as in {other}.")
            self.options.append(("--date-format", f"{column.name}={other}"))
        elif count.n_ordered:
            self.remarks.append(
                f"All dates fit {other} as well as {column.format}, the format of the schema: make "
                "sure that day and month are in its order. If not, give --date-format of "
                "`fedjigsaw schema apply`."
            )

    def _absent(self) -> None:
        for word, n in self.count.absent.most_common(SHOWN):
            text = f"{word!r} ({_rows(n)}) counts as missing."
            if self.count.column.kind in TEXT_KINDS:
                text += " If it is an answer, ask for it among the categories of the schema."
            self.remarks.append(text)

    def _codes(self, min_rows: int) -> None:
        column = self.count.column
        low, high = column.range or (-np.inf, np.inf)
        for code, n in self.count.spread.find_codes(min_rows).items():
            shown = show_code(column.kind, code)
            mark = f"{column.name}:{shown}"
            self.remarks.append(
                f"{shown} occurs in {n:,} rows, far from the rest: a mark for a missing value? "
                f"If so, make a copy with `schema apply --missing {shlex.quote(mark)}`."
            )
            if column.outside == REFUSE and not low <= code <= high:
                self.options.append(("--missing", mark))

    def _unreadable(self) -> None:
        column, count = self.count.column, self.count
        what = MUST_BE[column.kind]
        if column.kind == DATE and column.format:
            what += f" as in {column.format}"
        found = list(count.unreadable.items())
        shown = [f"{shorten(repr(v), LONGEST)} in row {row}" for v, row in found[:SHOWN]]
        are = "the first is" if len(shown) == 1 else "the first ones are"
        self.problems.append(f"{_values(count.n_unreadable)} not {what}: {are} {', '.join(shown)}.")
        for advice in sorted({advice_for(column.kind, value) for value, _ in found} - {""}):
            self.remarks.append(advice)
        if column.kind == BOOLEAN:
            mapped = shlex.quote(f"{column.name}:{found[0][0]}=true")
            self.remarks.append(
                f"If a value means yes or no, say which: `schema apply --map {mapped}`, or =false."
            )
        if column.kind == NUMBER and are_answers({v.lower() for v, _ in found}):
            self.remarks.append(
                "These are words for yes and no. If all values are such answers, ask for kind = "
                '"boolean" in the schema of all sites.'
            )
            return
        if column.name in count.unreadable:
            self.remarks.append(
                f"The names of the columns are repeated in row {count.unreadable[column.name]}: "
                "delete that line, since it is no row."
            )
            return
        if len(found) <= SHOWN and count.n_unreadable < FEW * count.n_rows:
            # only words: a text with digits is a value, which must not get lost
            words = [v for v, _ in found if len(v) < LONGEST and not any(map(str.isdigit, v))]
            if len(words) == len(found):
                self.options += [("--missing", f"{column.name}:{word}") for word in words]

    def _outside(self, row: int, value: str) -> None:
        column, count = self.count.column, self.count
        words = f"{_values(count.n_outside)} outside of {_range(column)}: {value} in row {row}"
        words += ", for instance." if count.n_outside > 1 else "."
        if column.outside == REFUSE:
            advice = "Correct this, or ask for a wider range or outside = 'missing' in the schema."
            self.problems.append(f"{words} {advice}")
        elif count.n_outside > MOST * count.n_readable:
            self.problems.append(f"{words} These are most values: is this the right column?")
        else:
            treated = "count as missing" if column.outside == "missing" else "are clipped"
            self.remarks.append(f"{words} Such values {treated}.")

    def _units(self) -> None:
        column, count = self.count.column, self.count
        median = count.spread.median()
        units = fitting_units(column.name, column.unit, median, column.range)
        if units:
            names = " or ".join(units)
            self.problems.append(
                f"Looks like {names}, not {column.unit}: the median is {median:.4g}."
            )
            self.options.append(
                ("--unit", f"{column.name}={units[0] if len(units) == 1 else 'UNIT'}")
            )
        elif column.range is not None and count.n_readable:
            low, high = column.range
            if not low <= median <= high:
                self.remarks.append(
                    f"The median, {median:.4g}, is out of range. If the unit is another one, use "
                    f"--factor {shlex.quote(f'{column.name}=NUMBER')} of `fedjigsaw schema apply`."
                )

    def _categories(self, min_rows: int) -> None:
        column, count = self.count.column, self.count
        if not count.n_outside:
            return
        words = f"{_values(count.n_outside)} none of the categories."
        strict = column.kind == ORDERED and column.outside == REFUSE
        if strict or count.n_outside > MOST * count.n_readable:
            self.problems.append(words)
        else:
            treated = "missing" if column.kind == ORDERED else "(other)"
            self.remarks.append(f"{words} Such values count as {treated}.")
        self.answers = same_answers(list(count.unknown), column.categories)
        for level, n in count.unknown.most_common(SHOWN):
            self.remarks.append(self._unknown(level, n, min_rows))
        for level in list(count.unknown)[:MAX_OPTIONS]:
            self._map(level)
        left = len(count.unknown) - SHOWN
        if left > 0:
            self.remarks.append(f"... and {left:,} more.")

    def _unknown(self, level: str, n: int, min_rows: int) -> str:
        column = self.count.column
        start = f"{shorten(level, LONGEST)!r} ({_rows(n)})"
        close = self._same(level) or close_names(level, column.categories, 0.75)
        if close:
            return f"{start}: is it {close[0]!r}?"
        if may_be_missing(level):
            mark = shlex.quote(f"{column.name}:{level}")
            return (
                f"{start}: does it stand for a missing value? If so, make a copy with `schema "
                f"apply --missing {mark}`, or ask for missing = [{json.dumps(level)}] in the "
                "schema of all sites."
            )
        if n >= min_rows:
            return f"{start}: add it to the categories, or say which one it is (--map)."
        return f"{start}: too rare for a category of its own."

    def _same(self, level: str) -> list[str]:
        return [self.answers[level]] if level in self.answers else []

    def _map(self, level: str) -> None:
        """Propose the category of another spelling or of a word that means the same, if it is one.

        Words that are only similar, such as two wards, are left to a person. Words that may stand
        for missing values, such as "not done", are proposed as such.
        """
        column = self.count.column
        close = self._same(level) or close_names(level, column.categories, 1.0)
        if len(close) == 1 and len(level) < LONGEST:
            self.options.append(("--map", f"{column.name}:{level}={close[0]}"))
        elif may_be_missing(level):
            self.options.append(("--missing", f"{column.name}:{level}"))


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def _values(n: int) -> str:
    return "1 value is" if n == 1 else f"{n:,} values are"


def _range(column: Column) -> str:
    low, high = column.range or (-np.inf, np.inf)
    if column.kind == DATE:
        return f"the range {from_days(low)} to {from_days(high)}"
    return f"the range {low:g} to {high:g}"
