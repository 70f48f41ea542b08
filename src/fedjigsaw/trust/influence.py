"""What a site does to the others: harm, and influence."""

from collections.abc import Callable

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.nearest import threads_for
from fedjigsaw.trust.plausibility import Examined, Flags
from fedjigsaw.trust.received import Received

Choose = Callable[[Received], int]  # the number of clusters to look for
Find = Callable[[Received, int], Floats]
Refind = Callable[[Received, Floats], Floats]

SAMPLE = 640  # centers that checks look at
HARM = 1.02  # harm that a site may do beyond what is excused
CLUSTER = 3.0  # mean squared distance within a cluster, relative to that of the others
HALVING = 0.75  # largest share of a cluster's variance that halving it gains, in one column
EXACT_SITES = 64  # up to here, each site is left out in turn
SMALLEST = 1e-6  # objective that counts, relative to that of one center
MOST = 1e6  # largest ratio that is reported


def objective(received: Received, centers: Floats) -> float:
    """Return the summed squared distance of all rows to the centers of their local clusters."""
    return _objective(received, nearest_centers(received.centers, centers)[1])


def _objective(received: Received, distances: Floats) -> float:
    return float(received.sse.sum() + received.counts @ distances**2)


def harm(others: Received, site: Received, choose: Choose, find: Find) -> float:
    """Return the harm that a site does to others, beyond what is excused.

    The site may also be several ones together. Where the number of clusters is not given, it may
    be another one with the site.
    """
    k, joined = choose(others), others.joined(site)
    together = find(joined, choose(joined))
    rows, costs = _cells(others, together)
    own = objective(others, find(others, k))
    found = ratio(float(costs.sum()), own)
    n_taken = int(_taken(rows, costs, *_cells(site, together)).sum())
    if not n_taken or found <= HARM:
        return found
    k = len(together)
    if n_taken >= k:
        return np.inf
    share = HALVING / others.centers.shape[1]
    halved = costs.sum() - share * np.sort(costs)[::-1][:n_taken].sum()
    excused = ratio(float(costs.sum()), float(halved))
    further = ratio(own, objective(others, find(others, k + n_taken)))
    # without any structure, the objective falls as a power of the number of centers
    power = np.log(k / (k - n_taken)) / np.log((k + n_taken) / k)
    return float(found / max(excused, further**power, 1.0))


def _cells(received: Received, centers: Floats) -> tuple[Floats, Floats]:
    """Return the number of rows nearest to each center, and their part of the objective."""
    labels, distances = nearest_centers(received.centers, centers)
    costs = received.sse + received.counts * distances**2
    k = len(centers)
    return (
        np.bincount(labels, received.counts, minlength=k).astype(np.float64),
        np.bincount(labels, costs, minlength=k).astype(np.float64),
    )


def _taken(rows: Floats, costs: Floats, site_rows: Floats, site_costs: Floats) -> Flags:
    """Tell which centers a site took for clusters of its own, no wider than those of the others.

    Centers between scattered points are no clusters: they excuse nothing.
    """
    filled, own = rows > 0, site_rows > rows
    usual = np.median(costs[filled] / rows[filled]) if filled.any() else np.inf
    taken: Flags = own & (site_costs <= CLUSTER * usual * np.where(own, site_rows, 1))
    return taken


def ratio(a: float, b: float) -> float:
    return min(a / b, MOST) if b > 0 else 1.0 if a <= 0 else MOST


def influences(examined: Examined, centers: Floats, refind: Refind) -> Floats:
    """Return the influence of each site: the objective of the others with it, over without it.

    For a site whose summary was changed or set aside, it is the influence that it would have had.
    Of many sites, the influence is estimated: each cluster's rows stay together.

    Parameters
    ----------
    refind : finds centers again, after a site was added or removed, starting from known ones.
    """
    kept = examined.received
    if kept.n_sites == 1:
        return np.ones(1)
    if len(kept.centers) <= 2 * SAMPLE and kept.n_sites <= EXACT_SITES:
        exact = [_influence(examined, site, centers, refind) for site in range(kept.n_sites)]
        return np.maximum(exact, 1.0)
    return _estimated(examined, centers)


def _influence(examined: Examined, site: int, centers: Floats, refind: Refind) -> float:
    everyone = np.arange(examined.received.n_sites)
    others = examined.received.of_sites(everyone != site)
    if not len(others.centers):
        return 1.0
    found = refind(others, centers)
    # where all rows lie at centers, the smallest difference would be an endless ratio
    mean = np.average(others.centers, axis=0, weights=others.counts)[None]
    least = SMALLEST * objective(others, mean)
    own = objective(others, found) + least
    if not examined.notes[site]:
        return ratio(objective(others, centers) + least, own)
    with_it = others.joined(examined.original.of_sites(everyone == site))
    return ratio(objective(others, refind(with_it, found)) + least, own)


def _estimated(examined: Examined, centers: Floats) -> Floats:
    """Return 1 + what moving each center to the others' mean gains them, over their objective."""
    original, kept = examined.original, examined.received
    k, n_sites = len(centers), original.n_sites
    n_threads = threads_for(original.centers.size * k)
    labels, distances = nearest_centers(original.centers, centers, n_threads=n_threads)
    cells = original.owners * k + labels
    rows = np.bincount(cells, original.counts, minlength=n_sites * k).reshape(n_sites, k)
    cost = original.per_site(original.sse + original.counts * distances**2)
    changed = examined.notes > 0
    kept_labels, kept_distances = labels, distances
    if kept is not original:
        again = nearest_centers(kept.centers, centers, n_threads=n_threads)
        kept_labels, kept_distances = again
    total = np.bincount(kept_labels, kept.counts, minlength=k)
    theirs = total - np.where(changed[:, None], 0, rows)
    theirs[theirs < 0.5] = 0.0
    mass = np.where(changed[:, None], theirs + rows, theirs)
    mass[mass <= 0] = 1.0
    moved = np.zeros((n_sites, k))
    for column in range(centers.shape[1]):
        offset = original.counts * (original.centers[:, column] - centers[labels, column])
        sums = np.bincount(cells, offset, minlength=n_sites * k).reshape(n_sites, k)
        moved += (sums / mass) ** 2
    gain = (theirs * moved).sum(axis=1)
    own = _objective(kept, kept_distances) - np.where(changed, 0, cost)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found: Floats = np.clip(np.nan_to_num(1 + gain / own, nan=1.0), 1.0, MOST)
    return found
