"""Search for mixtures of every plausible number of components; the range has no end.

k-means with 100 centers is agglomerated, two components at a time, least loss first. If the best
number is more than half of the centers, their number is doubled, and so on. EM then starts from
somewhat more components and goes down, merging two at a time, until the criterion has turned. At
last, components of the best mixture are split where that pays.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.solver import solve
from fedjigsaw.number.cells import Cells
from fedjigsaw.number.mixtures import (
    MIN_ROWS,
    START_BACKGROUND,
    Mixture,
    Moments,
    fit,
    from_labels,
    hard_costs,
    mixture_of,
    moments_of,
)

START_CENTERS = 100  # doubled as long as needed, so it only costs time
MORE, MORE_SHARE = 12, 0.15  # EM starts from so many components more than the agglomeration found
FAR, FAR_STEPS = 3.0, 3  # the criterion has turned: so many round components above the best
NEIGHBORS = 12  # components with which a merger is considered
WORK = 3e10  # cells x components x columns x steps that a search may take, about a minute


@dataclass(frozen=True)
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


def search(cells: Cells, most: int | None = None) -> Found:
    """Fit mixtures around the best number of components, of at most `most` if that is given."""
    labels, merges, best, complete = _agglomerate_centers(cells, most)
    n_centers = int(labels.max()) + 1
    more = min(max(MORE, int(MORE_SHARE * best)), int(cells.n_rows / (2 * MIN_ROWS)))
    first = min(n_centers, best + more, most_components(cells), most or n_centers)
    start = _labels_after(merges, n_centers, first)[labels]
    mixture = fit(cells, from_labels(cells, start, START_BACKGROUND * cells.n_rows))
    found: dict[int, Mixture] = {}
    far, work = 0, 0.0
    while True:
        k = len(mixture)
        work += 20 * len(cells.counts) * k * cells.n_columns
        if k not in found or mixture.bic < found[k].bic:
            found[k] = mixture
        top = min(found, key=lambda n: found[n].bic)
        unit = cells.log_rows * (cells.n_columns + 2)
        far = far + 1 if mixture.bic > found[top].bic + FAR * unit else 0
        if k == 1 or (k < top and far >= FAR_STEPS and top > MORE) or k < 0.85 * top - 5:
            break
        if work > WORK:
            complete = False
            break
        mixture = fit(cells, merge_best(cells, mixture))
    return _with_splits(cells, Found(found, best, complete), most)


def most_components(cells: Cells) -> int:
    """Return how many components have the rows that EM asks of each."""
    return max(1, int(cells.n_rows / MIN_ROWS))


def _agglomerate_centers(
    cells: Cells, most: int | None
) -> tuple[Ints, list[tuple[int, int]], int, bool]:
    """Return a fine partition of the cells, its mergers in order, the best number of clusters, and
    whether more centers would not find more."""
    rng, n_centers = np.random.default_rng(0), START_CENTERS
    while True:
        n = min(n_centers, len(cells.counts))
        solution = solve(cells.points, cells.counts, n, rng=rng, n_tries=0, fast=cells.fast)
        costs, merges = agglomerate(cells, from_labels(cells, solution.labels).moments)
        n_found = len(costs)
        too_many = max(0, n_found - most_components(cells))  # of single rows, which cost least
        best = n_found - too_many - int(costs[too_many:].argmin())
        enough = best <= n_found / 2 or n == len(cells.counts) or n_found < n
        if enough or (most is not None and n >= 2 * most):
            return solution.labels, merges, best, True
        if n_centers**2 * cells.n_columns * len(cells.counts) > WORK:
            return solution.labels, merges, best, False
        n_centers *= 2


def agglomerate(cells: Cells, moments: Moments) -> tuple[Floats, list[tuple[int, int]]]:
    """Merge components two by two, least loss first.

    Returns
    -------
    costs : shape (k,), the classification cost of k, k - 1, ..., 1 components.
    merges : pairs; the first component of each takes the second one in.
    """
    tree = _Tree(cells, moments)
    costs, merges = [tree.costs.sum()], []
    for _ in range(len(moments) - 1):
        a, b, loss = tree.best_pair()
        tree.merge(a, b)
        merges.append((a, b))
        costs.append(costs[-1] + loss)
    return np.array(costs), merges


class _Tree:
    """Components that are being merged, and what each merger with a neighbor would cost."""

    def __init__(self, cells: Cells, moments: Moments) -> None:
        self.cells = cells
        self.moments = moments.select(np.arange(len(moments)))  # a copy, changed in place
        self.costs = hard_costs(cells, moments)
        self.alive = np.ones(len(moments), dtype=bool)
        self.losses = np.full((len(moments), len(moments)), np.inf)
        self._compare(np.arange(len(moments)))

    def best_pair(self) -> tuple[int, int, float]:
        a, b = divmod(int(self.losses.argmin()), len(self.costs))
        if not np.isfinite(self.losses[a, b]):
            self._compare(np.flatnonzero(self.alive))  # no neighbor is left: look for new ones
            a, b = divmod(int(self.losses.argmin()), len(self.costs))
        return a, b, float(self.losses[a, b])

    def merge(self, a: int, b: int) -> None:
        union = self.moments.unions(self.cells, np.array([a]), np.array([b]))
        for name in ("counts", "means", "traces", "scatters"):
            getattr(self.moments, name)[a] = getattr(union, name)[0]
        self.alive[b] = False
        for gone in (a, b):
            self.losses[gone, :] = self.losses[:, gone] = np.inf
        near = self._near(a)
        unions = self.moments.unions(self.cells, np.full(len(near), a), near)
        costs = hard_costs(self.cells, _together(union, unions))
        self.costs[a] = costs[0]
        self.losses[a, near] = self.losses[near, a] = costs[1:] - costs[0] - self.costs[near]

    def _compare(self, components: Ints) -> None:
        """Compute what merging components with each of their neighbors would cost."""
        near = [self._near(int(a)) for a in components]
        one = np.repeat(components, [len(others) for others in near])
        other = np.concatenate(near)
        # each pair once
        pairs = np.unique(np.minimum(one, other) * len(self.costs) + np.maximum(one, other))
        a, b = np.divmod(pairs, len(self.costs))
        unions = self.moments.unions(self.cells, a, b)
        losses = hard_costs(self.cells, unions) - self.costs[a] - self.costs[b]
        self.losses[a, b] = self.losses[b, a] = losses

    def _near(self, a: int) -> Ints:
        """Return the neighbors of a component: those to which it could be merged with least loss,
        were all clusters round."""
        counts, means = self.moments.counts, self.moments.means
        ward = counts[a] * counts / (counts[a] + counts) * ((means - means[a]) ** 2).sum(axis=1)
        ward[~self.alive] = ward[a] = np.inf
        near = np.argsort(ward, kind="stable")[:NEIGHBORS]
        return np.asarray(near[np.isfinite(ward[near])])


def _labels_after(merges: list[tuple[int, int]], n: int, k: int) -> Ints:
    """Return the component of each of `n` when `k` are left."""
    labels = np.arange(n)
    for a, b in merges[: n - k]:
        labels[labels == b] = a
    found: Ints = np.unique(labels, return_inverse=True)[1]
    return found


def merge_best(cells: Cells, mixture: Mixture) -> Mixture:
    """Merge the two components that lose least."""
    moments, k = mixture.moments, len(mixture)
    counts, means = moments.counts, moments.means
    norms = (means**2).sum(axis=1)
    ward = np.maximum(norms[:, None] - 2 * means @ means.T + norms, 0)
    ward *= counts[:, None] * counts / np.maximum(counts[:, None] + counts, 1e-12)
    np.fill_diagonal(ward, np.inf)
    n_near = min(k - 1, 8)
    near = np.argpartition(ward, n_near - 1, axis=1)[:, :n_near].ravel()
    own = np.repeat(np.arange(k), n_near)
    pairs = np.unique(np.minimum(own, near) * k + np.maximum(own, near))
    a, b = pairs // k, pairs % k
    costs = hard_costs(cells, moments)
    unions = moments.unions(cells, a, b)
    best = int((hard_costs(cells, unions) - costs[a] - costs[b]).argmin())
    kept = np.setdiff1d(np.arange(k), [a[best], b[best]])
    joined, rest = unions.select(np.array([best])), moments.select(kept)
    return mixture_of(cells, _together(joined, rest), mixture.background)


def _together(a: Moments, b: Moments) -> Moments:
    """Return the components of both."""
    names = ("counts", "means", "traces", "scatters")
    return Moments(*(np.concatenate([getattr(a, name), getattr(b, name)]) for name in names))


def _with_splits(cells: Cells, found: Found, most: int | None) -> Found:
    """Split components of the best mixture where that pays; keep the result if the BIC falls."""
    best = found.mixtures[found.best]
    own, n_labels = best.owners, len(best)
    labels = np.where(own < n_labels, own, -1)  # the background is split off anew
    for j in range(len(best)):
        members = np.flatnonzero(own == j)
        side = _halves(cells, members)
        if side is not None:
            labels[members[side]] = n_labels
            n_labels += 1
    if n_labels == len(best) or (most is not None and n_labels > most):
        return found
    labels = np.unique(np.append(-1, labels), return_inverse=True)[1][1:] - 1  # none is empty
    more = fit(cells, from_labels(cells, labels, best.background))
    known = found.mixtures.get(len(more))
    if more.bic < best.bic and (known is None or more.bic < known.bic):
        return replace(found, mixtures=found.mixtures | {len(more): more})
    return found


def _halves(cells: Cells, members: Ints) -> np.ndarray | None:
    """Divide cells in two along their longest axis, then by 2-means; None if that does not pay."""
    counts, points = cells.counts[members], cells.points[members]
    if len(members) < 4 or counts.sum() < 2 * MIN_ROWS:
        return None
    offset = points - counts @ points / counts.sum()
    axis = offset[(counts * (offset**2).sum(axis=1)).argmax()]
    for _ in range(6):  # power iterations
        axis = axis / max(float(np.linalg.norm(axis)), 1e-300)
        axis = offset.T @ (counts * (offset @ axis))
    side = offset @ axis > 0
    for _ in range(5):
        if side.all() or not side.any():
            return None
        high = counts[side] @ offset[side] / counts[side].sum()
        low = counts[~side] @ offset[~side] / counts[~side].sum()
        side = offset @ (high - low) > (high @ high - low @ low) / 2
    if min(counts[side].sum(), counts[~side].sum()) < MIN_ROWS:
        return None
    part = cells.select(members)
    one, two = np.ones((len(members), 1)), np.column_stack([side, ~side]).astype(np.float64)
    costs = [hard_costs(cells, moments_of(part, shares)).sum() for shares in (one, two)]
    return side if costs[1] < costs[0] else None
