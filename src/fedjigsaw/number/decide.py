"""How many clusters? Decided from cells alone.

1. Mixtures of Gaussians are fitted to the cells (:mod:`~fedjigsaw.number.search`).
2. If any two neighbors of the mixture with the best BIC have a valley between them
   (:mod:`~fedjigsaw.number.valleys`), its components are the clusters.
3. Otherwise all mixtures (by ICL) and all k-means partitions of the cells (by classification BIC)
   are ranked, and the first is taken whose clusters all have valleys between them. One cluster has
   no neighbor, so it is always a candidate: that is where data without structure end.

If the number is given, components are merged; with clusters of any shape, components are joined
where no valley is.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import coordinate_order
from fedjigsaw.kernels.solver import solve, solve_each
from fedjigsaw.number import mixture as mixtures
from fedjigsaw.number.cells import FEW_CELLS, MERGED_CELLS, Cells, condense
from fedjigsaw.number.mixture import LONG, MIN_ROWS, NO_ROWS, NO_VARIANCE, Mixture
from fedjigsaw.number.search import Found, merge_best, most_components, search
from fedjigsaw.number.shapes import ANY, ROUND
from fedjigsaw.number.valleys import NONE, Valleys, are_separate, valleys

CELLS_OF_SMALL = 20_000  # of small clients, most are mixed: more are kept, and more still merged
NARROW = 4.0  # a cluster inside a component of mixed cells has at most its variance divided by this
MOST_CLEAN = 0.5  # components of mixed cells hold less than this share of the rows
MORE, MORE_SHARE = 8, 1.5  # k-means partitions are tried for so many more clusters
LONG_EM = 40  # steps of EM from a k-means partition, which has found no shapes
JOIN = 5.0  # standard errors below which a valley does not part two pieces of a bent cluster

Way = Literal["agree", "separate", "mixture", "partition", "joined", "given"]


@dataclass(frozen=True)
class Choice:
    """The number of clusters, the mixture that has it, and how it was found.

    Attributes
    ----------
    way : how it was decided: all criteria agree, all clusters of the best BIC are separate, or the
        first separate mixture or k-means partition; or components without valleys were joined, or
        the number was given.
    criteria : what each criterion alone prefers.
    per_client : cells per client.
    dropped : share of the rows in cells that hold rows of several clusters.
    curve : shape (n, 3), for each number of clusters that was tried: the number, the objective, and
        minus the BIC, in which the best has 0.
    complete : False if the search ended at its limit, or at the largest number allowed.
    components, groups : the mixture by which rows are labeled, and the cluster of each component.
    finer : a larger number that is about as good, or None; see :meth:`_Candidates.finer`.
    """

    cells: Cells
    mixture: Mixture
    valleys: Valleys
    way: Way
    criteria: dict[str, int]
    per_client: float
    dropped: float
    curve: Floats
    complete: bool
    components: Mixture
    groups: Ints
    finer: int | None

    @property
    def k(self) -> int:
        return len(self.mixture)

    @property
    def elongated(self) -> bool:
        """Whether some clusters are so long that nearest centers cut them visibly."""
        shapes = self.mixture.shapes
        return self.k > 1 and bool((shapes.longest >= LONG**2 * shapes.variances).any())

    @property
    def means(self) -> Floats:
        """Means of the clusters, in the units of the data."""
        return self.cells.in_units(self.mixture.moments.means)

    @property
    def runner_up(self) -> int | None:
        """A larger number that is about as good, or else what most other criteria prefer, or else
        that of the second best BIC."""
        if self.finer is not None:
            return self.finer
        others = Counter(k for k in self.criteria.values() if k != self.k)
        if others:
            return min(others, key=lambda k: (-others[k], abs(k - self.k), k))
        index = {int(k): value for k, _, value in self.curve if int(k) != self.k}
        return max(index, key=lambda k: index[k], default=None)


def choose(
    centers: Floats,
    counts: Floats,
    sse: Floats,
    *,
    owners: Ints | None = None,
    quantization: Floats | None = None,
    most: int | None = None,
    k: int | None = None,
    shape: str = ROUND,
    backend: Backend | None = None,
) -> Choice:
    """Choose the number of clusters.

    Parameters
    ----------
    centers, counts, sse : shapes (n, d), (n,) and (n,), the cells of all clients.
    owners : shape (n,), the client of each cell, or None. With few cells per client, components of
        cells that hold rows of several clusters are recognized and dropped.
    quantization : shape (d,), see :func:`~fedjigsaw.number.cells.quantization_variance`.
    most : the largest number of clusters, or None for no limit.
    k : the number of clusters, if it is known.
    shape : one of :data:`~fedjigsaw.number.shapes.SHAPES`. Unless clusters are round, the mixture
        that is chosen has a background; in any shape, components without valleys are joined.
    backend : tells whether compiled code may be used; None leaves that to the environment.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> centers = np.concatenate([rng.normal(at, 1, (50, 1)) for at in (0, 9, 30)])
    >>> choose(centers, np.full(150, 6.0), np.full(150, 0.1)).k
    3
    """
    order = coordinate_order(centers)  # the result does not depend on the order of the cells
    received = centers[order], counts[order], sse[order]
    per_client = np.inf if owners is None else len(counts) / len(np.unique(owners))
    limit = None if shape == ANY else most  # of pieces there may be more
    n_kept = CELLS_OF_SMALL if per_client < FEW_CELLS else MERGED_CELLS
    cells = Cells(*condense(*received, n_kept, backend), quantization, backend)
    found = search(cells, limit)
    if per_client < FEW_CELLS:
        cells, found = _without_mixed(cells, found, limit)
    candidates = _Candidates(cells, found, limit)
    way: Way = "given"
    at_limit = limit is not None and found.n_agglomerated > limit
    if k is None and shape != ANY:
        mixture, way = candidates.decide()
    elif k is None or (shape == ANY and candidates.by_bic > k):
        mixture, way = candidates.best, "joined"
    else:
        mixture = _exactly(cells, found, k)
    hills = valleys(cells, mixture)
    if shape != ROUND and way == "partition":
        mixture = _refit(cells, mixture)
    components, groups = mixture, np.arange(len(mixture))
    if way == "joined":
        n_groups = hills.n_groups(JOIN)
        at_limit = k is None and most is not None and n_groups > most
        n_groups = k or min(n_groups, most or n_groups)
        mixture, hills, groups = _joined(cells, components, hills, n_groups)
    return Choice(
        cells=cells,
        mixture=mixture,
        valleys=hills,
        way=way,
        criteria=candidates.criteria,
        per_client=per_client,
        dropped=max(0.0, 1 - cells.n_rows / float(counts.sum())),
        curve=candidates.curve(mixture),
        complete=found.complete and not at_limit,
        components=components,
        groups=groups,
        finer=None if way in ("joined", "given") else candidates.finer(mixture),
    )


class _Candidates:
    """Mixtures and k-means partitions, compared by criteria and valleys."""

    def __init__(self, cells: Cells, found: Found, most: int | None) -> None:
        self.cells, self.found = cells, found
        self.partitions: list[Mixture] = []
        self._compare()
        plain = self.by_bic == self.criteria["valleys"] == self.by_icl
        if not plain or self.best.shapes.n_free.any():
            # not plainly round and separate: EM once more, from the best k-means partition
            largest = int(MORE_SHARE * max(self.by_bic, self.by_icl, found.n_agglomerated))
            largest = min(largest, most_components(cells)) + MORE
            self.equal = self._divide(largest if most is None else min(largest, most))
            found.add(mixtures.fit(cells, self.equal, LONG_EM))
            self._compare()

    def _compare(self) -> None:
        self.by_bic, self.best = min(self.found.mixtures.items(), key=lambda item: item[1].bic)
        self.by_icl = min(self.found.mixtures, key=lambda k: self.found.mixtures[k].icl(self.cells))
        n_groups = valleys(self.cells, self.best).n_groups()
        self.criteria = {"bic": self.by_bic, "icl": self.by_icl, "valleys": n_groups}

    def _divide(self, most: int) -> Mixture:
        """Find k-means partitions of the cells into every number of clusters up to `most`.

        Each has a classification BIC, with a shape for each cluster. Return the best one by the
        classification BIC with one variance for all clusters.
        """
        cells, n, d = self.cells, self.cells.n_rows, self.cells.n_columns
        rng, costs = np.random.default_rng(0), []
        for solution in solve_each(cells.points, cells.counts, most, rng=rng, fast=cells.fast):
            mixture = mixtures.from_labels(cells, solution.labels)
            counts = mixture.moments.counts
            own = float(mixtures.hard_costs(cells, mixture.moments).sum()) - cells.log_rows / 2
            self.partitions.append(replace(mixture, bic=own))
            variance = max(float(mixture.moments.traces.sum()) / (n * d), NO_VARIANCE)
            likelihood = float(counts @ np.log(counts / n)) - n * d / 2 * float(np.log(variance))
            costs.append(cells.log_rows / 2 * len(mixture) * (d + 1) - likelihood)
        return self.partitions[int(np.argmin(costs))]

    def decide(self) -> tuple[Mixture, Way]:
        """Return the mixture that is chosen, and how it was chosen."""
        if self.criteria["valleys"] == self.by_bic:
            return self.best, "agree" if self.by_bic == self.by_icl else "separate"
        own = min(self.partitions, key=lambda p: p.bic)
        self.criteria |= {"equal": len(self.equal), "own": len(own)}
        ranked: list[tuple[float, int, Way, Mixture]] = [
            (m.icl(self.cells), k, "mixture", m) for k, m in self.found.mixtures.items()
        ]
        ranked += [(p.bic, len(p), "partition", p) for p in self.partitions]
        ranked.sort(key=lambda entry: entry[:3])
        # a single cluster, which is among these, has no neighbors
        return next((m, way) for _, _, way, m in ranked if are_separate(self.cells, m))

    def finer(self, chosen: Mixture) -> int | None:
        """Return a larger number of clusters that have valleys between them, too, and that ICL or
        the k-means partitions prefer; None if there is none.

        EM may end in a mixture that has one component for two clusters. Other mixtures are not
        asked, since pieces of one cluster have valleys between them in many columns, nor partitions
        where columns have steps, between which there are valleys, too.
        """
        others = [self.found.mixtures[self.by_icl]]
        if self.partitions and not self.cells.quantization.any():
            others.append(min(self.partitions, key=lambda p: p.bic))
        numbers = (len(m) for m in others if len(m) > len(chosen) and are_separate(self.cells, m))
        return min(numbers, default=None)

    def curve(self, chosen: Mixture) -> Floats:
        """Return number, objective and index of every mixture, and of the one that was chosen."""
        shown = sorted((self.found.mixtures | {len(chosen): chosen}).items())
        objectives = [m.moments.traces.sum() * self.cells.scale**2 for _, m in shown]
        index = [self.best.bic - m.bic for _, m in shown]
        return np.column_stack([[k for k, _ in shown], objectives, index])


def _without_mixed(cells: Cells, found: Found, most: int | None) -> tuple[Cells, Found]:
    """Drop cells of small clients that hold rows of several clusters, as far as they are seen.

    Such cells form wide components between clusters: their bulk (95 %) holds the means of at least
    two others that have less than a quarter of their variance. If more than half of the rows were
    in them, they were no exceptions among clusters, and nothing is dropped.
    """
    from scipy.special import chdtri

    kept, kept_found = cells, found
    for _ in range(4):
        best = kept_found.mixtures[kept_found.best]
        moments, shapes = best.moments, best.shapes
        variance = moments.traces / np.maximum(moments.counts, NO_ROWS)
        bulk = max(float(chdtri(kept.n_columns, 0.05)), 1.5 * kept.n_columns)
        mixed = np.zeros(len(best), dtype=bool)
        for j in range(len(best)):
            away = moments.means - moments.means[j]
            reduced = away @ kept.basis
            squared = (away**2).sum(axis=1) - ((reduced @ shapes.pulls[j]) * reduced).sum(axis=1)
            inside = (squared / shapes.variances[j] < bulk) & (variance < variance[j] / NARROW)
            mixed[j] = inside.sum() >= 2
        clean = np.isin(best.owners, np.flatnonzero(~mixed))
        if not mixed.any() or clean.all() or kept.counts[clean].sum() < 10 * MIN_ROWS:
            break
        parts = kept.points[clean], kept.counts[clean], kept.sse[clean]
        rest = Cells(*parts, kept.quantization, kept.backend)
        rest.middle = kept.in_units(rest.middle[None])[0]
        rest.scale, rest.seen = kept.scale * rest.scale, kept.seen[rest.seen]
        kept, kept_found = rest, search(rest, most)
    enough = kept.n_rows >= MOST_CLEAN * cells.n_rows
    return (kept, kept_found) if enough else (cells, found)


def _exactly(cells: Cells, found: Found, k: int) -> Mixture:
    """Return the best mixture of `k` components, of fewer only if there are fewer cells.

    One is fitted from a k-means partition of the cells: the search for the best number may have
    left that for `k` with tiny components. If none was found, components of a larger one are
    merged, too.
    """
    candidates = [found.mixtures[k]] if k in found.mixtures else []
    larger = [n for n in found.mixtures if n > k]
    if not candidates and larger:
        mixture = found.mixtures[min(larger)]
        while len(mixture) > k:
            mixture = mixtures.fit(cells, merge_best(cells, mixture))
        candidates.append(mixture)
    rng = np.random.default_rng(0)
    labels = solve(cells.points, cells.counts, k, rng=rng, fast=cells.fast).labels
    candidates.append(_refit(cells, mixtures.from_labels(cells, labels)))

    def order(mixture: Mixture) -> tuple[int, int, float]:
        # whoever asks for k clusters does not mean fewer and some odd rows, which often fit best
        n_large = int((mixture.moments.counts >= MIN_ROWS).sum())
        return abs(n_large - k), abs(len(mixture) - k), mixture.bic

    return min(candidates, key=order)


def _refit(cells: Cells, mixture: Mixture) -> Mixture:
    """Run EM with a background; return the mixture as it is if a component would vanish."""
    fitted = mixtures.fit(cells, mixture, LONG_EM)
    return fitted if len(fitted) == len(mixture) else mixture


def _joined(
    cells: Cells, mixture: Mixture, hills: Valleys, n_groups: int
) -> tuple[Mixture, Valleys, Ints]:
    """Join components until there are so many groups, those with the shallowest valley first.

    Return the groups as one component each, the shallowest valleys between them, and the group of
    each component.
    """
    groups, far = np.arange(len(mixture)), mixture.moments.apart()
    pairs = [(depth, 0.0, *pair) for pair, depth in hills.depths.items()]
    # components that are no neighbors are joined last, the nearest first
    pairs += [(NONE + 1, float(far[a, b]), b, a) for a in range(len(far)) for b in range(a)]
    for _, _, a, b in sorted(pairs):
        if len(np.unique(groups)) == n_groups:
            break
        groups[groups == groups[b]] = groups[a]
    groups = np.unique(groups, return_inverse=True)[1]
    if n_groups == len(mixture):
        return mixture, hills, groups
    shares = np.zeros((len(cells.counts), n_groups + 1))
    columns = np.append(groups, n_groups)[: mixture.shares.shape[1]]  # the last is the background
    np.add.at(shares.T, columns, mixture.shares.T)
    depths: dict[tuple[int, int], float] = {}
    inside = 0.0
    for (a, b), depth in hills.depths.items():
        low, high = sorted((int(groups[a]), int(groups[b])))
        if low < high:
            depths[low, high] = min(depth, depths.get((low, high), np.inf))
        elif depth < JOIN:
            inside = max(inside, depth)
    moments = mixtures.moments_of(cells, shares[:, :-1])
    whole = mixtures.mixture_of(cells, moments, mixture.background)
    whole = replace(whole, bic=mixture.bic, shares=shares)
    return whole, Valleys(n_groups, depths, inside), groups
