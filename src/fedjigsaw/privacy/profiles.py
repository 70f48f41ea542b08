r"""The guard of profiles: no number about a cluster may stand for fewer than a few rows.

A cluster with fewer rows than the guard asks for is left out of the profile, and so is a column of
which fewer rows have a value. A site may also have sent statistics of all its rows: all rows minus
those of the clusters that are shown are the rows of those that are hidden. So if fewer rows than
the guard asks for are hidden, the next smallest cluster is hidden, too. The summed squared
distances of hidden clusters are those of all of them together, shared out by their rows. Sizes of
clusters stay exact.

Levels of few rows are pooled into ``(other)``. If these are still fewer rows than the guard asks
for, they count as that many, and the most frequent level of the cluster as fewer: so there is
"at most 5" instead of 1 to 4.

Means and spreads are rounded to their sampling error, as centers are
(:mod:`fedjigsaw.privacy.rounding`).
"""

from collections.abc import Iterable

import numpy as np

from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw.columns.schema import OTHER
from fedjigsaw.kernels.profiles import Moments, Profile, merge_moments, moments
from fedjigsaw.privacy.rounding import to_bits, to_grid


def guard_profile(profile: Profile, sizes: Ints, min_size: int) -> Profile:
    """Return what may leave of the exact profile of a site.

    Parameters
    ----------
    sizes : shape (k,), rows of the site in each cluster.
    min_size : fewest rows that a number may stand for; 1 lets everything pass.
    """
    if min_size == 1:
        return profile
    exact = profile.count, profile.mean, profile.sum_of_squares
    shown = guard_moments(*exact, sizes=sizes, min_size=min_size)
    small = hidden(sizes, min_size)
    levels, counts = {}, {}
    for column, names in profile.levels.items():
        levels[column] = names if OTHER in names else (*names, OTHER)
        found = np.where(small[:, None], 0, profile.level_counts[column])
        counts[column] = _pooled(found, levels[column].index(OTHER), len(levels[column]), min_size)
    return Profile(profile.numbers, *shown, levels, counts, min_size)


def guard_moments(
    count: Ints, mean: Floats, squares: Floats, *, sizes: Ints, min_size: int
) -> Moments:
    """Return the moments of cells that may leave, rounded; those of all others are 0."""
    if min_size == 1:
        return count, mean, squares
    small, count = hidden(sizes, min_size), count.copy()
    for j in range(count.shape[1]):  # rows without a value make some columns smaller than others
        count[hidden(count[:, j], min_size, small), j] = 0
    return count, *_rounded(count, mean, squares)


def moments_of_clients(
    rows: Floats, labels: Ints, clients: Iterable[Rows], n_clusters: int, min_size: int
) -> Moments:
    """Merge the moments that each client may send about its rows."""
    shape = (n_clusters, rows.shape[1])
    merged: Moments = (np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))
    for client in clients:
        held = np.arange(len(rows))[client] if isinstance(client, slice) else client
        sizes = np.bincount(labels[held], minlength=n_clusters)
        own = moments(labels, rows, n_clusters, held)
        merged = merge_moments(*merged, *guard_moments(*own, sizes=sizes, min_size=min_size))
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


def _pooled(counts: Ints, other: int, n_levels: int, min_size: int) -> Ints:
    """Pool the levels of few rows in each cluster."""
    wide: Ints = np.zeros((len(counts), n_levels), dtype=np.int64)
    wide[:, : counts.shape[1]] = counts
    for row in wide:
        rare = row < min_size
        pooled = row[rare].sum()
        row[rare] = 0
        most = row.argmax()
        lent = max(0, min_size - pooled) if pooled else 0
        if row[most] - lent < min_size:  # nothing can be told apart
            lent, pooled = 0, pooled + row.sum()
            row[:] = 0
        row[most] -= lent
        row[other] += pooled + lent
        if row[other] < min_size:
            row[other] = 0
    return wide
