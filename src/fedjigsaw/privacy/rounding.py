r"""Round what leaves a client to its own sampling error.

The exact mean of n rows and that of the same rows and one more give the last row by subtraction:
:math:`n c - (n - 1) c'`. Another sample of the same size would have moved the mean by about
:math:`s / \sqrt n` in each coordinate, where s is the spread of the rows. Digits below that tell
nothing about clusters, and much about rows. So centers leave as multiples of a power of two of
that size. This adds between :math:`1 / (48 n)` and :math:`1 / (12 n)` of a cluster's sum of squares
to the objective, and subtraction is off by about :math:`\sqrt n s / 4`.

If the rows were scaled, the multiples are those of the units before: 0 and 1 are among them, so a
column of zeros, such as the indicator of missing values that nobody has, stays one. In scaled
units 0 is wherever the scaler has put it, between two multiples.

Where the nearest multiple is outside the range of the client's rows, the next one is taken if it is
inside, so that a share stays between 0 and 1. A range that is narrower than a step may have no
multiple inside; the nearest one is then taken, for the range itself is values of rows.

Where all rows of a client but a few have the same value in a column, such as 0 for a category that
three patients have, every center gets that value: else its mean would tell that a single row of the
cluster is another one.

Otherwise rounding depends on the summary and on the deviation of the rows in each column alone:
the same summary of the same rows gives the same digits, and a rounded summary stays as it is.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedjigsaw._rows import dense, is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.kernels.kmeans import blocks, label_sums
from fedjigsaw.messages import SQUARES, SUPPORT, Summary
from fedjigsaw.validation import MAX_MAGNITUDE

EQUAL_ROWS = 2.0**-40  # spread, relative to the range of centers, that equal rows may have
LAST_DIGITS = 2.0**-50  # and relative to the centers themselves: rounding of their digits
MAX_STEPS = 2.0**40  # from the zero of a column to its mean: more are too far to count exactly
# times the usual spread of columns within clusters: such a column has steps of its own; of less,
# steps are powers of two in any case
FAR_MORE = 2.0
RADIUS_BITS = 4  # steps of 6 to 12 %
BLOCK = 2**18  # numbers that are copied at a time
MAX_RADIUS = 4.0  # largest radius, in root mean squared distances of the rows


class Columns(NamedTuple):
    """What is known of each column of a client's rows.

    Attributes
    ----------
    low, high : least and greatest value.
    deviation : standard deviation.
    common : the value of all rows but a few, NaN where there is none.
    """

    low: Floats
    high: Floats
    deviation: Floats
    common: Floats


UNKNOWN = Columns(*map(np.array, (-np.inf, np.inf, 0.0, np.nan)))


def round_summary(
    summary: Summary, sizes: Ints, columns: Columns | None = None, scaler: Scaler | None = None
) -> Summary:
    """Round centers, radii and sums of a summary whose clusters have these numbers of rows.

    Parameters
    ----------
    columns : what is known of the client's rows, or None.
    scaler : how the rows were scaled, or None.

    Examples
    --------
    Rows 0, 2, 4, 6 and 9: the mean is 4.2, and its sampling error about 1.4.

    >>> summary = Summary(5, [[4.2]], counts=[5], sse=[48.8])
    >>> rounded = round_summary(summary, summary.counts)
    >>> rounded.centers.tolist(), rounded.sse.tolist()
    ([[4.0]], [48.0])
    """
    if not len(summary.centers):
        return summary
    sse = None if summary.sse is None else to_bits(summary.sse, sizes)
    centers = round_centers(summary.centers, sizes, sse, columns, scaler)
    radii = None if summary.radii is None else round_radii(summary.radii, sizes, sse)
    tensors = dict(summary.tensors)
    if tensors.get(SUPPORT, np.zeros(0)).shape == sizes.shape:
        tensors[SUPPORT] = to_bits(tensors[SUPPORT], sizes)
    if SQUARES in tensors:
        tensors[SQUARES] = to_bits(tensors[SQUARES], np.array(summary.n_samples))
    return replace(summary, centers=centers, sse=sse, radii=radii, tensors=tensors)


def columns_of(rows: Any, least_rows: int = 1) -> Columns | None:
    """Return what is known of each column; None if there are no columns.

    Where fewer than `least_rows` rows differ from all others in a column, nothing of them is told:
    neither in its range nor in its deviation.

    Examples
    --------
    >>> columns_of(np.array([[0.0], [0.0], [7.0], [0.0]]), 3).high.tolist()
    [0.0]
    """
    if getattr(rows, "ndim", 0) != 2 or not rows.shape[0]:
        return None
    n_rows, width = rows.shape
    low, high, mean = rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0)
    if is_sparse(rows):
        low, high, value = dense(low).ravel(), dense(high).ravel(), np.zeros(width)
        variance = rows.multiply(rows).mean(axis=0) - np.square(mean)
        variance = np.maximum(np.asarray(variance), 0).ravel()
        n_others = np.asarray(rows.astype(bool).sum(axis=0)).ravel()
    else:
        # a value that nearly all rows have has the majority among twice as many rows as may
        # differ, and so is their median
        value = np.median(rows[: 2 * least_rows - 1], axis=0)
        squares, n_others = np.zeros(width), np.zeros(width, dtype=np.int64)
        open_columns = np.arange(width)
        for part in blocks(n_rows, max(1, width), BLOCK):  # NumPy's deviation copies all rows
            squares += np.square(rows[part] - mean).sum(axis=0)
            differ = rows[part][:, open_columns] != value[open_columns]
            n_others[open_columns] += differ.sum(axis=0)
            open_columns = open_columns[n_others[open_columns] < least_rows]
        variance = squares / n_rows
    alike = (n_others > 0) & (n_others < least_rows) & (n_rows - n_others >= least_rows)
    low, high = np.where(alike, value, low), np.where(alike, value, high)
    deviation = np.where(alike, 0.0, np.sqrt(variance))
    return Columns(low, high, deviation, np.where(alike, value, np.nan))


def to_bits(values: Floats, sizes: Ints) -> Floats:
    r"""Round sums over n rows to about :math:`\log_2 \sqrt n` binary digits, and at least two.

    Examples
    --------
    >>> to_bits(np.array([48.8, 48.8]), np.array([5, 10_000])).tolist()
    [48.0, 49.0]
    """
    return keep_bits(values, np.maximum(2, np.ceil(np.log2(np.maximum(sizes, 1)) / 2)))


def keep_bits(values: Floats, n_bits: Floats | int) -> Floats:
    """Round to a number of significant binary digits."""
    bits = np.asarray(n_bits).astype(np.int64)
    mantissa, exponent = np.frexp(values)
    rounded: Floats = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return rounded


def round_radii(radii: Floats, sizes: Ints, sse: Floats | None) -> Floats:
    """Round radii to steps of 6 to 12 %, and limit them by the spread of all rows of the cluster.

    The radius of a cluster may be the distance of a single row, the farthest one. So it leaves with
    few digits, and a row that is far from all others does not set it. One radius for all centers
    is half a distance between centers, and has no limit.

    Examples
    --------
    >>> round_radii(np.array([3.21, 50.0]), np.array([40, 40]), np.array([40.0, 40.0])).tolist()
    [3.25, 4.0]
    """
    common = len(radii) > 1 and (radii == radii[0]).all()
    if sse is not None and not common:
        limits = MAX_RADIUS * np.sqrt(sse / sizes)
        radii = np.where(limits > 0, np.minimum(radii, limits), radii)
    return keep_bits(radii, RADIUS_BITS)


def round_centers(
    centers: Floats,
    sizes: Ints,
    sse: Floats | None,
    columns: Columns | None = None,
    scaler: Scaler | None = None,
) -> Floats:
    """Round centers to their grids, until rounding again changes nothing.

    The deviation of rounded centers may be over a power of two that it was below; the grid then
    has the double step. A center that has moved is on a coarser grid than before, and grids have
    a largest step, so this ends, nearly always at once.

    Grids are multiples of powers of two in the units that rows had before they were scaled. A
    column whose mean is very many steps away from 0 keeps the 0 of the scaler: there is no digit
    left in which the two could differ.
    """
    if columns is None or columns.low.shape != centers.shape[1:]:
        columns = UNKNOWN
    width, zero, slack = np.array(1.0), np.array(0.0), 0.0
    if scaler is not None:
        # scaling back and forth moves a limit by a few units of the last digit
        width, zero, slack = scaler.deviation, scaler.mean, 4 * np.finfo(np.float64).eps
    centers = np.where(np.isnan(columns.common), centers, columns.common)
    for _ in range(64):
        steps = power_of_two(grid_errors(centers, sizes, sse, columns.deviation) * width)
        mean = np.where(np.abs(zero) < MAX_STEPS * steps, zero, 0.0)
        low, high = columns.low * width + mean, columns.high * width + mean
        if slack:
            size = np.abs(mean) + np.maximum(np.abs(low), np.abs(high))
            low, high = low - slack * size, high + slack * size
        values = centers * width + mean
        rounded = to_grid(values, steps, low, high)
        moved = np.where(rounded == values, centers, (rounded - mean) / width)
        if (moved == centers).all():
            break
        centers = moved
    return centers


def power_of_two(errors: Floats) -> Floats:
    """Return the largest power of two that is at most each number; 0 for 0.

    Examples
    --------
    >>> power_of_two(np.array([0.3, 1.0, 0.0])).tolist()
    [0.25, 1.0, 0.0]
    """
    return np.where(errors > 0, np.ldexp(0.5, np.frexp(errors)[1]), 0.0)


def grid_errors(
    centers: Floats, sizes: Ints, sse: Floats | None, deviation: Floats | float = 0.0
) -> Floats:
    r"""Return what the steps of each center's grid are at most in each column, shape (k, d).

    A step is :math:`s / \sqrt n`, where s is the spread over all columns. In a column that varies
    far more than others within the clusters, it is larger in proportion: else its mean would leave
    with digits that tell of single rows, the more, the more columns there are. It is at most half
    the deviation of the site's centers in that column, so that a column of small numbers beside
    large ones keeps its digits. But the means of a column in a few clusters may agree by chance,
    and whoever asks for many clusterings finds one in which they do. So this limit is at least the
    sampling error that the deviation of the rows in that column gives. Where that is not known, a
    single center, or a column where all centers agree, has no such limit.

    Clusters of equal rows have no spread: they get the median spread of the others. If all rows of
    every cluster are equal, there is nothing to go by: the steps are 0, which rounds nothing. A
    method that computes no sums of squares gets the spread of its centers.
    """
    mean = sizes @ centers / sizes.sum()
    between = np.sqrt(sizes @ (centers - mean) ** 2 / sizes.sum())
    # columns that are the same everywhere: large ones must not hide how small the others are
    constant = between <= EQUAL_ROWS * np.abs(mean)
    if sse is None:
        spread = np.full(len(centers), np.sqrt((between**2).mean()))
    else:
        spread = np.sqrt(sse / sizes / centers.shape[1])
    far = np.abs(np.where(constant, 0.0, centers - mean)).max(axis=1)
    large = np.abs(np.where(constant, 0.0, centers)).max(axis=1)
    equal = spread <= np.maximum(EQUAL_ROWS * far, LAST_DIGITS * large)
    typical = np.median(spread[~equal]) if not equal.all() else 0.0
    errors = (np.where(equal, typical, spread) / np.sqrt(sizes))[:, None]
    least = np.asarray(deviation) / np.sqrt(sizes)[:, None]
    unlimited = constant & (deviation <= EQUAL_ROWS * np.abs(mean))
    within = np.maximum(np.square(deviation) - between**2, 0.0)
    if within.mean() > 0:
        beside_others = np.sqrt(within / within.mean())
        errors = errors * np.where(beside_others > FAR_MORE, beside_others, 1.0)
    return np.minimum(errors, np.where(unlimited, np.inf, np.maximum(between / 2, least)))


def to_grid(values: Floats, steps: Floats, low: Any = -np.inf, high: Any = np.inf) -> Floats:
    """Round to multiples of the steps; a step of 0, or below the last digit, changes nothing.

    A multiple beyond the limits is replaced by the next one, if that is within them. The limits
    themselves, which are values of single rows, are never the result unless they are multiples.

    Examples
    --------
    >>> values, steps = np.array([[0.02], [0.9]]), np.array([[0.25], [0.25]])
    >>> to_grid(values, steps).ravel().tolist()
    [0.0, 1.0]
    >>> to_grid(values, steps, 0.01, 0.95).ravel().tolist()
    [0.25, 0.75]
    """
    fine = steps <= np.abs(values) * np.finfo(np.float64).eps
    used = np.where(fine, 1.0, steps)
    rounded = np.where(fine, values, np.rint(values / used) * used)
    inward = rounded + np.where(rounded < low, used, np.where(rounded > high, -used, 0.0))
    rounded = np.where(~fine & (low <= inward) & (inward <= high), inward, rounded)
    return np.clip(rounded, -MAX_MAGNITUDE, MAX_MAGNITUDE)


# -------------------------------------------------------------------------------- units of the file
#
# A coordinator may choose the scaler of a run, and the centers of a model that is scored. If
# numbers were rounded in the units of that scaler, or as distances to those centers, each choice
# would round the same sum elsewhere, and some choices together would give its last digit. So
# counts, means and sums of squares of groups are rounded before any of that enters: in the units of
# the site's own file, each column by itself. What leaves is computed from the rounded ones. Then a
# choice decides which rows are together, and no digit.


class Moments(NamedTuple):
    """What is told of groups of rows, in the units of the file.

    Attributes
    ----------
    counts : rows of each group, shape (k,).
    means, squares : mean and sum of squared deviations of each column, shape (k, d).
    """

    counts: Ints
    means: Floats
    squares: Floats

    def distances(self, centers: Floats, deviation: Floats | float = 1.0) -> Floats:
        """Return the summed squared distance of each group to its own center, in scaled units.

        Parameters
        ----------
        centers : in the units of the file.
        deviation : that of the scaler.
        """
        away = self.counts[:, None] * (self.means - centers) ** 2
        sums: Floats = ((self.squares + away) / np.square(deviation)).sum(axis=1)
        return sums


def rounded_moments(rows: Floats, labels: Ints, n_groups: int, least_rows: int = 1) -> Moments:
    """Return the rounded moments of groups; those of a group without rows are 0.

    Parameters
    ----------
    rows : in the units of the file.
    labels : group of each row, -1 for none.
    least_rows : where fewer rows than that differ from all others in a column, none seems to.

    Examples
    --------
    >>> rows = np.array([[0.0], [2.0], [4.0], [6.0], [9.0]])
    >>> found = rounded_moments(rows, np.zeros(5, dtype=np.int64), 1)
    >>> found.counts.tolist(), found.means.tolist(), found.squares.tolist()
    ([5], [[4.0]], [[48.0]])
    """
    counts, means, squares = exact = exact_moments(rows, labels, n_groups)
    there = counts > 0
    if not there.any():
        return exact
    sizes, facts = counts[there], columns_of(rows[labels >= 0], least_rows)
    assert facts is not None
    squares[:, ~np.isnan(facts.common)] = 0.0
    squares[there] = to_bits(squares[there], sizes[:, None])
    for j in range(rows.shape[1]):
        column = Columns(*(fact[[j]] for fact in facts))
        means[there, j] = round_centers(
            means[there][:, [j]], sizes, squares[there, j], column
        ).ravel()
    return Moments(counts, means, squares)


def exact_moments(rows: Floats, labels: Ints, n_groups: int) -> Moments:
    """Return the moments of groups as they are, for a site without a guard."""
    inside = labels >= 0
    rows, labels = rows[inside], labels[inside]
    counts = np.bincount(labels, minlength=n_groups)
    ones, n_rows = np.ones(len(rows)), np.maximum(counts, 1)[:, None]
    means = label_sums(rows, labels, ones, n_groups) / n_rows
    squares = label_sums((rows - means[labels]) ** 2, labels, ones, n_groups)
    return Moments(counts, means, squares)
