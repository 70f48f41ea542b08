r"""What sites support of one another: who is strange, and what to leave out against liars.

A site can be unlike all others and honest, so no test of summaries tells it from a lie. Without
`liars`, all that is valid counts, and the strangest site is only reported. With ``liars=f``:

1. Nobody counts for more rows than the (f + 1)-th largest site.
2. A center is *alone* if fewer than f other sites have a center within two spreads of it. The
   spread of a local cluster is :math:`\sqrt{(s_i + t^2) / n_i}`, clipped to between t / 2 and
   1.2 t, where t is the spread that is typical of all sites. So neither a wide cluster nor a lie
   about a spread nor a center of one row is supported by much.
3. At most f sites lie, so only f are *suspects*: those whose alone centers cost most beyond a
   guess from all other centers. What fewer than f sites support of them stays out.
4. What stays out is not lost: where it is far from all clusters, touching pieces of one site form
   a *lone* cluster, if they save at least half of what a mean cluster costs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.kmeans import blocks, nearest_centers, partition_of
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import LONE_SITES, MAX_RATIO
from fedjigsaw.robust.received import Received

Flags = npt.NDArray[np.bool_]
Find = Callable[[Received], Floats]  # centers, by few starts

FEWEST = 4  # sites from which on one can be called strange
REACH = 2.0  # spreads within which another site's center supports a center,
REACH_OF_SUSPECT = 1.4  # and within which it supports one of a suspect; own spreads, to touch
NARROWEST, WIDEST = 0.5, 1.2  # spreads, in typical ones
MOST_SPREAD = 3.0  # spread of a local cluster at most, with `liars`
EQUAL = 1e-6  # typical distances between centers, within which two are equal
SUSPECT = 0.05  # least cost of a suspect's alone centers, in what all supported centers cost;
STRANGE = (
    0.2  # of a site that is reported, and of further suspects where f is too small for the split
)
FEW_ROWS = 0.05  # of a site, so few are its tail, which others may not have: no reason to report it
HEAVY = 8.0  # times the rows of the next largest site, from which on it is reported
LONE = 0.5  # least gain of a lone cluster, in the cost of a mean cluster
RADII = 2.0  # of a cluster, within which it takes what stays out
DIGITS = 1e-13  # of the largest squared norm: squared distances as small as that lose digits
MOST_PAIRS = 2**21  # of centers that are compared; of more, each is compared with some of them,
FEWEST_COMPARED = 64  # at least
IN_CACHE = 2**16  # numbers of a block

UNSUPPORTED, ROWS, OUTSIDE, LIMITED = 1, 2, 4, 8  # notes about a site; the last two with `liars`


@dataclass(frozen=True)
class Screened:
    """Summaries of all sites, seen in the light of each other.

    Attributes
    ----------
    used : what centers are found from.
    outside : local clusters of suspects that too few others support.
    reach : shape (n_outside,), how far each of these reaches to touch others of its site.
    costs : shape (n_sites,), what the alone centers of each site cost, in what all supported
        centers cost.
    notes : shape (n_sites,), what is to be reported about each.
    too_few : whether more sites hold groups of their own than `liars` allows for.
    shares : shape (n_sites,) or None, of the rows of each site that count.
    """

    used: Received
    outside: Received
    reach: Floats
    costs: Floats
    notes: Ints
    too_few: bool = False
    shares: Floats | None = None


def unscreened(received: Received) -> Screened:
    """Return summaries about which nothing can be reported."""
    nobody, nothing = np.zeros(received.n_sites), np.zeros(0, dtype=np.int64)
    notes = nobody.astype(np.int64)
    return Screened(received, received.select(nothing), np.zeros(0), nobody, notes)


def screen(received: Received, find: Find, k: int, *, liars: int, vouched: Flags) -> Screened:
    """Find the strangest site; with `liars`, set aside what too few support of that many suspects.

    Parameters
    ----------
    find : finds `k` centers, by few starts.
    vouched : shape (n_sites,), sites that count in any case.
    """
    n_sites = received.n_sites
    if n_sites <= 2 * liars:
        raise ParameterError(
            f"liars={liars} requires at least {2 * liars + 1} clients, so that most are honest; "
            f"got {n_sites}."
        )
    found = unscreened(received)
    if n_sites < (3 if liars else FEWEST):
        return found
    rows = received.per_site(received.counts)
    next_largest = np.sort(rows)[-1 - max(liars, 1)]
    found.notes[(rows > HEAVY * next_largest) & ~vouched] |= LIMITED if liars else ROWS
    if liars:
        shares = np.where(vouched, 1.0, np.minimum(1, next_largest / np.maximum(rows, 1)))
        received = received.weighted(shares)
    typical, n_others = _typical_spread(received), max(liars, 1)
    own = np.sqrt((received.sse + typical**2) / received.counts)
    spreads = np.clip(own, NARROWEST * typical, WIDEST * typical)
    if liars:  # a lie about squares alone would move centers, too
        most = received.counts * (MOST_SPREAD * typical) ** 2
        received = replace(received, sse=np.minimum(received.sse, most))
        found = replace(found, used=received, shares=shares)
    alone = ~_supported(received, REACH * spreads, n_others) & ~vouched[received.owners]
    costs = _costs(received, spreads, alone, find)
    many = received.per_site(np.where(alone, received.counts, 0)) > FEW_ROWS * rows
    n_supported = int((~alone).sum())
    order = np.argsort(-costs, kind="stable")
    if not liars:
        strangest = order[(many & (costs > STRANGE))[order]][:1]
        found.notes[strangest] |= UNSUPPORTED
        return replace(found, costs=np.minimum(costs, MAX_RATIO))
    suspects = order[:liars][costs[order[:liars]] > SUSPECT]
    out = np.isin(received.owners, suspects)
    out[out] = ~_supported(received, REACH_OF_SUSPECT * spreads, n_others, of=out)
    told = suspects[(many & (costs > STRANGE))[suspects]]
    found.notes[told[np.isin(told, received.owners[out])]] |= OUTSIDE
    return replace(
        found,
        used=received.select(~out),
        outside=received.select(out),
        reach=REACH_OF_SUSPECT * np.minimum(own, MOST_SPREAD * typical)[out],
        costs=np.minimum(costs, MAX_RATIO),
        too_few=bool((many * costs)[order[liars : 2 * liars]].sum() > STRANGE) or n_supported < k,
    )


def with_lone_clusters(
    screened: Screened, labels: Ints, centers: Floats
) -> tuple[Received, Ints, Floats, dict[str, Ints]]:
    """Add what stays out to what centers were found from: lone clusters, and rows near others.

    All rows of sites are in it again, but for those of sites that claim very many.

    Returns
    -------
    The local clusters of all clusters, the cluster of each, the centers with those of lone clusters
    at the end, and the site of each lone cluster as a tensor of the model, if there are any.
    """
    used, outside, tensors = screened.used, screened.outside, {}
    k, lone = len(centers), _lone_clusters(screened, centers)
    if (lone >= 0).any():
        pieces = outside.select(lone >= 0)
        found = partition_of(pieces.centers, lone[lone >= 0], pieces.counts)  # by coordinates
        sites = pieces.owners[np.unique(found.labels, return_index=True)[1]]
        lone_rows = pieces.per_site(pieces.counts)
        rows = used.per_site(used.counts) + outside.per_site(outside.counts)
        screened.notes[lone_rows > FEW_ROWS * rows] |= OUTSIDE
        tensors = {LONE_SITES: sites}
        centers = np.r_[centers, found.centers]
    if len(outside.owners):
        order = np.argsort(np.r_[used.owners, outside.owners], kind="stable")  # as in `joined`
        near = nearest_centers(outside.centers, centers)[0]
        if tensors:  # of its own site, even where another one claims the same place
            near[lone >= 0] = k + found.labels
        labels = np.r_[labels, near][order]
        used = used.joined(outside)
    if screened.shares is not None:
        used = used.weighted(1 / np.where(screened.notes & LIMITED, 1.0, screened.shares))
    return used, labels, centers, tensors


def _lone_clusters(screened: Screened, centers: Floats) -> Ints:
    """Return the lone cluster of each local cluster outside, or -1.

    A site has at most as many lone clusters as there are others: those that save most.
    """
    used, outside = screened.used, screened.outside
    found = np.full(len(outside.owners), -1)
    if not len(found):
        return found
    from scipy.sparse.csgraph import connected_components

    own, distances = nearest_centers(used.centers, centers)
    costs = used.sse + used.counts * distances**2
    sizes = np.bincount(own, used.counts, minlength=len(centers))
    radii = np.sqrt(np.bincount(own, costs, minlength=len(centers)) / np.maximum(sizes, 1))
    nearest, away = nearest_centers(outside.centers, centers)
    far = np.flatnonzero(away > RADII * radii[nearest])
    outside, gains, reach = (
        outside.select(far),
        (outside.counts * away**2)[far],
        screened.reach[far],
    )
    labels, n_found = np.full(len(far), -1), 0
    for site in np.unique(outside.owners):
        own = np.flatnonzero(outside.owners == site)
        X, w = outside.centers[own], outside.counts[own]
        touching = pairwise_distances(X, X) <= reach[own] + reach[own][:, None]
        joined = connected_components(touching)[1]
        whole = partition_of(X, joined, w)
        squared = ((X - whole.centers[whole.labels]) ** 2).sum(axis=1)
        saved = np.bincount(joined, gains[own] - w * squared)
        kept = np.argsort(-saved, kind="stable")[: len(centers)]
        kept = kept[saved[kept] >= LONE * costs.sum() / len(centers)]
        numbers = np.full(len(saved), -1)
        numbers[kept] = n_found + np.arange(len(kept))
        labels[own] = numbers[joined]
        n_found += len(kept)
    found[far] = labels
    return found


def _typical_spread(received: Received) -> float:
    """Return the median spread of the sites' local clusters; where there is none, next to nothing.

    Rows of codes are often all alike in a local cluster. Then only equal centers support each
    other.
    """
    rows, sse = received.per_site(received.counts), received.per_site(received.sse)
    free = rows - np.bincount(received.owners, minlength=received.n_sites)
    known = free > 0
    typical = float(np.median(np.sqrt(sse[known] / free[known]))) if known.any() else 0.0
    if typical > 0:
        return typical
    away = received.centers - np.median(received.centers, axis=0)
    return EQUAL * float(np.sqrt(np.median((away**2).sum(axis=1)))) or EQUAL


def _supported(received: Received, reach: Floats, n_others: int, of: Flags | None = None) -> Flags:
    """Tell which centers, or some `of` them, have centers of enough other sites in reach."""
    n, owners = len(received.centers), received.owners
    # distances lose fewest digits around the middle, and a center far away does not move a median
    X = received.centers - np.median(received.centers[:: 1 + n // 10_000], axis=0)
    asked = np.arange(len(X)) if of is None else np.flatnonzero(of)
    others = np.arange(len(X))
    if len(asked) * len(X) > MOST_PAIRS:
        n = max(MOST_PAIRS // len(asked), FEWEST_COMPARED)
        others = np.sort(np.random.default_rng(0).permutation(len(X))[:n])
    starts = np.unique(owners[others], return_index=True)[1]
    norms = np.einsum("ij,ij->i", X, X)
    precise = DIGITS * norms.max(initial=0) > reach.min(initial=np.inf) ** 2
    found = np.empty(len(asked), dtype=bool)
    for part in blocks(len(asked), len(others), IN_CACHE):
        rows = asked[part]
        if precise:  # from differences, which takes longer
            near = pairwise_distances(X[rows], X[others]) <= reach[rows, None]
        else:
            squared = X[rows] @ (-2 * X[others]).T
            squared += norms[others]
            near = squared <= (reach[rows] ** 2 - norms[rows])[:, None]
        near &= owners[rows, None] != owners[others]
        found[part] = np.logical_or.reduceat(near, starts, axis=1).sum(axis=1) >= n_others
    return found


def _costs(received: Received, spreads: Floats, alone: Flags, find: Find) -> Floats:
    """Return what alone centers of each site cost, in what all supported ones cost.

    Distances are those to centers that are found without the alone ones. Spreads are used instead
    of sums of squares, which may be a lie.
    """
    if not alone.any() or alone.all():
        return np.zeros(received.n_sites)
    distances = nearest_centers(received.centers, find(received.select(~alone)))[1]
    costs = received.counts * distances**2
    usual = float((costs + received.counts * spreads**2)[~alone].sum())
    return received.per_site(np.where(alone, costs, 0)) / (usual or 1.0)
