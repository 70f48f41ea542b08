r"""Profiles of clusters: what the rows of each cluster are like, in the units of the file.

A site sends, per cluster and column of numbers, how many rows have a value, their mean and their
sum of squared deviations; and per cluster and column of categories, the rows of each level. Those
of several sites are merged as statistics are (:mod:`fedjigsaw.columns.scaling`): the result is
exactly that of all rows together, as far as sites did not round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fedjigsaw._rows import dense
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, invalid, quote_names
from fedjigsaw.messages import _Message
from fedjigsaw.validation import MAX_COUNT, MAX_MAGNITUDE, MAX_SAMPLES, repeated

MAX_COLUMNS = 10_000
MAX_CLUSTERS = 5_000  # that are described: each is compared with each
MAX_CELLS = 2_000_000  # clusters times columns and levels
MAX_LEVELS = 1_002  # of one column: as many as a schema may name, and two for all others
BLOCK = 2**18  # numbers that are copied at a time
MAX_NAME = 1_000  # characters of a column or level
Moments = tuple[Ints, Floats, Floats]  # counts, means and sums of squares


@dataclass(frozen=True, eq=False)
class Profile(_Message):
    """Counts, means and spreads of the columns in every cluster, and rows of each category.

    Parameters
    ----------
    numbers : tuple of str
        Columns of numbers. Dates are days since 1970-01-01, ordered categories are ranks from 0,
        booleans 0 or 1.
    count : array of shape (k, d)
        Rows of the cluster that have a value in the column. 0 also if the guard hid the others.
    mean, sum_of_squares : array of shape (k, d)
        Mean of these values, and their summed squared deviations from it. 0 where `count` is 0.
    levels : mapping of str to tuple of str
        The levels of each column of categories.
    level_counts : mapping of str to array of shape (k, n_levels)
        Rows of each level of these columns.
    min_cluster_size : int
        The guard, as stated by the sender: fewer rows than this are in no number, and those of
        levels are multiples of it. 1 is no guard.

    Examples
    --------
    >>> one = Profile(("age",), [[2]], [[30.0]], [[8.0]], {"sex": ("f", "m")}, {"sex": [[2, 0]]})
    >>> two = Profile(("age",), [[2]], [[40.0]], [[2.0]], {"sex": ("m",)}, {"sex": [[2]]})
    >>> both = merge_profiles([one, two])
    >>> both.mean.tolist(), both.sum_of_squares.tolist(), both.level_counts["sex"].tolist()
    ([[35.0]], [[110.0]], [[2, 2]])
    """

    numbers: tuple[str, ...]
    count: Ints
    mean: Floats
    sum_of_squares: Floats
    levels: Mapping[str, tuple[str, ...]]
    level_counts: Mapping[str, Ints]
    min_cluster_size: int = 1

    def __post_init__(self) -> None:
        size = self.min_cluster_size
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_SAMPLES:
            raise MessageError(_bad("min_cluster_size", f"from 1 to {MAX_SAMPLES}", repr(size)))
        levels = {column: tuple(names) for column, names in self.levels.items()}
        _set(self, "numbers", tuple(self.numbers))
        _set(self, "levels", MappingProxyType(levels))
        _check_names("columns", (*self.numbers, *levels), MAX_COLUMNS)
        self._check_numbers()
        if self.level_counts.keys() != levels.keys():
            raise MessageError(
                _bad("level_counts", "one array for each column of levels", "others")
            )
        counts = {}
        for column, names in levels.items():
            _check_names(f"levels of column {column!r}", names, MAX_LEVELS)
            name, shape = f"level_counts of {column!r}", (self.n_clusters, len(names))
            found = self.level_counts[column]
            counts[column] = _array(name, found, shape, 0, MAX_COUNT, whole=True)
        _set(self, "level_counts", MappingProxyType(counts))

    def _check_numbers(self) -> None:
        count = np.asarray(self.count)
        if count.ndim != 2 or not len(count):
            allowed = "of shape (n_clusters >= 1, n_columns)"
            raise MessageError(_bad("count", allowed, f"shape {count.shape}"))
        shape = (len(count), len(self.numbers))
        _set(self, "count", _array("count", count, shape, 0, MAX_COUNT, whole=True))
        most = 2 * MAX_MAGNITUDE
        largest = most**2 * np.maximum(self.count, 1)
        for name, least, limit in (("mean", -most, most), ("sum_of_squares", 0, largest)):
            values = _array(name, getattr(self, name), shape, least, limit, whole=False)
            if values[self.count == 0].any():
                raise MessageError(_bad(name, "0 where there are no values", "another number"))
            _set(self, name, values)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.count)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns: numbers first, then categories."""
        return (*self.numbers, *self.levels)


def check_describable(
    n_clusters: int, numbers: Sequence[str], levels: Mapping[str, Sequence[str]]
) -> None:
    """Raise a MessageError if a profile of so many clusters and columns would fill the memory."""
    width = len(numbers) + sum(map(len, levels.values()))
    if n_clusters > MAX_CLUSTERS or n_clusters * width > MAX_CELLS:
        raise MessageError(
            f"A profile of {n_clusters:,} clusters and {width:,} columns and categories is too "
            f"large: at most {MAX_CLUSTERS:,} clusters and {MAX_CELLS:,} numbers can be described. "
            "Score without a profile."
        )


class Collector:
    """Collects the profile of rows that come block by block.

    Parameters
    ----------
    n_clusters : number of clusters.
    numbers : names of the columns of numbers.
    levels : the levels of each column of categories.

    Examples
    --------
    >>> found = Collector(2, ("age",), {"sex": ("f", "m")})
    >>> rows, codes = np.array([[1.0], [3.0], [np.nan]]), np.array([[0], [1], [1]])
    >>> found.add(np.array([0, 0, 1]), rows, codes)
    >>> profile = found.profile()
    >>> profile.mean.tolist(), profile.count.tolist(), profile.level_counts["sex"].tolist()
    ([[2.0], [0.0]], [[2], [0]], [[1, 1], [0, 1]])
    """

    def __init__(
        self, n_clusters: int, numbers: Sequence[str], levels: Mapping[str, Sequence[str]]
    ) -> None:
        self.numbers = tuple(numbers)
        self.levels = {column: tuple(names) for column, names in levels.items()}
        shape = (n_clusters, len(self.numbers))
        self.moments: Moments = (np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))
        self.counts: dict[str, Ints] = {
            column: np.zeros((n_clusters, len(names)), dtype=np.int64)
            for column, names in self.levels.items()
        }

    def add(self, labels: Ints, rows: Floats, codes: Ints | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        labels : shape (n,), the cluster of each row.
        rows : shape (n, n_numbers), NaN where there is no value.
        codes : shape (n, n_categories), the place of each row's level, -1 where there is none; None
            if there are no categories.
        """
        if not len(labels):
            return
        found = moments(labels, rows, len(self.moments[0]))
        self.moments = merge_moments(*self.moments, *found)
        for j, counts in enumerate(self.counts.values()):
            assert codes is not None
            there = codes[:, j] >= 0
            np.add.at(counts, (labels[there], codes[there, j]), 1)

    def profile(self) -> Profile:
        """Return the profile of all rows so far."""
        return Profile(self.numbers, *self.moments, self.levels, self.counts)


def moments(
    labels: Ints,
    rows: Any,
    n_clusters: int,
    held: Ints | None = None,
    weights: Floats | None = None,
) -> Moments:
    """Return count, mean and summed squared deviations of each column in each cluster.

    Rows are taken in blocks, since they are copied into the order of their labels.

    Parameters
    ----------
    rows : array, or CSR matrix.
    held : indices of the rows that are meant; None is all of them.
    weights : how many rows each row counts for; None is one.
    """
    shape = (n_clusters, rows.shape[1])
    found: Moments = (np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape))
    held = np.arange(rows.shape[0]) if held is None else held
    step = max(1024, BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(held), step):
        part = held[start : start + step]
        order = np.argsort(labels[part].astype(np.min_scalar_type(n_clusters)), kind="stable")
        part = part[order]
        w = None if weights is None else weights[part, None]
        found = merge_moments(*found, *_moments(labels[part], dense(rows[part]), n_clusters, w))
    return found


def _moments(labels: Ints, rows: Floats, n_clusters: int, w: Floats | None) -> Moments:
    """Do it for rows that are sorted by label; they are overwritten.

    With weights, no value is missing.
    """
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    groups = labels[starts]
    missing = np.isnan(rows) if np.isnan(rows.sum()) else None  # one pass if nothing is missing
    shape = (n_clusters, rows.shape[1])
    count, mean, squares = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape)
    sizes = np.diff(starts, append=len(rows))[:, None]
    count[groups] = sizes if w is None else np.add.reduceat(w, starts)
    if missing is not None:
        count[groups] -= np.add.reduceat(missing, starts, dtype=np.int64)
        rows[missing] = 0.0
    sums = np.add.reduceat(rows if w is None else w * rows, starts)
    mean[groups] = sums / np.maximum(count[groups], 1)
    rows -= mean[labels]
    if missing is not None:
        rows[missing] = 0.0
    rows *= rows
    squares[groups] = np.add.reduceat(rows if w is None else w * rows, starts)
    return count, mean, squares


def merge_profiles(profiles: Sequence[Profile]) -> Profile:
    """Return the profile of the rows of all sites together.

    Columns and clusters must be the same everywhere, columns in any order; levels may differ.
    """
    first, *others = profiles
    for other in others:
        _check_alike(first, other)
    pooled = first.count, first.mean, first.sum_of_squares
    for other in others:
        where = [other.numbers.index(name) for name in first.numbers]
        found = other.count[:, where], other.mean[:, where], other.sum_of_squares[:, where]
        pooled = merge_moments(*pooled, *found)
    levels = {
        column: tuple(dict.fromkeys(level for p in profiles for level in p.levels[column]))
        for column in first.levels
    }
    size = min(profile.min_cluster_size for profile in profiles)
    counts = {column: _added(profiles, column, names) for column, names in levels.items()}
    return Profile(first.numbers, *pooled, levels, counts, size)


def merge_moments(
    n: Any, mean: Floats, squares: Floats, n_new: Any, mean_new: Floats, squares_new: Floats
) -> tuple[Any, Floats, Floats]:
    """Merge counts, means and sums of squares of two sets of rows, cell by cell.

    A cell without rows has a mean and a sum of 0, so it changes nothing.
    """
    total = n + n_new
    share = n_new / np.maximum(total, 1)
    step = mean_new - mean
    return total, mean + step * share, squares + squares_new + step**2 * (n * share)


def _added(profiles: Sequence[Profile], column: str, names: tuple[str, ...]) -> Ints:
    """Add up the rows of each level; a site that does not have a level has no row of it."""
    places = {name: i for i, name in enumerate(names)}
    total: Ints = np.zeros((profiles[0].n_clusters, len(names)), dtype=np.int64)
    for profile in profiles:
        total[:, [places[name] for name in profile.levels[column]]] += profile.level_counts[column]
    return total


def _check_alike(first: Profile, other: Profile) -> None:
    if other.n_clusters != first.n_clusters:
        n = f"{first.n_clusters} and {other.n_clusters}"
        raise MessageError(f"Profiles of {n} clusters cannot be merged. Score the same model.")
    ours, theirs = ((sorted(p.numbers), sorted(p.levels)) for p in (first, other))
    if ours != theirs:
        a, b = (quote_names(p.columns) for p in (first, other))
        raise MessageError(
            f"Profiles of other columns cannot be merged: {a}; {b}. Score the same model."
        )


# ---------------------------------------------------------------------------------------- checks


def _set(profile: Profile, name: str, value: object) -> None:
    object.__setattr__(profile, name, value)


def _bad(name: str, allowed: str, got: object) -> str:
    return invalid(name, "a profile", allowed, got)


def _check_names(what: str, names: Sequence[Any], most: int) -> None:
    if not 1 <= len(names) <= most:
        raise MessageError(_bad(what, f"1 to {most}", len(names)))
    for name in names:
        if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
            raise MessageError(_bad(what, "short printable strings", repr(name)[:80]))
    for name in repeated(names):
        raise MessageError(_bad(what, "different from one another", f"{name!r} twice"))


def _array(
    name: str, values: Any, shape: tuple[int, ...], least: Any, most: Any, *, whole: bool
) -> Any:
    """Return a read-only array of this shape with numbers within these limits."""
    array = np.asarray(values)
    if array.dtype.kind not in ("iu" if whole else "iuf"):
        raise MessageError(_bad(name, "whole numbers" if whole else "numbers", array.dtype))
    array = array.astype(np.int64 if whole else np.float64)
    if array.shape != shape:
        raise MessageError(_bad(name, f"of shape {shape}", f"shape {array.shape}"))
    good = (array >= least) & (array <= most)
    if not good.all():
        allowed = f"finite, from {np.min(least):g} to {np.max(most):g}"
        raise MessageError(_bad(name, allowed, array[~good][0]))
    array.setflags(write=False)
    return array
