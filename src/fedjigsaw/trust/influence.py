"""What a site does to the others: harm, and influence."""

from collections.abc import Callable

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.trust.plausibility import Examined
from fedjigsaw.trust.received import Received

Find = Callable[[Received, int], Floats]

SAMPLE = 2048  # centers that checks look at
HARM = 1.02  # harm that a site may do beyond what is excused
HALVING = 0.75  # largest share of a cluster's variance that halving it gains, in one column
MOST = 1e6  # largest ratio that is reported


def objective(received: Received, centers: Floats) -> float:
    """Return the summed squared distance of all rows to the centers of their local clusters."""
    distances = nearest_centers(received.centers, centers)[1]
    return float(received.sse.sum() + received.counts @ distances**2)


def harm(others: Received, site: Received, k: int, find: Find) -> float:
    """Return the harm that a site does to others, beyond what is excused."""
    together = find(others.joined(site), k)
    labels, distances = nearest_centers(others.centers, together)
    parts = np.bincount(labels, others.sse + others.counts * distances**2, minlength=len(together))
    own = objective(others, find(others, k))
    found = ratio(float(parts.sum()), own)
    theirs = np.bincount(labels, others.counts, minlength=len(together))
    taken = nearest_centers(site.centers, together)[0]
    n_taken = int((np.bincount(taken, site.counts, minlength=len(together)) > theirs).sum())
    if not n_taken or found <= HARM:
        return found
    k = len(together)
    if n_taken >= k:
        return np.inf
    share = HALVING / others.centers.shape[1]
    halved = parts.sum() - share * np.sort(parts)[::-1][:n_taken].sum()
    excused = ratio(float(parts.sum()), float(halved))
    further = ratio(own, objective(others, find(others, k + n_taken)))
    # without any structure, the objective falls as a power of the number of centers
    power = np.log(k / (k - n_taken)) / np.log((k + n_taken) / k)
    return float(found / max(excused, further**power, 1.0))


def ratio(a: float, b: float) -> float:
    return min(a / b, MOST) if b > 0 else 1.0 if a <= 0 else MOST


def influences(examined: Examined, centers: Floats, find: Find) -> Floats:
    """Return the influence of each site: the objective of the others with it, over without it.

    For a site whose summary was changed or set aside, it is the influence that it would have had.
    Of many sites, the influence is estimated: each cluster's rows stay together.
    """
    kept = examined.received
    if kept.n_sites == 1:
        return np.ones(1)
    if len(kept.centers) <= SAMPLE and kept.n_sites <= 64:
        exact = [_influence(examined, site, centers, find) for site in range(kept.n_sites)]
        return np.maximum(exact, 1.0)
    return _estimated(examined, centers)


def _influence(examined: Examined, site: int, centers: Floats, find: Find) -> float:
    kept, k = examined.received, len(centers)
    everyone = np.arange(kept.n_sites)
    others = kept.of_sites(everyone != site)
    if not len(others.centers):
        return 1.0
    own = objective(others, find(others, k))
    if not examined.notes[site]:
        return ratio(objective(others, centers), own)
    with_it = others.joined(examined.original.of_sites(everyone == site))
    return ratio(objective(others, find(with_it, k)), own)


def _estimated(examined: Examined, centers: Floats) -> Floats:
    """Return 1 + what moving each center to the others' mean gains them, over their objective."""
    original, kept = examined.original, examined.received
    k, n_sites = len(centers), original.n_sites
    labels, distances = nearest_centers(original.centers, centers)
    cells = original.owners * k + labels
    rows = np.bincount(cells, original.counts, minlength=n_sites * k).reshape(n_sites, k)
    cost = original.per_site(original.sse + original.counts * distances**2)
    changed = examined.notes > 0
    total = np.bincount(nearest_centers(kept.centers, centers)[0], kept.counts, minlength=k)
    theirs = total - np.where(changed[:, None], 0, rows)
    theirs[theirs < 0.5] = 0.0
    moved = np.zeros((n_sites, k))
    for column in range(centers.shape[1]):
        offset = original.counts * (original.centers[:, column] - centers[labels, column])
        sums = np.bincount(cells, offset, minlength=n_sites * k).reshape(n_sites, k)
        mass = np.where(changed[:, None], theirs + rows, theirs)
        moved += (sums / np.where(mass > 0, mass, 1)) ** 2
    gain = (theirs * moved).sum(axis=1)
    own = objective(kept, centers) - np.where(changed, 0, cost)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found: Floats = np.clip(np.nan_to_num(1 + gain / own, nan=1.0), 1.0, MOST)
    return found
