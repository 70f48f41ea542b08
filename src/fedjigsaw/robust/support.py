r"""The screen: what sites support of one another, before and after any method aggregates.

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

A method takes part if it has the parameters `liars` and `vouch`, and a `describe` that makes a
model from local clusters, centers and labels. It gets summaries, and knows nothing of the screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedjigsaw._received import SHARE, Flags, Received, receive
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import ConspicuousSiteWarning, ParameterError, warn
from fedjigsaw.kernels.kmeans import blocks, nearest_centers, partition_of
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import LONE_SITES, MAX_RATIO, TOO_FEW, Broadcast, Model, Summary
from fedjigsaw.number.cells import sends_cells
from fedjigsaw.privacy.summaries import has_cells
from fedjigsaw.robust.influence import (
    HEAVY,
    LIMITED,
    OUTSIDE,
    ROWS,
    UNSUPPORTED,
    reason_of,
)

READ = ("liars", "vouch", "describe", "max_iter")  # of a method; without them, nothing is screened
FEWEST = 4  # sites from which on one can be called strange
REACH = 2.0  # spreads within which another site's center supports a center,
REACH_OF_SUSPECT = 1.4  # and within which it supports one of a suspect; own spreads, to touch
NARROWEST, WIDEST = 0.5, 1.2  # spreads, in typical ones
MOST_SPREAD = 3.0  # spread of a local cluster at most, with `liars`
EQUAL = 1e-6  # typical distances between centers, within which two are equal
SUSPECT = 0.05  # least cost of a suspect's alone centers, in what all supported centers cost
STRANGE = 0.2  # that of a site that is reported, and of further suspects where f is too small
FEW_ROWS = 0.05  # of a site, so few are its tail, which others may not have: no reason to report it
LONE = 0.5  # least gain of a lone cluster, in the cost of a mean cluster
RADII = 2.0  # of a cluster, within which it takes what stays out
DIGITS = 1e-13  # of the largest squared norm: squared distances as small as that lose digits
MOST_PAIRS = 2**21  # of centers that are compared; of more, each is compared with some of them,
FEWEST_COMPARED = 64  # at least
IN_CACHE = 2**16  # numbers of a block


@dataclass(frozen=True)
class Screened:
    """Summaries of all sites, compared with each other.

    Attributes
    ----------
    received : all local clusters; with `liars`, no sum of squares is larger than is plausible.
    out : shape (n,), local clusters of suspects that too few others support.
    reach : shape (n,), how far each of them reaches to touch others of its site.
    shares : shape (n_sites,), of the rows of each site that count.
    costs : shape (n_sites,), what the alone centers of each site cost, in what all supported
        centers cost.
    notes : shape (n_sites,), what is to be reported about each.
    too_few : whether more sites hold groups of their own than `liars` allows for.
    """

    received: Received
    out: Flags
    reach: Floats
    shares: Floats
    costs: Floats
    notes: Ints
    too_few: bool = False

    def passed(self, summaries: Sequence[Summary]) -> list[Summary]:
        """Return the summaries without what stays out, as of so many rows as count."""
        made, end = [], 0
        for summary, share in zip(summaries, self.shares, strict=True):
            own = slice(end, end := end + len(summary.centers))
            kept = ~self.out[own]
            if not kept.any():
                continue
            assert summary.counts is not None
            counts, sent = self.received.counts[own][kept], summary.counts[kept]
            made.append(
                replace(
                    summary,
                    n_samples=max(1, round(counts.sum())),
                    centers=summary.centers[kept],
                    radii=None if summary.radii is None else summary.radii[kept],
                    counts=sent,
                    sse=self.received.sse[own][kept] / (counts / sent),
                    tensors={**summary.tensors, SHARE: np.array([share])},
                )
            )
        return made


def aggregate(
    method: Any, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
) -> Model:
    """Aggregate what the screen lets pass, and add to the model what it notes about sites.

    Without `liars` everything passes, and the centers have the bits that the method alone gives.
    """
    earlier = broadcast.model
    model: Model
    takes_part = all(hasattr(method, name) for name in READ)
    takes_part = takes_part and not any(map(has_cells, summaries))
    if not takes_part or earlier is not None or not (method.liars or method.for_reports):
        model = method.aggregate(summaries, broadcast, rng)
        if takes_part and earlier is not None:
            noted = {n: t for n, t in earlier.tensors.items() if n in ("site_notes", "site_costs")}
            kept = {n: t for n, t in noted.items() if len(t) == len(summaries)}
            model = replace(model, tensors={**model.tensors, **kept})
        return model
    received = receive(summaries)
    noisy = np.count_nonzero(received.noise)
    if method.liars and received.has_counts and received.has_sse and not noisy:
        found = screen(method, received, summaries, int(method.n_clusters))
        model = method.aggregate(found.passed(summaries), broadcast, rng)
        model = _with_lone_clusters(method, found, model)
    else:
        model = method.aggregate(summaries, broadcast, rng)  # with liars, it refuses these
        if 2 * noisy > len(received.noise):  # noise hides who is strange
            return model
        found = screen(method, received, summaries, len(model.centers))
    return _noted(method, found, summaries, model)


def screen(method: Any, received: Received, summaries: Sequence[Summary], k: int) -> Screened:
    """Find the strangest site; with `liars`, what too few others support of that many suspects."""
    liars, n_sites = int(method.liars), received.n_sites
    if n_sites <= 2 * liars:
        raise ParameterError(
            f"liars={liars} requires at least {2 * liars + 1} clients, so that most are honest; "
            f"got {n_sites}."
        )
    nothing = np.zeros(len(received.owners))
    notes = np.zeros(n_sites, dtype=np.int64)
    found = Screened(received, nothing > 0, nothing, np.ones(n_sites), np.zeros(n_sites), notes)
    if n_sites < (3 if liars else FEWEST):
        return found
    vouched = np.isin([s.client for s in summaries], list(map(str, method.vouch or ())))
    rows = received.per_site(received.counts)
    next_largest = np.sort(rows)[-1 - max(liars, 1)]
    notes[(rows > HEAVY * next_largest) & ~vouched] |= LIMITED if liars else ROWS
    shares = np.ones(n_sites)
    if liars:
        shares = np.where(vouched, 1.0, np.minimum(1, next_largest / np.maximum(rows, 1)))
    limited = received.limited(shares) if liars else received
    typical, n_others = _typical_spread(limited), max(liars, 1)
    own = np.sqrt((limited.sse + typical**2) / limited.counts)
    spreads = np.clip(own, NARROWEST * typical, WIDEST * typical)
    alone = ~_supported(limited, REACH * spreads, n_others) & ~vouched[limited.owners]
    costs = _costs(method, limited, spreads, alone, k)
    many = limited.per_site(np.where(alone, limited.counts, 0)) > FEW_ROWS * rows
    order = np.argsort(-costs, kind="stable")
    found = replace(found, costs=np.minimum(costs, MAX_RATIO), shares=shares)
    if not liars:
        notes[order[(many & (costs > STRANGE))[order]][:1]] |= UNSUPPORTED
        return found
    suspects = order[:liars][costs[order[:liars]] > SUSPECT]
    out = np.isin(limited.owners, suspects)
    out[out] = ~_supported(limited, REACH_OF_SUSPECT * spreads, n_others, of=out)
    reported = suspects[(many & (costs > STRANGE))[suspects]]
    notes[reported[np.isin(reported, limited.owners[out])]] |= OUTSIDE
    further = float((many * costs)[order[liars : 2 * liars]].sum())
    # a lie about squares alone would move centers, too
    most = received.counts * (MOST_SPREAD * typical) ** 2
    return replace(
        found,
        received=replace(received, sse=np.minimum(received.sse, most)),
        out=out,
        reach=REACH_OF_SUSPECT * np.minimum(own, MOST_SPREAD * typical),
        too_few=further > STRANGE or int((~alone).sum()) < k,
    )


def _noted(method: Any, found: Screened, summaries: Sequence[Summary], model: Model) -> Model:
    """Return the model with the notes about sites, and warn of those that are unlike all others."""
    received = found.received
    can_protect = not (sends_cells(vars(method)) or method.n_rounds > 1 or received.noise.any())
    can_protect &= received.has_counts and received.has_sse
    for summary, note, costs in zip(summaries, found.notes, found.costs, strict=True):
        if not note:
            continue
        advice = f"If its data are right, use vouch=[{summary.client!r}]"
        if not method.liars:
            protect = ", or protect the others with liars=1" if can_protect else ""
            advice += f"; if not, leave it out{protect}"
        warn(
            f"Client {summary.client!r} is unlike the others: "
            f"{reason_of(int(note), float(costs))}. {advice}.",
            ConspicuousSiteWarning,
        )
    if found.too_few:
        warn(
            f"More clients than liars={method.liars} allows for hold groups that too few others "
            "share. Choose a smaller number of liars, or read lone clusters as clusters.",
            ConspicuousSiteWarning,
        )
    rows = np.rint(received.per_site(received.counts)).astype(np.int64)
    tensors = {"site_rows": rows, "site_notes": found.notes, "site_costs": found.costs}
    tensors |= {TOO_FEW: np.ones(1)} if found.too_few else {}
    return replace(model, tensors={**model.tensors, **tensors})


def _with_lone_clusters(method: Any, found: Screened, model: Model) -> Model:
    """Return a model of all that was received: with lone clusters, and rows near others.

    All rows of sites are in it again, but for those of sites that claim very many.
    """
    centers, out = model.centers, found.out
    k, limited = len(centers), found.received.limited(found.shares)
    outside, lone = limited.select(out), _lone_clusters(found, limited, centers)
    labels, tensors = nearest_centers(limited.centers, centers)[0], {}
    if (lone >= 0).any():
        pieces = outside.select(lone >= 0)
        parts = partition_of(pieces.centers, lone[lone >= 0], pieces.counts)  # by coordinates
        tensors = {LONE_SITES: pieces.owners[np.unique(parts.labels, return_index=True)[1]]}
        lone_rows = pieces.per_site(pieces.counts)
        found.notes[lone_rows > FEW_ROWS * limited.per_site(limited.counts)] |= OUTSIDE
        centers = np.r_[centers, parts.centers]
        near = nearest_centers(outside.centers, centers)[0]
        near[lone >= 0] = k + parts.labels  # of its own site, even where another claims the place
        labels[out] = near
    counted = found.received.limited(np.where(found.notes & LIMITED, found.shares, 1.0))
    made: Model = method.describe(counted, centers, labels, tensors)
    return made


def _lone_clusters(screened: Screened, limited: Received, centers: Floats) -> Ints:
    """Return the lone cluster of each local cluster outside, or -1.

    A site has at most as many lone clusters as there are others: those that save most.
    """
    used, outside = limited.select(~screened.out), limited.select(screened.out)
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
        screened.reach[screened.out][far],
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
        if n_others == 1:  # any one: ten times as fast as by site
            found[part] = near.any(axis=1)
        else:
            found[part] = np.logical_or.reduceat(near, starts, axis=1).sum(axis=1) >= n_others
    return found


def _costs(method: Any, received: Received, spreads: Floats, alone: Flags, k: int) -> Floats:
    """Return what alone centers of each site cost, in what all supported ones cost.

    Distances are those to centers that are found without the alone ones, by few starts. Spreads are
    used instead of sums of squares, which may be a lie.
    """
    if not alone.any() or alone.all():
        return np.zeros(received.n_sites)
    others = received.select(~alone)
    options = {"max_iter": method.max_iter, "n_tries": 0, "backend": method.backend}
    rng = np.random.default_rng(0)
    guess = solve(others.centers, others.weights, k, rng=rng, **options).centers
    costs = received.counts * nearest_centers(received.centers, guess)[1] ** 2
    usual = float((costs + received.counts * spreads**2)[~alone].sum())
    return received.per_site(np.where(alone, costs, 0)) / (usual or 1.0)
