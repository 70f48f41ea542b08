"""What the server sees of all rows: cells, centered and scaled, with their principal axes."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import partition_of
from fedjigsaw.kernels.nearest import compiles, nearest

MAX_AXES = 20  # long axes of a cluster are looked for among so many principal axes of all cells
MAX_CELLS = 3000  # more cells are merged to so many: 20 for each of 150 clusters
MANY_CELLS = 500  # from where on compiled code is loaded
FEW_COLUMNS = 8  # up to which a tree finds the nearest cells faster than all distances
LEAST_VARIANCE = 1e-9  # of a column, relative to that of an average one: less is rounding
MOST_ROWS = 0.9  # their spread is the unit if the others are so far away that it seems rounding
ROUNDING = 1e-13  # of numbers, relative to the largest


@dataclass(frozen=True)
class Cells:
    """Cells in units in which an average column has variance 1, but for a few absurd numbers.

    Attributes
    ----------
    points, counts, sse : shapes (n, d), (n,) and (n,), center, rows and summed squares of each.
    grain : shape (d,), variance that is added to each column, since its values have steps.
    middle, scale : the shift and the unit of the data's own numbers.
    seen : shape (d,), the columns of the data that cells have. A column that is the same in all
        cells is left out: it shows no clusters, but each column counts in penalties and averages.
    backend : tells whether compiled code may be used; None leaves that to the environment.
    """

    points: Floats
    counts: Floats
    sse: Floats
    grain: Floats
    middle: Floats
    scale: float
    seen: Ints
    backend: Backend | None = None

    @classmethod
    def of(
        cls,
        centers: Floats,
        counts: Floats,
        sse: Floats,
        grain: Floats | None = None,
        backend: Backend | None = None,
    ) -> "Cells":
        """Center and scale what was received; cells without rows are left out."""
        used = counts > 0
        centers, counts, sse = centers[used], counts[used], sse[used]
        middle = counts @ centers / counts.sum()
        points = centers - middle
        total = counts @ (points**2).sum(axis=1) + sse.sum()
        usual = counts.sum() * _usual_spread(centers, counts, sse)
        rounding = counts.sum() * (ROUNDING * np.abs(centers).max()) ** 2
        if rounding < usual < 10 * LEAST_VARIANCE * total:
            total = usual  # a few absurd numbers would make all clusters seem rounding
        seen = np.flatnonzero(counts @ points**2 > LEAST_VARIANCE * total / len(middle))
        if not len(seen):  # all cells are at one place, or there is one only
            seen = np.arange(len(middle))
        variance = total / (counts.sum() * len(seen))
        scale = float(np.sqrt(variance)) if variance > 0 else 1.0
        grain = np.zeros(len(middle)) if grain is None else grain
        points, grain = points.take(seen, axis=1) / scale, grain[seen] / scale**2
        return cls(points, counts, sse / scale**2, grain, middle, scale, seen, backend)

    def in_units(self, points: Floats) -> Floats:
        """Return points of these columns in the units of the data, with all its columns."""
        found = np.tile(self.middle, (len(points), 1))
        found[:, self.seen] += points * self.scale
        return found

    def select(self, cells: Ints) -> "Cells":
        """Return some of the cells, in the same units and with the same axes."""
        part = replace(
            self, points=self.points[cells], counts=self.counts[cells], sse=self.sse[cells]
        )
        part.__dict__.update(basis=self.basis, fast=self.fast)
        return part

    @cached_property
    def n_rows(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def fast(self) -> bool:
        """Whether mixtures are fitted by compiled code: for many cells, where it is installed."""
        return compiles(len(self.counts), 1, MANY_CELLS, self.backend)

    @property
    def n_columns(self) -> int:
        return int(self.points.shape[1])

    @cached_property
    def log_rows(self) -> float:
        return float(np.log(self.n_rows))

    @cached_property
    def norms(self) -> Floats:
        norms: Floats = (self.points**2).sum(axis=1)
        return norms

    @cached_property
    def columns(self) -> Floats:
        """The points, one column after the other: compiled code takes them so."""
        return np.ascontiguousarray(self.points.T)

    @cached_property
    def variances(self) -> Floats:
        """Variance of a column within each cell, on average over columns."""
        variances: Floats = self.sse / (self.counts * self.n_columns)
        return variances

    @cached_property
    def resolved(self) -> float:
        """Share of all variance that lies between cells, so that it can be seen."""
        return 1 - float(self.sse.sum()) / (self.n_rows * self.n_columns)

    @cached_property
    def floor(self) -> float:
        """Average variance of a column within cells: no cluster is narrower."""
        return max(float(self.sse.sum()) / (self.n_rows * self.n_columns), LEAST_VARIANCE)

    @cached_property
    def _axes(self) -> Floats:
        """The principal axes of all cells, the longest first."""
        covariance = (self.points * self.counts[:, None]).T @ self.points / self.n_rows
        axes: Floats = np.linalg.eigh(covariance)[1][:, ::-1]
        return axes

    @cached_property
    def basis(self) -> Floats:
        """Axes among which clusters may be long, shape (d, r)."""
        if self.n_columns <= MAX_AXES:
            return np.eye(self.n_columns)
        return self._axes[:, :MAX_AXES]

    @cached_property
    def reduced(self) -> Floats:
        """The points along the axes of the basis."""
        if self.n_columns <= MAX_AXES:
            return self.points
        reduced: Floats = self.points @ self.basis
        return reduced

    @cached_property
    def reduced_columns(self) -> Floats:
        """The same, one axis after the other."""
        if self.n_columns <= MAX_AXES:
            return self.columns
        return np.ascontiguousarray(self.reduced.T)

    @cached_property
    def has_grain(self) -> bool:
        return bool(self.grain.any())

    @cached_property
    def reduced_grain(self) -> Floats:
        reduced: Floats = (self.basis * self.grain[:, None]).T @ self.basis
        return reduced

    @cached_property
    def log_uniform(self) -> float:
        """Log density of the background: uniform in the smaller of two boxes around all rows."""
        # as dense as a Gaussian with the variance of the cell, on average: otherwise, in columns
        # that hardly differ between cells, the background would fit better than any cluster
        half = np.sqrt(math.pi * math.e / 2 * (self.variances + self.grain.mean()))[:, None]
        volumes = []
        for points in (self.points, self.points @ self._axes):
            widths = (points + half).max(axis=0) - (points - half).min(axis=0)
            volumes.append(float(np.log(np.maximum(widths, 1e-6)).sum()))
        return -min(volumes)


def _usual_spread(centers: Floats, counts: Floats, sse: Floats) -> float:
    """Return the squared distance from the middle that most rows do not exceed."""
    squared = ((centers - np.median(centers, axis=0)) ** 2).sum(axis=1) + sse / counts
    order = np.argsort(squared)
    last = np.searchsorted(np.cumsum(counts[order]), MOST_ROWS * counts.sum())
    return float(squared[order[last]])


def condense(
    centers: Floats,
    counts: Floats,
    sse: Floats,
    most: int = MAX_CELLS,
    backend: Backend | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Merge cells to at most `most`: each joins the nearest of a random sample.

    Sums of rows and of squares stay exact.
    """
    if len(counts) <= most:
        return centers, counts, sse
    merged = partition_of(centers, sampled_labels(centers, most, backend), counts)
    inside = np.bincount(merged.labels, sse, minlength=len(merged.counts))
    return merged.centers, merged.counts, merged.sse + inside


def sampled_labels(centers: Floats, most: int, backend: Backend | None = None) -> Ints:
    """Return the group of each cell: that of the nearest of `most` cells, drawn at random."""
    chosen = np.random.default_rng(0).choice(len(centers), most, replace=False)
    if centers.shape[1] <= FEW_COLUMNS:
        from scipy.spatial import KDTree  # lazy: `import fedjigsaw` stays fast

        found: Ints = KDTree(centers[chosen]).query(centers)[1]
        return found
    shifted = centers - centers.mean(axis=0)
    return nearest(shifted, shifted[chosen], fast=compiles(len(centers), most, backend=backend))[0]
