"""What the number of clusters is chosen from: no site has more of a say than it should."""

from dataclasses import replace

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.choice.cells import condense
from fedjigsaw.trust.received import MIN_SITES, Received

HEAVY = 8.0  # times the typical number of rows that a site counts for at most
MANY_CELLS = 400  # of one site: twice what it sends by itself
HEAVY_CELL = 20.0  # times the rows of a typical cell that a cell counts for at most


def for_counting(received: Received, *, limited: bool) -> Received:
    """Return the cells from which the number of clusters is chosen.

    Sites whose clusters are mixtures of unlike rows are left out, if there are others. With
    `limited`, no site or cell counts for many times the rows of a typical one: criteria compare
    numbers of rows, and one site could decide them alone. Centers are found from all rows all the
    same.
    """
    if received.mixed is not None:
        others = received.of_sites(~received.mixed)
        received = others if len(others.counts) else received
    if not limited or received.n_sites < MIN_SITES:
        return received
    rows = received.per_site(received.counts)
    typical = float(np.median(rows[rows > 0]))
    share = np.minimum(1.0, HEAVY * typical / np.where(rows > 0, rows, 1))
    if (share < 1).any():
        received = received.weighted(share)
    received = _without_crowds(received)
    most = HEAVY_CELL * float(np.median(received.counts))
    if received.counts.max() <= most:
        return received
    counts = np.minimum(received.counts, most)
    return replace(received, counts=counts, sse=received.sse * (counts / received.counts))


def _without_crowds(received: Received) -> Received:
    """Merge the cells of a site that sent very many: others would hardly be seen among them."""
    sizes = np.bincount(received.owners, minlength=received.n_sites)
    if sizes.max() <= MANY_CELLS:
        return received
    parts: list[tuple[Floats, Floats, Floats]] = []
    owners: list[Ints] = []
    for site in np.flatnonzero(sizes):
        own = received.clusters_of(int(site))
        cells = received.centers[own], received.counts[own], received.sse[own]
        parts.append(condense(*cells, MANY_CELLS))
        owners.append(np.full(len(parts[-1][1]), site))
    centers, counts, sse = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return received.rebuilt(centers, counts, sse, np.concatenate(owners))
