"""Group received centers by their radii: the server side of FeCA."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.threads import available_threads

Singles = npt.NDArray[np.float32]


def groups_by_size(centers: Floats, radii: Floats) -> list[Ints]:
    """Return the groups of :func:`group_by_radius`, the largest first; then, the larger radius.

    The means of the first k are what Algorithm 5 (ServerAggregation) of the paper returns.
    """
    # a stable sort: groups come in the order of their radii
    return sorted(group_by_radius(centers, radii), key=len, reverse=True)


def means_of(centers: Floats, groups: Sequence[Ints]) -> Floats:
    """Return the mean of the centers of each group."""
    return np.stack([centers[group].mean(axis=0) for group in groups])


def group_by_radius(centers: Floats, radii: Floats) -> list[Ints]:
    """Group received centers: the loop of Algorithm 5 (ServerAggregation) of the paper.

    Repeatedly, the ungrouped center with the largest radius forms a group with all ungrouped
    centers within that radius. Ties are broken by coordinates, so that the order of the clients
    does not matter.

    The implementation works ahead: for the next centers in order, one matrix product in single
    precision finds candidates, and exact distances are computed only for those. It needs some tens
    of megabytes in addition to the input. Where circles are small, a tree finds the candidates.

    Returns
    -------
    row indices of each group, by decreasing radius; groups are in the order of their creation.

    Examples
    --------
    >>> centers = np.array([[0.0], [1.0], [9.0], [2.5]])
    >>> groups = group_by_radius(centers, np.array([1.0, 2.0, 0.5, 0.1]))
    >>> [group.tolist() for group in groups]
    [[1, 0, 3], [2]]
    """
    rows = np.lexsort((*centers.T[::-1], -radii))  # ungrouped centers, in the order of the loop
    if len(rows) >= MANY and _are_sparse(centers, radii):
        return _by_tree(centers, radii, rows)
    left, right = _factors(centers, radii)
    groups: list[Ints] = []
    while len(rows):
        taken = np.zeros(len(rows), dtype=bool)
        n_ahead = max(1, _LOOK_AHEAD // len(rows))
        for i, near in enumerate(_maybe_within(left[rows[:n_ahead]], right[rows])):
            if taken[i]:
                continue
            group = near[~taken[near]]
            if len(group) > 1:
                distances = pairwise_distances(centers[rows[i : i + 1]], centers[rows[group]])[0]
                group = group[distances <= radii[rows[i]]]
            taken[group] = True
            taken[i] = True  # guarantees that the loop ends
            groups.append(rows[group])
        rows = rows[~taken]
    return groups


_LOOK_AHEAD = 2**24  # pairs of centers in one matrix product
MANY = 10_000  # centers, from where on a tree may pay
VISITED = 0.03  # share of the leaves of a tree that a circle may touch
LEAF, QUERIES, NEIGHBORS = 10, 1000, 50  # centers of a leaf, circles at once, centers in a circle


def _are_sparse(centers: Floats, radii: Floats) -> bool:
    """Tell whether few leaves of a tree are near a circle, and few centers are inside of it.

    Half of the leaves lie on each side of a median, and circles that reach across touch both.
    """
    spread = centers - np.median(centers, axis=0)
    depth = min(centers.shape[1], int(np.log2(len(centers) / LEAF)))
    across = np.sort((np.abs(spread) <= radii.mean()).mean(axis=0))[:depth]
    if np.prod((1 + across) / 2) > VISITED:
        return False
    some = slice(None, None, len(centers) // 20)
    inside = pairwise_distances(centers[some], centers) <= radii[some, None]
    return bool(inside.sum(axis=1).mean() <= NEIGHBORS)


def _by_tree(centers: Floats, radii: Floats, rows: Ints) -> list[Ints]:
    """Group centers, whose neighbors a tree finds; `rows` is their order."""
    from scipy.spatial import cKDTree

    ordered = centers[rows]
    ordered -= ordered.mean(axis=0)
    tree = cKDTree(ordered, leafsize=LEAF)
    reach = radii[rows] * (1 + 1e-9) + 1e-12 * np.abs(ordered).max()  # candidates: none is missed
    taken = np.zeros(len(rows), dtype=bool)
    groups: list[Ints] = []
    for start in range(0, len(rows), QUERIES):
        ahead = start + np.flatnonzero(~taken[start : start + QUERIES])
        found = tree.query_ball_point(
            ordered[ahead], reach[ahead], return_sorted=True, workers=available_threads()
        )
        for i, near in zip(ahead, found, strict=True):
            if taken[i]:
                continue
            if len(near) == 1:  # itself
                groups.append(rows[i : i + 1])
                continue
            group = np.array(near)
            group = group[~taken[group]]
            if len(group) > 1:
                own = rows[group]
                distances = pairwise_distances(centers[rows[i : i + 1]], centers[own])[0]
                group = group[distances <= radii[rows[i]]]
            taken[group] = True
            taken[i] = True
            groups.append(rows[group])
    return groups


def _factors(centers: Floats, radii: Floats) -> tuple[Singles, Singles]:
    r"""Return L and R such that :math:`(LR^T)_{ij} \le 0` if :math:`\|c_i - c_j\| \le r_i`.

    An entry is :math:`\|c_i\|^2 - 2 c_i \cdot c_j + \|c_j\|^2 - r_i^2`, with the norms reduced by a
    bound on rounding errors in single precision: there may be false positives, but no false
    negatives.
    """
    shifted = centers - centers.mean(axis=0)
    scale = max(np.abs(shifted).max(), radii.max()) or 1.0  # keeps squares in range
    shifted, reach = shifted / scale, radii / scale
    slack = 2 * (centers.shape[1] + 8) * float(np.finfo(np.float32).eps)
    norms = np.einsum("ij,ij->i", shifted, shifted) * (1 - slack)
    ones = np.ones(len(centers))
    # 1e-30 covers squares that underflow in single precision
    left = np.column_stack([-2 * shifted, norms - reach**2 * (1 + slack) - 1e-30, ones])
    right = np.column_stack([shifted, ones, norms])
    return left.astype(np.float32), right.astype(np.float32)


def _maybe_within(left: Singles, right: Singles) -> Iterator[Ints]:
    """Yield, for each row of `left`, the candidate rows of `right`, ascending."""
    mask = np.empty((len(left), len(right)), dtype=bool)
    width = max(256, 2**18 // len(left))  # a tile of the product stays in the cache
    for start in range(0, len(right), width):
        tile = slice(start, start + width)
        np.less_equal(left @ right[tile].T, 0, out=mask[:, tile])
    hits = np.flatnonzero(mask)
    ends = np.searchsorted(hits, np.arange(1, len(left) + 1) * len(right))
    start = 0
    for i, end in enumerate(ends):
        yield hits[start:end] - i * len(right)
        start = end
