"""Which numbers of a summary are plausible, judged by what the other sites sent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntFlag

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import blocks
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.kernels.nearest import side_by_side
from fedjigsaw.trust.received import IN_CACHE, Received

Flags = npt.NDArray[np.bool_]

LIARS = 0.3  # share of the sites that may send anything
FARTHEST = 5.0  # ranges of the other sites beyond which a center is not believed
EXACT = 1e9  # typical distances beyond which arithmetic would lose the other centers
COPIES = 3  # centers from which on a site can be seen to repeat one
FEW = 20  # centers of a site up to which many sites are compared in one step
MANY = 32  # centers of a site from where on sites are looked at one by one
PRODUCTS = 16  # that take about as long as one pass over a number
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
    X, middle = received.centers, received.middle
    away = _of_blocks(X, lambda rows: np.abs(rows - middle).max(axis=1))
    usual = np.median(away[received.heard])
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
    lows[sites], highs[sites] = side_by_side(
        lambda extreme: _of_groups(extreme, X, starts),
        [np.minimum, np.maximum],
        PRODUCTS * X.size,
    )
    dropped = int(LIARS * n_sites)
    low = np.sort(lows, axis=0)[dropped]
    high = np.sort(highs, axis=0)[n_sites - 1 - dropped]
    diagonal = np.linalg.norm(np.maximum(high - low, 0)) + 4 * np.sqrt(typical_variance(received))
    outside = _of_blocks(
        X,
        lambda rows: np.linalg.norm(np.maximum(0, np.maximum(low - rows, rows - high)), axis=1),
    )
    far: Flags = (outside > FARTHEST * diagonal) & (diagonal > 0)
    return far


def _of_groups(extreme: np.ufunc, X: Floats, starts: Ints) -> Floats:
    """Return the extremes of the rows from each start to the next, as `reduceat` does.

    That is slow where groups are large, and a loop where they are many.
    """
    if len(X) < MANY * len(starts):
        few: Floats = extreme.reduceat(X, starts, axis=0)
        return few
    ends = [*starts[1:], len(X)]
    return np.stack([extreme.reduce(X[i:j]) for i, j in zip(starts, ends, strict=True)])


def _of_blocks(X: Floats, measure: Callable[[Floats], Floats]) -> Floats:
    """Return a number for each row, by blocks that stay in the cache and that threads share."""
    parts = list(blocks(len(X), X.shape[1], IN_CACHE))
    found = side_by_side(lambda part: measure(X[part]), parts, PRODUCTS * X.size)
    return np.concatenate(found)


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
    for site in _with_repetitions(received):
        own = received.clusters_of(int(site))
        centers = received.centers[own]
        if len(centers) >= COPIES:
            # the median of each column is the value that most centers have
            copies = (centers == np.median(centers, axis=0)).all(axis=1)
            kept[own] = copies.mean() <= 0.5
    notes[received.owners[~kept]] |= Note.REPEATED
    return received if kept.all() else received.select(kept)


def _with_repetitions(received: Received) -> Ints:
    """Return the sites of which some center equals the next one, the first following the last.

    Of more than half of the places in a ring, two are neighbors. So these are all sites most of
    whose centers are equal, found without a loop over sites.
    """
    X, owners = received.centers, received.owners
    starts = np.unique(owners, return_index=True)[1]
    following = np.arange(1, len(X) + 1)
    following[np.append(starts[1:], len(X)) - 1] = starts
    same = np.flatnonzero((X[following, 0] == X[:, 0]) & (following != np.arange(len(X))))
    same = same[(X[following[same]] == X[same]).all(axis=1)]
    return np.unique(owners[same])


def without_overlaps(received: Received, notes: Ints) -> Received:
    """Leave out centers that lie within the radius of another one of the same site.

    Each radius is at most half the distance to the site's nearest other center. So of two centers
    that are much closer, one counts: a group should not grow by one site's word.
    """
    if received.radii is None:
        return received
    kept = np.ones(len(received.centers), dtype=bool)
    for clusters in _sites_of_one_size(received.owners):
        repeated = _overlapping(received.centers[clusters], received.radii[clusters])
        # no clustering has mostly equal centers: such a site is not believed at all
        believed = repeated.mean(axis=1, keepdims=True) <= 0.5
        kept[clusters] = ~repeated & believed
    notes[received.owners[~kept]] |= Note.REPEATED
    return received if kept.all() else received.select(kept)


def _sites_of_one_size(owners: Ints) -> Iterator[Ints]:
    """Yield the clusters of sites that have equally many, shape (n_sites, n_clusters), in parts."""
    _, starts, sizes = np.unique(owners, return_index=True, return_counts=True)
    for size in np.unique(sizes[sizes > 1]):
        first = starts[sizes == size]
        for part in blocks(len(first), int(size) ** 2, 2**18):
            yield first[part, None] + np.arange(size)


def _overlapping(centers: Floats, radii: Floats) -> Flags:
    """Tell which centers overlap an earlier one of their site; shapes (m, k, d) and (m, k)."""
    reach = (radii[:, :, None] + radii[:, None, :]) / 4
    distances = np.empty(reach.shape)
    if centers.shape[1] > FEW:
        for own, found in zip(centers, distances, strict=True):
            found[:] = pairwise_distances(own, own)
    else:  # calls would cost more than the work: all sites at once
        distances[:] = 0
        for column in np.moveaxis(centers, 2, 0):
            distances += (column[:, :, None] - column[:, None, :]) ** 2
        np.sqrt(distances, out=distances)
    close = (distances <= reach) & (distances < reach.max(axis=(1, 2), keepdims=True))
    repeated: Flags = np.tril(close, -1).any(axis=2)
    return repeated


def wide_sites(received: Received, *, impossible: bool) -> Flags:
    """Tell which sites have sums of squares that are many times those of the other sites.

    Parameters
    ----------
    impossible : tell only those that no data within the range of the centers can have.
    """
    variance = typical_variance(received)
    rows = received.per_site(received.counts)
    mean = received.per_site(received.sse) / np.where(rows > 0, rows, 1)
    diagonal = np.linalg.norm(np.ptp(received.centers, axis=0)) + 4 * np.sqrt(variance)
    wide: Flags = mean > (diagonal**2 if impossible else WIDE * variance)
    return wide & (variance > 0)


def limit_spread(received: Received, wide: Flags) -> Received:
    """Replace the sums of squares of some sites by those that other sites have."""
    usual = typical_variance(received) * received.counts
    return replace(received, sse=np.where(wide[received.owners], usual, received.sse))
