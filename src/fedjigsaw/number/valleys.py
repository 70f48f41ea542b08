"""Is there a valley between two clusters? Rows are counted in a tube between their means."""

from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.number.cells import Cells
from fedjigsaw.number.mixture import NO_VARIANCE, TINY, Mixture

BELIEVED = 3.0  # standard errors from which a valley is believed: one false one in 700
TUBE, MAX_TUBE = 0.25, 1.5  # half-width: of the distance of the means, and in deviations
STEP, MAX_STEP = 0.10, 0.5  # smoothing along the line, likewise: a pair's own width
NEIGHBORS = 6  # nearest clusters that a cluster is compared with
CLEAR = 0.25  # height of a valley, relative to the lower hill, that two Gaussians leave 5 apart
NONE = 99.0  # depth of a valley to nowhere: there is no other cluster
LEAST = 1e-9  # variance in units of the cells: less is rounding
GRID = np.linspace(-0.25, 1.25, 61)  # along the line; the means are at 0 and 1
LEFT, RIGHT = np.flatnonzero(GRID <= 0.4), np.flatnonzero(GRID >= 0.6)  # where the hills are


@dataclass(frozen=True)
class Valleys:
    """Valleys between neighboring clusters.

    Attributes
    ----------
    k : number of clusters.
    depths : for each pair of neighbors, the rows that are missing in the valley, in standard
        errors.
    inside : depth of the deepest valley inside of a cluster, if pieces were joined.
    """

    k: int
    depths: dict[tuple[int, int], float]
    inside: float = 0.0

    def n_groups(self, least: float = BELIEVED) -> int:
        """Return the number of clusters if those with a shallower valley between them are one."""
        groups = np.arange(self.k)
        for (a, b), depth in self.depths.items():
            if depth < least:
                groups[groups == groups[b]] = groups[a]
        return len(np.unique(groups))

    @property
    def closest(self) -> tuple[int, int] | None:
        """The two clusters with the shallowest valley."""
        return min(self.depths, key=lambda pair: (self.depths[pair], pair), default=None)

    def separation(self) -> Floats:
        """Return for each cluster a score between 0 and 1 of its shallowest valley.

        Examples
        --------
        >>> scores = [Valleys(2, {(0, 1): depth}).separation()[0] for depth in (0.0, 3.0, 4.0, 5.0)]
        >>> np.round(scores, 2).tolist()
        [0.0, 0.68, 0.86, 0.96]
        """
        depths = np.full(self.k, NONE)
        for pair, depth in self.depths.items():
            depths[list(pair)] = np.minimum(depths[list(pair)], depth)
        scores: Floats = 1 - np.exp(-(depths**2) / 8)
        return scores


def valleys(cells: Cells, mixture: Mixture) -> Valleys:
    """Measure the valleys between all neighbors: pairs with no third mean in between."""
    depths = {pair: depth(cells, mixture, *pair) for pair in _neighbors(mixture)}
    return Valleys(len(mixture), depths)


def are_separate(cells: Cells, mixture: Mixture) -> bool:
    """Tell whether there is a valley between any two neighbors; end at the first without one."""
    apart = mixture.moments.apart()
    pairs = sorted(_neighbors(mixture), key=lambda pair: float(apart[pair]))
    return all(depth(cells, mixture, *pair) >= BELIEVED for pair in pairs)


def _neighbors(mixture: Mixture) -> list[tuple[int, int]]:
    """Return the pairs of components that are compared."""
    squared = mixture.moments.apart()
    np.fill_diagonal(squared, 0)
    pairs: dict[tuple[int, int], None] = {}  # each once, in this order
    for a in range(len(mixture)):
        for b in np.argsort(squared[a], kind="stable")[1 : NEIGHBORS + 1].tolist():
            if not (squared[a] + squared[b] < squared[a, b]).any():  # as in Gabriel's graph
                pairs[min(a, b), max(a, b)] = None
    return list(pairs)


def depth(cells: Cells, mixture: Mixture, a: int, b: int) -> float:
    """Return how many rows are missing between two clusters, in standard errors.

    Rows in a tube around the line between the two means are counted along the line, in coordinates
    in which the average covariance of both clusters is round. With many columns, a third cluster
    may be in the tube, too. So if there is no valley, the rows of the two alone are counted; these
    must leave a clear one, since pieces of one cluster with rows of a third piece in between would
    leave a shallow one.
    """
    if (a, b) in mixture.depths:
        return mixture.depths[a, b]
    moments, (d, r) = mixture.moments, cells.basis.shape
    rows = np.maximum(moments.counts[[a, b]], NO_VARIANCE)
    covariance = (moments.scatters[[a, b]] / rows[:, None, None]).sum(axis=0) / 2
    covariance += LEAST * max(1.0, float(covariance.trace()) / r) * np.eye(r)
    inverse = np.linalg.inv(covariance)
    mean, line = moments.means[a], moments.means[b] - moments.means[a]
    offset, reduced_line = cells.reduced - mean @ cells.basis, line @ cells.basis
    pulled_line = inverse @ reduced_line
    squared, dot = ((offset @ inverse) * offset).sum(axis=1), offset @ pulled_line
    length = float(reduced_line @ pulled_line)
    if d > r:  # all other axes have one variance
        trace = float((moments.traces[[a, b]] / rows).sum()) / 2
        rest = max((trace - float(covariance.trace())) / (d - r), LEAST)
        apart = cells.norms - 2 * cells.points @ mean + mean @ mean
        squared += np.maximum(apart - (offset**2).sum(axis=1), 0) / rest
        dot += ((cells.points - mean) @ line - offset @ reduced_line) / rest
        length += max(float(line @ line - reduced_line @ reduced_line), 0) / rest
    length = max(length, NO_VARIANCE)
    # position (0 and 1 are the means), squared distance from the line, variance within the cell
    along = dot / length
    across = np.maximum(squared - along * dot, 0) / length
    spread = cells.variances * float(pulled_line @ pulled_line) / length**2
    width = min(TUBE**2, MAX_TUBE**2 / length)
    own = (mixture.owners == a) | (mixture.owners == b)
    if own.any():
        width = max(width, float(np.median(across[own])))
    weights = np.exp(-across / (2 * width))
    inside = np.flatnonzero((weights > 1e-4) & (along > -1) & (along < 2))
    smooth = spread[inside] + min(STEP**2, MAX_STEP**2 / length)
    kernel = np.exp(-((GRID[:, None] - along[inside]) ** 2) / (2 * smooth))
    kernel /= np.sqrt(2 * np.pi * smooth)
    counts, weights = cells.counts[inside], weights[inside]
    found, _ = _missing(kernel, counts, weights)
    if found < BELIEVED:
        others = np.delete(mixture.shares[inside, : len(mixture)], [a, b], axis=1).sum(axis=1)
        alone, ratio = _missing(kernel, counts * (1 - others), weights)
        found = alone if ratio <= CLEAR and alone >= BELIEVED else found
    mixture.depths[a, b] = found
    return found


def _missing(kernel: Floats, counts: Floats, weights: Floats) -> tuple[float, float]:
    """Compare the lowest point between two hills with the lower hill, as two Poisson counts.

    Returns
    -------
    What is missing, in standard errors, and the height of the valley relative to the hill.
    """
    density = kernel @ (counts * weights)
    first, last = LEFT[density[LEFT].argmax()], RIGHT[density[RIGHT].argmax()]
    hill = first if density[first] < density[last] else last
    height = max(float(density[hill]), TINY)
    ratio = min(float(density[first : last + 1].min()) / height, 1.0)
    variance = float(kernel[hill] ** 2 @ (counts * weights**2))
    n_rows = height**2 / max(variance, TINY)
    return float(np.sqrt(2 * n_rows) * (1 - np.sqrt(ratio))), ratio
