r"""The guard of profiles: no number about a cluster may stand for fewer than a few rows.

A cluster with fewer rows than the guard asks for is left out of the profile, and so is a column of
which fewer rows have a value. A site may also have sent statistics of all its rows: all rows minus
those of the clusters that are shown are the rows of those that are hidden. So if fewer rows than
the guard asks for are hidden, the next smallest cluster is hidden, too. The summed squared
distances of hidden clusters are those of all of them together, shared out by their rows. Sizes of
clusters stay exact.

Rows of each level leave as the nearest multiple of what the guard asks for, in every cluster: with
5, a 0 stands for 0 to 2 rows, and a 5 for 3 to 7. So do the zeros and the ones of a column that has
no other values: its mean is their share, and its spread follows from that. Levels of a cluster add
up to about its size, not exactly: shares are those of the rounded numbers.

This is the promise: the profile alone never tells a number of rows from its neighbors, and exact
totals of all rows minus the profile are off by up to 2 rows for each cluster that is shown. It is
no proof against someone who knows all totals: if every rounding of a level, or of a cluster, went
as far as it can in the same direction, the totals leave one possibility. Only noise rules that out
(:mod:`fedjigsaw.privacy.noisy_profiles`). Ordered categories are ranks, treated as other numbers.

Means and spreads are rounded to their sampling error, as centers are
(:mod:`fedjigsaw.privacy.rounding`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw.columns.profiles import Moments, Profile, merge_moments, moments
from fedjigsaw.privacy.rounding import to_bits, to_grid

EQUAL = 1e-9  # rounding of moments, for each row


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
    n_clusters = len(sizes) if n_clusters is None else n_clusters
    if min_size == 1 and n_clusters == len(sizes):
        return profile
    never = np.arange(len(sizes)) >= n_clusters
    exact = profile.count, profile.mean, profile.sum_of_squares
    shown = guard_moments(*exact, sizes=sizes, min_size=min_size, never=never)
    small = hidden(sizes, min_size, never)
    counts = {
        column: np.where(small[:, None], 0, to_multiples(found, min_size))[:n_clusters]
        for column, found in profile.level_counts.items()
    }
    shown = _of_clusters(shown, n_clusters)
    return Profile(profile.numbers, *shown, profile.levels, counts, min_size)


def with_noise(labels: Ints, n_clusters: int) -> tuple[Ints, int]:
    """Return labels in which rows of no cluster (-1) are a set of their own, and how many sets."""
    outside = labels < 0
    if not outside.any():
        return labels, n_clusters
    return np.where(outside, n_clusters, labels), n_clusters + 1


def guard_moments(
    count: Ints,
    mean: Floats,
    squares: Floats,
    *,
    sizes: Ints,
    min_size: int,
    never: np.ndarray | None = None,
) -> Moments:
    """Return the moments of cells that may leave, rounded; those of all others are 0.

    Parameters
    ----------
    never : shape (k,), sets of rows that are not shown, such as those of no cluster: what is hidden
        beside them must be enough, since all rows minus those of clusters are theirs.
    """
    if min_size == 1:
        return count, mean, squares
    two = _has_two_values(count, mean, squares)
    small, count = hidden(sizes, min_size, never), count.copy()
    for j in range(count.shape[1]):  # rows without a value make some columns smaller than others
        count[hidden(count[:, j], min_size, small), j] = 0
    share = _rounded_share(count, mean, min_size)
    mean, squares = _rounded(count, mean, squares)
    spread = count * share * (1 - share)
    return count, np.where(two, share, mean), np.where(two, spread, squares)


def _of_clusters(found: Moments, n_clusters: int) -> Moments:
    count, mean, squares = found
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
    shape = (n_clusters, rows.shape[1])
    labels, n_sets = with_noise(labels, n_clusters)
    places = [np.arange(*c.indices(rows.shape[0])) if isinstance(c, slice) else c for c in clients]
    if min_size == 1 and places:  # everything may be told: no need to look at clients one by one
        found = moments(labels, rows, n_sets, np.concatenate(places), weights)
        return _of_clusters(found, n_clusters)
    merged: Moments = (np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))
    for held in places:
        sizes = np.bincount(labels[held], minlength=n_sets)
        own = moments(labels, rows, n_sets, held)
        shown = guard_moments(
            *own, sizes=sizes, min_size=min_size, never=np.arange(n_sets) >= n_clusters
        )
        merged = merge_moments(*merged, *_of_clusters(shown, n_clusters))
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


def _rounded(count: Ints, mean: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Round means to their sampling error, and spreads likewise; nothing where no rows are left."""
    there = count > 0
    squares = np.where(there, to_bits(squares, count), 0.0)
    n = np.maximum(count, 1)
    # rows that are all equal have no spread: they get that of the column in all clusters
    common = squares.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
    errors = np.sqrt(np.where(squares > 0, squares / n, common) / n)
    steps = np.where(errors > 0, np.ldexp(0.5, np.frexp(errors)[1]), 0.0)
    return np.where(there, to_grid(mean, steps), 0.0), squares


def _has_two_values(count: Ints, mean: Floats, squares: Floats) -> np.ndarray:
    """Tell which columns have no values but 0 and 1: then squares add up to what values do."""
    off = np.abs(squares - count * mean * (1 - mean))
    two: np.ndarray = np.all((mean >= 0) & (mean <= 1) & (off <= EQUAL * count), axis=0)
    return two


def _rounded_share(count: Ints, mean: Floats, min_size: int) -> Floats:
    """Return the share of ones, from rounded numbers of ones and zeros; 0 where no rows are."""
    ones = np.rint(count * np.clip(mean, 0, 1)).astype(np.int64)
    yes, no = to_multiples(ones, min_size), to_multiples(count - ones, min_size)
    share: Floats = yes / np.maximum(yes + no, 1)
    return share
