"""Read values as a schema does, but without stopping at the first bad one: for checks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.dates import as_seconds, exchanged, likely_formats, parse_dates, parse_either
from fedjigsaw.columns.schema import BOOLEAN, DATE, NUMBER, TEXT_KINDS, Column
from fedjigsaw.columns.text import (
    Flags,
    TextFormat,
    are_numbers,
    has_days,
    is_text,
    plain,
    to_numbers,
    without_missing,
)
from fedjigsaw.columns.values import (
    MISSING_CODE,
    OTHER_CODE,
    SECONDS_PER_DAY,
    AmbiguousDatesError,
    BadValueError,
    date_format,
    fitting_formats,
    read_codes,
    read_levels,
)
from fedjigsaw.columns.words import FALSE, TRUE
from fedjigsaw.validation import MAX_MAGNITUDE

SAMPLE = 1000  # dates by which a format is chosen


@dataclass(frozen=True)
class Reading:
    """Values of one column, and what is wrong with which.

    Attributes
    ----------
    numbers : one for each value, as of :func:`~fedjigsaw.columns.values.read_values`, before
        ranges; of a category its index. NaN if missing or unreadable.
    missing : which values are missing.
    unreadable : which are not of the column's kind.
    outside : which are outside of its range, or none of its categories.
    """

    numbers: Floats
    missing: Flags
    unreadable: Flags
    outside: Flags


def read_leniently(
    column: Column, values: pa.Array, text: TextFormat, pattern: str = ""
) -> Reading:
    """Read the values of a column of any kind but ignore.

    Parameters
    ----------
    pattern : of dates, from :func:`best_format`.
    """
    values = plain(values)
    if column.kind in TEXT_KINDS:
        return _levels(column, values, text)
    if column.kind == DATE:
        parse = parse_either if column.format else parse_dates
        numbers, missing = _dates(values, text, pattern, parse)
    else:
        numbers, missing = {NUMBER: _numbers, BOOLEAN: _booleans}[column.kind](values, text)
    unreadable = np.isnan(numbers) & ~missing
    outside = np.zeros(len(numbers), dtype=np.bool_)
    if column.range is not None:
        low, high = column.range
        outside = (numbers < low) | (numbers > high)
    return Reading(numbers, missing, unreadable, outside)


def best_format(column: Column, values: pa.Array, text: TextFormat) -> str:
    """Return the format that fits the most dates; empty if none fits any, or they are no texts."""
    values = plain(values)
    if column.format or not is_text(values.type):
        return column.format
    texts = without_missing(values, text).drop_null()
    fits = fitting_formats(texts) if len(texts) else []
    if fits:  # as other commands read them
        return fits[0]
    texts = texts[:SAMPLE]
    found = {f: len(texts) - parse_dates(texts, f).null_count for f in likely_formats(texts)}
    best = max(found, key=lambda f: found[f])
    return best if found[best] else ""


def is_ambiguous(column: Column, values: pa.Array, text: TextFormat) -> bool:
    """Tell whether all dates can be read with the day or with the month first."""
    try:
        date_format(column, values, text)
    except AmbiguousDatesError:
        return True
    except BadValueError:
        return False
    return False


def count_exchanged(values: pa.Array, text: TextFormat, pattern: str) -> tuple[int, int]:
    """Return how many dates fit a format, and how many fit the exchanged one."""
    values = plain(values)
    if not is_text(values.type):
        return 0, 0
    texts = without_missing(values, text)
    fits = [~nulls(parse_dates(texts, found)) for found in (pattern, exchanged(pattern))]
    return int(fits[0].sum()), int(fits[1].sum())


def _levels(column: Column, values: pa.Array, text: TextFormat) -> Reading:
    try:
        codes = read_codes(column, values, text)
    except BadValueError:  # of a type that cannot be a category
        codes = np.where(nulls(values), MISSING_CODE, OTHER_CODE)
        numbers: Floats = np.full(len(values), np.nan)
        absent, bad = codes == MISSING_CODE, codes == OTHER_CODE
        return Reading(numbers, absent, bad, np.zeros(len(values), dtype=np.bool_))
    outside = codes == OTHER_CODE
    numbers = np.where(codes < 0, np.nan, codes)
    never = np.zeros(len(values), dtype=np.bool_)
    return Reading(numbers, codes == MISSING_CODE, never, outside)


def _numbers(values: pa.Array, text: TextFormat) -> tuple[Floats, Flags]:
    good: Flags = np.ones(len(values), dtype=np.bool_)
    if is_text(values.type) and to_numbers(values, text) is None:
        good = are_numbers(values, text)
        values = pc.if_else(pa.array(good), values, pa.scalar(None, values.type))
    numbers = to_numbers(values, text)
    if numbers is None:  # a type that has no numbers
        return np.full(len(values), np.nan), nulls(values)
    missing = np.isnan(numbers) & good
    return np.where(np.abs(numbers) <= MAX_MAGNITUDE, numbers, np.nan), missing


def _dates(
    values: pa.Array, text: TextFormat, pattern: str, parse: Callable[[pa.Array, str], pa.Array]
) -> tuple[Floats, Flags]:
    missing = nulls(values)
    if is_text(values.type):
        texts = without_missing(values, text)
        missing = nulls(texts)
        if not pattern:
            return np.full(len(values), np.nan), missing
        times = parse(texts, pattern)
    elif has_days(values.type):
        times = as_seconds(values)
    else:
        return np.full(len(values), np.nan), missing
    seconds = pc.cast(times.cast(pa.int64()), pa.float64(), safe=False)
    return seconds.to_numpy(zero_copy_only=False) / SECONDS_PER_DAY, missing


def _booleans(values: pa.Array, text: TextFormat) -> tuple[Floats, Flags]:
    try:
        words = pc.utf8_lower(read_levels(values, text))
    except BadValueError:
        return np.full(len(values), np.nan), nulls(values)
    found = [pc.is_in(words, value_set=pa.array(some)) for some in (TRUE, FALSE)]
    yes, no = (flags.to_numpy(zero_copy_only=False) for flags in found)
    return np.where(yes, 1.0, np.where(no, 0.0, np.nan)), nulls(words)


def nulls(values: pa.Array) -> Flags:
    """Say of each value whether it is null."""
    found: Flags = values.is_null().to_numpy(zero_copy_only=False)
    return found
