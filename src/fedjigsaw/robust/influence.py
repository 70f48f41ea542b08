"""What a site does to the others: its influence."""

from collections.abc import Callable

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import MAX_RATIO
from fedjigsaw.robust.received import Received

EXACT_SITES, EXACT_CENTERS = 64, 1280  # up to here, each site is left out in turn
SMALLEST = 1e-6  # objective that counts, relative to that of one center


def influences(
    received: Received, centers: Floats, refind: Callable[[Received, Floats], Floats]
) -> Floats:
    """Return the influence of each site: the objective of the others with it, over without it.

    Of many sites, the influence is estimated: each cluster's rows stay together.

    Parameters
    ----------
    refind : finds centers again, after a site was removed, starting from known ones.
    """
    if received.n_sites == 1:
        return np.ones(1)
    if len(received.centers) > EXACT_CENTERS or received.n_sites > EXACT_SITES:
        return _estimated(received, centers)
    everyone, found = np.arange(received.n_sites), np.ones(received.n_sites)
    for site in everyone:
        others = received.of_sites(everyone != site)
        # where all rows lie at centers, the smallest difference would be an endless ratio
        mean = np.average(others.centers, axis=0, weights=others.counts)[None]
        least = SMALLEST * _objective(others, mean)
        own = _objective(others, refind(others, centers)) + least
        ratio = (_objective(others, centers) + least) / own if own > 0 else 1.0
        found[site] = np.clip(ratio, 1.0, MAX_RATIO)
    return found


def _objective(received: Received, centers: Floats) -> float:
    """Return the summed squared distance of all rows to the centers of their local clusters."""
    distances = nearest_centers(received.centers, centers)[1]
    return float(received.sse.sum() + received.counts @ distances**2)


def _estimated(received: Received, centers: Floats) -> Floats:
    """Return 1 + what moving each center to the others' mean gains them, over their objective."""
    k, n_sites = len(centers), received.n_sites
    labels, distances = nearest_centers(received.centers, centers)
    cells = received.owners * k + labels
    rows = np.bincount(cells, received.counts, minlength=n_sites * k).reshape(n_sites, k)
    costs = received.per_site(received.sse + received.counts * distances**2)
    theirs = rows.sum(axis=0) - rows
    theirs[theirs < 0.5] = 0.0
    moved = np.zeros((n_sites, k))
    for column in range(centers.shape[1]):
        offset = received.counts * (received.centers[:, column] - centers[labels, column])
        sums = np.bincount(cells, offset, minlength=n_sites * k).reshape(n_sites, k)
        moved += (sums / np.where(theirs > 0, theirs, 1.0)) ** 2
    gain = (theirs * moved).sum(axis=1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found: Floats = np.nan_to_num(1 + gain / (costs.sum() - costs), nan=1.0)
    return np.clip(found, 1.0, MAX_RATIO)
