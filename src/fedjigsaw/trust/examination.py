r"""Checks of a server that trusts no site: implausible numbers, strange sites, influence.

Up to 30 % of the sites may send anything. What the others sent says what is plausible:

1. **Far centers**, many ranges of the other sites away, are set aside; a **spread** many times that
   of the others is replaced by theirs.
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

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import blocks
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.trust.influence import HARM, SAMPLE, Find, harm, objective, ratio
from fedjigsaw.trust.plausibility import (
    MIN_SITES,
    Examined,
    Flags,
    Note,
    far_centers,
    huge_radii,
    limit_spread,
    typical_variance,
    variance_of,
    without_repeated,
)
from fedjigsaw.trust.received import Received

HEAVY = 20.0  # times the typical number of rows, from where on the weight is tested
REPEATED = 1e-4  # squared distance of equal centers, in typical variances
PLACES = 4  # places without any other site, from where on a site is tested
TOO_HEAVY = 1.1  # harm that a weight may do


def examine(
    received: Received,
    choose: Callable[[Received], int],
    find: Find,
    *,
    separate: bool = True,
) -> Examined:
    """Check the summaries of all sites against each other.

    Parameters
    ----------
    choose : returns the number of clusters to look for.
    find : finds centers: the method itself, without refinements.
    separate : whether no two circles of a site overlap, if there are radii.
    """
    notes = np.zeros(received.n_sites, dtype=np.int64)
    far = far_centers(received, typical_variance(received))
    notes[received.owners[far]] |= Note.FAR
    used = received.select(~far) if far.any() else received
    if received.n_sites >= MIN_SITES:
        used = limit_spread(_limit_radii(used, choose, find, notes), notes)
        if separate:
            used = without_repeated(used, notes)
        used = _Jury(used, choose, find, notes).verdict()
    return Examined(received, used, notes)


def _limit_radii(
    received: Received, choose: Callable[[Received], int], find: Find, notes: Ints
) -> Received:
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


class _Jury:
    """The other sites' objective decides about strange and heavy sites."""

    def __init__(
        self,
        received: Received,
        choose: Callable[[Received], int],
        find: Find,
        notes: Ints,
    ) -> None:
        self.received, self.choose, self.find, self.notes = received, choose, find, notes
        rows = received.per_site(received.counts)
        here = rows > 0
        typical = float(np.median(rows[here]))
        self.heavy = rows > HEAVY * typical
        self.strange = strange_sites(received)
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
        if tests.harm_of_weights(limited, kept) <= TOO_HEAVY:
            return kept
        self.notes[self.heavy & inside] |= Note.ROWS
        return limited


class _Tests:
    """Tests of strange sites on a sample of the others, which is all of them if they are few."""

    def __init__(
        self, received: Received, inside: Flags, choose: Callable[[Received], int], find: Find
    ) -> None:
        self.received, self.find = received, find
        self.step = max(1, len(received.centers) // SAMPLE)
        self.core = received.of_sites(self._sampled(inside))
        self.k = choose(self.core)

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
        return harm(others, self.received.of_sites(chosen), self.k, self.find) <= HARM

    def harm_of_weights(self, limited: Received, kept: Received) -> float:
        """Return the harm that the weights of heavy sites do, relative to limited ones."""
        sample = self._sampled(np.bincount(kept.owners, minlength=kept.n_sites) > 0)
        limited, kept = limited.of_sites(sample), kept.of_sites(sample)
        own = objective(limited, self.find(limited, self.k))
        return ratio(objective(limited, self.find(kept, self.k)), own)


def strange_sites(received: Received) -> Ints:
    """Return sites whose centers lie where no other site has any, the least strange first.

    A center is strange by the squared distance to the nearest center of another site, relative to
    the typical variance within clusters, and by at most 4; a site by the mean over its rows. Sites
        that are far stranger than the median site, and in many places, are returned; and those that
    send one center many times, which no clustering does.
    """
    squared = _to_other_sites(received)
    variance = max(typical_variance(received), float(np.median(squared)))
    if not variance:
        return np.zeros(0, dtype=np.int64)
    rows = received.per_site(received.counts)
    here = rows > 0
    score = received.per_site(received.counts * np.minimum(squared / variance, 4))
    score /= np.where(here, rows, 1)
    odd = np.flatnonzero(here & (score > 2 * np.median(score[here]) + 0.2))
    lonely = squared > variance
    tested = [
        site
        for site in odd[np.argsort(score[odd], kind="stable")]
        if _places(received.centers[lonely & (received.owners == site)], variance) >= PLACES
        or _repeats(received.centers[received.owners == site], variance)
    ]
    return np.array(tested, dtype=np.int64)


def _repeats(centers: Floats, variance: float) -> bool:
    """Tell whether most of a site's centers are the same."""
    near = pairwise_distances(centers, np.median(centers, axis=0)[None]) ** 2 < REPEATED * variance
    return len(centers) > 2 and bool(near.mean() > 0.5)


def _to_other_sites(received: Received) -> Floats:
    """Return the squared distance of each center to the nearest center of another site.

    Of very many centers, a sample is compared with.
    """
    X, owners = received.centers, received.owners
    step = -(-len(X) // SAMPLE)
    # a stride that shares no factor with the number of centers per site meets all of them
    others = np.sort(np.random.default_rng(0).permutation(len(X))[::step])
    nearest = np.empty(len(X))
    for part in blocks(len(X), len(others)):
        distances = pairwise_distances(X[part], X[others])
        distances[owners[part][:, None] == owners[others]] = np.inf
        nearest[part] = distances.min(axis=1)
    nearest[np.isinf(nearest)] = 0.0  # there is no other site
    return nearest**2


def _places(centers: Floats, variance: float) -> int:
    """Count groups of centers: those within two typical spreads of each other form one."""
    if len(centers) < PLACES:
        return len(centers)
    close = pairwise_distances(centers, centers) <= 2 * np.sqrt(variance)
    return int(connected_components(close)[0])
