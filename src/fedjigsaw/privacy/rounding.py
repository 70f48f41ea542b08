r"""Round what leaves a client to its own sampling error.

The exact mean of n rows and that of the same rows and one more give the last row by subtraction:
:math:`n c - (n - 1) c'`. Another sample of the same size would have moved the mean by about
:math:`s / \sqrt n` in each coordinate, where s is the spread of the rows. Digits below that tell
nothing about clusters, and much about rows. So centers leave as multiples of a power of two of
that size. This adds between :math:`1 / (48 n)` and :math:`1 / (12 n)` of a cluster's sum of squares
to the objective, and subtraction is off by about :math:`\sqrt n s / 4`.

Rounding depends on the summary alone: the same summary gives the same digits, and a rounded
summary stays as it is.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw._validation import MAX_MAGNITUDE
from fedjigsaw.messages import Summary

SUPPORT = "support"  # tensor with one number per center that adds up as counts do
SQUARES = "sum_of_squares"  # tensor with one sum of squares per column
EQUAL_ROWS = 2.0**-40  # spread, relative to the center, that is rounding of equal rows


def round_summary(summary: Summary, sizes: Ints) -> Summary:
    """Round centers, radii and sums of a summary whose clusters have these numbers of rows.

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
    steps = grid_steps(summary.centers, sizes, sse)
    changes: dict[str, Any] = {"centers": to_grid(summary.centers, steps[:, None]), "sse": sse}
    if summary.radii is not None:
        radii = to_grid(summary.radii, steps)
        changes["radii"] = np.where(summary.radii > 0, np.maximum(radii, steps), radii)
    tensors = dict(summary.tensors)
    if tensors.get(SUPPORT, np.zeros(0)).shape == sizes.shape:
        tensors[SUPPORT] = to_bits(tensors[SUPPORT], sizes)
    if SQUARES in tensors:
        tensors[SQUARES] = to_bits(tensors[SQUARES], np.array(summary.n_samples))
    return replace(summary, **changes, tensors=tensors)


def to_bits(values: Floats, sizes: Ints) -> Floats:
    r"""Round sums over n rows to about :math:`\log_2 \sqrt n` binary digits, and at least two.

    Examples
    --------
    >>> to_bits(np.array([48.8, 48.8]), np.array([5, 10_000])).tolist()
    [48.0, 49.0]
    """
    bits = np.maximum(2, np.ceil(np.log2(np.maximum(sizes, 1)) / 2)).astype(np.int64)
    mantissa, exponent = np.frexp(values)
    rounded: Floats = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return rounded


def grid_steps(centers: Floats, sizes: Ints, sse: Floats | None) -> Floats:
    r"""Return the step of each center's grid: a power of two, at most :math:`s / \sqrt n`.

    Clusters of equal rows have no spread: they get the median spread of the others. If all rows of
    every cluster are equal, there is nothing to go by: the steps are 0, which rounds nothing. A
    method that computes no sums of squares gets the spread of its centers.
    """
    if sse is None:
        mean = sizes @ centers / sizes.sum()
        between = sizes @ ((centers - mean) ** 2).mean(axis=1) / sizes.sum()
        spread = np.full(len(centers), np.sqrt(between))
    else:
        spread = np.sqrt(sse / sizes / centers.shape[1])
    equal = spread <= EQUAL_ROWS * np.abs(centers).max(axis=1)
    typical = np.median(spread[~equal]) if not equal.all() else 0.0
    errors = np.where(equal, typical, spread) / np.sqrt(sizes)
    return np.where(errors > 0, np.ldexp(0.5, np.frexp(errors)[1]), 0.0)


def to_grid(values: Floats, steps: Floats) -> Floats:
    """Round to multiples of the steps; a step of 0, or below the last digit, changes nothing."""
    fine = steps <= np.abs(values) * np.finfo(np.float64).eps
    used = np.where(fine, 1.0, steps)
    rounded = np.where(fine, values, np.rint(values / used) * used)
    return np.clip(rounded, -MAX_MAGNITUDE, MAX_MAGNITUDE)
