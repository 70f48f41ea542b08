"""Recognize what a column of a file holds, in one reading and bounded memory."""

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.affixes import LIMIT_ADVICE, YEAR_ADVICE, has_short_year, is_limit
from fedjigsaw.columns.dates import ALL_MONTHS, ENGLISH, exchanged, likely_formats, parse_dates
from fedjigsaw.columns.levels import MAX_CATEGORIES, common_levels, merge_spellings
from fedjigsaw.columns.schema import BOOLEAN, CATEGORY, DATE, IGNORE, NUMBER, is_name
from fedjigsaw.columns.text import (
    TextFormat,
    are_numbers,
    count_told,
    has_days,
    is_text,
    plain,
    to_numbers,
)
from fedjigsaw.columns.values import BadValueError, read_levels
from fedjigsaw.columns.words import (
    are_answers,
    is_index_of_pandas,
    named_like_a_code,
    named_like_a_person,
    named_like_an_identifier,
)

MAX_LEVELS = 10_000  # different values of a column that are counted
MAX_MARKS = 3  # texts among numbers that are taken for marks of missing values
LONG = 60  # characters: longer texts are sentences
FEW_CODES = 10  # different numbers that may be codes, whatever the name
SAMPLE = 200  # values by which formats of dates are tried
MOST, NEARLY_ALL = 0.5, 0.9
MANY_NOTE = (
    'If these are categories: kind = "category", and list those that are to be told apart. Larger '
    "groups, such as chapters of diagnoses, tell more."
)
IF_NUMBERS = 'CHECK: if these are no codes: kind = "number"'


@dataclass(frozen=True)
class Recognized:
    """What a column seems to hold.

    Attributes
    ----------
    why : what was seen, in words; it tells nothing that fewer rows have than allowed.
    marks : texts among numbers that many rows have.
    format : of dates, where it must be set.
    notes : what a person should look at.
    """

    kind: str
    why: str
    categories: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    format: str = ""
    notes: tuple[str, ...] = ()


@dataclass
class Sighting:
    """Counts what the values of one column look like. Nothing of this leaves by itself."""

    name: str
    n_rows: int = 0
    n_present: int = 0
    n_typed: Counter[str] = field(default_factory=Counter)  # values of types that tell the kind
    levels: Counter[str] = field(default_factory=Counter)
    too_many: bool = False
    all_different: bool = True
    n_numbers: int = 0
    n_whole: int = 0
    n_padded: int = 0  # such as 0042
    odd: Counter[str] = field(default_factory=Counter)  # texts that are not numbers
    absent: Counter[str] = field(default_factory=Counter)  # words that count as missing
    n_characters: int = 0
    least: float = np.inf
    greatest: float = -np.inf
    n_dates: int = 0
    n_slashed: int = 0
    n_ambiguous: int = 0
    n_foreign: int = 0  # dates with the names of months in other languages than English
    best: str = ""  # the format of dates
    formats: Counter[str] | None = None  # of the file that is being read
    foreign: Counter[str] = field(default_factory=Counter)  # of it, names in other languages

    def add(self, values: pa.Array, text: TextFormat) -> None:
        """Count some values of a file."""
        values = plain(values)
        self.n_rows += len(values)
        kind = values.type
        if has_days(kind) or pa.types.is_duration(kind):
            self.n_present += len(values) - values.null_count
            self.n_typed[DATE if has_days(kind) else IGNORE] += len(values) - values.null_count
            return
        if pa.types.is_boolean(kind):
            self.n_typed[BOOLEAN] += len(values) - values.null_count
        try:
            levels = read_levels(values, text).drop_null()
        except BadValueError:  # lists, bytes and the like
            self.n_present += len(values) - values.null_count
            self.n_typed[IGNORE] += len(values) - values.null_count
            return
        self.absent += count_told(values, text)
        self.n_present += len(levels)
        self.n_characters += int(pc.sum(pc.utf8_length(levels)).as_py() or 0)
        self._count(levels)
        if is_text(kind):
            self._add_texts(levels, text)
        else:
            self._add_numbers(values, text)

    def end_of_file(self) -> None:
        """Settle for the format of dates that fits this file best."""
        if self.formats:
            best = max(self.formats, key=lambda f: self.formats[f] if self.formats else 0)
            self.n_dates += self.formats[best]
            if exchanged(best):
                self.n_slashed += self.formats[best]
                same = self.formats[best] == self.formats[exchanged(best)]
                self.n_ambiguous += self.formats[best] if same else 0
            self.best = best
            self.n_foreign += self.foreign[best]
        self.formats = None
        self.foreign.clear()

    def _count(self, levels: pa.Array) -> None:
        if self.too_many:
            return
        counts = pc.value_counts(levels)
        for entry in counts.to_pylist():
            self.levels[entry["values"]] += entry["counts"]
        self.all_different = len(self.levels) == self.n_present
        if len(self.levels) > MAX_LEVELS:
            self.too_many = True
            self.levels.clear()

    def _add_texts(self, levels: pa.Array, text: TextFormat) -> None:
        flags = are_numbers(levels, text)
        self._add_numbers(levels.filter(pa.array(flags)), text)
        padded = pc.match_substring_regex(levels, "^0[0-9]+$")
        self.n_padded += int(pc.sum(padded).as_py() or 0)
        others = levels.filter(pa.array(~flags))
        if len(self.odd) <= MAX_LEVELS:
            for entry in pc.value_counts(others).to_pylist():
                self.odd[entry["values"]] += entry["counts"]
        self._add_dates(levels)

    def _add_numbers(self, values: pa.Array, text: TextFormat) -> None:
        found = to_numbers(values, text)
        if found is None:
            return
        numbers = found[np.isfinite(found)]
        self.n_numbers += len(numbers)
        self.n_whole += int((numbers == np.round(numbers)).sum())
        self.least = min(self.least, float(numbers.min(initial=np.inf)))
        self.greatest = max(self.greatest, float(numbers.max(initial=-np.inf)))

    def _add_dates(self, levels: pa.Array) -> None:
        if not len(levels):
            return
        if self.formats is None:
            sample = levels[:SAMPLE]
            least = MOST * len(sample)
            fits = [f for f in likely_formats(sample) if _n_dates(sample, f) >= least]
            self.formats = Counter(dict.fromkeys(fits, 0))
        for pattern in list(self.formats):
            n_dates = _n_dates(levels, pattern)
            self.formats[pattern] += n_dates
            if "%b" in pattern:
                self.foreign[pattern] += n_dates - _n_dates(levels, pattern, ENGLISH)


def _n_dates(levels: pa.Array, pattern: str, months: tuple[str, ...] = ALL_MONTHS) -> int:
    if pattern == "%Y%m%d":  # numbers of eight digits, unless they are days of our times
        levels = levels.filter(pc.match_substring_regex(levels, "^(19|20)[0-9]{6}$"))
    return len(levels) - int(parse_dates(levels, pattern, months).null_count)


# -------------------------------------------------------------------------------------- verdict


def recognize(seen: Sighting, min_rows: int) -> Recognized:
    """Say what a column seems to hold; only values that `min_rows` rows have are named."""
    n = seen.n_present
    if n < min_rows:
        return Recognized(IGNORE, "no values, or too few")
    if seen.n_typed[IGNORE]:
        return Recognized(IGNORE, "values of a type that cannot be clustered")
    if is_constant(seen, min_rows):
        few = " (or too few to tell)" if n < 2 * min_rows else ""  # by their number alone
        return Recognized(IGNORE, f"all values are the same, or nearly all{few}")
    if is_index_of_pandas(seen.name):
        return Recognized(IGNORE, "the index of a pandas table: an identifier")
    if named_like_a_person(seen.name) and not _are_booleans(seen):
        return Recognized(IGNORE, "named like data by which people are known")
    if seen.n_typed[BOOLEAN] == n or _are_booleans(seen):
        return Recognized(BOOLEAN, "yes and no, in words or as 1 and 0")
    marks = _marks(seen, min_rows)
    n_marked = sum(seen.odd[mark] for mark in marks)
    dates = seen.n_typed[DATE] + seen.n_dates
    if dates >= MOST * n and dates + n_marked >= NEARLY_ALL * n:
        return replace(_date(seen), marks=marks)
    n_marked += sum(n for text, n in seen.odd.items() if is_limit(text))
    numbers = seen.n_numbers - (seen.n_padded if seen.n_padded > MOST * n else 0)
    if numbers >= NEARLY_ALL * n or (numbers >= MOST * n and numbers + n_marked >= NEARLY_ALL * n):
        return _number(seen, min_rows, marks)
    return _text(seen, min_rows)


def is_constant(seen: Sighting, min_rows: int) -> bool:
    """Tell whether all values are the same but for a few rows, which must not show."""
    n_levels = sum(seen.levels.values())
    return n_levels > 0 and n_levels - max(seen.levels.values()) < min_rows


def _are_booleans(seen: Sighting) -> bool:
    return are_answers({level.lower() for level in seen.levels})


def _date(seen: Sighting) -> Recognized:
    if seen.n_foreign:
        return Recognized(DATE, "dates with names of months", format=seen.best)
    if not seen.n_slashed:
        return Recognized(DATE, "dates")
    notes: tuple[str, ...] = ()
    if seen.n_ambiguous:
        notes = ("CHECK: is the day first, or the month? Both fit all dates.",)
    return Recognized(DATE, "dates", format=seen.best, notes=notes)


def _marks(seen: Sighting, min_rows: int) -> tuple[str, ...]:
    """Return texts among numbers that many rows have: they seem to stand for missing values."""
    common = [t for t, n in seen.odd.items() if n >= min_rows and is_name(t)]
    words = [t for t in common if not any(sign.isdigit() for sign in t) and len(t) <= LONG]
    return tuple(sorted(words)) if len(words) <= MAX_MARKS else ()


def _number(seen: Sighting, min_rows: int, marks: tuple[str, ...]) -> Recognized:
    whole = seen.n_numbers - seen.n_whole < min_rows  # not by a single row
    n_different = MAX_LEVELS if seen.too_many else len(seen.levels)
    many = n_different > max(MAX_CATEGORIES, 0.1 * seen.n_present)
    if whole and named_like_an_identifier(seen.name) and many:
        return Recognized(IGNORE, "whole numbers, named like an identifier")
    if whole and named_like_a_code(seen.name) and n_different > FEW_CODES:
        found = _text(seen, min_rows)
        if found.kind == IGNORE:
            found = replace(found, notes=(*found.notes, IF_NUMBERS))
        return replace(found, why="whole numbers, named like codes")
    runs = seen.greatest - seen.least == seen.n_numbers - 1
    if whole and seen.all_different and runs and seen.n_numbers >= 2 * min_rows:
        return Recognized(IGNORE, "whole numbers that count the rows: an identifier")
    notes: tuple[str, ...] = ()
    if whole and n_different <= FEW_CODES:
        codes = common_levels(seen.levels, min_rows)
        if codes:
            shown = ", ".join(f'"{code}"' for code in codes)
            notes = (f'If these few numbers are codes: kind = "category", categories = [{shown}]',)
    if sum(n for text, n in seen.odd.items() if is_limit(text)) >= min_rows:
        notes = (*notes, f"CHECK: limits such as <5 are refused. {LIMIT_ADVICE}")
    return Recognized(NUMBER, "whole numbers" if whole else "numbers", marks=marks, notes=notes)


def _text(seen: Sighting, min_rows: int) -> Recognized:
    n = seen.n_present
    if seen.n_characters > LONG * n:
        return Recognized(IGNORE, "long texts: free text?")
    if sum(n for t, n in seen.odd.items() if has_short_year(t)) > MOST * n:
        note = f'CHECK: {YEAR_ADVICE} Then it is kind = "date".'
        return Recognized(IGNORE, "dates with years of two digits", notes=(note,))
    if _are_mixed_dates(seen):
        return Recognized(IGNORE, "dates in several formats: write all of them alike")
    if seen.n_dates >= MOST * n:
        numbers = seen.n_numbers - (seen.n_dates if seen.best == "%Y%m%d" else 0)
        what = "numbers" if n - seen.n_dates - numbers < min_rows <= numbers else "texts"
        note = f"CHECK: {what} among dates. Correct them, or leave them empty. "
        note += 'Then it is kind = "date".'
        return Recognized(IGNORE, f"dates, and {what} among them", notes=(note,))
    if seen.all_different and n > min_rows:
        return Recognized(IGNORE, "texts that all differ: an identifier, or free text")
    counts, notes = merge_spellings(seen.levels, min_rows)
    levels = common_levels(counts, min_rows)
    covered = sum(counts[level] for level in levels)
    if covered < MOST * n:
        named = named_like_an_identifier(seen.name)
        kind = "an identifier" if named else "an identifier, names or free text"
        if not named and sum(some for some in counts.values() if some >= min_rows) >= MOST * n:
            why = f"over {MAX_CATEGORIES} different texts that repeat: names, or categories?"
            return Recognized(IGNORE, why, notes=(MANY_NOTE,))
        return Recognized(IGNORE, f"many different texts, most of them in few rows: {kind}?")
    why = "codes" if seen.n_padded > MOST * n else "texts that repeat"
    if len(levels) == 1:
        return Recognized(IGNORE, "a single category that enough rows have")
    return Recognized(CATEGORY, why, levels, notes=notes)


def _are_mixed_dates(seen: Sighting) -> bool:
    """Tell whether texts are dates, though no single format fits them."""
    sample = pa.array(list(seen.levels)[:SAMPLE], pa.string())
    fits = np.zeros(len(sample), dtype=np.bool_)
    best = 0
    for pattern in likely_formats(sample):
        found = parse_dates(sample, pattern, ALL_MONTHS).is_valid().to_numpy(zero_copy_only=False)
        fits |= found
        best = max(best, int(found.sum()))
    return len(fits) > 1 and bool(fits.sum() >= NEARLY_ALL * len(fits) > best)
