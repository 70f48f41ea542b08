"""Values of features in the units of the table, and in words.

A feature is a column as it is clustered: the logarithm of some numbers, days since 1970-01-01 of
dates, ranks of ordered categories. Whatever people read is turned back here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedjigsaw.columns.encoding import MAX_LOG, to_units
from fedjigsaw.columns.schema import BOOLEAN, CATEGORY, DATE, ORDERED, Column, Schema, from_days
from fedjigsaw.kernels.contrasts import MOSTLY


def features_of(schema: Schema | None) -> dict[str, Column]:
    """Return the column that each feature is the values of; others are shares of 0 to 1."""
    columns = () if schema is None else schema.clustered
    return {column.name: column for column in columns if column.kind != CATEGORY}


def shown_of(schema: Schema | None) -> dict[str, Column]:
    """Return the columns of numbers that profiles show, which take the logarithm of none."""
    columns = () if schema is None else schema.described
    return {c.name: replace(c, scale="standard") for c in columns if c.kind != CATEGORY}


def value_of(column: Column, value: float) -> float:
    """Return a value of a feature in the units of the column."""
    return float(to_units(column, np.array(value)))


def within(column: Column, value: float) -> float:
    """Return the nearest value that the column can have; noise may have moved it out."""
    if column.kind == BOOLEAN:
        low, high = 0.0, 1.0
    elif column.kind == ORDERED:
        low, high = 0.0, len(column.categories) - 1.0
    else:
        low, high = column.range or (-math.inf, math.inf)
    return value if math.isnan(value) else min(high, max(low, value))


def all_digits(name: str, value: float, columns: Mapping[str, Column]) -> str:
    """Write a value of a feature in the units of its column, for those who check what leaves.

    Examples
    --------
    >>> columns = {"dose": Column("dose", unit="mg", scale="log"), "day": Column("day", DATE)}
    >>> all_digits("dose", math.log1p(9), columns), all_digits("day", 18_000.4, columns)
    ('9 mg', '2019-04-14')
    """
    column = columns.get(name, Column(name))
    if column.kind == DATE:
        return day(value)
    if column.kind == ORDERED:
        return f"{value:.6g}, around {level(value, column.categories)}"
    return f"{value_of(column, value):.6g}{_unit(column)}"


def moments(name: str, mean: float, deviation: float, columns: Mapping[str, Column]) -> str:
    """Write mean and standard deviation of a feature in the units of its column.

    Examples
    --------
    >>> columns = {"dose": Column("dose", unit="mg", scale="log"), "day": Column("day", DATE)}
    >>> moments("dose", math.log1p(9), math.log(2), columns)
    'geometric mean 9 mg, standard deviation a factor of 2 (both of 1 + value)'
    >>> moments("day", 18_000.4, 30.5, columns)
    'mean 2019-04-14, standard deviation 30.5 days'
    """
    column, value = columns.get(name, Column(name)), all_digits(name, mean, columns)
    if column.scale == "log":
        factor = f"a factor of {_factor(deviation):.6g}"
        return f"geometric mean {value}, standard deviation {factor} (both of 1 + value)"
    rank = "rank " if column.kind == ORDERED else ""
    days = " days" if column.kind == DATE else ""
    return f"mean {rank}{value}, standard deviation {deviation:.6g}{days}"


def limits(name: str, low: float, high: float, columns: Mapping[str, Column]) -> str:
    """Write the least and the greatest value of a feature in the units of its column.

    Examples
    --------
    >>> columns = {"dose": Column("dose", unit="mg", scale="log"), "day": Column("day", DATE)}
    >>> limits("dose", 0.0, math.log1p(9), columns), limits("day", 0.0, 365.0, columns)
    ('0 to 9 mg', '1970-01-01 to 1971-01-01')
    """
    column = columns.get(name, Column(name))
    if column.kind == DATE:
        return f"{day(low)} to {day(high)}"
    if column.kind == ORDERED:
        return f"{level(low, column.categories)} to {level(high, column.categories)}"
    return f"{value_of(column, low):g} to {value_of(column, high):g}{_unit(column)}"


def deviations(name: str, low: float, high: float, columns: Mapping[str, Column]) -> str:
    """Write standard deviations of noise on a feature in the units of its column.

    Examples
    --------
    >>> columns = {"dose": Column("dose", unit="mg", scale="log"), "day": Column("day", DATE)}
    >>> deviations("dose", 0.01, 0.1, columns), deviations("day", 2.0, 2.0, columns)
    ('a factor of 1.01 to 1.11', '2 days')
    """
    column = columns.get(name, Column(name))
    log = column.scale == "log"
    least, most = (_factor(x) if log else x for x in (low, high))
    text = f"{least:.3g} to {most:.3g}" if high > low else f"{least:.3g}"
    if log:
        return f"a factor of {text}"
    unit = {DATE: " days", ORDERED: " ranks"}.get(column.kind, _unit(column))
    return f"{text}{unit}"


def _factor(deviation: float) -> float:
    return math.exp(min(deviation, MAX_LOG))


def _unit(column: Column) -> str:
    return f" {unit_of(column)}" if unit_of(column) else ""


def unit_of(column: Column) -> str:
    """Return the unit of a column, or nothing if its name ends with it.

    Examples
    --------
    >>> unit_of(Column("age", unit="years")), unit_of(Column("lactate [mmol/l]", unit="mmol/l"))
    ('years', '')
    """
    ends = tuple(form.format(column.unit) for form in ("[{}]", "({})", " {}", "_{}"))
    return "" if column.name.endswith(ends) else column.unit


def number(value: float, spread: float) -> str:
    """Format a number with the digits that matter beside a standard deviation.

    Examples
    --------
    >>> number(71.23, 11.0), number(5.4321, 0.8), number(123456.7, 9000.0), number(1e-7, 1e-8)
    ('71', '5.43', '123,460', '1e-07')
    >>> number(-0.001, 0.5), number(2.5e9, 1e8), number(15_090.0, 14_000.0)
    ('0.00', '2.5e+09', '15,100')
    """
    if not math.isfinite(value):
        return "unknown"
    digits = math.ceil(1 - math.log10(spread)) if spread > 0 else 2
    digits = min(0, digits + 1) if digits < 0 else digits
    if abs(value) >= 1e7 or digits > 6:
        return f"{value:.3g}"
    return f"{round(value, digits) + 0.0:,.{max(0, digits)}f}"  # + 0.0: no minus before zero


def percent(share: float) -> str:
    """Format a share.

    Examples
    --------
    >>> percent(0.824), percent(0.0042), percent(0.0), percent(1.0), percent(0.9999)
    ('82 %', '0.4 %', '0 %', '100 %', '99.99 %')
    """
    if not math.isfinite(share):
        return "unknown"
    share = min(1.0, max(0.0, share))
    for digits in range(4):
        text = f"{100 * share:.{digits}f}"
        if share in (0.0, 1.0) or 0 < float(text) < 100:
            return f"{text} %"
    return "under 0.001 %" if share < MOSTLY else "over 99.999 %"


def day(days: float) -> str:
    """Format days since 1970-01-01 as a date.

    Examples
    --------
    >>> day(18_000.4), day(1e9)
    ('2019-04-14', 'unknown')
    """
    try:
        return from_days(days).isoformat()
    except (OverflowError, ValueError):
        return "unknown"


def level(rank: float, categories: Sequence[str]) -> str:
    """Return the category of an ordered column that is nearest to a mean rank.

    Examples
    --------
    >>> level(1.2, ("I", "II", "III")), level(9.0, ("I", "II"))
    ('II', 'II')
    """
    if not math.isfinite(rank) or not categories:
        return "unknown"
    return categories[min(len(categories) - 1, max(0, round(rank)))]
