"""Which numbers of a summary are plausible, judged by what the other sites sent."""

from dataclasses import dataclass, replace
from enum import IntFlag

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.trust.received import Received

Flags = npt.NDArray[np.bool_]

LIARS = 0.3  # share of the sites that may send anything
FARTHEST = 5.0  # ranges of the other sites beyond which a center is not believed
EXACT = 1e9  # typical distances beyond which arithmetic would lose the other centers
COPIES = 3  # centers from which on a site can be seen to repeat one
WIDE = 10.0  # times the others' variance within clusters, or their radii


class Note(IntFlag):
    """What was done to the summary of a site."""

    FAR = 1
    SPREAD = 2
    ROWS = 4
    STRANGE = 8
    RADIUS = 16
    REPEATED = 32
    LONG = 64
    NOT_FINITE = 128


@dataclass(frozen=True)
class Examined:
    """Summaries after the checks.

    Attributes
    ----------
    original : what the sites sent.
    received : what the server uses; the same object if nothing was conspicuous.
    notes : shape (n_sites,), a :class:`Note` for each site.
    """

    original: Received
    received: Received
    notes: Ints


def unexamined(received: Received) -> Examined:
    """Return summaries as they are."""
    return Examined(received, received, np.zeros(received.n_sites, dtype=np.int64))


def typical_variance(received: Received) -> float:
    """Return the median over sites of the mean squared distance within local clusters."""
    rows = received.per_site(received.counts)
    return float(np.median(received.per_site(received.sse)[rows > 0] / rows[rows > 0]))


def endless_centers(received: Received) -> Flags:
    """Tell which centers are so far away that arithmetic would lose the others."""
    away = np.abs(received.centers - np.median(received.centers, axis=0)).max(axis=1)
    usual = np.median(away)
    endless: Flags = (away > EXACT * usual) & (usual > 0)
    return endless


def far_centers(received: Received) -> Flags:
    """Tell which centers lie many ranges away from those of most sites.

    The range of a column excludes the largest 30 % of the sites' maxima and the smallest 30 % of
    their minima. Distances are relative to the diagonal of all ranges, widened by the spread
    within clusters.
    """
    X, n_sites = received.centers, received.n_sites
    lows = np.full((n_sites, X.shape[1]), np.inf)
    highs = -lows
    sites, starts = np.unique(received.owners, return_index=True)
    lows[sites] = np.minimum.reduceat(X, starts, axis=0)
    highs[sites] = np.maximum.reduceat(X, starts, axis=0)
    dropped = int(LIARS * n_sites)
    low = np.sort(lows, axis=0)[dropped]
    high = np.sort(highs, axis=0)[n_sites - 1 - dropped]
    diagonal = np.linalg.norm(np.maximum(high - low, 0)) + 4 * np.sqrt(typical_variance(received))
    outside = np.linalg.norm(np.maximum(0, np.maximum(low - X, X - high)), axis=1)
    far: Flags = (outside > FARTHEST * diagonal) & (diagonal > 0)
    return far


def huge_radii(received: Received) -> tuple[Flags, Floats]:
    """Tell which radii are many times those of other sites; return also the limited radii."""
    assert received.radii is not None
    largest = np.zeros(received.n_sites)
    np.maximum.at(largest, received.owners, received.radii)
    typical = float(np.median(largest[largest > 0])) if largest.any() else 0.0
    huge: Flags = received.radii > WIDE * typical
    return huge, np.where(huge, typical, received.radii)


def variance_of(radii: Floats) -> Floats:
    """Estimate the variance of a cluster by its radius, which is about two spreads."""
    variance: Floats = (radii / 2) ** 2
    return variance


def without_copies(received: Received, notes: Ints) -> Received:
    """Leave out sites most of whose centers are one and the same: no clustering gives that."""
    kept = np.ones(len(received.centers), dtype=bool)
    for site in range(received.n_sites):
        own = received.clusters_of(site)
        centers = received.centers[own]
        # copies agree in every column, so most centers would agree in the first
        if len(centers) >= COPIES and _most_are_equal(centers[:, 0]):
            # the median of each column is the value that most centers have
            copies = (centers == np.median(centers, axis=0)).all(axis=1)
            kept[own] = copies.mean() <= 0.5
    notes[received.owners[~kept]] |= Note.REPEATED
    return received if kept.all() else received.select(kept)


def _most_are_equal(values: Floats) -> bool:
    return bool((values == np.median(values)).mean() > 0.5)


def without_overlaps(received: Received, notes: Ints) -> Received:
    """Leave out centers that lie within the radius of another one of the same site.

    Each radius is at most half the distance to the site's nearest other center. So of two centers
    that are much closer, one counts: a group should not grow by one site's word.
    """
    if received.radii is None:
        return received
    kept = np.ones(len(received.centers), dtype=bool)
    for site in range(received.n_sites):
        own = received.clusters_of(site)
        centers, radii = received.centers[own], received.radii[own]
        if len(centers) < 2:
            continue
        distances = pairwise_distances(centers, centers)
        reach = np.add.outer(radii, radii) / 4
        repeated = np.tril((distances <= reach) & (distances < reach.max()), -1).any(axis=1)
        # no clustering has mostly equal centers: such a site is not believed at all
        kept[own] = ~repeated if repeated.mean() <= 0.5 else False
    notes[received.owners[~kept]] |= Note.REPEATED
    return received if kept.all() else received.select(kept)


def limit_spread(received: Received, notes: Ints, *, strict: bool) -> Received:
    """Replace sums of squares that no data within the range of the centers can have.

    Parameters
    ----------
    strict : also those that are many times those of the other sites
        A site whose clusters are too few has such sums honestly.
    """
    variance = typical_variance(received)
    rows = received.per_site(received.counts)
    mean = received.per_site(received.sse) / np.where(rows > 0, rows, 1)
    diagonal = np.linalg.norm(np.ptp(received.centers, axis=0)) + 4 * np.sqrt(variance)
    wide = mean > (WIDE * variance if strict else diagonal**2)
    if not variance or not wide.any():
        return received
    notes[wide] |= Note.SPREAD
    theirs = np.where(wide[received.owners], variance * received.counts, received.sse)
    return replace(received, sse=theirs)
