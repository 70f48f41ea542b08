r"""Noisy tables of a site's cells, and the search for its clusters by such tables.

**Tables.** A site releases histograms, and sums over cells. Both are tables of whole numbers to
which each row adds one vector, so the sensitivity of a table is the largest length of such a
vector. A row's vector must depend on nothing but the row and on what was released before. That
needs care: a matrix product may give a row other low-order bits beside other rows. So rows and
centers lie on a grid of :math:`2^{-20}`, on which all products are exact.

In a table of cells, a row x in the cell of center c adds

.. math:: (\lambda, u, \mu |u|^2), \quad u = (x - c) / r,

where u is shortened to length 1. Its length is at most :math:`\sqrt{\lambda^2 + 1 + \mu^2}`. The
sums are about c, not about 0, and r is small, so the noise on a mean is small, too.

**Search.** Five releases, each steering the next:

1. A histogram of each column. Points spread by these give a start that fits bounds far wider than
   the rows, and the number of rows says how many centers can be told from noise.
2. A table of cells: noisy means move the centers; those without rows start anew where rows spread
   widest.
3. A histogram of distances: its median gives the radius within which most rows of a cell lie.
4. and 5. Two tables of cells in which rows beyond that radius are kept apart, so that rows of other
   clusters do not pull at a mean, and noise is measured in this small radius.

The last table is the summary. All five count: together they have the multiplier that was asked for.
Shares and constants were chosen by measurement on generated data that no page reports on.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import blocks
from fedjigsaw.privacy.dp import GRID, Noise

MAX_COLUMNS = 1024  # up to here, squared distances on the grid are exact
MIN_RADIUS = 2.0**-16
COUNT_UNIT, SQUARE_UNIT = round(0.5 * GRID), round(0.3 * GRID)  # lambda and mu, by measurement
SHARED_COUNT_UNIT = GRID  # in shared cells: counts tell which of them hold rows at all
FLOOR = 3.0  # standard deviations of noise that the count of a cell must exceed

SHARES = (0.1, 0.3, 0.1, 0.2, 0.3)  # of the budget, one for each release of a search
CENTERS_PER_CLUSTER = 4
N_BINS = 64
START_POINTS, START_STEPS = 2**12, 10
MAX_CENTERS = START_POINTS // 2
ROWS_PER_CENTER = 4.5  # standard deviations of noise, on average, for the number of centers


# ------------------------------------------------------------------------------------------- tables


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

    def whole_counts(self) -> Ints:
        """Return the counts as numbers of rows."""
        return np.maximum(np.rint(self.counts), 1).astype(np.int64)

    def select(self, which: np.ndarray) -> "Cells":
        """Return some of the cells."""
        return Cells(
            **{n: a[which] if isinstance(a, np.ndarray) else a for n, a in vars(self).items()}
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


def spread_evenly(points: Floats, centers: Floats, box: Box, n_steps: int) -> Floats:
    """Move centers over public points by Lloyd's steps.

    Sums on the grid are exact, so the result is the same on every machine.
    """
    n = len(centers)
    for _ in range(n_steps):
        labels, _ = nearest_cell(points, centers)
        counts = np.bincount(labels, minlength=n)[:, None]
        sums = np.column_stack([np.bincount(labels, column, minlength=n) for column in points.T])
        centers = box.on_grid(np.where(counts > 0, sums / np.maximum(counts, 1), centers))
    return centers


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
    unit: int = COUNT_UNIT,
    rows_per_site: int | None = None,
) -> Cells:
    """Release counts, sums and squares of the cells of some centers.

    Parameters
    ----------
    rows, centers : on the grid.
    radius : rows farther than this from their center are shortened to it; one, or one per center.
    outer_radius : if given, rows farther than `radius` are in cells of their own, the second half
        of the table, where they are shortened to this.
    unit : what a row adds to a count.
    rows_per_site : if given, the whole site is protected: its table is divided by the number of its
        rows, or by this if it has fewer.
    """
    labels, squared = nearest_cell(rows, centers)
    radii = np.broadcast_to(radius, len(centers))
    where, places = labels, centers
    if outer_radius is not None:
        where = labels + len(centers) * (squared > radii[labels] ** 2)
        places = np.tile(centers, (2, 1))
        radii = np.concatenate([radii, np.full(len(centers), outer_radius)])
    table = cell_table(rows, places, radii, where, squared, unit)
    scale = multiplier * cell_sensitivity(rows.shape[1], unit)
    if rows_per_site is not None:
        table = np.rint(table / max(len(rows), rows_per_site)).astype(np.int64)
        scale = multiplier * site_sensitivity(rows.shape[1], len(centers))
    table = noise.add(table, scale)
    counts, squares = table[:, 0] / unit, table[:, 1] / SQUARE_UNIT * radii**2
    sums, sum_noise = table[:, 2:] / GRID * radii[:, None], scale / GRID * radii
    return Cells(places, radii, counts, sums, squares, scale / unit, sum_noise)


def cell_table(
    rows: Floats,
    centers: Floats,
    radii: Floats,
    where: Ints,
    squared: Floats,
    unit: int = COUNT_UNIT,
) -> Ints:
    """Return the exact table of cells: count, square and sum of each, on the grid.

    Floats hold sums of whole numbers exactly up to 2^53.
    """
    n_cells, n_columns = centers.shape
    distances = np.sqrt(squared)
    reach = radii[where]
    lengths = np.minimum(distances / reach, 1.0)
    factor = GRID / np.maximum(distances, reach)
    table = np.empty((n_cells, n_columns + 2), dtype=np.int64)
    table[:, 0] = np.bincount(where, minlength=n_cells) * unit
    table[:, 1] = np.bincount(where, np.rint(SQUARE_UNIT * lengths**2), n_cells)
    for j in range(n_columns):
        u = np.rint((rows[:, j] - centers[where, j]) * factor)
        table[:, 2 + j] = np.bincount(where, u, n_cells)
    return table


def cell_sensitivity(n_columns: int, unit: int = COUNT_UNIT) -> float:
    """Return the largest length of the vector that a row adds to a table of cells.

    Rounding to the grid lengthens u by at most half the root of the number of columns.
    """
    u = GRID + math.sqrt(n_columns) / 2 + 1
    return math.sqrt(unit**2 + u**2 + (SQUARE_UNIT + 1) ** 2)


def site_sensitivity(n_columns: int, n_cells: int) -> float:
    """Return how far apart the tables of any two data sets of a site can be.

    A table is a mean of row vectors (or less), so two tables are farthest apart where each is a
    single row: at opposite ends of one cell, or in two cells. Rounding the mean adds a little.
    """
    row = cell_sensitivity(n_columns, SHARED_COUNT_UNIT)
    u = GRID + math.sqrt(n_columns) / 2 + 1
    opposite = math.hypot(2 * u, SQUARE_UNIT / GRID * math.sqrt(n_columns) + 2)
    return max(math.sqrt(2) * row, opposite) + math.sqrt(n_cells * (n_columns + 2))


# ------------------------------------------------------------------------------------------- search


@dataclass(frozen=True)
class Search:
    """A private search for the clusters of one site's rows.

    Parameters
    ----------
    box : Box
        The public bounds.
    n_clusters, max_centers : int
        Fewest and most centers that the site looks for.
    multiplier : float
        That of all releases together.
    noise : Noise
    rng : Generator
        Random numbers for choices that do not depend on rows.
    """

    box: Box
    n_clusters: int
    max_centers: int
    multiplier: float
    noise: Noise
    rng: np.random.Generator

    def run(self, rows: Floats) -> Cells:
        """Return the cells of the last release; rows must be in the box, on its grid."""
        first, second, third, fourth, fifth = (self.multiplier / share**0.5 for share in SHARES)
        centers, radius = self.start(rows, first, second)
        centers = self.first_step(release_cells(rows, centers, radius, second, self.noise))
        inner = self.radius_of(rows, centers, radius, third)
        outer = max(radius, 2 * inner)
        cells = release_cells(rows, centers, inner, fourth, self.noise, outer_radius=outer)
        centers = self.second_step(cells)
        cells = release_cells(rows, centers, inner, fifth, self.noise, outer_radius=outer)
        kept = clear_cells(cells)
        kept[: len(centers)] = True  # inner cells are judged by their counts alone, later
        return cells.select(kept)

    def start(
        self, rows: Floats, multiplier: float, next_multiplier: float
    ) -> tuple[Floats, float]:
        """Return first centers, spread as noisy histograms of the columns say, and a radius."""
        from scipy.stats import qmc  # slow to import, and servers need this module, too

        n_columns, half = rows.shape[1], self.box.half
        bins = np.clip(((rows + half) / (2 * half / N_BINS)).astype(np.int64), 0, N_BINS - 1)
        tables, noise = release_histograms(bins, N_BINS, multiplier, self.noise)
        points = qmc.Sobol(n_columns, seed=self.rng).random(START_POINTS)
        for j, table in enumerate(tables):
            points[:, j] = _quantiles(table, noise, points[:, j], half[j])
        points = self.box.on_grid(points)
        # as many as can stand for so many rows each that they exceed the noise of the next table
        count_noise = next_multiplier * cell_sensitivity(n_columns) / COUNT_UNIT
        k = float(tables.sum(axis=1).mean()) / (ROWS_PER_CENTER * count_noise)
        k = int(np.clip(k, self.n_clusters, self.max_centers))
        centers = points[self.rng.choice(len(points), k, replace=False)]
        centers = spread_evenly(points, centers, self.box, START_STEPS)
        squared = nearest_cell(points, centers)[1]
        return centers, max(float(np.sqrt(np.quantile(squared, 0.9))), MIN_RADIUS)

    def first_step(self, cells: Cells) -> Floats:
        """Move centers to their means; those without rows start anew where rows spread widest."""
        good = cells.counts > FLOOR * cells.count_noise
        good[cells.counts.argmax()] = True
        centers = np.where(good[:, None], cells.means(), cells.centers)
        spread = np.where(good, cells.sse(), 0)
        taken = np.ones(len(centers))
        for i in np.flatnonzero(~good):
            j = int((spread / taken**2).argmax())
            taken[j] += 1
            direction = self.rng.standard_normal(centers.shape[1])
            length = 0.7 * np.sqrt(spread[j] / max(cells.counts[j], 1))
            centers[i] = centers[j] + length * direction / np.linalg.norm(direction)
        return self.box.on_grid(centers)

    def radius_of(self, rows: Floats, centers: Floats, radius: float, multiplier: float) -> float:
        """Return the radius that holds nearly all rows of a round cluster, from the median."""
        from scipy.stats import chi2

        top = 2.5 * radius
        distances = np.sqrt(nearest_cell(rows, centers)[1])
        bins = np.minimum((distances * (N_BINS / top)).astype(np.int64), N_BINS - 1)
        tables, noise = release_histograms(bins[:, None], N_BINS, multiplier, self.noise)
        sums = np.cumsum(np.where(tables[0] > 2 * noise, tables[0], 0))
        if sums[-1] <= 0:
            return radius
        median = float(np.interp(sums[-1] / 2, np.append(0, sums), np.arange(N_BINS + 1)))
        d = rows.shape[1]
        factor = max(1.5, float(np.sqrt(chi2.ppf(0.97, d) / chi2.ppf(0.5, d))))
        return float(np.clip(median * top / N_BINS * factor, MIN_RADIUS, radius))

    def second_step(self, cells: Cells) -> Floats:
        """Move centers to their inner means; those without rows go where rows lie outside."""
        k = len(cells.centers) // 2
        clear, means = clear_cells(cells), cells.means()
        centers = np.where(clear[:k, None], means[:k], cells.centers[:k])
        extra = k + np.flatnonzero(clear[k:])
        extra = extra[np.argsort(-cells.counts[extra])]
        idle = np.flatnonzero(~clear[:k])
        n = min(len(idle), len(extra))
        centers[idle[:n]] = means[extra[:n]]
        return self.box.on_grid(centers)


def clear_cells(cells: Cells) -> np.ndarray:
    """Return which cells stand out from the noise, in their count and in their mean.

    The mean of an outer cell has more noise, since its radius is larger. It must be known as well
    as the inner radius.
    """
    k, d = len(cells.centers) // 2, cells.centers.shape[1]
    floor = np.full(2 * k, FLOOR * cells.count_noise)
    outer = 2 * np.sqrt(d) * cells.sum_noise[k:] / cells.radii[:k]
    floor[k:] = np.maximum(floor[k:], outer)
    return np.asarray(cells.counts > floor)


def _quantiles(table: Floats, noise: float, shares: Floats, half: float) -> Floats:
    """Return the values of a column below which these shares of the rows lie, roughly."""
    smooth = np.convolve(table, np.ones(5) / 5, "same")
    real = (table > 2.5 * noise) | (smooth > 2.5 * noise / 5**0.5)
    kept = np.where(real, np.maximum(smooth, 0), 0)
    if not kept.any():
        kept = np.ones(len(table))
    below = np.append(0, np.cumsum(kept)) / kept.sum()
    edges = np.linspace(-half, half, len(table) + 1)
    return np.interp(shares, below, edges)
