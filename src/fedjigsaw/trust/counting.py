"""What the number of clusters is chosen from: no site has more of a say than it should."""

from dataclasses import replace

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.choice.cells import condense
from fedjigsaw.kernels.kmeans import blocks
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.trust.plausibility import Flags
from fedjigsaw.trust.received import IN_CACHE, MIN_SITES, Received

HEAVY = 8.0  # times the typical number of rows that a site counts for at most
MANY_CELLS = 400  # of one site: twice what it sends by itself
HEAVY_CELL = 20.0  # times the rows of a typical cell that a cell counts for at most
NARROW = 4.0  # a narrow site has less than the variance to be expected, divided by this
FEW_ROWS = 50  # of a site: so few tell too little about its variance
REACH = 4.0  # variances of a cell within whose squared distance it tells of others' variance
COMPARED = 640  # cells of others, and of its own site, that each cell is compared with


def for_counting(received: Received, *, limited: bool) -> Received:
    """Return the cells from which the number of clusters is chosen.

    Sites whose clusters are mixtures of unlike rows are left out, if there are others. With
    `limited`, no site or cell counts for many times the rows of a typical one: criteria compare
    numbers of rows, and one site could decide them alone. Centers are found from all rows all the
    same. Of a narrow site, which sees heaps where the others see none, neither counts for more than
    a typical one: with more rows, tiny sums of squares would make each heap a cluster.
    """
    if received.mixed is not None:
        others = received.of_sites(~received.mixed)
        received = others if len(others.counts) else received
    if not limited or received.n_sites < MIN_SITES:
        return received
    rows = received.per_site(received.counts)
    typical = float(np.median(rows[rows > 0]))
    narrow = _narrow_sites(received, rows > max(typical, FEW_ROWS))
    most_rows = np.where(narrow, 1.0, HEAVY) * typical
    share = np.minimum(1.0, most_rows / np.where(rows > 0, rows, 1))
    if (share < 1).any():
        received = received.weighted(share)
    received = _without_crowds(received)
    most = np.where(narrow, 1.0, HEAVY_CELL)[received.owners] * float(np.median(received.counts))
    if (received.counts <= most).all():
        return received
    counts = np.minimum(received.counts, most)
    return replace(received, counts=counts, sse=received.sse * (counts / received.counts))


def _narrow_sites(received: Received, judged: Flags) -> Flags:
    """Tell which sites have far smaller sums of squares than their cells and the others explain.

    An honest site that holds few clusters spends its cells on them, and the more cells share a
    place, the narrower they are: in two columns, n of them have an n-th of the variance. The same
    is allowed in more columns, for rows often lie near a surface in them. A place where no other
    site has cells is not judged.

    Parameters
    ----------
    judged : the sites that may be narrow; with few rows, heaps decide nothing.
    """
    free = np.maximum(received.counts - 1, 0)  # a row alone has no variance
    if received.noise.any() or not judged.any():  # sums with noise are not used one by one
        return np.zeros(received.n_sites, dtype=bool)
    X, owners, heard = received.centers - received.middle, received.owners, received.heard
    # as mixtures do: no cell is narrower than the steps of rounded columns
    steps = 0.0 if received.grain is None else float(received.grain.sum())
    variances = received.sse / np.maximum(free, 1) + steps
    heard = heard[(variances * free)[heard] > 0]
    others = heard[np.sort(np.random.default_rng(0).permutation(len(heard))[:COMPARED])]
    reach, logs = np.sqrt(REACH * variances[others]), np.log(variances[others])
    expected = np.zeros(len(X))
    for part in blocks(len(X), max(1, len(others)), IN_CACHE):
        near = pairwise_distances(X[part], X[others]) <= reach
        near &= owners[part, None] != owners[others]
        n_near = near.sum(axis=1)
        # the geometric mean: a few absurd numbers hardly change it
        expected[part] = np.where(n_near > 0, np.exp(near @ logs / np.maximum(n_near, 1)), 0.0)
    own = received.per_site(free * variances * (expected > 0))
    expected *= _own_cells_near(received, judged, X, REACH * expected) ** -max(1.0, 2 / X.shape[1])
    narrow: Flags = judged & (NARROW * own < received.per_site(free * expected))
    return narrow


def _own_cells_near(received: Received, judged: Flags, X: Floats, squared_reach: Floats) -> Floats:
    """Return about how many cells of the same site are within reach of each, at least one.

    Cells of other sites than those that are judged count as alone.
    """
    found, reach = np.ones(len(X)), np.sqrt(squared_reach)
    for site in np.flatnonzero(judged):
        own = received.clusters_of(int(site))
        cells, within = X[own], reach[own]
        every = 1 + len(cells) // COMPARED  # of a crowd, some of its cells are enough
        some = cells[::every]
        near = [
            (pairwise_distances(cells[part], some) <= within[part, None]).sum(axis=1)
            for part in blocks(len(cells), max(1, len(some)), IN_CACHE)
        ]
        found[own] = np.maximum(every * np.concatenate(near), 1)
    return found


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
