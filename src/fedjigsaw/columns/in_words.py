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


def all_digits(name: str, value: float, columns: Mapping[str, Column], digits: int = 6) -> str:
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
        return f"{value:.{digits}g}, around {level(value, column.categories)}"
    return f"{value_of(column, value):.{digits}g}{_unit(column)}"


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


def moments_in_short(
    name: str, mean: float, deviation: float, columns: Mapping[str, Column]
) -> str:
    """Write the same with few digits and words, to compare sites.

    Examples
    --------
    >>> columns = {"dose": Column("dose", unit="mg", scale="log"), "day": Column("day", DATE)}
    >>> moments_in_short("dose", math.log1p(9), math.log(2), columns)
    'geometric mean 9 mg, deviation a factor of 2'
    >>> moments_in_short("day", 18_000.4, 30.5, columns)
    'mean 2019-04-14, deviation 30.5 days'
    """
    column, value = columns.get(name, Column(name)), all_digits(name, mean, columns, 4)
    which = "geometric mean" if column.scale == "log" else "mean"
    width = deviations(name, deviation, deviation, columns)
    return f"{which} {value}, deviation {width}"


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
