"""Search for mixtures of every plausible number of components; the range has no end.

k-means with 100 centers is agglomerated, two components at a time, least loss first. If the best
number is more than half of the centers, their number is doubled, and so on. EM then starts from
somewhat more components and goes down, merging two at a time, until the criterion has turned. At
last, components of the best mixture are split where that pays.
"""

from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.solver import solve
from fedjigsaw.number import mixture as mixtures
from fedjigsaw.number.cells import Cells
from fedjigsaw.number.mixture import MIN_ROWS, NO_VARIANCE, Mixture, Moments

START_CENTERS = 100  # doubled as long as needed, so it only costs time
MORE, MORE_SHARE = 12, 0.15  # EM starts from so many components more than the agglomeration found
FAR, FAR_STEPS = 3.0, 3  # the criterion has turned: so many round components above the best
NEIGHBORS = 12  # components with which a merger is considered in the agglomeration, where
NEIGHBORS_IN_EM = 8  # few are merged by mistake; between runs of EM, shapes are known better
WORK = 3e10  # cells x components x columns x steps that a search may take, about a minute


@dataclass
class Found:
    """The best mixture for each number of components, and what the agglomeration preferred.

    Attributes
    ----------
    complete : False if the search ended at its limit.
    """

    mixtures: dict[int, Mixture]
    n_agglomerated: int
    complete: bool = True

    @property
    def best(self) -> int:
        return min(self.mixtures, key=lambda k: self.mixtures[k].bic)

    def add(self, mixture: Mixture) -> None:
        """Keep a mixture if it is the best of its number of components."""
        known = self.mixtures.get(len(mixture))
        if known is None or mixture.bic < known.bic:
            self.mixtures[len(mixture)] = mixture


def search(cells: Cells, most: int | None = None) -> Found:
    """Fit mixtures around the best number of components, of at most `most` if that is given."""
    n_cells, d, rng, n_centers = len(cells.counts), cells.n_columns, np.random.default_rng(0), 0
    enough = complete = False
    while not enough:
        n_centers = min(2 * n_centers or START_CENTERS, n_cells)
        rows = cells.points, cells.counts
        labels = solve(*rows, n_centers, rng=rng, n_tries=0, fast=cells.fast).labels
        costs, merges = agglomerate(cells, mixtures.from_labels(cells, labels).moments)
        n_found = len(costs)
        too_many = max(0, n_found - most_components(cells))  # of single rows, which cost least
        best = n_found - too_many - int(costs[too_many:].argmin())
        complete = best <= n_found / 2 or n_centers == n_cells or n_found < n_centers
        complete = complete or (most is not None and n_centers >= 2 * most)
        enough = complete or n_centers**2 * d * n_cells > WORK
    found = Found({}, best, complete)

    more = min(max(MORE, int(MORE_SHARE * best)), int(cells.n_rows / (2 * MIN_ROWS)))
    first = min(n_found, best + more, most_components(cells), most or n_found)
    component = np.arange(n_found)
    for a, b in merges[: n_found - first]:
        component[component == b] = a
    start = np.unique(component, return_inverse=True)[1][labels]
    mixture = mixtures.fit(cells, mixtures.from_labels(cells, start))
    unit, far, work = cells.log_rows * (d + 2), 0, 0.0
    while True:
        k = len(mixture)
        work += 20 * n_cells * k * d
        found.add(mixture)
        top = found.best
        far = far + 1 if mixture.bic > found.mixtures[top].bic + FAR * unit else 0
        if k == 1 or (k < top and far >= FAR_STEPS and top > MORE) or k < 0.85 * top - 5:
            break
        if work > WORK:
            found.complete = False
            break
        mixture = mixtures.fit(cells, merge_best(cells, mixture))
    _split(cells, found, most)
    return found


def most_components(cells: Cells) -> int:
    """Return how many components have the rows that EM asks of each."""
    return max(1, int(cells.n_rows / MIN_ROWS))


def agglomerate(cells: Cells, moments: Moments) -> tuple[Floats, list[tuple[int, int]]]:
    """Merge components two by two, least loss first.

    Returns
    -------
    costs : shape (k,), the classification cost of k, k - 1, ..., 1 components.
    merges : pairs; the first component of each takes the second one in.
    """
    k = len(moments)
    moments = moments.select(np.arange(k))  # a copy, changed in place
    own, left = mixtures.hard_costs(cells, moments), np.ones(k, dtype=bool)
    losses = np.full((k, k), np.inf)
    costs, merges = [float(own.sum())], []
    for _ in range(k - 1):
        a, b = divmod(int(losses.argmin()), k)
        if not np.isfinite(losses[a, b]):  # at first, and where no neighbor of any is left
            rest = np.flatnonzero(left)
            one, other = (rest[i] for i in _neighbors(moments.select(rest), NEIGHBORS))
            joined = mixtures.hard_costs(cells, moments.unions(cells, one, other))
            losses[one, other] = losses[other, one] = joined - own[one] - own[other]
            a, b = divmod(int(losses.argmin()), k)
        merges.append((a, b))
        costs.append(costs[-1] + float(losses[a, b]))
        moments.merge(cells, a, b)
        left[b] = False
        for gone in (a, b):
            losses[gone, :] = losses[:, gone] = np.inf
        others = np.flatnonzero(left & (np.arange(k) != a))
        apart = ((moments.means[others] - moments.means[a]) ** 2).sum(axis=1)
        ward = apart / (1 / moments.counts[a] + 1 / moments.counts[others])
        near = others[np.argsort(ward, kind="stable")[:NEIGHBORS]]
        unions = moments.unions(cells, np.full(len(near), a), near)
        own[a] = mixtures.hard_costs(cells, moments.select(np.array([a])))[0]
        losses[a, near] = mixtures.hard_costs(cells, unions) - own[a] - own[near]
        losses[near, a] = losses[a, near]
    return np.array(costs), merges


def _neighbors(moments: Moments, n_near: int) -> tuple[Ints, Ints]:
    """Return pairs of components, each once, that could be merged with least loss if all clusters
    were round."""
    counts, k, ward = moments.counts, len(moments), moments.apart()
    ward *= counts[:, None] * counts / np.maximum(counts[:, None] + counts, NO_VARIANCE)
    np.fill_diagonal(ward, np.inf)
    n_near = min(k - 1, n_near)
    near = np.argpartition(ward, n_near - 1, axis=1)[:, :n_near].ravel()
    own = np.repeat(np.arange(k), n_near)
    pairs = np.unique(np.minimum(own, near) * k + np.maximum(own, near))
    return pairs // k, pairs % k


def merge_best(cells: Cells, mixture: Mixture) -> Mixture:
    """Merge the two components that lose least."""
    moments = mixture.moments.select(np.arange(len(mixture)))
    a, b = _neighbors(moments, NEIGHBORS_IN_EM)
    costs, unions = (mixtures.hard_costs(cells, m) for m in (moments, moments.unions(cells, a, b)))
    best = int((unions - costs[a] - costs[b]).argmin())
    moments.merge(cells, int(a[best]), int(b[best]))
    rest = moments.select(np.arange(len(mixture)) != b[best])
    return mixtures.mixture_of(cells, rest, mixture.background)


def _split(cells: Cells, found: Found, most: int | None) -> None:
    """Split components of the best mixture where that pays; keep the result if the BIC falls."""
    best = found.mixtures[found.best]
    owners, n_labels = best.owners, len(best)
    labels = np.where(owners < n_labels, owners, -1)  # the background is split off anew
    for j in range(len(best)):
        members = np.flatnonzero(owners == j)
        points, counts = cells.points[members], cells.counts[members]
        if len(members) < 4 or counts.sum() < 2 * MIN_ROWS:
            continue
        rng = np.random.default_rng(0)
        side = solve(points, counts, 2, rng=rng, n_tries=0, fast=False).labels
        shares = np.zeros((len(labels), 3))
        shares[members, side] = shares[members, 2] = 1
        moments = mixtures.moments_of(cells, shares)
        one, other, both = mixtures.hard_costs(cells, moments)
        if one + other < both and moments.counts.min() >= MIN_ROWS:
            labels[members[side == 1]] = n_labels
            n_labels += 1
    if n_labels == len(best) or (most is not None and n_labels > most):
        return
    labels = np.unique(np.append(-1, labels), return_inverse=True)[1][1:] - 1  # none is empty
    more = mixtures.fit(cells, mixtures.from_labels(cells, labels, best.background))
    if more.bic < best.bic:
        found.add(more)
