"""Put into words what is wrong with a column, and what to do."""

import shlex
from dataclasses import dataclass, field

import numpy as np

from fedjigsaw.columns.affixes import advice_for
from fedjigsaw.columns.dates import exchanged
from fedjigsaw.columns.ranges import show_code
from fedjigsaw.columns.schema import (
    BOOLEAN,
    DATE,
    NUMBER,
    ORDERED,
    REFUSE,
    TEXT_KINDS,
    Column,
    from_days,
)
from fedjigsaw.columns.values import MUST_BE
from fedjigsaw.columns.words import are_answers, close_names, same_answers
from fedjigsaw.errors import counted, shorten
from fedjigsaw.sites.schema_count import LONGEST, SHOWN, ColumnCount

MAX_OPTIONS = 100  # values for which a category is proposed
MOST, FEW = 0.5, 0.1
TRUTHS = ("true", "false")


@dataclass
class Verdict:
    """Puts what was counted into words."""

    count: ColumnCount
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
            self.options.append(("--date-format", f"{column.name}={count.pattern}"))
            self.remarks.append(f"If the month is first, it is {exchanged(count.pattern)}.")
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
            self._median()
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
            text = f"{word!r} ({counted(n, 'row')}) counts as missing."
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
            yes, no = (shlex.quote(f"{column.name}:{found[0][0]}={word}") for word in TRUTHS)
            self.remarks.append(
                f"If a value is an answer, say which: `schema apply --map {yes}` or `--map {no}`."
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

    def _median(self) -> None:
        column, count = self.count.column, self.count
        if column.range is None or not count.n_readable:
            return
        low, high = column.range
        median = count.spread.median()
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
        start = f"{shorten(level, LONGEST)!r} ({counted(n, 'row')})"
        close = self._same(level) or close_names(level, column.categories, 0.75)
        if close:
            return f"{start}: is it {close[0]!r}?"
        if n >= min_rows:
            return f"{start}: add it to the categories, or say which one it is (--map)."
        return f"{start}: too rare for a category of its own."

    def _same(self, level: str) -> list[str]:
        return [self.answers[level]] if level in self.answers else []

    def _map(self, level: str) -> None:
        """Propose the category of another spelling, or of another word for yes or no.

        Words that are only similar, such as two wards, are left to a person.
        """
        column = self.count.column
        close = self._same(level) or close_names(level, column.categories, 1.0)
        if len(close) == 1 and len(level) < LONGEST:
            self.options.append(("--map", f"{column.name}:{level}={close[0]}"))


def _values(n: int) -> str:
    return counted(n, "value is", "values are")


def _range(column: Column) -> str:
    low, high = column.range or (-np.inf, np.inf)
    if column.kind == DATE:
        return f"the range {from_days(low)} to {from_days(high)}"
    return f"the range {low:g} to {high:g}"
