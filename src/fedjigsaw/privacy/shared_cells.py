"""Cells that all sites share: each site sends a noisy table, and the server adds the tables up.

A site with few rows cannot tell its clusters from noise, but many such sites together can: noise
grows with the root of their number, rows with the number. So all sites use the same cells. These
depend on nothing but the bounds and their number, and come out alike on every machine.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.messages import Summary
from fedjigsaw.privacy.guarantee import SITE, Privacy
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.releases import (
    GRID,
    MIN_RADIUS,
    SQUARE_UNIT,
    Box,
    Cells,
    cell_sensitivity,
    cell_table,
    nearest_cell,
    read_cells,
)

CELLS, CELL_NOISE = "cells", "cell_noise"  # tensors of a summary
CELLS_PER_CLUSTER = 16
POINTS, STEPS = 2**13, 10
MAX_CELLS = POINTS // 4
SHARED_COUNT_UNIT = GRID  # counts matter more here: they tell which cells hold rows at all
FLOOR = 3.0  # standard deviations of noise that the count of a cell must exceed


def shared_summary(
    rows: Floats, box: Box, n_cells: int, multiplier: float, privacy: Privacy, noise: Noise
) -> Summary:
    """Return the noisy table of the shared cells as a message. Rows must be on the box's grid."""
    centers, radius = shared_cells(tuple(box.half), n_cells)
    radii = np.full(n_cells, radius)
    labels, squared = nearest_cell(rows, centers)
    table = cell_table(rows, centers, radii, labels, squared, SHARED_COUNT_UNIT)
    if privacy.unit == SITE:
        table = np.rint(table / max(len(rows), privacy.rows_per_site)).astype(np.int64)
        sensitivity = site_sensitivity(rows.shape[1], n_cells)
    else:
        sensitivity = cell_sensitivity(rows.shape[1], SHARED_COUNT_UNIT)
    scale = multiplier * sensitivity
    cells = read_cells(noise.add(table, scale), centers, radii, scale, SHARED_COUNT_UNIT)
    weight = privacy.rows_per_site if privacy.unit == SITE else 1
    numbers = np.column_stack([cells.counts, cells.squares * box.scale**2, cells.sums * box.scale])
    deviations = np.array([cells.count_noise, cells.sum_noise[0] * box.scale])
    return Summary(
        max(1, round(weight * float(cells.counts.sum()))),
        box.to_units(centers),
        tensors={CELLS: weight * numbers, CELL_NOISE: weight * deviations},
    )


def site_sensitivity(n_columns: int, n_cells: int) -> float:
    """Return how far apart the tables of any two data sets of a site can be.

    A table is a mean of row vectors (or less), so two tables are farthest apart where each is a
    single row: at opposite ends of one cell, or in two cells. Rounding the mean adds a little.
    """
    row = cell_sensitivity(n_columns, SHARED_COUNT_UNIT)
    u = GRID + math.sqrt(n_columns) / 2 + 1
    opposite = math.hypot(2 * u, SQUARE_UNIT / GRID * math.sqrt(n_columns) + 2)
    return max(math.sqrt(2) * row, opposite) + math.sqrt(n_cells * (n_columns + 2))


@lru_cache(maxsize=16)
def shared_cells(half: tuple[float, ...], n_cells: int) -> tuple[Floats, float]:
    """Return centers spread evenly in the box, and the radius of their cells."""
    from scipy.stats import qmc  # slow to import, and servers need this module, too

    sides = np.array(half)
    box = Box(np.zeros(len(sides)), 1.0, sides)
    points = box.on_grid((2 * qmc.Sobol(len(sides), scramble=False).random(POINTS) - 1) * sides)
    centers = points[:n_cells]
    for _ in range(STEPS):  # sums on the grid are exact, so the order of adding does not matter
        labels, _ = nearest_cell(points, centers)
        counts = np.bincount(labels, minlength=n_cells)
        sums = np.column_stack([np.bincount(labels, c, minlength=n_cells) for c in points.T])
        moved = sums / np.maximum(counts, 1)[:, None]
        centers = box.on_grid(np.where(counts[:, None] > 0, moved, centers))
    _, squared = nearest_cell(points, centers)
    radius = float(np.sqrt(np.quantile(squared, 0.99, method="higher")))
    return centers, max(radius, MIN_RADIUS)


def has_cells(summary: Summary) -> bool:
    """Tell whether a summary is a table of shared cells."""
    return CELLS in summary.tensors


def check_cells(summary: Summary) -> None:
    """Raise a MessageError if a summary from outside is no table of shared cells."""
    n_cells, n_columns = summary.centers.shape
    shapes = {CELLS: (n_cells, n_columns + 2), CELL_NOISE: (2,)}
    for name, shape in shapes.items():
        table = summary.tensors.get(name, np.zeros(0))
        if table.shape != shape or not np.isfinite(table.astype(np.float64)).all():
            owner = f"client {summary.client!r}"
            raise MessageError(invalid(name, owner, f"finite, of shape {shape}", table.shape))


def add_up(summaries: Sequence[Summary]) -> Summary:
    """Return the cells of all sites together that stand out from the noise, as one summary."""
    check_same_cells(summaries)
    first = summaries[0]
    tables = np.stack([summary.tensors[CELLS] for summary in summaries])
    noises = np.stack([summary.tensors[CELL_NOISE] for summary in summaries])
    total = tables.sum(axis=0)
    count_noise, sum_noise = np.sqrt((noises**2).sum(axis=0))
    cells = Cells(
        first.centers,
        np.full(len(total), np.inf),
        total[:, 0],
        total[:, 2:],
        total[:, 1],
        float(count_noise),
        np.full(len(total), sum_noise),
    )
    return _kept(cells)


def check_same_cells(summaries: Sequence[Summary]) -> None:
    """Raise a MessageError if these are not tables of the same cells."""
    first = summaries[0]
    for summary in summaries:
        check_cells(summary)
        if not np.array_equal(summary.centers, first.centers):
            raise MessageError(
                f"Clients {first.client!r} and {summary.client!r} use different shared cells. Use "
                "the same bounds and number of clusters at all sites."
            )


def _kept(cells: Cells) -> Summary:
    clear = cells.counts > FLOOR * cells.count_noise
    if not clear.any():
        raise MessageError(
            "No cell stands out from the noise: the sites have too few rows together. Use a "
            "larger epsilon, narrower bounds, or more sites."
        )
    kept = cells.select(clear)
    counts = np.maximum(np.rint(kept.counts), 1).astype(np.int64)
    return Summary(int(counts.sum()), kept.means(), counts=counts, sse=kept.sse())


def n_shared_cells(n_clusters: int) -> int:
    """Return the number of shared cells for so many clusters."""
    return min(CELLS_PER_CLUSTER * n_clusters, MAX_CELLS)
