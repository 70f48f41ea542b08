r"""The two kinds of noisy tables that a site releases: histograms, and sums over cells.

Both are tables of whole numbers to which each row adds one vector, so the sensitivity of a table is
the largest length of such a vector. A row's vector must depend on nothing but the row and on what
was released before. That needs care: a matrix product may give a row other low-order bits beside
other rows. So rows and centers lie on a grid of :math:`2^{-20}`, on which all products are exact.

In a table of cells, a row x in the cell of center c adds

.. math:: (\lambda, u, \mu |u|^2), \quad u = (x - c) / r,

where u is shortened to length 1. Its length is at most :math:`\sqrt{\lambda^2 + 1 + \mu^2}`. The
sums are about c, not about 0, and r is small, so the noise on a mean is small, too.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import blocks
from fedjigsaw.privacy.noise import Noise

GRID = 2**20
MAX_COLUMNS = 1024  # up to here, squared distances on the grid are exact
MIN_RADIUS = 2.0**-16
COUNT_UNIT, SQUARE_UNIT = round(0.5 * GRID), round(0.3 * GRID)  # lambda and mu, by measurement


@dataclass(frozen=True)
class Box:
    """The bounds of the rows, moved and scaled so that the widest column is (-1, 1).

    All columns have the same scale, so distances keep their proportions.
    """

    middle: Floats
    scale: float
    half: Floats

    @classmethod
    def within(cls, low: Floats, high: Floats) -> Self:
        """Make the box between two corners."""
        scale = float((high - low).max()) / 2
        return cls(low / 2 + high / 2, scale, (high - low) / (2 * scale))

    def inside(self, rows: Floats) -> tuple[Floats, int]:
        """Return the rows in the box, on the grid, and how many had to be moved into it.

        A value that is no number goes to the middle, so that no row voids the bound on its vector.
        """
        placed = (rows - self.middle) / self.scale
        limit = self.half + 0.5 / GRID  # rounding may move a row on the bounds a little
        outside = int((~(np.abs(placed) <= limit)).any(axis=1).sum())
        return self.on_grid(np.where(np.isnan(placed), 0.0, placed)), outside

    def on_grid(self, points: Floats) -> Floats:
        """Move points into the box and onto the grid."""
        inner = np.floor(self.half * GRID)
        moved: Floats = np.clip(np.rint(points * GRID), -inner, inner) / GRID
        return moved

    def to_units(self, points: Floats) -> Floats:
        """Return points of the box in the units of the rows."""
        return points * self.scale + self.middle


@dataclass(frozen=True)
class Cells:
    """Noisy numbers of cells: counts, sums about the cells' centers, and summed squares.

    Attributes
    ----------
    radii : array
        The length to which rows of the cell were shortened.
    count_noise, sum_noise : float, array
        Standard deviation of the noise on each count, and on each coordinate of a cell's sum.
    """

    centers: Floats
    radii: Floats
    counts: Floats
    sums: Floats
    squares: Floats
    count_noise: float
    sum_noise: Floats

    def means(self) -> Floats:
        """Return the noisy mean of each cell; that of a cell without rows is its center."""
        shift: Floats = self.sums / np.maximum(self.counts, 1)[:, None]
        return self.centers + shift

    def sse(self) -> Floats:
        """Return the summed squared distance of each cell's rows to their mean."""
        counts = np.maximum(self.counts, 1)
        shift = (self.sums**2).sum(axis=1) / counts
        # noise makes a sum longer; on average, this much
        noise = self.sums.shape[1] * self.sum_noise**2 / counts
        sse: Floats = np.clip(self.squares - shift + noise, 0, counts * self.radii**2)
        return sse

    def select(self, which: np.ndarray) -> "Cells":
        """Return some of the cells."""
        return Cells(
            self.centers[which],
            self.radii[which],
            self.counts[which],
            self.sums[which],
            self.squares[which],
            self.count_noise,
            self.sum_noise[which],
        )


def nearest_cell(rows: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Return the nearest center of each row and the squared distance, exactly.

    Rows and centers must be on the grid.
    """
    labels = np.empty(len(rows), dtype=np.int64)
    lengths = (centers**2).sum(axis=1)
    for part in blocks(len(rows), len(centers)):
        labels[part] = (lengths - 2 * (rows[part] @ centers.T)).argmin(axis=1)
    squared = np.zeros(len(rows))
    for column, places in zip(rows.T, centers.T, strict=True):
        squared += (column - places[labels]) ** 2
    return labels, squared


def release_histograms(
    places: Ints, n_bins: int, multiplier: float, noise: Noise
) -> tuple[Floats, float]:
    """Release a histogram of each column of `places`, and the noise's standard deviation.

    A row adds 1 to one bin of each column: the sensitivity is the root of their number.
    """
    scale = multiplier * math.sqrt(places.shape[1])
    table = np.stack([np.bincount(column, minlength=n_bins) for column in places.T])
    return noise.add(table.astype(np.int64), scale).astype(np.float64), scale


def release_cells(
    rows: Floats,
    centers: Floats,
    radius: float | Floats,
    multiplier: float,
    noise: Noise,
    *,
    outer_radius: float | None = None,
) -> Cells:
    """Release counts, sums and squares of the cells of some centers.

    Parameters
    ----------
    rows, centers : on the grid.
    radius : rows farther than this from their center are shortened to it; one, or one per center.
    outer_radius : if given, rows farther than `radius` are in cells of their own, the second half
        of the table, where they are shortened to this.
    """
    labels, squared = nearest_cell(rows, centers)
    radii = np.broadcast_to(radius, len(centers))
    where, places = labels, centers
    if outer_radius is not None:
        where = labels + len(centers) * (squared > radii[labels] ** 2)
        places = np.tile(centers, (2, 1))
        radii = np.concatenate([radii, np.full(len(centers), outer_radius)])
    table = cell_table(rows, places, radii, where, squared)
    scale = multiplier * cell_sensitivity(rows.shape[1])
    return read_cells(noise.add(table, scale), places, radii, scale)


def cell_table(
    rows: Floats,
    centers: Floats,
    radii: Floats,
    where: Ints,
    squared: Floats,
    unit: int = COUNT_UNIT,
) -> Ints:
    """Return the exact table of cells: count, square and sum of each, on the grid."""
    n_cells, n_columns = centers.shape
    distances = np.sqrt(squared)
    reach = radii[where]
    lengths = np.minimum(distances / reach, 1.0)
    factor = GRID / np.maximum(distances, reach)
    table = np.empty((n_cells, n_columns + 2), dtype=np.int64)
    table[:, 0] = np.bincount(where, minlength=n_cells) * unit
    table[:, 1] = _sums(where, np.rint(SQUARE_UNIT * lengths**2), n_cells)
    for j in range(n_columns):
        u = np.rint((rows[:, j] - centers[where, j]) * factor)
        table[:, 2 + j] = _sums(where, u, n_cells)
    return table


def cell_sensitivity(n_columns: int, unit: int = COUNT_UNIT) -> float:
    """Return the largest length of the vector that a row adds to a table of cells.

    Rounding to the grid lengthens u by at most half the root of the number of columns.
    """
    u = GRID + math.sqrt(n_columns) / 2 + 1
    return math.sqrt(unit**2 + u**2 + (SQUARE_UNIT + 1) ** 2)


def read_cells(
    table: Ints, centers: Floats, radii: Floats, scale: float, unit: int = COUNT_UNIT
) -> Cells:
    """Turn a noisy table into the numbers that it stands for."""
    return Cells(
        centers,
        radii,
        table[:, 0] / unit,
        table[:, 2:] / GRID * radii[:, None],
        table[:, 1] / SQUARE_UNIT * radii**2,
        scale / unit,
        scale / GRID * radii,
    )


def _sums(where: Ints, values: Floats, n_cells: int) -> Ints:
    """Add up whole numbers per cell; floats hold such sums exactly up to 2^53."""
    return np.bincount(where, values, minlength=n_cells).astype(np.int64)
