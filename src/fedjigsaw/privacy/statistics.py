r"""Statistics of columns and profiles of clusters that leave a site: under a guard, or noisy.

**Under a guard**, no number about a cluster may stand for fewer than a few rows. A cluster with
fewer rows than the guard asks for is left out of the profile, and so is a column of which fewer
rows have a value. A site may also have sent statistics of all its rows: all rows minus those of the
clusters that are shown are the rows of those that are hidden. So if fewer rows than the guard asks
for are hidden, the next smallest cluster is hidden, too. The summed squared distances of hidden
clusters are those of all of them together, shared out by their rows. Sizes of clusters stay exact.

Rows of each level leave as the nearest multiple of what the guard asks for, in every cluster: with
5, a 0 stands for 0 to 2 rows, and a 5 for 3 to 7. So do the zeros and the ones of a column that has
no other values: its mean is their share, and its spread follows from that. Levels of a cluster add
up to about its size, not exactly: shares are those of the rounded numbers. Means and spreads are
rounded to their sampling error, as centers are (:mod:`fedjigsaw.privacy.rounding`).

This is the promise: the profile alone never tells a number of rows from its neighbors, and exact
totals of all rows minus the profile are off by up to 2 rows for each cluster that is shown. It is
no proof against someone who knows all totals: if every rounding of a level, or of a cluster, went
as far as it can in the same direction, the totals leave one possibility. Only noise rules that out.
Ordered categories are ranks, treated as other numbers.

**Under differential privacy**, a row adds one vector of whole numbers on a grid to a table of sums,
and nothing else; in units of the grid:

- 1 to the number of rows;
- for a category column, 1 to the count of its category: of one of them, of "(other)", or of
  "(missing)";
- for a boolean column, 1 to the count of yes, or of missing values, or nothing if it is no;
- for any other column with a value, clipped to its range and moved to u in (-1, 1): u and
  :math:`2 u^2 - 1` to two sums, and, if its median or quartiles are needed, 1 to one of 256 equal
  bins of the range; if the value is missing, 1 to their count and nothing else.

Two neighbors differ in one row, so their tables differ by the vector that it adds. Its squared
length is the sum of those of the parts, which are entries of their own: 1 for the number of rows;
for a category or boolean column at most 1, since at most one of its entries is 1; for a number,
with :math:`t = u^2`, at most :math:`t + (2 t - 1)^2 = 4 t^2 - 3 t + 1 \le 2` for t from 0 to 1, and
1 more for its bin. That is the sensitivity. What a row adds is a matter of that row alone, so the
bound holds for any two neighbors.

In a noisy *profile*, a row is in the cluster of its nearest center, which depends on nothing but
the row and the model. It adds such a vector to the sums of that cluster (its d numbers count 2
each, its c categories 1), and nothing to those of the others.

Noise makes the square of a mean larger; on average, by its own square. With a noisy count n and
noisy sums A and B of a column, its mean is A / n and its mean square (1 + B / n) / 2. A spread that
is smaller than the noise is stated as the noise. What is computed from the noisy table, such as
quantiles, uses nothing else, and costs nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw.columns.encoding import Encoder
from fedjigsaw.columns.fitting import needs_sketch
from fedjigsaw.columns.profiles import Moments, Profile, merge_moments, moments
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.columns.schema import BOOLEAN, CATEGORY, REFUSE, Column, Schema
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.kmeans import label_sums
from fedjigsaw.privacy.dp import GRID, ROW, Noise, Privacy
from fedjigsaw.privacy.rounding import power_of_two, to_bits, to_grid

EQUAL = 1e-9  # rounding of moments, for each row
BINS = 256
CLEAR = 2.0  # a cell with fewer rows than this, in standard deviations of the noise, is left out


# ------------------------------------------------------------------------------------ under a guard


def guard_profile(
    profile: Profile, sizes: Ints, min_size: int, n_clusters: int | None = None
) -> Profile:
    """Return what may leave of the exact profile of a site.

    Parameters
    ----------
    sizes : shape (k,), rows of the site in each cluster.
    min_size : fewest rows that a number may stand for; 1 lets everything pass.
    n_clusters : if there are more sets of rows than this, they are no clusters and never shown.
    """
    k = len(sizes) if n_clusters is None else n_clusters
    if min_size == 1 and k == len(sizes):
        return profile
    exact = profile.count, profile.mean, profile.sum_of_squares
    small = hidden(sizes, min_size, np.arange(len(sizes)) >= k)[:k, None]
    counts = {
        column: np.where(small, 0, to_multiples(found[:k], min_size))
        for column, found in profile.level_counts.items()
    }
    shown = guard_moments(exact, sizes, min_size, k)
    return Profile(profile.numbers, *shown, profile.levels, counts, min_size)


def with_noise(labels: Ints, n_clusters: int) -> tuple[Ints, int]:
    """Return labels in which rows of no cluster (-1) are a set of their own, and how many sets."""
    outside = labels < 0
    if not outside.any():
        return labels, n_clusters
    return np.where(outside, n_clusters, labels), n_clusters + 1


def guard_moments(found: Moments, sizes: Ints, min_size: int, n_clusters: int) -> Moments:
    """Return the moments of clusters that may leave, rounded; those of all others are 0.

    Parameters
    ----------
    n_clusters : other sets of rows, such as those of no cluster, are not shown: what is hidden
        beside them must be enough, since all rows minus those of clusters are theirs.
    """
    count, mean, squares = found
    if min_size > 1:
        # columns with no values but 0 and 1: then squares add up to what values do
        off = np.abs(squares - count * mean * (1 - mean))
        two = np.all((mean >= 0) & (mean <= 1) & (off <= EQUAL * count), axis=0)
        small, count = hidden(sizes, min_size, np.arange(len(sizes)) >= n_clusters), count.copy()
        for j in range(count.shape[1]):  # rows without a value make some columns smaller
            count[hidden(count[:, j], min_size, small), j] = 0
        ones = np.rint(count * np.clip(mean, 0, 1)).astype(np.int64)
        yes, no = to_multiples(ones, min_size), to_multiples(count - ones, min_size)
        share = yes / np.maximum(yes + no, 1)
        there, n = count > 0, np.maximum(count, 1)
        squares = np.where(there, to_bits(squares, count), 0.0)
        # rows that are all equal have no spread: they get that of the column in all clusters
        common = squares.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
        steps = power_of_two(np.sqrt(np.where(squares > 0, squares / n, common) / n))
        mean = np.where(two, share, np.where(there, to_grid(mean, steps), 0.0))
        squares = np.where(two, count * share * (1 - share), squares)
    return count[:n_clusters], mean[:n_clusters], squares[:n_clusters]


def moments_of_clients(
    rows: Any,
    labels: Ints,
    clients: Iterable[Rows],
    n_clusters: int,
    min_size: int,
    weights: Floats | None = None,
) -> Moments:
    """Merge the moments that each client may send about its rows; a label of -1 is no cluster.

    Rows have weights only where there is no guard.
    """
    labels, n_sets = with_noise(labels, n_clusters)
    places = [np.arange(*c.indices(rows.shape[0])) if isinstance(c, slice) else c for c in clients]
    if min_size == 1 and places:  # everything may be told: no need to look at clients one by one
        places = [np.concatenate(places)]
    shape = (n_clusters, rows.shape[1])
    merged: Moments = (np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))
    for held in places:
        sizes = np.bincount(labels[held], minlength=n_sets)
        own = moments(labels, rows, n_sets, held, weights)
        merged = merge_moments(*merged, *guard_moments(own, sizes, min_size, n_clusters))
    return merged


def guard_distances(sse: Floats, sizes: Ints, min_size: int) -> Floats:
    """Return summed squared distances without those of single small clusters; the sum is the same.

    Examples
    --------
    >>> guard_distances(np.array([40.0, 9.0, 7.0]), np.array([9, 1, 7]), 5).tolist()
    [40.0, 2.0, 14.0]
    """
    if min_size == 1:
        return sse
    small = hidden(sizes, min_size)
    rows = np.maximum(1, sizes[small].sum())
    found: Floats = np.where(small, sizes * (sse[small].sum() / rows), sse)
    return found


def hidden(sizes: Ints, min_size: int, already: np.ndarray | None = None) -> np.ndarray:
    """Tell which of several sets of rows are hidden: the small ones, and enough beside them.

    Examples
    --------
    >>> hidden(np.array([9, 1, 7, 0]), 5).tolist(), hidden(np.array([9, 3, 3]), 5).tolist()
    ([False, True, True, True], [False, True, True])
    """
    hide = sizes < min_size
    if already is not None:
        hide |= already
    while 0 < sizes[hide].sum() < min_size and not hide.all():
        hide[np.flatnonzero(~hide)[sizes[~hide].argmin()]] = True
    return hide


def to_multiples(counts: Ints, step: int) -> Ints:
    """Round numbers of rows to the nearest multiple of a step; half of an even step goes up.

    Examples
    --------
    >>> to_multiples(np.array([0, 1, 2, 3, 7, 8, 70, 72]), 5).tolist()
    [0, 0, 0, 5, 5, 10, 70, 70]
    """
    return (counts + step // 2) // step * step


# --------------------------------------------------------------------------- noisy sums of a column


def _sums_of(values: Floats, low: Any, high: Any) -> tuple[Floats, Ints]:
    """Return u of each value, and what it adds to both sums: nothing if it is missing (NaN)."""
    u = np.clip((values - (low / 2 + high / 2)) / (high / 2 - low / 2), -1, 1)
    whole = np.rint(GRID * np.stack([u, 2 * u**2 - 1]))
    return u, np.nan_to_num(whole, copy=False).astype(np.int64)


def _debiased(
    n: Any, sums: Any, noise: float, low: Any, high: Any, missing: float = 0.0, fill: float = 0.0
) -> tuple[Any, Any]:
    """Return mean and variance of a column, in its units, from noisy numbers.

    Parameters
    ----------
    n, sums : number of rows, and both sums.
    noise : standard deviation of the noise on each sum.
    missing : share of the rows without a value, which `fill` stands for.
    """
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    stand_in = (fill - middle) / half
    mean = np.clip(sums[0] / n + missing * stand_in, -1, 1)
    square = np.clip((sums[1] / n + 1 - missing) / 2 + missing * stand_in**2, 0, 1)
    variance = square - mean**2 + (noise / n) ** 2
    return middle + mean * half, np.clip(variance, np.minimum(1.0, noise / n), 1) * half**2


# --------------------------------------------------------------------------------- noisy statistics


def check_unit(privacy: Privacy) -> None:
    """Raise a ParameterError if statistics cannot keep this promise."""
    if privacy.unit != ROW:
        raise ParameterError(
            "Statistics protect each row, not a whole site. Make the scaler from the bounds "
            "instead, which costs nothing: `fedjigsaw scaler --bounds columns.json`"
        )


def count_outside(rows: Floats, privacy: Privacy) -> int:
    """Count the rows that are clipped."""
    low, high = privacy.limits(rows.shape[1])
    return int(((rows < low) | (rows > high)).any(axis=1).sum())


def plain(columns: Sequence[str], privacy: Privacy) -> tuple[Encoder, ...]:
    """Return encoders of columns of numbers within the bounds of a promise."""
    low, high = privacy.limits(len(columns))
    return tuple(
        Encoder(Column(name, range=(a, b), missing=REFUSE))
        for name, a, b in zip(columns, low.tolist(), high.tolist(), strict=True)
    )


def exact_table(blocks: Iterable[Floats], encoders: Sequence[Encoder]) -> Ints:
    """Return the exact sums, on the grid.

    Parameters
    ----------
    blocks : rows of the features of the encoders, whose columns have a range.
    """
    table: Ints = np.zeros(1 + sum(map(_width, encoders)), dtype=np.int64)
    cuts = np.cumsum([len(encoder.features) for encoder in encoders])[:-1]
    for rows in blocks:
        table[0] += GRID * len(rows)
        parts = zip(encoders, np.split(np.ascontiguousarray(rows.T), cuts), strict=True)
        table[1:] += np.concatenate([_column_sums(encoder, part) for encoder, part in parts])
    return table


def sensitivity(encoders: Sequence[Encoder]) -> float:
    """Return the largest length of the vector that a row adds to the table."""
    squared = (1 if _is_counted(e) else 2 + needs_sketch(e.column) for e in encoders)
    return GRID * math.sqrt(1 + sum(squared))


def release(
    table: Ints,
    privacy: Privacy,
    client: str,
    encoders: Sequence[Encoder],
    made_by: Schema | None = None,
) -> Stats:
    """Add noise to exact sums, and return the statistics that they stand for."""
    check_unit(privacy)
    scale = privacy.multiplier() * sensitivity(encoders)
    noisy = Noise.for_answer(privacy, 0, client).add(table, scale) / GRID
    n = max(1, round(float(noisy[0])))
    privacy.warn_of_large_delta(n)
    found, sketches = [], {}
    cuts = np.cumsum([1, *map(_width, encoders)])
    for encoder, sums in zip(encoders, np.split(noisy, cuts)[1:-1], strict=True):
        found += _moments(encoder, sums, n, scale)
        if needs_sketch(encoder.column):
            sketches[encoder.column.name] = _sketch(encoder, sums[-BINS:])
    names = tuple(name for encoder in encoders for name in encoder.features)
    mean, variance = np.array(found).T
    return Stats(client, names, n, mean, n * variance, made_by=made_by, sketches=sketches)


def _is_counted(encoder: Encoder) -> bool:
    """Whether a column has counts alone."""
    return encoder.column.kind in (CATEGORY, BOOLEAN)


def _width(encoder: Encoder) -> int:
    if _is_counted(encoder):
        return len(encoder.features)
    return 2 + len(encoder.parts) + BINS * needs_sketch(encoder.column)


def _range(encoder: Encoder) -> tuple[float, float]:
    low, high = encoder.bounds()
    return float(low[0]), float(high[0])


def _column_sums(encoder: Encoder, features: Floats) -> Ints:
    """Return what rows add to the entries of one column."""
    if _is_counted(encoder):
        return np.asarray(GRID * np.rint(features).astype(np.int64).sum(axis=1))
    missing = np.rint(features[1:]).astype(bool)  # without a row if no value can be missing
    values = np.where(missing[0], np.nan, features[0]) if encoder.parts else features[0]
    u, sums = _sums_of(values, *_range(encoder))
    found = [*sums.sum(axis=1), *(GRID * missing.sum(axis=1))]
    if needs_sketch(encoder.column):
        bins = (BINS * (u[~np.isnan(u)] + 1) / 2).astype(np.int64)
        found.extend(GRID * np.bincount(np.minimum(bins, BINS - 1), minlength=BINS))
    return np.array(found, dtype=np.int64)


def _moments(encoder: Encoder, sums: Floats, n: int, scale: float) -> list[tuple[float, float]]:
    """Return mean and variance of each feature of one column."""
    if _is_counted(encoder):
        shares = np.clip(sums / n, 0, 1)
        spreads = shares * (1 - shares)
        if encoder.column.kind == BOOLEAN and encoder.parts:  # no more yes than values
            shares[0] = min(shares[0], 1 - shares[1])
        return list(zip(shares, spreads, strict=True))
    missing, fill = (np.clip(sums[2] / n, 0, 1), encoder.fill) if encoder.parts else (0.0, 0.0)
    found = _debiased(n, sums, scale / GRID, *_range(encoder), missing, fill)
    return [found, (missing, missing * (1 - missing))][: len(encoder.features)]


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


# ----------------------------------------------------------------------------------- noisy profiles


@dataclass
class Sums:
    """Exact sums over the rows of each cluster, on the grid; they never leave without noise.

    Parameters
    ----------
    n_clusters, numbers, levels : as of the profile.
    privacy : its bounds are those of the columns of numbers.
    """

    n_clusters: int
    numbers: Sequence[str]
    levels: Mapping[str, tuple[str, ...]]
    privacy: Privacy
    table: Ints = field(init=False)

    def __post_init__(self) -> None:
        if self.privacy.unit != ROW:
            raise ParameterError(
                "A profile protects each row, not a whole site. Use rows as the unit, or no "
                "profile.",
                parameter="unit",
            )
        n_levels = sum(map(len, self.levels.values()))
        width = 1 + 3 * len(self.numbers) + n_levels
        self.table = np.zeros((self.n_clusters, width), dtype=np.int64)

    @property
    def sensitivity(self) -> float:
        """The largest length of the vector that a row adds."""
        return GRID * math.sqrt(1 + 2 * len(self.numbers) + len(self.levels))

    def add(self, labels: Ints, rows: Floats, codes: Ints | None = None) -> None:
        """Add rows, as in :meth:`fedjigsaw.columns.profiles.Collector.add`."""
        n, d = rows.shape
        low, high = (limits[:, None] for limits in self.privacy.limits(d))
        u, sums = _sums_of(rows.T, low, high)
        values = np.vstack([np.full((1, n), GRID), GRID * np.isnan(u), *sums])
        added = label_sums(values.T, labels, np.ones(n), self.n_clusters)  # exact up to 2^53
        self.table[:, : 1 + 3 * d] += added.astype(np.int64)
        start = 1 + 3 * d
        for j, names in enumerate(self.levels.values()):
            assert codes is not None
            there = codes[:, j] >= 0
            np.add.at(self.table, (labels[there], start + codes[there, j]), GRID)
            start += len(names)


def release_profile(sums: Sums, client: str) -> tuple[Ints, Profile]:
    """Add noise to the sums, and return the sizes of clusters and the profile that they stand for.

    Cells whose number of rows is lost in the noise are left out.
    """
    privacy, d = sums.privacy, len(sums.numbers)
    scale = privacy.multiplier() * sums.sensitivity
    noisy = Noise.for_answer(privacy, 0, client).add(sums.table, scale) / GRID
    noise = scale / GRID
    sizes: Ints = np.maximum(0, np.rint(noisy[:, 0])).astype(np.int64)
    sizes[sizes.argmax()] = max(1, sizes.max())
    privacy.warn_of_large_delta(int(sizes.sum()))
    missing, *both = np.split(noisy[:, 1 : 1 + 3 * d], 3, axis=1)
    # a column without missing values would only get more noise from their number
    missing = np.where(missing > CLEAR * noise, missing, 0.0)
    count = np.clip(np.rint(sizes[:, None] - missing), 0, sizes[:, None]).astype(np.int64)
    count[count < CLEAR * noise] = 0
    mean, variance = _debiased(np.maximum(count, 1), both, noise, *privacy.limits(d))
    counts, cuts = {}, np.cumsum([1 + 3 * d, *map(len, sums.levels.values())])
    for column, part in zip(sums.levels, np.split(noisy, cuts, axis=1)[1:], strict=False):
        found = np.maximum(0, part)  # no more rows together than the cluster has
        total = found.sum(axis=1)
        share = np.where(total > sizes, sizes / np.maximum(total, 1), 1.0)
        counts[column] = np.floor(found * share[:, None]).astype(np.int64)
    mean = np.where(count > 0, mean, 0.0)
    return sizes, Profile(tuple(sums.numbers), count, mean, count * variance, sums.levels, counts)
