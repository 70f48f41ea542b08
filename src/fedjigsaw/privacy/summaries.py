"""Private summaries of a site, of its own cells or of shared ones, and which of both to choose.

A site with few rows cannot tell its clusters from noise, but many such sites together can: noise
grows with the root of their number, rows with the number. So all sites describe the same cells,
each sends a noisy table, and the server adds the tables up. These cells depend on nothing but the
bounds and their number, and come out alike on every machine.

Both kinds of summaries do not fit together, so the choice is made once, before anything leaves, and
from public numbers alone: a choice by a site's own rows would tell how many there are. What counts
is how many standard deviations of its noise the rows of a cluster are. Own cells have the rows and
the noise of one site; in shared cells both are added up. The two limits were measured on generated
data of 2 to 16 columns, 5 and 15 clusters, 3 to 200 sites and epsilon 0.5 to 4, on which no page
reports.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import (
    MessageError,
    NoiseWarning,
    ParameterError,
    counted,
    invalid,
    warn,
    warn_of_client,
)
from fedjigsaw.messages import CELL_NOISE, CELLS, NOISE, OWN, SHARED, SPREAD, Broadcast, Summary
from fedjigsaw.privacy.cells import (
    COUNT_UNIT,
    FLOOR,
    MAX_COLUMNS,
    MIN_RADIUS,
    SHARED_COUNT_UNIT,
    SHARES,
    Box,
    Cells,
    Search,
    cell_sensitivity,
    nearest_cell,
    release_cells,
    site_sensitivity,
    spread_evenly,
)
from fedjigsaw.privacy.dp import GRID, SITE, Noise, Privacy

MIN_STEPS = 16  # of the grid, within the bounds of a column
REACH = 2.0  # spreads of a model's cluster within which nearly all of its rows lie
CELLS_PER_CLUSTER = 16
POINTS, STEPS = 2**13, 10
MAX_CELLS = POINTS // 4
# standard deviations of noise in the rows of a cluster, from which on own cells cost at most a
# fifth more than no privacy, and shared cells hardly more than half
ENOUGH = 10.0
ENOUGH_PER_COLUMN = 4.0  # of shared cells: the more columns, the more of them a cluster is in


# ---------------------------------------------------------------------------------------- at a site


@dataclass(frozen=True)
class PrivateRound:
    """What one site is to release in one round.

    Parameters
    ----------
    privacy : Privacy
        The promise for the whole run.
    n_rounds : int
        Rounds of the run, which share the budget equally.
    broadcast : Broadcast
    n_clusters, max_centers : int
        Fewest and most centers that the site looks for.
    n_cells : int
        Number of cells, where all sites share them.
    """

    privacy: Privacy
    n_rounds: int
    broadcast: Broadcast
    n_clusters: int
    max_centers: int
    n_cells: int

    def noise(self) -> Noise:
        """Return the noise of this answer. An audit puts its own in this place."""
        return Noise.for_answer(self.privacy, self.broadcast.round, self.broadcast.client)

    def answer(self, rows: Floats, rng: np.random.Generator) -> Summary:
        """Summarize rows: by a search for clusters, by shared cells, or by a model's clusters.

        A site is warned if rows are clipped, and if its delta is too large for its rows.
        """
        privacy, model, client = self.privacy, self.broadcast.model, self.broadcast.client
        if self.broadcast.round >= self.n_rounds:  # its share of the budget is spent
            allowed = f"below the number of rounds, {self.n_rounds}"
            raise ParameterError(invalid("round", "a question", allowed, self.broadcast.round))
        box = box_of(privacy, rows.shape[1])
        inside, n_outside = box.inside(rows)
        if n_outside:
            warn_of_client(
                client,
                f"{n_outside} of {len(rows)} rows are outside the bounds of Privacy and were "
                "clipped",
                "If there are many, the bounds are too narrow.",
                NoiseWarning,
            )
        noise, multiplier = self.noise(), privacy.multiplier(self.n_rounds)
        if privacy.cells == SHARED:
            summary = shared_summary(inside, box, self.n_cells, multiplier, privacy, noise)
        elif model is None:
            search = Search(box, self.n_clusters, self.max_centers, multiplier, noise, rng)
            summary = _own(search.run(inside), box, client)
        else:  # any model may be asked about
            centers = box.on_grid((model.centers - box.middle) / box.scale)
            radii = np.full(len(centers), float(np.linalg.norm(box.half)))
            spreads = model.tensors.get(SPREAD, radii[:0])
            if spreads.shape == radii.shape:
                # fmax and fmin take the other number where one is NaN
                radii = np.fmin(np.fmax(REACH * spreads / box.scale, MIN_RADIUS), radii)
            cells = release_cells(inside, centers, radii, multiplier, noise)
            summary = _own(cells, box, client)
        privacy.warn_of_large_delta(summary.n_samples)
        return summary


def box_of(privacy: Privacy, n_columns: int) -> Box:
    """Return the public box of the rows."""
    if n_columns > MAX_COLUMNS:
        allowed = f"at most {MAX_COLUMNS} under differential privacy"
        raise ParameterError(invalid("number of columns", "the data", allowed, n_columns))
    box = Box.within(*privacy.limits(n_columns))
    if (box.half * GRID < MIN_STEPS).any():
        raise ParameterError(
            "The bounds of one column are far narrower than those of another (1 to 65,536), so "
            "it would not count. Scale the columns first (`fedjigsaw scaler --bounds`)."
        )
    return box


def _own(cells: Cells, box: Box, client: str) -> Summary:
    """Make the message of a site's own cells, without those that are hardly more than noise."""
    clear = cells.counts > FLOOR * cells.count_noise
    if not clear.any():  # something must leave: one center, where most rows seem to be
        clear[cells.counts.argmax()] = True
        warn_of_client(
            client,
            "too few rows for this epsilon, its summary is hardly more than noise",
            "Use a larger epsilon, or shared cells at all sites.",
            NoiseWarning,
        )
    kept = cells.select(clear)
    counts = kept.whole_counts()
    spread = kept.sum_noise / np.maximum(kept.counts, 1) * box.scale
    return Summary(
        int(counts.sum()),
        box.to_units(np.clip(kept.means(), -box.half, box.half)),
        counts=counts,
        sse=kept.sse() * box.scale**2,
        tensors={NOISE: np.column_stack([np.full(len(counts), kept.count_noise), spread])},
    )


def shared_summary(
    rows: Floats, box: Box, n_cells: int, multiplier: float, privacy: Privacy, noise: Noise
) -> Summary:
    """Return the noisy table of the shared cells as a message. Rows must be on the box's grid."""
    per_site = privacy.rows_per_site if privacy.unit == SITE else None
    centers, radius = shared_cells(tuple(box.half), n_cells)
    kind = partial(release_cells, unit=SHARED_COUNT_UNIT, rows_per_site=per_site)
    cells = kind(rows, centers, radius, multiplier, noise)
    weight = per_site or 1
    numbers = np.column_stack([cells.counts, cells.squares * box.scale**2, cells.sums * box.scale])
    deviations = np.array([cells.count_noise, cells.sum_noise[0] * box.scale])
    return Summary(
        max(1, round(weight * float(cells.counts.sum()))),
        box.to_units(centers),
        tensors={CELLS: weight * numbers, CELL_NOISE: weight * deviations},
    )


@lru_cache(maxsize=16)
def shared_cells(half: tuple[float, ...], n_cells: int) -> tuple[Floats, float]:
    """Return centers spread evenly in the box, and the radius of their cells."""
    from scipy.stats import qmc  # slow to import, and servers need this module, too

    sides = np.array(half)
    box = Box(np.zeros(len(sides)), 1.0, sides)
    points = box.on_grid((2 * qmc.Sobol(len(sides), scramble=False).random(POINTS) - 1) * sides)
    centers = spread_evenly(points, points[:n_cells], box, STEPS)
    _, squared = nearest_cell(points, centers)
    radius = float(np.sqrt(np.quantile(squared, 0.99, method="higher")))
    return centers, max(radius, MIN_RADIUS)


def n_shared_cells(n_clusters: int) -> int:
    """Return the number of shared cells for so many clusters."""
    return min(CELLS_PER_CLUSTER * n_clusters, MAX_CELLS)


# ------------------------------------------------------------------------------------ at the server


def center_noise(summary: Summary) -> Floats:
    """Return the standard deviation of the noise on the coordinates of each center, 0 for none."""
    noise: Floats = _noise_of(summary)[:, 1]
    return noise


def count_noise(summary: Summary) -> float:
    """Return the typical standard deviation of the noise on the counts, 0 for none."""
    return float(np.sqrt((_noise_of(summary)[:, 0] ** 2).mean()))


def _noise_of(summary: Summary) -> Floats:
    n_centers = len(summary.centers)
    if NOISE not in summary.tensors:
        return np.zeros((n_centers, 2))
    noise = summary.tensors[NOISE].astype(np.float64)
    if noise.shape != (n_centers, 2) or not (np.isfinite(noise) & (noise >= 0)).all():
        allowed = f"two finite numbers >= 0 for each of its {n_centers} centers"
        raise MessageError(invalid(NOISE, f"client {summary.client!r}", allowed, noise.shape))
    return noise


def has_cells(summary: Summary) -> bool:
    """Tell whether a summary is a table of shared cells."""
    return CELLS in summary.tensors


def check_cells(summary: Summary) -> None:
    """Raise a MessageError if a summary from outside is no table of shared cells."""
    n_cells, n_columns = summary.centers.shape
    for name, shape in {CELLS: (n_cells, n_columns + 2), CELL_NOISE: (2,)}.items():
        table = summary.tensors.get(name, np.zeros(0))
        if table.shape != shape or not np.isfinite(table.astype(np.float64)).all():
            owner = f"client {summary.client!r}"
            raise MessageError(invalid(name, owner, f"finite, of shape {shape}", table.shape))


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


def add_up(summaries: Sequence[Summary]) -> Summary:
    """Return the cells of all sites together that stand out from the noise, as one summary."""
    check_same_cells(summaries)
    total = np.sum([summary.tensors[CELLS] for summary in summaries], axis=0)
    noises = np.stack([summary.tensors[CELL_NOISE] for summary in summaries])
    count_noise, sum_noise = np.sqrt((noises**2).sum(axis=0))
    n_cells, centers = len(total), summaries[0].centers
    no_limit, sum_noises = np.full(n_cells, np.inf), np.full(n_cells, sum_noise)
    counts, squares, sums = total[:, 0], total[:, 1], total[:, 2:]
    cells = Cells(centers, no_limit, counts, sums, squares, float(count_noise), sum_noises)
    clear = counts > FLOOR * count_noise
    if not clear.any():
        raise MessageError(
            "No cell stands out from the noise: the sites have too few rows together. Use a "
            "larger epsilon, narrower bounds, or more sites."
        )
    kept = cells.select(clear)
    rows = kept.whole_counts()
    return Summary(int(rows.sum()), kept.means(), counts=rows, sse=kept.sse())


# --------------------------------------------------------------------------------------- the choice


class CellsError(ParameterError):
    """Which cells sites describe was not said, or said twice and differently."""


@dataclass(frozen=True)
class Expected:
    """What is public of a run before anything leaves.

    Parameters
    ----------
    n_rows, n_sites : rows of all sites together, and their number, as they are expected.
    n_clusters, n_columns, n_rounds : as in the question.
    """

    n_rows: int
    n_sites: int
    n_clusters: int
    n_columns: int
    n_rounds: int = 1

    def cells(self, privacy: Privacy) -> str:
        """Return "own" if a site has enough rows for cells of its own, and otherwise "shared"."""
        if privacy.cells is not None:
            return privacy.cells
        several = self.n_rounds > 1  # only own cells are answered in later rounds
        return OWN if several or self.signal(privacy, OWN) >= ENOUGH else SHARED

    def signal(self, privacy: Privacy, cells: str) -> float:
        """Return the rows of a cluster in standard deviations of the noise on a count."""
        multiplier = privacy.multiplier(self.n_rounds)
        rows = self.n_rows / self.n_clusters
        if cells == OWN:
            unit = cell_sensitivity(self.n_columns) / COUNT_UNIT
            return rows / self.n_sites / (multiplier / math.sqrt(SHARES[-1]) * unit)
        unit = cell_sensitivity(self.n_columns, SHARED_COUNT_UNIT) / SHARED_COUNT_UNIT
        if privacy.unit == SITE:  # a site adds the mean of its rows, or less
            rows /= max(self.n_rows / self.n_sites, privacy.rows_per_site)
            unit = site_sensitivity(self.n_columns, n_shared_cells(self.n_clusters)) / GRID
        return rows / (multiplier * unit * math.sqrt(self.n_sites))

    def warn_of_noise(self, privacy: Privacy) -> None:
        """Warn if the noise will drown the data."""
        cells = self.cells(privacy)
        enough, found = enough_for(cells, self.n_columns), self.signal(privacy, cells)
        if found >= enough:
            return
        other = " shared cells," if cells == OWN and self.n_rounds == 1 else ""
        warn(
            f"The noise of epsilon = {privacy.epsilon:g} will drown the clusters: with {cells} "
            f"cells, {counted(self.n_rows, 'row')}, {counted(self.n_sites, 'site')} and "
            f"{counted(self.n_clusters, 'cluster')}, "
            f"a cluster is {found:.2g} standard deviations of noise, and {enough:g} are needed. "
            f"Use{other} a larger epsilon, fewer clusters, or more rows.",
            NoiseWarning,
        )


def enough_for(cells: str, n_columns: int) -> float:
    """Return how many standard deviations of noise the rows of a cluster must be."""
    return ENOUGH if cells == OWN else max(ENOUGH, ENOUGH_PER_COLUMN * n_columns)


def seen_through(signal: float, cells: str, n_columns: int) -> float:
    """Return how far a number of clusters that noise let through can be believed, from 0 to 1.

    Noise merges clusters and hides them. So a number is believed if twice as many clusters would
    have been seen, too.

    Parameters
    ----------
    signal : rows of a cluster that was found, in standard deviations of noise.

    Examples
    --------
    >>> seen_through(30.0, "own", 2), seen_through(10.0, "own", 2)
    (1.0, 0.25)
    """
    return min(1.0, signal / (2 * enough_for(cells, n_columns))) ** 2


def with_cells(privacy: Privacy, asked: str | None) -> Privacy:
    """Return a promise with the cells that a question asks for, which must be its own, if any."""
    if asked is not None and privacy.cells not in (None, asked):
        raise CellsError(invalid("cells", "the question", repr(privacy.cells), repr(asked)))
    if asked is None and privacy.cells is None:
        raise CellsError(
            "Say which cells to describe, own ones of each site or shared ones, the same at all "
            "sites. Choose by what is public before anything leaves: `fedjigsaw privacy cells` "
            "says which; a fit in Python chooses by `rows` of its privacy.",
            parameter="cells",
        )
    return replace(privacy, cells=privacy.cells or asked)
