r"""Fit a preparation to the merged statistics of the provisional features.

In a number column, let a share p of the rows be missing, and let c be the value that stood for
them. With mean :math:`\mu` and variance :math:`\sigma^2` of the provisional feature, those of the
values that are there are

.. math:: m = \frac{\mu - p c}{1 - p}, \qquad
          v = \frac{\sigma^2}{1 - p} - p (m - c)^2,

and if f takes the place of the missing ones, the feature has the mean :math:`(1 - p) m + p f` and
the variance :math:`(1 - p) v + p (1 - p) (m - f)^2`: exactly those of the pooled and filled rows.

Scaling: a number by its standard deviation. A feature of 0 and 1 is only centered, and those of a
category are divided by the root of 2, so that two rows which differ in a category, a boolean or an
indicator and in nothing else are as far apart as two that differ by one standard deviation.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoder, Encoding, anchor, feature
from fedjigsaw.columns.schema import ABSENT, BOOLEAN, CATEGORY, MEDIAN, OTHER, Column, Schema
from fedjigsaw.columns.sketches import Sketch, merge_sketches, repeat
from fedjigsaw.errors import ParameterError

UNIT_VARIANCE = 1.3489795003921634  # quartiles of a normal distribution are this far apart
ONE_HOT = math.sqrt(2)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of each provisional feature over all sites."""

    n_samples: int
    mean: Mapping[str, float]
    variance: Mapping[str, float]

    def share(self, column: str, part: str) -> float:
        """Return the mean of a feature of 0 and 1; noise may have moved it out of this range."""
        return min(1.0, max(0.0, self.mean.get(feature(column, part), 0.0)))


@dataclass(frozen=True)
class Fitted:
    """One column's encoder, and how its features are scaled."""

    encoder: Encoder
    center: tuple[float, ...]
    width: tuple[float, ...]


def fit(
    schema: Schema, moments: Moments, sketches: Mapping[str, Sketch], *, least_share: float = 0.0
) -> tuple[Encoding, Floats, Floats]:
    """Return the encoding, and center and width of each of its features.

    Parameters
    ----------
    sketches : for each column that needs quantiles (:func:`needs_sketch`), of all sites together.
    least_share : missing values that are rarer than this have no indicator: noise, for instance.
    """
    found = [
        _fit_category(column, schema.rare, moments, least_share)
        if column.kind == CATEGORY
        else _fit_number(column, moments, sketches.get(column.name), least_share)
        for column in schema.clustered
    ]
    center = np.array([value for fitted in found for value in fitted.center])
    width = np.array([value for fitted in found for value in fitted.width])
    return Encoding(schema, tuple(fitted.encoder for fitted in found)), center, width


def needs_sketch(column: Column) -> bool:
    """Whether quantiles of a column are needed."""
    return column.is_clustered and (column.scale == "robust" or column.missing == MEDIAN)


def _fit_category(column: Column, rare: float, moments: Moments, least_share: float) -> Fitted:
    found = (*column.categories, OTHER)
    shares = {part: moments.share(column.name, part) for part in found}
    parts = [part for part in column.categories if shares[part] >= rare and shares[part] > 0]
    means = [shares[part] for part in parts]
    pooled = sum(share for part, share in shares.items() if part not in parts)
    for part, share in ((OTHER, pooled), (ABSENT, moments.share(column.name, ABSENT))):
        if share > least_share:
            parts.append(part)
            means.append(share)
    if not parts:
        raise _no_values(column)
    width = ONE_HOT / column.weight
    return Fitted(Encoder(column, parts=tuple(parts)), tuple(means), (width,) * len(parts))


def _no_values(column: Column) -> ParameterError:
    text = f"Column {column.name!r} has no values at any site: ignore it."
    return ParameterError(text, column=column.name)


def _fit_number(
    column: Column, moments: Moments, sketch: Sketch | None, least_share: float
) -> Fitted:
    mean, variance = moments.mean[column.name], moments.variance[column.name]
    p = moments.share(column.name, ABSENT)
    if p >= 1:
        raise _no_values(column)
    m = known_mean(column, mean, p)
    if least_share and column.range is not None:  # noise may have moved it out
        low, high = Encoder(column).bounds()
        m = float(np.clip(m, low[0], high[0]))
    v = known_variance(column, variance, m, p)
    f = sketch.quantile(0.5) if column.missing == MEDIAN and sketch is not None else m
    fill = f if column.missing != "refuse" else math.nan
    filled_mean = m if p == 0 else (1 - p) * m + p * f
    filled_variance = v if p == 0 else (1 - p) * v + p * (1 - p) * (m - f) ** 2
    n_missing = round(p * moments.n_samples)
    if sketch is not None and n_missing:
        sketch = merge_sketches([sketch, repeat(f, n_missing)])
    center, width = _scaling(column, filled_mean, filled_variance, moments.n_samples, sketch)
    if p <= least_share:
        return Fitted(Encoder(column, fill), (center,), (width / column.weight,))
    encoder = Encoder(column, fill, (ABSENT,))
    return Fitted(encoder, (center, p), (width / column.weight, 1 / column.weight))


def known_mean(column: Column, mean: float, missing: float) -> float:
    """Return the mean of the values that are there, where a share of the rows has none."""
    return (mean - missing * anchor(column)) / (1 - missing)


def known_variance(column: Column, variance: float, mean: float, missing: float) -> float:
    """Return the variance of the values that are there, whose mean is known."""
    return max(0.0, variance / (1 - missing) - missing * (mean - anchor(column)) ** 2)


def known_moments(schema: Schema, moments: Moments) -> Moments:
    """Return the moments with those of number columns from the values that are there alone."""
    mean, variance = dict(moments.mean), dict(moments.variance)
    for column in schema.clustered:
        p = moments.share(column.name, ABSENT)
        if column.kind != CATEGORY and 0 < p < 1:
            name = column.name
            mean[name] = known_mean(column, mean[name], p)
            variance[name] = known_variance(column, variance[name], mean[name], p)
    return Moments(moments.n_samples, mean, variance)


def _scaling(
    column: Column, mean: float, variance: float, n: int, sketch: Sketch | None
) -> tuple[float, float]:
    """Return center and width of a number column."""
    if column.kind == BOOLEAN:
        return mean, 1.0
    if column.scale == "range" and column.range is not None:
        low, high = column.range
        return low, high - low
    if column.scale == "robust" and sketch is not None:
        low, middle, high = (sketch.quantile(q) for q in (0.25, 0.5, 0.75))
        if high > low:
            return middle, (high - low) / UNIT_VARIANCE
        return middle, _deviation(mean, variance, n)  # at least half of the values are the same
    return mean, _deviation(mean, variance, n)


def _deviation(mean: float, variance: float, n: int) -> float:
    # a deviation this small is due to rounding: the rule of scikit-learn's StandardScaler
    eps = float(np.finfo(float).eps)
    constant = variance <= n * eps * variance + (n * mean * eps) ** 2
    return 1.0 if constant else math.sqrt(variance)
