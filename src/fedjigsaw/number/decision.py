"""How many clusters? Decided from cells alone.

1. Mixtures of Gaussians are fitted to the cells (:mod:`~fedjigsaw.number.search`).
2. If any two neighbors of the mixture with the best BIC have a valley between them
   (:mod:`~fedjigsaw.number.valleys`), its components are the clusters.
3. Otherwise all mixtures (by ICL) and all k-means partitions of the cells (by classification BIC)
   are ranked, and the first is taken whose clusters all have valleys between them. One cluster has
   no neighbor, so it is always a candidate: that is where data without structure end.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import coordinate_order
from fedjigsaw.kernels.solver import solve_each
from fedjigsaw.number import mixtures
from fedjigsaw.number.cells import Cells, condense
from fedjigsaw.number.mixtures import LOG_2PI, MIN_ROWS, Mixture
from fedjigsaw.number.search import Found, most_components, search
from fedjigsaw.number.shaping import ANY, ROUND, exactly, groups_of, joined, refit
from fedjigsaw.number.valleys import Valleys, are_separate, valleys

FEW_CELLS = 20  # cells per client below which a cell may well hold rows of several clusters
NARROW = 4.0  # a cluster inside a heap of mixed cells has at most its variance divided by this
LONG = 3.0  # times as long as wide, from where on nearest centers cut a cluster visibly
MANY_CELLS = 20_000  # of small clients; more are merged
MOST_CLEAN = 0.5  # heaps of mixed cells hold less than this share of the rows
MORE, MORE_SHARE = 8, 1.5  # k-means partitions are tried for so many more clusters

AGREE, SEPARATE, MIXTURE, PARTITION = "agree", "separate", "mixture", "partition"
JOINED, GIVEN = "joined", "given"
DECIDED = (AGREE, SEPARATE, MIXTURE, PARTITION)  # by criteria and valleys


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
    finer : a larger number that is about as good, or None; see :meth:`_Judge.finer`.
    """

    cells: Cells
    mixture: Mixture
    valleys: Valleys
    way: str
    criteria: dict[str, int]
    per_client: float
    dropped: float
    curve: Floats
    complete: bool
    components: Mixture
    groups: Ints
    finer: int | None = None

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
    grain: Floats | None = None,
    most: int | None = None,
    k: int | None = None,
    shape: str = ROUND,
    backend: Backend | None = None,
) -> Choice:
    """Choose the number of clusters.

    Parameters
    ----------
    centers, counts, sse : shapes (n, d), (n,) and (n,), the cells of all clients.
    owners : shape (n,), the client of each cell, or None. With few cells per client, heaps of cells
        that hold rows of several clusters are recognized and dropped.
    grain : shape (d,), see :func:`~fedjigsaw.number.grain.grain_of`.
    most : the largest number of clusters, or None for no limit.
    k : the number of clusters, if it is known.
    shape : one of :data:`~fedjigsaw.number.shaping.SHAPES`. Unless clusters are round, the mixture
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
    centers, counts, sse = centers[order], counts[order], sse[order]
    per_client = np.inf if owners is None else len(counts) / len(np.unique(owners))
    limit = None if shape == ANY else most  # of pieces there may be more
    if per_client < FEW_CELLS:
        cells = Cells.of(*condense(centers, counts, sse, MANY_CELLS, backend), grain, backend)
        cells, found = _without_mixed(cells, limit)
    else:
        cells = Cells.of(*condense(centers, counts, sse, backend=backend), grain, backend)
        found = search(cells, limit)
    judge = _Judge(cells, found, limit)
    if k is None and shape != ANY:
        mixture, hills, way = judge.decide()
    else:
        mixture, hills, way = judge.finest(k, shape)
    components, groups = mixture, np.arange(len(mixture))
    at_limit = limit is not None and judge.found.n_agglomerated > limit
    if way == JOINED:
        groups = groups_of(components, hills, k, most)
        if k is None and most is not None:
            at_limit = len(np.unique(groups_of(components, hills))) > most
        mixture, hills = joined(cells, components, hills, groups)
    elif shape != ROUND and way == PARTITION:
        mixture = components = refit(cells, mixture)
    return Choice(
        cells=cells,
        mixture=mixture,
        valleys=hills,
        way=way,
        criteria=judge.criteria,
        per_client=per_client,
        dropped=max(0.0, 1 - cells.n_rows / float(counts.sum())),
        curve=judge.curve(mixture),
        complete=judge.found.complete and not at_limit,
        components=components,
        groups=groups,
        finer=judge.finer(mixture) if way in DECIDED else None,
    )


class _Judge:
    """Compares mixtures and k-means partitions by criteria and valleys."""

    def __init__(self, cells: Cells, found: Found, most: int | None) -> None:
        self.cells, self.found = cells, found
        self.partitions: list[_Partition] = []
        self._judge()
        plain = self.by_bic == self.hills.n_groups == self.by_icl
        if not plain or found.mixtures[self.by_bic].shapes.n_free.any():
            # not plainly round and separate: EM once more, from the best k-means partition
            largest = int(MORE_SHARE * max(self.by_bic, self.by_icl, found.n_agglomerated))
            largest = min(largest, most_components(cells)) + MORE
            self.partitions = _partitions(cells, largest if most is None else min(largest, most))
            self._start_again(min(self.partitions, key=lambda p: p.equal).mixture)
            self._judge()
        self.criteria = {"bic": self.by_bic, "icl": self.by_icl, "valleys": self.hills.n_groups}

    def _judge(self) -> None:
        mixtures = self.found.mixtures
        self.by_bic = self.found.best
        self.by_icl = min(mixtures, key=lambda k: mixtures[k].icl(self.cells))
        self.hills = valleys(self.cells, mixtures[self.by_bic])

    def _start_again(self, start: Mixture) -> None:
        background = mixtures.START_BACKGROUND * self.cells.n_rows
        second = mixtures.fit(
            self.cells, Mixture(start.moments, start.shapes, background), max_iter=40
        )
        known = self.found.mixtures.get(len(second))
        if known is None or second.bic < known.bic:
            mixtures_found = self.found.mixtures | {len(second): second}
            self.found = replace(self.found, mixtures=mixtures_found)

    def decide(self) -> tuple[Mixture, Valleys, str]:
        """Return the mixture that is chosen, its valleys, and how it was chosen."""
        best = self.found.mixtures[self.by_bic]
        if self.hills.separate:
            return best, self.hills, AGREE if self.by_bic == self.by_icl else SEPARATE
        self.criteria["equal"] = len(min(self.partitions, key=lambda p: p.equal).mixture)
        self.criteria["own"] = len(min(self.partitions, key=lambda p: p.own).mixture)
        ranked = [(m.icl(self.cells), k, MIXTURE, m) for k, m in self.found.mixtures.items()]
        ranked += [(p.own, len(p.mixture), PARTITION, p.mixture) for p in self.partitions]
        for _, _, way, mixture in sorted(ranked, key=lambda entry: entry[:3]):
            if are_separate(self.cells, mixture):
                return mixture, valleys(self.cells, mixture), way
        raise AssertionError("a single cluster, which is among these, has no neighbors")

    def finer(self, chosen: Mixture) -> int | None:
        """Return a larger number of clusters that have valleys between them, too, and that ICL or
        the k-means partitions prefer; None if there is none.

        EM may end in a mixture that has one component for two clusters. Other mixtures are not
        asked, since pieces of one cluster have valleys between them in many columns, nor partitions
        where columns have steps, between which there are valleys, too.
        """
        others = [self.found.mixtures[self.by_icl]]
        if self.partitions and not self.cells.has_grain:
            others.append(min(self.partitions, key=lambda p: p.own).mixture)
        numbers = (len(m) for m in others if len(m) > len(chosen) and are_separate(self.cells, m))
        return min(numbers, default=None)

    def finest(self, k: int | None, shape: str) -> tuple[Mixture, Valleys, str]:
        """Return the mixture whose components are joined, or the best one of `k` components."""
        best = self.found.mixtures[self.by_bic]
        if shape == ANY and (k is None or len(best) > k):
            return best, self.hills, JOINED
        mixture = exactly(self.cells, self.found, k or 1)
        return mixture, valleys(self.cells, mixture), GIVEN

    def curve(self, chosen: Mixture) -> Floats:
        """Return number, objective and index of every mixture, and of the one that was chosen."""
        found = self.found.mixtures
        best = found[self.by_bic].bic
        costs = {k: mixture.bic for k, mixture in found.items()}
        if chosen is not found.get(len(chosen)):
            own = [p.own for p in self.partitions if p.mixture is chosen]
            costs[len(chosen)] = own[0] if own else chosen.bic
        shown = found | {len(chosen): chosen}
        unit = self.cells.scale**2
        return np.array(
            [[k, shown[k].moments.traces.sum() * unit, best - costs[k]] for k in sorted(shown)]
        )


@dataclass(frozen=True)
class _Partition:
    """A k-means partition of the cells, with two classification BICs: with one variance for all
    clusters, and with a shape for each."""

    mixture: Mixture
    equal: float
    own: float


def _partitions(cells: Cells, most: int) -> list[_Partition]:
    """Return k-means partitions of the cells into every number of clusters up to `most`."""
    found = []
    n, d = cells.n_rows, cells.n_columns
    rng = np.random.default_rng(0)
    for solution in solve_each(cells.points, cells.counts, most, rng=rng, fast=cells.fast):
        mixture = mixtures.from_labels(cells, solution.labels)
        moments = mixture.moments
        sizes = -float(moments.counts @ np.log(moments.counts / n)) + n * d / 2 * (1 + LOG_2PI)
        variance = max(float(moments.traces.sum()) / (n * d), 1e-12)
        penalty = cells.log_rows / 2 * len(mixture) * (d + 1)
        equal = sizes + n * d / 2 * float(np.log(variance)) + penalty
        own = float(mixtures.hard_costs(cells, moments).sum()) - cells.log_rows / 2
        found.append(_Partition(mixture, equal, own))
    return found


def _without_mixed(cells: Cells, most: int | None) -> tuple[Cells, Found]:
    """Drop cells of small clients that hold rows of several clusters, as far as they are seen.

    Such cells form heaps between clusters. If more than half of the rows were in them, they were no
    exceptions among clusters, and nothing is dropped.
    """
    kept = everything = (cells, search(cells, most))
    for _ in range(4):
        cells, found = kept
        best = found.mixtures[found.best]
        heaps = _mixed_heaps(cells, best)
        clean = np.isin(best.owners, np.flatnonzero(~heaps))
        rows = float(cells.counts[clean].sum())
        if not heaps.any() or clean.all() or rows < 10 * MIN_ROWS:
            break
        parts = cells.points[clean], cells.counts[clean], cells.sse[clean]
        rest = Cells.of(*parts, cells.grain, cells.backend)
        middle = cells.in_units(rest.middle[None])[0]
        scale, seen = cells.scale * rest.scale, cells.seen[rest.seen]
        rest = replace(rest, middle=middle, scale=scale, seen=seen)
        kept = rest, search(rest, most)
    if kept[0].n_rows < MOST_CLEAN * everything[0].n_rows:
        return everything
    return kept


def _mixed_heaps(cells: Cells, mixture: Mixture) -> np.ndarray:
    """Tell which components are heaps of mixed cells: their bulk (95 %) holds the means of at least
    two others that have less than a quarter of their variance."""
    from scipy.special import chdtri

    moments, shapes = mixture.moments, mixture.shapes
    variance = moments.traces / np.maximum(moments.counts, 1e-9)
    bulk = max(float(chdtri(cells.n_columns, 0.05)), 1.5 * cells.n_columns)
    heaps = np.zeros(len(mixture), dtype=bool)
    for j in range(len(mixture)):
        away = moments.means - moments.means[j]
        reduced = away @ cells.basis
        squared = (away**2).sum(axis=1) - ((reduced @ shapes.pulls[j]) * reduced).sum(axis=1)
        inside = (squared / shapes.variances[j] < bulk) & (variance < variance[j] / NARROW)
        heaps[j] = inside.sum() >= 2
    return heaps
