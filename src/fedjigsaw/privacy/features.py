r"""Noisy statistics of mixed columns, for a common preparation under differential privacy.

A row adds whole numbers on a grid to one table; in units of the grid:

- 1 to the number of rows;
- for a category column, 1 to the count of its category: of one of them, of "(other)", or of
  "(missing)";
- for a boolean column, 1 to the count of yes, or of missing values, or nothing if it is no;
- for any other column with a value, clipped to the range of the schema and moved to u in (-1, 1):
  u and :math:`2 u^2 - 1` to two sums, and, if its median or quartiles are needed, 1 to one of 256
  equal bins of the range; if the value is missing, 1 to their count and nothing else.

**Sensitivity.** Two neighbors differ in one row, so their tables differ by the vector that it adds.
Its squared length is the sum of those of the parts, which are entries of their own: 1 for the
number of rows; for a category or boolean column at most 1, since at most one of its entries is 1
and all others are 0; for another column at most 2, since u and :math:`2 u^2 - 1` are at most 1 in
size, or 3 with bins, or 1 if the value is missing. No entry grows by rounding to the grid, as the
largest size, 1, is on it. So the vector is at most :math:`\sqrt{1 + c + 2 m + 3 q}` long, with c
columns of categories and booleans, q others with bins and m without. Whether a value is missing,
and in which category or bin it is, is a matter of its row alone, so no other row adds anything
else: the bound holds for any two neighbors. Noise of that length times the multiplier of
:mod:`fedjigsaw.privacy.accounting`, on all entries, is one Gaussian release.

What is computed from the noisy table, such as quantiles, uses nothing else, and costs nothing.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.encoding import Encoder, Encoding
from fedjigsaw.columns.fitting import needs_sketch
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.columns.schema import BOOLEAN, CATEGORY
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.privacy.accounting import multiplier_for
from fedjigsaw.privacy.guarantee import Privacy, warn_of_large_delta
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.releases import GRID
from fedjigsaw.privacy.statistics import check_unit

BINS = 256


def exact_table(blocks: Iterable[Floats], encoding: Encoding) -> Ints:
    """Return the exact sums, on the grid.

    Parameters
    ----------
    blocks : rows of the features of the encoding.
    encoding : the provisional one of a schema, in which all columns have a range.
    """
    table: Ints = np.zeros(1 + sum(map(_width, encoding.encoders)), dtype=np.int64)
    for rows in blocks:
        parts = encoding.by_column(rows)
        found = [_sums(encoder, parts[encoder.column.name]) for encoder in encoding.encoders]
        table += np.concatenate([[len(rows) * GRID], *found])
    return table


def sensitivity(encoding: Encoding) -> float:
    """Return the largest length of the vector that a row adds to the table."""
    return GRID * math.sqrt(1 + sum(map(_squared_length, encoding.encoders)))


def release(table: Ints, privacy: Privacy, client: str, encoding: Encoding) -> Stats:
    """Add noise to exact sums, and return the statistics that they stand for.

    A spread that is smaller than the noise is stated as the noise.
    """
    check_unit(privacy)
    scale = multiplier_for(privacy.epsilon, privacy.delta) * sensitivity(encoding)
    noisy = Noise.for_answer(privacy, 0, client).add(table, scale) / GRID
    n = max(1, round(float(noisy[0])))
    warn_of_large_delta(privacy, n)
    moments, sketches = [], {}
    for encoder, sums in _columns(noisy, encoding):
        moments.append(_moments(encoder, sums, n, scale / GRID / n))
        if needs_sketch(encoder.column):
            sketches[encoder.column.name] = _sketch(encoder, sums[-BINS:])
    mean, spread = (np.concatenate(values) for values in zip(*moments, strict=True))
    return Stats(
        client,
        encoding.features,
        n,
        mean,
        n * spread,
        made_by=encoding.schema,
        sketches=sketches,
    )


# ------------------------------------------------------------------------- the part of one column


def _is_counted(encoder: Encoder) -> bool:
    """Whether a column has counts alone."""
    return encoder.column.kind in (CATEGORY, BOOLEAN)


def _width(encoder: Encoder) -> int:
    if _is_counted(encoder):
        return len(encoder.features)
    return 2 + len(encoder.parts) + BINS * needs_sketch(encoder.column)


def _squared_length(encoder: Encoder) -> int:
    return 1 if _is_counted(encoder) else 2 + needs_sketch(encoder.column)


def _columns(table: Floats, encoding: Encoding) -> Iterator[tuple[Encoder, Floats]]:
    cuts = np.cumsum([1, *map(_width, encoding.encoders)])
    return zip(encoding.encoders, np.split(table, cuts)[1:-1], strict=True)


def _sums(encoder: Encoder, block: Floats) -> Ints:
    """Return what rows add to the entries of one column."""
    if _is_counted(encoder):
        return np.asarray(GRID * np.rint(block).astype(np.int64).sum(axis=0))
    missing = np.rint(block[:, 1]).astype(bool) if encoder.parts else np.zeros(len(block), bool)
    low, high = _range(encoder)
    values = np.clip(block[~missing, 0], low, high)
    u = np.clip((values - (low / 2 + high / 2)) / (high / 2 - low / 2), -1, 1)
    found = [np.rint(GRID * u).astype(np.int64).sum()]
    found.append(np.rint(GRID * (2 * u**2 - 1)).astype(np.int64).sum())
    if encoder.parts:
        found.append(GRID * missing.sum())
    if needs_sketch(encoder.column):
        bins = np.minimum((BINS * (u + 1) / 2).astype(np.int64), BINS - 1)
        found.extend(GRID * np.bincount(bins, minlength=BINS))
    return np.array(found, dtype=np.int64)


def _range(encoder: Encoder) -> tuple[float, float]:
    low, high = encoder.bounds()
    return float(low[0]), float(high[0])


def _moments(encoder: Encoder, sums: Floats, n: int, noise: float) -> tuple[Floats, Floats]:
    """Return mean and variance of the features of one column.

    Parameters
    ----------
    noise : standard deviation of each sum over n.
    """
    if _is_counted(encoder):
        shares = np.clip(sums / n, 0, 1)
        return _in_range(encoder, shares), shares * (1 - shares)
    missing = min(1.0, max(0.0, sums[2] / n)) if encoder.parts else 0.0
    low, high = _range(encoder)
    half = high / 2 - low / 2
    # in the provisional feature, this stands for a missing value
    stand_in = (encoder.fill - (low / 2 + high / 2)) / half if encoder.parts else 0.0
    mean = float(np.clip(sums[0] / n + missing * stand_in, -1, 1))
    square = (sums[1] / n + (1 - missing)) / 2 + missing * stand_in**2
    # noise makes the square of a mean larger; on average, by its own square
    spread = float(np.clip(square - mean**2 + noise**2, min(1.0, noise), 1))
    means, spreads = [low / 2 + high / 2 + mean * half], [spread * half**2]
    if encoder.parts:
        means.append(missing)
        spreads.append(missing * (1 - missing))
    return np.array(means), np.array(spreads)


def _in_range(encoder: Encoder, shares: Floats) -> Floats:
    """Return shares of a boolean column without more yes than values; others as they are."""
    if encoder.column.kind == BOOLEAN and encoder.parts:
        return np.array([min(shares[0], 1 - shares[1]), shares[1]])
    return shares


def _sketch(encoder: Encoder, counts: Floats) -> Sketch:
    """Return the quantiles that noisy counts of bins stand for.

    The counts up to each bin must not fall: those that come nearest to the noisy ones are taken.
    Setting negative counts to 0 instead would spread rows over all bins that are empty.
    """
    from scipy.optimize import isotonic_regression

    low, high = _range(encoder)
    middles = low + (np.arange(BINS) + 0.5) / BINS * (high - low)
    upto = isotonic_regression(np.cumsum(counts)).x
    sizes = np.diff(np.rint(np.maximum(upto, 0)).astype(np.int64), prepend=0)
    if not sizes.any():  # nothing but noise: all values are as likely
        return Sketch(middles, np.ones(BINS, dtype=np.int64))
    return Sketch(middles[sizes > 0], sizes[sizes > 0])
