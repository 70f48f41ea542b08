"""Quantiles of a column over sites, without sending a value of any row.

A site sorts its values, cuts them into at most 200 groups of equal size, none smaller than the
guard allows, and sends the mean and size of each group. Quantiles of all sites together are read
off the groups of all: a quantile's rank is wrong by at most the share of one group, 0.5 % of a
site's rows if it has 200 of them. (Libraries for sketches keep values of rows, so they were no
choice here.)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.validation import MAX_MAGNITUDE, MAX_SAMPLES

GROUPS = 200
BUFFER = 2**18  # values that are kept before they are grouped
FINE = 2**13  # groups inside a site, far more than it sends


@dataclass(frozen=True, eq=False)
class Sketch:
    """Means and sizes of groups of neighboring values, in ascending order."""

    means: Floats
    sizes: Ints

    def __post_init__(self) -> None:
        if self.means.ndim != 1 or self.means.shape != self.sizes.shape or not len(self.means):
            shapes = f"{self.means.shape} and {self.sizes.shape}"
            raise MessageError(
                invalid("quantiles", "a column", "means and sizes of groups", shapes)
            )
        ordered = np.isfinite(self.means).all() and (np.diff(self.means) >= 0).all()
        if not ordered or np.abs(self.means).max() > MAX_MAGNITUDE:
            raise MessageError(invalid("quantiles", "a column", "finite and ascending", "others"))
        if (self.sizes < 1).any() or self.sizes.astype(np.float64).sum() > MAX_SAMPLES:
            raise MessageError(invalid("sizes of quantiles", "a column", "positive", "others"))

    def quantile(self, q: float) -> float:
        """Return the value below which a share q of the values lies.

        Examples
        --------
        >>> Sketch(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 1])).quantile(0.5)
        2.0
        """
        middles = np.cumsum(self.sizes) - self.sizes / 2
        total = float(self.sizes.sum())
        return float(np.interp(q * total, middles, self.means))


def merge_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """Put the groups of several sites side by side."""
    found = list(sketches)
    means = np.concatenate([sketch.means for sketch in found])
    sizes = np.concatenate([sketch.sizes for sketch in found])
    order = np.argsort(means, kind="stable")
    return Sketch(means[order], sizes[order])


def repeat(value: float, times: int) -> Sketch:
    """Return the sketch of one value that occurs several times."""
    n_groups = min(times, GROUPS)
    sizes: Ints = np.full(n_groups, times // n_groups, dtype=np.int64)
    sizes[: times % n_groups] += 1
    return Sketch(np.full(len(sizes), value), sizes)


@dataclass
class Sketcher:
    """Collects the values of one column, in bounded memory."""

    means: list[Floats] = field(default_factory=list)
    sizes: list[Ints] = field(default_factory=list)
    n_kept: int = 0

    def add(self, values: Floats) -> None:
        """Add values; missing ones (NaN) are left out."""
        known = values[~np.isnan(values)]
        self.means.append(known)
        self.sizes.append(np.ones(len(known), dtype=np.int64))
        self.n_kept += len(known)
        if self.n_kept > BUFFER:
            means, sizes = self._grouped(FINE, 1)
            self.means, self.sizes, self.n_kept = [means], [sizes], len(means)

    def sketch(self, least: int = 1) -> Sketch | None:
        """Return the groups that may leave; None if there are fewer values than `least`."""
        if sum(int(sizes.sum()) for sizes in self.sizes) < least or not self.n_kept:
            return None
        return Sketch(*self._grouped(GROUPS, least))

    def _grouped(self, n_groups: int, least: int) -> tuple[Floats, Ints]:
        means, sizes = np.concatenate(self.means), np.concatenate(self.sizes)
        order = np.argsort(means, kind="stable")
        means, sizes = means[order], sizes[order]
        total = int(sizes.sum())
        n_groups = max(1, min(n_groups, total // least))
        # a value belongs to the group in which its middle lies
        middles = np.cumsum(sizes) - (sizes + 1) // 2
        group = middles * n_groups // total
        starts = _merge_small(np.flatnonzero(np.diff(group, prepend=-1)), sizes, least)
        summed = np.add.reduceat(sizes, starts)
        averages = np.add.reduceat(means * sizes, starts) / summed
        return np.maximum.accumulate(averages), summed


def _merge_small(starts: Ints, sizes: Ints, least: int) -> Ints:
    """Return where groups start, so that none has fewer values than `least`."""
    if least == 1:
        return starts
    below = np.cumsum(sizes) - sizes  # values before each place
    total = below[-1] + sizes[-1]
    kept = [0]
    for start in starts.tolist():
        if min(below[start] - below[kept[-1]], total - below[start]) >= least:
            kept.append(start)
    return np.array(kept)
