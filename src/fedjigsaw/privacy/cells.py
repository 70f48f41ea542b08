"""Which cells sites describe under differential privacy, and whether the noise drowns the data.

Each site can look for cells of its own, or all describe the same, which the server adds up. Both
kinds of summaries do not fit together, so the choice is made once, before anything leaves, and from
public numbers alone: a choice by a site's own rows would tell how many there are.

What counts is how many standard deviations of its noise the rows of a cluster are. Own cells have
the rows and the noise of one site; in shared cells both are added up, so that the rows grow with
the number of sites and the noise with its root. The two limits were measured on generated data of
2 to 16 columns, 5 and 15 clusters, 3 to 200 sites and epsilon 0.5 to 4, on which no page reports.
"""

import math
from dataclasses import dataclass, replace

from fedjigsaw.errors import NoiseWarning, ParameterError, counted, invalid, warn
from fedjigsaw.messages import OWN, SHARED
from fedjigsaw.privacy.accounting import multiplier_for
from fedjigsaw.privacy.guarantee import SITE, Privacy
from fedjigsaw.privacy.mechanism import SHARES
from fedjigsaw.privacy.releases import COUNT_UNIT, GRID, cell_sensitivity
from fedjigsaw.privacy.shared_cells import SHARED_COUNT_UNIT, n_shared_cells, site_sensitivity

# standard deviations of noise in the rows of a cluster, from which on own cells cost at most a
# fifth more than no privacy, and shared cells hardly more than half
ENOUGH = 10.0
ENOUGH_PER_COLUMN = 4.0  # of shared cells: the more columns, the more of them a cluster is in


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
        multiplier = multiplier_for(privacy.epsilon, privacy.delta) * math.sqrt(self.n_rounds)
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
            "sites. Choose by what is public before anything leaves: `fedjigsaw privacy cells`, or "
            "Privacy(rows=...) in fit.",
            parameter="cells",
        )
    return replace(privacy, cells=privacy.cells or asked)
