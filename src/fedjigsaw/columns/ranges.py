"""Propose a range for a column that shows no value of a row."""

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.schema import DATE, from_days, to_days
from fedjigsaw.columns.sketches import Sketch, Sketcher
from fedjigsaw.validation import MAX_MAGNITUDE

# numbers and days that often stand for missing values
CODES = (
    *(-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0),
    *(-88.0, -888.0, 888.0, 8888.0),
)
DATE_CODES = tuple(
    to_days(date(*day))
    for day in (
        *((1111, 11, 11), (1753, 1, 1), (1800, 1, 1), (1899, 12, 30), (1899, 12, 31)),
        *((1900, 1, 1), (1901, 1, 1), (1970, 1, 1), (2099, 12, 31), (2999, 12, 31)),
        *((9999, 1, 1), (9999, 9, 9), (9999, 12, 31)),
    )
)
MARGIN, LOG_MARGIN = 1.0, 0.25  # share of its width by which a range is widened on both sides
SKEWED, CLEARLY = 2.5, 4.0  # how much longer the upper tail is than the lower one


@dataclass
class Spread:
    """Collects the values of a column in bounded memory: the ends, and quantiles.

    Attributes
    ----------
    least_rows : how many values each end is averaged over, after one less was left out
        So an end tells nothing that fewer rows have, however far out a single value is.
    codes : numbers that may stand for missing values; they are held back until it is known.
    are_days : whether the values are days since 1970-01-01, without a time of day.
    """

    least_rows: int
    codes: tuple[float, ...] = ()
    are_days: bool = False
    held: Counter[float] = field(default_factory=Counter)
    low: Floats = field(default_factory=lambda: np.empty(0))
    high: Floats = field(default_factory=lambda: np.empty(0))
    sketcher: Sketcher = field(default_factory=Sketcher)

    def add(self, numbers: Floats) -> None:
        """Add values; missing ones (NaN) are left out."""
        known = numbers[~np.isnan(numbers)]
        known = np.floor(known) if self.are_days else known
        for code in self.codes:
            self.held[code] += int((known == code).sum())
        self._add(known[~np.isin(known, self.codes)] if self.codes else known)

    def _add(self, known: Floats) -> None:
        self.sketcher.add(known)
        n_kept = 2 * self.least_rows - 1
        self.low = np.sort(np.concatenate([self.low, known]))[:n_kept]
        self.high = np.sort(np.concatenate([self.high, known]))[::-1][:n_kept]

    @property
    def ends(self) -> tuple[float, float] | None:
        """Means near the least and the greatest value; None if there are too few values."""
        if len(self.low) < 2 * self.least_rows - 1:
            return None
        low, high = (values[self.least_rows - 1 :].mean() for values in (self.low, self.high))
        return float(low), float(high)

    def find_codes(self, min_rows: int) -> dict[float, int]:
        """Return codes that enough rows have, far away from all other values, with their rows.

        The other codes are taken back.
        """
        found = {c: n for c, n in self.held.items() if n >= min_rows and self._is_far(c, n)}
        for code in self.held.keys() - found.keys():
            self._add(np.full(self.held[code], code))
        self.held.clear()
        return found

    def _is_far(self, code: float, n: int) -> bool:
        """Tell whether a code that n rows have is far away from all other values.

        Days are if they are before or after all others. Numbers are if they are below zero and
        nothing else is, or three times as far from the quartiles as these are from one another,
        where fewer rows have other values: a long tail has many.
        """
        sketch, ends = self.sketcher.sketch(), self.ends
        if sketch is None:
            return False
        if self.are_days:
            return ends is not None and not ends[0] <= code <= ends[1]
        if ends is not None and code < 0 <= ends[0]:
            return code < -1 or ends[1] > 2  # -1, 0, 1 are less, the same, more
        low, high = sketch.quantile(0.25), sketch.quantile(0.75)
        reach = 3 * (high - low)
        if reach <= 0 or low - reach <= code <= high + reach:
            return False
        beyond = sketch.means < low - reach if code < low else sketch.means > high + reach
        return n > int(sketch.sizes[beyond].sum())

    def n_outside(self, limits: tuple[float, float]) -> int:
        """Return how many values are outside of a range; of many, a part is enough."""
        return int((self.low < limits[0]).sum() + (self.high > limits[1]).sum())

    def median(self) -> float:
        """Return the median, as the sketch has it."""
        sketch = self.sketcher.sketch()
        return math.nan if sketch is None else sketch.quantile(0.5)

    def skewness(self) -> tuple[float, float]:
        """Return how much longer the upper tail is than the lower one, and the same of logarithms.

        Zeros if values are negative, and not just a few of them.
        """
        sketch = self.sketcher.sketch()
        if sketch is None or self.ends is None or self.ends[0] < 0:
            return 0.0, 0.0
        values = np.clip(sketch.means, *self.ends)  # a few far out must not decide
        return _tails(Sketch(values, sketch.sizes)), _tails(Sketch(np.log1p(values), sketch.sizes))


def spread_of(kind: str, least_rows: int) -> Spread:
    """Return what collects the values of a column of numbers or dates."""
    return Spread(least_rows, DATE_CODES if kind == DATE else CODES, kind == DATE)


def show_code(kind: str, code: float) -> str:
    """Write a code as `schema apply --missing` takes it."""
    return from_days(code).isoformat() if kind == DATE else f"{code:.10g}"


def _tails(sketch: Sketch) -> float:
    low, middle, high = (sketch.quantile(q) for q in (0.05, 0.5, 0.95))
    return (high - middle) / (middle - low) if middle > low else 0.0


def number_range(low: float, high: float) -> tuple[float, float] | None:
    """Widen a range by its own width on both sides, and round it outward.

    That is to steps of 1, 2 or 5 times a power of ten, and not below zero without negative numbers.
    None if the numbers are too close to one another for that.

    Examples
    --------
    >>> number_range(64.8, 287.2), number_range(18.2, 96.0), number_range(0.31, 0.9)
    ((0.0, 1000.0), (0.0, 200.0), (0.0, 2.0))
    """
    span = high - low or abs(high) or 1.0
    if not (math.isfinite(span) and span > 1e-6 * max(abs(low), abs(high))):
        return None
    step = _step(span)
    least = math.floor((low - MARGIN * span) / step) * step
    greatest = math.ceil((high + MARGIN * span) / step) * step
    least = max(0.0 if low >= 0 else -MAX_MAGNITUDE, least)
    return _tidy(least), _tidy(min(greatest, MAX_MAGNITUDE))


def log_range(low: float, high: float) -> tuple[float, float]:
    """Do the same for numbers whose logarithms are used: from 0 to 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> log_range(0.7, 98.0)
    (0.0, 500.0)
    """
    wide = high + MARGIN * (high - low)
    low, high = math.log1p(low), math.log1p(high)
    wide = max(wide, math.expm1(high + LOG_MARGIN * (high - low)))
    return 0.0, _tidy(_step(min(wide, MAX_MAGNITUDE)))


def _step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(n * power for n in (1, 2, 5, 10) if n * power >= least * (1 - 1e-9)))


def _tidy(value: float) -> float:
    return float(f"{value:.6g}") + 0.0


def date_range(low: float, high: float) -> tuple[float, float]:
    """Widen two days in the same way, and round outward to whole years or decades."""
    span = high - low
    least, greatest = to_days(date.min), to_days(date.max)
    first = from_days(max(low - MARGIN * span, least)).year
    last = from_days(min(high + MARGIN * span, greatest)).year
    step = 10 if last - first > 20 else 1
    first = max(first // step * step, date.min.year)
    last = min((last // step + 1) * step - 1, date.max.year)
    return to_days(date(first, 1, 1)), to_days(date(last, 12, 31))
