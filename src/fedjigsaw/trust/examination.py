r"""Checks of a server that trusts no site: implausible numbers, strange sites, influence.

Up to 30 % of the sites may send anything. What the others sent says what is plausible:

1. **Far centers**, many ranges of the other sites away, are set aside if they lie in many places or
   harm the others (below); a **spread** many times that of the others is replaced by theirs if it
   is impossible or harms them.
2. A site is **strange** if its centers lie where no other site has any, and in many places. It is
   set aside only if it harms the others (below).
3. A site with many times the **rows** of the others counts as an average one if its weight harms
   them.

*Harm* is the objective of the others' rows with the centers found together with a site, relative to
the centers found without it. A site that alone holds true clusters costs the others some centers,
too, but these would only halve clusters of theirs. So a loss of centers is excused up to what
halving, or as many further centers, would gain. A site that is strange in a few places only is
always kept: it may be the only one that holds some clusters.

If nothing is conspicuous, the summaries are used as they are: honest federations pay nothing.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.backends import Backend, hold
from fedjigsaw.kernels.clouds import settle_clouds
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.kernels.nearest import HostRows
from fedjigsaw.trust.influence import HARM, SAMPLE, Choose, Find, harm, objective, ratio
from fedjigsaw.trust.plausibility import (
    LIARS,
    Examined,
    Flags,
    Note,
    endless_centers,
    far_centers,
    huge_radii,
    limit_spread,
    typical_variance,
    variance_of,
    wide_sites,
    without_copies,
    without_overlaps,
)
from fedjigsaw.trust.received import MIN_SITES, Received

COMPARED = 640  # centers that each center is compared with
HEAVY = 8.0  # times the typical number of rows, from where on the weight is tested
HEAVY_AND_ODD = 3.0  # the same for a site that is odd in several places,
HEAVY_AND_ALONE = 20.0  # and for one that is odd in one or two
PLACES = 4  # places without any other site, from where on a site is tested
GROUPED = 4096  # centers of a site that are grouped into places: memory grows with their square
TOO_HEAVY = 1.05  # harm that a weight may do


def examine(
    received: Received,
    choose: Choose,
    find: Find,
    *,
    separate: bool = True,
    strict: bool = False,
    divided: bool = False,
    backend: Backend | None = None,
) -> Examined:
    """Check the summaries of all sites against each other.

    Parameters
    ----------
    choose : returns the number of clusters to look for.
    find : finds centers: the method itself, without refinements.
    separate : whether no two circles of a site overlap, if there are radii.
    strict : whether sums of squares matter, as they do for the number of clusters.
    divided : whether local clusters are divided between centers at last, by their sums of squares.
    backend : compares centers if it is a :class:`~fedjigsaw.kernels.backends.HoldingBackend`; None
        is the one that the environment asks for.
    """
    notes = np.zeros(received.n_sites, dtype=np.int64)
    used = _without(received, endless_centers(received), notes)
    if received.n_sites >= MIN_SITES:
        used = without_copies(used, notes)
        used = _without(used, _harmful_far_centers(used, choose, find), notes)
        used = _limit_radii(used, choose, find, notes)
        used = _limit_spread(used, notes, strict=strict)
        if divided and not strict:
            used = _limit_harmful_spread(used, choose, find, notes)
        if separate:
            used = without_overlaps(used, notes)
        if not len(used.centers):
            raise MessageError(
                f"No center of {received.n_sites} clients is plausible: those of each client "
                f"repeat one another. Make the summaries again from the rows, or set robust=False."
            )
        used = _Jury(used, choose, find, notes, backend).verdict()
    return Examined(received, used, notes)


def _without(received: Received, far: Flags, notes: Ints) -> Received:
    notes[received.owners[far]] |= Note.FAR
    return received.select(~far) if far.any() else received


def _harmful_far_centers(received: Received, choose: Choose, find: Find) -> Flags:
    """Tell which far centers are not believed: those in many places, and those that do harm.

    A site that is far away in a few places may be the only one that has some clusters.
    """
    far = far_centers(received)
    if not far.any():
        return far
    others, variance = received.select(~far), typical_variance(received)
    for site in np.unique(received.owners[far]):
        own = far & (received.owners == site)
        if _places(received.centers[own], variance) < PLACES:
            far[own] = harm(others, received.select(own), choose, find) > HARM
    return far


def _limit_radii(received: Received, choose: Choose, find: Find, notes: Ints) -> Received:
    """Limit huge radii if they harm the sites that sent none."""
    if received.radii is None:
        return received
    huge, radii = huge_radii(received)
    if not huge.any():
        return received
    limited = replace(received, radii=radii, sse=variance_of(radii))
    liars = np.unique(received.owners[huge])
    others = limited.of_sites(~np.isin(np.arange(received.n_sites), liars))
    k = choose(others)
    own = objective(others, find(limited, k))
    if ratio(objective(others, find(received, k)), own) <= TOO_HEAVY:
        return received
    notes[liars] |= Note.RADIUS
    return limited


def _limit_spread(received: Received, notes: Ints, *, strict: bool) -> Received:
    """Limit sums of squares that are impossible or, if strict, many times those of the others."""
    wide = wide_sites(received, impossible=not strict)
    notes[wide] |= Note.SPREAD
    return limit_spread(received, wide) if wide.any() else received


def _limit_harmful_spread(received: Received, choose: Choose, find: Find, notes: Ints) -> Received:
    """Limit large sums of squares if they harm the sites that sent none.

    A site whose clusters are too few has large ones honestly. Those of a liar divide its clusters
    between all centers in the last step, which draws the centers together.
    """
    wide = wide_sites(received, impossible=False)
    others = received.of_sites(~wide)
    if not wide.any() or not len(others.centers):
        return received
    limited = limit_spread(received, wide)
    start = find(limited, choose(others))
    fair, found = (
        objective(others, settle_clouds(used.centers, used.counts, used.sse, start))
        for used in (limited.weighed(), received.weighed())
    )
    if ratio(found, fair) <= TOO_HEAVY:
        return received
    notes[wide] |= Note.SPREAD
    return limited


class _Jury:
    """The other sites' objective decides about strange and heavy sites."""

    def __init__(
        self,
        received: Received,
        choose: Choose,
        find: Find,
        notes: Ints,
        backend: Backend | None,
    ) -> None:
        self.received, self.choose, self.find, self.notes = received, choose, find, notes
        rows = received.per_site(received.counts)
        here = rows > 0
        typical = float(np.median(rows[here]))
        odd = _odd_sites(received, backend)
        self.strange = odd.tested
        self.heavy = rows > odd.most_rows * typical
        share = np.where(self.heavy, typical / np.where(here, rows, 1), 1.0)
        self.limited = received if not self.heavy.any() else received.weighted(share)

    def verdict(self) -> Received:
        """Return what is used: everything, if no site is strange or heavy, or harms others."""
        if not len(self.strange) and not self.heavy.any():
            return self.received
        inside = np.ones(self.received.n_sites, dtype=bool)
        inside[self.strange] = False
        tests = _Tests(self.limited, inside, self.choose, self.find)
        inside[tests.admitted(self.strange)] = True
        self.notes[~inside] |= Note.STRANGE
        kept = self.received if inside.all() else self.received.of_sites(inside)
        if not (self.heavy & inside).any():
            return kept
        limited = self.limited.of_sites(inside)
        if tests.harm_of_weights(limited, kept, self.heavy) <= TOO_HEAVY:
            return kept
        self.notes[self.heavy & inside] |= Note.ROWS
        return limited


class _Tests:
    """Tests of strange sites on a sample of the others, which is all of them if they are few."""

    def __init__(self, received: Received, inside: Flags, choose: Choose, find: Find) -> None:
        self.received, self.choose, self.find = received, choose, find
        self.step = max(1, len(received.heard) // SAMPLE)
        self.core = received.of_sites(self._sampled(inside))

    def _sampled(self, inside: Flags) -> Flags:
        """Keep every n-th site of those that are inside."""
        chosen = np.zeros_like(inside)
        chosen[np.flatnonzero(inside)[:: self.step]] = True
        return chosen

    def admitted(self, strange: Ints) -> Ints:
        """Return the strange sites that do the others no harm, of the least strange first.

        Few sites are tested one by one, each with the ones admitted before it. Of many, as many
        are admitted as do no harm together.
        """
        sampled = strange[:: self.step]
        if len(sampled) <= 8:
            good: list[int] = []
            for site in sampled:
                if self._harmless([*good, int(site)], len(good)):
                    good.append(int(site))
            if self.step == 1:
                return np.array(good, dtype=np.int64)
            return strange[: self.step * len(good)]
        low, high = 0, len(sampled)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._harmless(sampled[:middle]) else (low, middle - 1)
        return strange[: len(strange) if low == len(sampled) else low * self.step]

    def _harmless(self, sites: "list[int] | Ints", n_admitted: int = 0) -> bool:
        chosen = np.zeros(self.received.n_sites, dtype=bool)
        chosen[sites[n_admitted:]] = True
        others = self.core
        if n_admitted:
            before = np.zeros_like(chosen)
            before[sites[:n_admitted]] = True
            others = others.joined(self.received.of_sites(before))
        return harm(others, self.received.of_sites(chosen), self.choose, self.find) <= HARM

    def harm_of_weights(self, limited: Received, kept: Received, heavy: Flags) -> float:
        """Return the harm that weights of heavy sites do to others, relative to limited ones."""
        sample = self._sampled(np.bincount(kept.owners, minlength=kept.n_sites) > 0)
        limited, kept = limited.of_sites(sample | heavy), kept.of_sites(sample | heavy)
        others = limited.of_sites(sample & ~heavy)
        k = self.choose(limited)
        return ratio(
            objective(others, self.find(kept, k)), objective(others, self.find(limited, k))
        )


@dataclass(frozen=True)
class _Oddity:
    """Sites whose centers lie where no other site has any.

    Attributes
    ----------
    tested : sites that are odd in many places, or with every center; the least odd first.
    most_rows : shape (n_sites,), from how many typical numbers of rows on a weight is tested.
    """

    tested: Ints
    most_rows: Floats


def _odd_sites(received: Received, backend: Backend | None) -> _Oddity:
    """Find sites that are far odder than the median site.

    A center is odd by the squared distance to centers of other sites, relative to the typical
    variance within clusters, and by at most 4; a site by the mean over its rows.
    """
    rows = received.per_site(received.counts)
    here = rows > 0
    most_rows = np.full(received.n_sites, HEAVY)
    tested: dict[int, float] = {}
    for squared in _to_other_sites(received, backend):
        variance = max(typical_variance(received), float(np.median(squared[received.heard])))
        if not variance:
            continue
        score = received.per_site(received.counts * np.minimum(squared / variance, 4))
        score /= np.where(here, rows, 1)
        for site in np.flatnonzero(here & (score > 2 * np.median(score[here]) + 0.2)):
            own = received.clusters_of(int(site))
            centers = received.centers[own]
            places = _places(centers[squared[own] > variance], variance)
            if places >= PLACES or 2 < places == len(centers):
                tested[int(site)] = max(tested.get(int(site), 0.0), float(score[site]))
            # a site that is odd in one or two places may be the only one that has some clusters
            most = HEAVY_AND_ALONE if places <= 2 else HEAVY_AND_ODD
            most_rows[site] = most if most_rows[site] == HEAVY else min(most, most_rows[site])
    by_score = sorted(tested, key=lambda site: (tested[site], site))
    return _Oddity(np.array(by_score, dtype=np.int64), most_rows)


def _to_other_sites(received: Received, backend: Backend | None) -> list[Floats]:
    """Return two squared distances of each center: to the nearest other site, and to enough ones.

    Enough are as many sites as may lie: liars who send the same centers confirm one another, but
    not more than so often. Very many centers are compared with a sample of them, and there the
    distance is that to the center that a thirtieth of all sites would bring.
    """
    X, owners = received.centers - received.middle, received.owners
    heard = received.heard if len(X) > COMPARED else np.arange(len(X))
    others = heard[np.sort(np.random.default_rng(0).permutation(len(heard))[:COMPARED])]
    sampled = len(others) < len(heard)
    sites, starts = np.unique(owners[others], return_index=True)
    if len(sites) < 2:
        return []
    if sampled:
        n = max(1, round(received.n_sites / 30 * len(others) / len(heard)))
        held = hold(X, None, len(others), backend)
        rows = held or HostRows(X, received.counts, len(others), backend=backend)
        found = rows.to_other_owners(owners, X[others], owners[others], n)
        return [np.minimum(found, np.finfo(np.float64).max)]
    enough = min(math.ceil(LIARS * len(sites)), len(sites) - 1) - 1
    norms = np.einsum("ij,ij->i", X, X)
    squared = X @ (-2 * X[others]).T
    squared += norms[others]
    squared += norms[:, None]
    squared[owners[:, None] == owners[others]] = np.inf
    nearest = np.minimum.reduceat(squared, starts, axis=1)
    ordered = np.partition(nearest, [0, enough], axis=1)
    return [np.clip(ordered[:, rank], 0.0, np.finfo(np.float64).max) for rank in (0, enough)]


def _places(centers: Floats, variance: float) -> int:
    """Count groups of centers: those within two typical spreads of each other form one.

    Fewer than `PLACES` centers are not grouped: each counts. So it is with more than `GROUPED`,
    which no honest site has in a few places; of a sample, a liar could choose what is in it.
    """
    from scipy.sparse.csgraph import connected_components

    if not PLACES <= len(centers) <= GROUPED:
        return len(centers)
    close = pairwise_distances(centers, centers) <= 2 * np.sqrt(variance)
    return int(connected_components(close)[0])
