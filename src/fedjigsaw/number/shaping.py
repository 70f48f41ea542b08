"""Clusters of a given number or shape: components are merged, or joined where no valley is."""

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.kernels.solver import solve
from fedjigsaw.number.cells import Cells
from fedjigsaw.number.mixtures import (
    MIN_ROWS,
    START_BACKGROUND,
    Mixture,
    fit,
    from_labels,
    moments_of,
    shapes_of,
)
from fedjigsaw.number.search import Found, merge_best
from fedjigsaw.number.valleys import NONE, Valleys

ROUND, ELONGATED, ANY = SHAPES = ("round", "elongated", "any")
JOIN = 5.0  # standard errors below which a valley does not part two pieces of a bent cluster


def exactly(cells: Cells, found: Found, k: int) -> Mixture:
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
            mixture = fit(cells, merge_best(cells, mixture))
        candidates.append(mixture)
    rng = np.random.default_rng(0)
    partition = from_labels(
        cells, solve(cells.points, cells.counts, k, rng=rng, fast=cells.fast).labels
    )
    candidates.append(refit(cells, partition))
    if all(len(mixture) != k for mixture in candidates):
        candidates.append(partition)
    return min(candidates, key=lambda mixture: (_n_missing(mixture, k), mixture.bic))


def _n_missing(mixture: Mixture, k: int) -> tuple[int, int]:
    """Return how many components are lacking, or too many: those with enough rows, and all.

    Whoever asks for k clusters does not mean fewer and some odd rows, which often fit best.
    """
    n_large = int((mixture.moments.counts >= MIN_ROWS).sum())
    return abs(n_large - k), abs(len(mixture) - k)


def refit(cells: Cells, mixture: Mixture) -> Mixture:
    """Run EM with a background; return the mixture as it is if a component would vanish."""
    background = START_BACKGROUND * cells.n_rows
    start = Mixture(mixture.moments, mixture.shapes, background)
    fitted = fit(cells, start, max_iter=40)
    if len(fitted) == len(mixture):
        return fitted
    return Mixture(mixture.moments, mixture.shapes, 0.0, mixture.bic, mixture.shares)


def groups_of(
    mixture: Mixture, hills: Valleys, k: int | None = None, most: int | None = None
) -> Ints:
    """Return the group of each component: those that no valley parts are in the same one.

    Parameters
    ----------
    k : number of groups; the shallowest valleys are ignored until there are so many. None ignores
        all below :data:`JOIN`.
    most : the largest number of groups, or None for no limit.
    """
    means, groups = mixture.moments.means, np.arange(len(mixture))
    n_groups = len(groups)
    pairs = [(depth, 0.0, *pair) for pair, depth in hills.depths.items()]
    if (
        k or most
    ) is not None:  # components that are no neighbors are joined last, the nearest first
        for a in range(len(means)):
            far = ((means[a] - means[:a]) ** 2).sum(axis=1)
            pairs += [(NONE + 1, float(far[b]), b, a) for b in range(a)]
    for depth, _, a, b in sorted(pairs):
        if n_groups == k or (k is None and depth >= JOIN and n_groups <= (most or n_groups)):
            break
        if groups[a] != groups[b]:
            groups[groups == groups[b]] = groups[a]
            n_groups -= 1
    found: Ints = np.unique(groups, return_inverse=True)[1]
    return found


def joined(cells: Cells, mixture: Mixture, hills: Valleys, groups: Ints) -> tuple[Mixture, Valleys]:
    """Return the groups as one component each, and the shallowest valleys between them."""
    n_groups = int(groups.max()) + 1
    if n_groups == len(mixture):
        return mixture, hills
    shares = np.zeros((len(cells.counts), n_groups + 1))
    columns = np.append(groups, n_groups)[: mixture.shares.shape[1]]  # the last is the background
    np.add.at(shares.T, columns, mixture.shares.T)
    moments = moments_of(cells, shares[:, :-1])
    shapes = shapes_of(cells, moments)
    depths: dict[tuple[int, int], float] = {}
    inside = 0.0
    for (a, b), depth in hills.depths.items():
        low, high = sorted((int(groups[a]), int(groups[b])))
        if low < high:
            depths[low, high] = min(depth, depths.get((low, high), np.inf))
        elif depth < JOIN:
            inside = max(inside, depth)
    whole = Mixture(moments, shapes, mixture.background, mixture.bic, shares)
    return whole, Valleys(depths, np.arange(n_groups), inside)
