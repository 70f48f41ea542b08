"""How a site finds its clusters under differential privacy: five releases, each steering the next.

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

from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.releases import (
    COUNT_UNIT,
    MIN_RADIUS,
    Box,
    Cells,
    cell_sensitivity,
    nearest_cell,
    release_cells,
    release_histograms,
)

SHARES = (0.1, 0.3, 0.1, 0.2, 0.3)  # of the budget, one for each release
CENTERS_PER_CLUSTER = 4
N_BINS = 64
START_POINTS = 2**12
START_STEPS = 10
MAX_CENTERS = START_POINTS // 2
FLOOR = 3.0  # standard deviations of noise that a count must exceed
ROWS_PER_CENTER = 4.5  # the same, on average, for the number of centers


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
        multipliers = [self.multiplier / share**0.5 for share in SHARES]
        centers, radius = self.start(rows, multipliers[0], multipliers[1])
        centers = self.first_step(release_cells(rows, centers, radius, multipliers[1], self.noise))
        inner = self.radius_of(rows, centers, radius, multipliers[2])
        outer = max(radius, 2 * inner)
        cells = release_cells(rows, centers, inner, multipliers[3], self.noise, outer_radius=outer)
        centers = self.second_step(cells)
        cells = release_cells(rows, centers, inner, multipliers[4], self.noise, outer_radius=outer)
        kept = clear_cells(cells)
        kept[: len(centers)] = True  # inner cells are judged by their counts alone, later
        return cells.select(kept)

    def start(
        self, rows: Floats, multiplier: float, next_multiplier: float
    ) -> tuple[Floats, float]:
        """Return first centers, spread as noisy histograms of the columns say, and a radius."""
        from scipy.stats import qmc  # slow to import, and servers need this module, too

        width = 2 * self.box.half / N_BINS
        bins = np.clip(((rows + self.box.half) / width).astype(np.int64), 0, N_BINS - 1)
        tables, noise = release_histograms(bins, N_BINS, multiplier, self.noise)
        points = qmc.Sobol(rows.shape[1], seed=self.rng).random(START_POINTS)
        for j, table in enumerate(tables):
            points[:, j] = _quantiles(table, noise, points[:, j], self.box.half[j])
        n_rows = float(tables.sum(axis=1).mean())
        k = self._n_centers(n_rows, next_multiplier)
        centers = points[self.rng.choice(len(points), k, replace=False)]
        for _ in range(START_STEPS):
            centers = _lloyd(points, centers)
        centers = self.box.on_grid(centers)
        squared = nearest_cell(self.box.on_grid(points), centers)[1]
        return centers, max(float(np.sqrt(np.quantile(squared, 0.9))), MIN_RADIUS)

    def _n_centers(self, n_rows: float, multiplier: float) -> int:
        """Return how many centers can stand for so many rows each that they exceed the noise."""
        noise = multiplier * cell_sensitivity(len(self.box.half)) / COUNT_UNIT
        return int(np.clip(n_rows / (ROWS_PER_CENTER * noise), self.n_clusters, self.max_centers))

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


def _lloyd(points: Floats, centers: Floats) -> Floats:
    labels = (centers**2).sum(axis=1) - 2 * points @ centers.T
    where = labels.argmin(axis=1)
    counts = np.bincount(where, minlength=len(centers))
    sums = np.column_stack([np.bincount(where, c, minlength=len(centers)) for c in points.T])
    moved: Floats = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
    return moved
