"""Values of a file as a schema understands them: numbers, dates, booleans, categories.

Each function returns one number for each value, and NaN for a missing one; a value that it does not
understand raises a :class:`BadValueError` that names its place.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.affixes import advice_for
from fedjigsaw.columns.dates import as_seconds, exchanged, likely_formats, parse_dates, parse_either
from fedjigsaw.columns.levels import fold
from fedjigsaw.columns.schema import BOOLEAN, CATEGORY, DATE, NUMBER, ORDERED, Column
from fedjigsaw.columns.text import (
    TextFormat,
    composed,
    has_days,
    is_text,
    plain,
    to_numbers,
    whole,
    without_missing,
)
from fedjigsaw.columns.words import FALSE, TRUE
from fedjigsaw.errors import MAX_VALUE, DataError, quote_names, shorten

# what a value of each kind must be
MUST_BE = {
    NUMBER: "a number",
    DATE: "a date",
    BOOLEAN: "true or false",
    CATEGORY: "a category",
    ORDERED: "a category",
}
SECONDS_PER_DAY = 86_400


class BadValueError(DataError):
    """A value that a column cannot hold.

    Attributes
    ----------
    place : index of the value among those that were given.
    reason : what is wrong with it.
    advice : what to do.
    """

    def __init__(self, place: int, reason: str, advice: str = "") -> None:
        super().__init__(f"value {place}: {reason}")
        self.place, self.reason, self.advice = place, reason, advice


class AmbiguousDatesError(BadValueError):
    """Dates that can be read with the day or with the month first."""


@dataclass
class Outside:
    """How many values of a column were read, and how many of them the schema does not allow."""

    n_values: int = 0
    n_outside: int = 0

    def add(self, numbers: Floats, outside: npt.NDArray[np.bool_]) -> None:
        """Count some values; missing ones (NaN) are left out."""
        n_outside = int(outside.sum())
        self.n_values += int((~np.isnan(numbers) | outside).sum())
        self.n_outside += n_outside


def read_values(
    column: Column,
    values: pa.Array,
    text: TextFormat,
    pattern: str = "",
    counted: Outside | None = None,
) -> Floats:
    """Return a number for each value: dates in days, booleans 0 or 1, ordered categories 0, 1, ...

    Parameters
    ----------
    pattern : of dates in this file, from :func:`date_format`.
    counted : where values that the schema does not allow are counted.
    """
    counted = counted or Outside()
    if column.kind == NUMBER:
        numbers = _numbers(values, text)
    elif column.kind == DATE:
        found = pattern or date_format(column, values, text)
        numbers = _dates(values, text, found, parse_either if column.format else parse_dates)
    elif column.kind == BOOLEAN:
        numbers = _booleans(values, text)
    elif column.kind == ORDERED:
        codes = read_codes(column, values, text).astype(np.float64)
        numbers = np.where(codes < 0, np.nan, codes)
        counted.add(numbers, codes == OTHER_CODE)
        _treat(column, numbers, codes == OTHER_CODE, lambda i: _no_category(column, values, i))
        return numbers
    else:
        raise ValueError(f"a column of kind {column.kind} has no numbers")
    if column.range is not None:
        low, high = column.range
        outside = (numbers < low) | (numbers > high)
        counted.add(numbers, outside)
        if column.outside == "clip":
            return np.clip(numbers, low, high)
        _treat(column, numbers, outside, lambda i: _outside(column, numbers[i]))
    return numbers


MISSING_CODE, OTHER_CODE = -2, -1
AS_WRITTEN = TextFormat(missing=())


def read_codes(column: Column, values: pa.Array, text: TextFormat) -> Ints:
    """Return the index of each value among the categories; MISSING_CODE or OTHER_CODE if none.

    A value that differs from one category alone by capital letters or blanks is that category.
    """
    levels = read_levels(values, text.keeping(column.categories)).dictionary_encode()
    categories = composed(pa.array(column.categories, pa.string()))
    exact = {level: i for i, level in enumerate(categories.to_pylist())}
    folded = [fold(level) for level in read_levels(categories, AS_WRITTEN).to_pylist()]
    alike = {level: i for i, level in enumerate(folded) if folded.count(level) == 1}
    found = [exact.get(t, alike.get(fold(t), OTHER_CODE)) for t in levels.dictionary.to_pylist()]
    codes: Ints = np.array([*found, MISSING_CODE], dtype=np.int64)
    places: Ints = levels.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
    return codes[places]


def read_levels(values: pa.Array, text: TextFormat) -> pa.Array:
    """Return values as trimmed and composed texts, with null for missing ones; 1.0 reads 1.

    pandas writes whole numbers as 1.0 where others are missing; 1.000 may be a thousand.
    """
    values = plain(values)
    if pa.types.is_floating(values.type):
        values = _float_names(values)
    if not is_text(values.type):
        try:
            values = pc.cast(values, pa.string())
        except pa.ArrowException as error:
            reason = f"values of type {values.type} are no categories"
            raise BadValueError(0, reason, TYPE_ADVICE) from error
    levels = pc.utf8_trim_whitespace(composed(values)).cast(pa.string())
    levels = pc.replace_substring_regex(levels, rf"^([+-]?[0-9]+)[{text.decimal}]00?$", r"\1")
    return without_missing(levels, text.with_missing(map(whole, text.marks)))


def _float_names(values: pa.Array) -> pa.Array:
    """Return a text for each float, whatever the others are; 1.0 and -0.0 read 1 and 0."""
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    different, places = np.unique(numbers, return_inverse=True)
    names = [_float_name(float(value)) for value in different]
    return pa.array(names, pa.string()).take(pa.array(places.reshape(-1)))


def _float_name(value: float) -> str | None:
    if np.isnan(value):
        return None
    return str(int(value)) if value == round(value, 0) and abs(value) < 2**53 else repr(value)


def fitting_formats(texts: pa.Array) -> list[str]:
    """Return the formats in which all texts can be read; few can be, so some texts are tried first.

    Examples
    --------
    >>> fitting_formats(pa.array(["24.10.2024", "1.2.2024"]))
    ['%d.%m.%Y']
    """
    some = texts[:100]
    fits = [f for f in likely_formats(some) if not parse_dates(some, f).null_count]
    return [f for f in fits if not parse_dates(texts, f).null_count]


def date_format(column: Column, values: pa.Array, text: TextFormat) -> str:
    """Return the format in which all dates are written; empty for values that are dates already.

    Dates that can be read with the day or with the month first are an error.
    """
    values = plain(values)
    if column.format or not is_text(values.type):
        return column.format
    texts = without_missing(values, text).drop_null()
    if not len(texts):
        return ""
    fits = fitting_formats(texts)
    if not fits:
        place = _first_bad_date(without_missing(values, text))
        advice = advice_for(DATE, str(values[place].as_py())) or DATE_ADVICE
        raise BadValueError(place, f"{show_value(values, place)} is not a date", advice)
    other = exchanged(fits[0])
    if other in fits and not parse_dates(texts, fits[0]).equals(parse_dates(texts, other)):
        reason = "dates can be read with the day or with the month first"
        raise AmbiguousDatesError(
            0, reason, f"Set format = {fits[0]!r} or {other!r} in the schema."
        )
    return fits[0]


NUMBER_ADVICE = "Correct it, or count it as missing (`fedjigsaw schema apply --missing`)."
DATE_ADVICE = (
    "Correct it, or set the format of the column in the schema, such as '%d.%m.%Y' or, with the "
    "name of the month in any language, '%d. %b %Y'."
)

TYPE_ADVICE = "Convert the column, or ignore it in the schema of all sites."


def _numbers(values: pa.Array, text: TextFormat) -> Floats:
    numbers = to_numbers(values, text)
    if numbers is None:
        place = _first_place(values, lambda value: to_numbers(value, text) is None)
        advice = advice_for(NUMBER, str(plain(values)[place].as_py())) or NUMBER_ADVICE
        raise BadValueError(place, f"{show_value(values, place)} is not a number", advice)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise BadValueError(int(infinite[0]), "infinity is not a finite number", NUMBER_ADVICE)
    return numbers.copy()  # callers write to it, and it may be memory of Arrow


def _booleans(values: pa.Array, text: TextFormat) -> Floats:
    values = plain(values)
    if pa.types.is_boolean(values.type):
        return _as_floats(values)
    words = pc.utf8_lower(read_levels(values, text))
    yes, no = (_flags(pc.is_in(words, value_set=pa.array(some))) for some in (TRUE, FALSE))
    bad = np.flatnonzero(~(yes | no | _flags(words.is_null())))
    if len(bad):
        place = int(bad[0])
        advice = "Write yes or no, true or false, or 1 or 0."
        raise BadValueError(place, f"{show_value(values, place)} is neither true nor false", advice)
    return np.where(yes, 1.0, np.where(no, 0.0, np.nan))


def _dates(
    values: pa.Array, text: TextFormat, pattern: str, parse: Callable[[pa.Array, str], pa.Array]
) -> Floats:
    values = plain(values)
    if is_text(values.type):
        texts = without_missing(values, text)
        times = parse(texts, pattern) if pattern else pc.cast(texts, pa.timestamp("s"))
        bad = np.flatnonzero(_flags(times.is_null()) & ~_flags(texts.is_null()))
        if len(bad):
            place = int(bad[0])
            reason = f"{show_value(values, place)} is not a date as in {pattern!r}"
            raise BadValueError(place, reason, DATE_ADVICE)
    elif has_days(values.type):
        times = as_seconds(values)
    elif pa.types.is_null(values.type):
        times = values.cast(pa.timestamp("s"))
    else:
        raise BadValueError(0, f"values of type {values.type} are no dates", TYPE_ADVICE)
    return _as_floats(times.cast(pa.int64())) / SECONDS_PER_DAY


def _first_bad_date(texts: pa.Array) -> int:
    """Return the first value that does not fit the format which fits most values."""
    parsed = [parse_dates(texts, pattern) for pattern in likely_formats(texts)]
    best = min(parsed, key=lambda times: times.null_count)
    return int(np.flatnonzero(_flags(best.is_null()) & ~_flags(texts.is_null()))[0])


def _treat(
    column: Column,
    numbers: Floats,
    outside: npt.NDArray[np.bool_],
    describe: Callable[[int], str],
) -> None:
    """Make values outside of what is allowed missing, or raise for the first of them."""
    if column.outside == "missing":
        numbers[outside] = np.nan
        return
    for place in np.flatnonzero(outside)[:1].tolist():
        advice = f"Correct it, or set outside = 'missing' for {column.name!r} in the schema."
        raise BadValueError(place, describe(place), advice)


def _outside(column: Column, value: float) -> str:
    low, high = column.range or (-np.inf, np.inf)
    if column.kind == DATE:
        return "the date is outside the range of the schema"
    return f"{value:g} is outside the range of the schema, {low:g} to {high:g}"


def _no_category(column: Column, values: pa.Array, place: int) -> str:
    known = shorten(quote_names(column.categories), MAX_VALUE)
    return f"{show_value(values, place)} is none of the categories {known}"


def show_value(values: pa.Array, place: int, most: int = MAX_VALUE) -> str:
    """Return a value for a sentence, in at most so many characters."""
    return shorten(repr(plain(values)[place].as_py()), most)


def _first_place(values: pa.Array, is_bad: Callable[[pa.Array], bool]) -> int:
    """Find the first bad value by halving: one bad value makes all values bad."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_bad(values[low:middle]) else (middle, high)
    return low


def _flags(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=bool)


def _as_floats(values: pa.Array) -> Floats:
    cast = pc.cast(values, pa.float64(), safe=False)
    return np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64)
