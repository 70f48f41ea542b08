r"""The algorithms of FeCA for many clients and many centers, with the bits of the plain ones.

:mod:`fedjigsaw.methods.feca` has the algorithms as the paper has them, one client and one group at
a time. Here, :func:`refine_many` works on the clients of a batch at once, and
:func:`group_by_radius` finds groups among more centers than all pairs of them fit into memory.

Symbols: a cluster i has center :math:`c_i`, count :math:`n_i` and objective
:math:`G_i = \sum_{x \in D_i} \|x - c_i\|^2`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import Solution
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.threads import available_threads

AT_A_TIME = 2**17  # distances between centers: they fit the cache
LOOK_AHEAD = 2**24  # pairs of centers in one matrix product
MANY = 10_000  # centers, from where on a tree may pay
VISITED = 0.03  # share of the leaves of a tree that a circle may touch
LEAF, QUERIES, NEIGHBORS = 10, 1000, 50  # centers of a leaf, circles at once, centers in a circle

Number = TypeVar("Number", float, Floats)
# candidates for the groups of the next centers among those that are left
Find = Callable[[Ints, Ints], Iterator[Ints]]


def merged_sse(
    count_p: Number, count_q: Number, sse_p: Number, sse_q: Number, distance: Number
) -> Number:
    r"""Return the objective of the union of two clusters, from their statistics alone.

    .. math:: G_j = G_p + G_q + \frac{n_p n_q}{n_p + n_q} \|c_p - c_q\|^2

    Examples
    --------
    >>> merged_sse(1, 1, 0.0, 0.0, distance=2.0)  # the points -1 and 1
    2.0
    """
    return sse_p + sse_q + count_p * count_q / (count_p + count_q) * (distance * distance)


def refine_many(found: Sequence[Solution], *, drop: bool = True) -> list[tuple[Solution, Floats]]:
    """Return the clusters of many clients without one-fit-many centers, and their radii.

    They have the bits of `client_update` and `radius_assign` of :mod:`fedjigsaw.methods.feca` for
    each client alone.

    Parameters
    ----------
    drop : whether one-fit-many centers are dropped.

    Examples
    --------
    >>> from fedjigsaw.kernels.kmeans import partition_of
    >>> X, labels = np.array([[-1.0], [0], [1], [10], [20]]), np.array([0, 0, 1, 2, 2])
    >>> ((kept, radii),) = refine_many([partition_of(X, labels)])
    >>> kept.centers.tolist(), kept.labels.tolist(), radii.tolist()
    ([[-0.5], [1.0]], [0, 0, 1, -1, -1], [0.5, 0.0])
    """
    most = max((len(one.centers) for one in found), default=1)
    step = max(1, AT_A_TIME // most**2)
    return [
        refined
        for start in range(0, len(found), step)
        for refined in _refine_block(found[start : start + step], drop)
    ]


def _refine_block(found: Sequence[Solution], drop: bool) -> Iterator[tuple[Solution, Floats]]:
    sizes = np.array([len(one.centers) for one in found])
    there = np.arange(sizes.max()) < sizes[:, None]  # clients have unequal numbers of centers
    centers, counts, sse, extents = (
        np.concatenate([getattr(one, name) for one in found])
        for name in ("centers", "counts", "sse", "extents")
    )
    distances = _distances_within(there, centers)
    kept = there
    if drop:
        kept = _kept(there, distances, _padded(there, counts, 1.0), _padded(there, sse, 0.0))
        distances.transpose(0, 2, 1)[there & ~kept] = np.inf
    flat = kept[there]
    radii = np.minimum(extents, distances.min(axis=2)[there] / 2)[flat]
    parts = (centers[flat], counts[flat], sse[flat], extents[flat])
    places = np.full((len(found), there.shape[1] + 1), -1)  # the last one: rows without a label
    places[:, :-1][kept] = (kept.cumsum(axis=1) - 1)[kept]
    ends = kept.sum(axis=1).cumsum().tolist()
    start = 0
    for one, place, end in zip(found, places, ends, strict=True):
        if end - start < len(one.centers):
            values = [part[start:end] for part in parts]
            one = Solution(values[0], place[one.labels], *values[1:])
        yield one, radii[start:end]
        start = end


def _kept(there: Any, distances: Floats, counts: Floats, sse: Floats) -> Any:
    """Tell which of the centers of each client stay: shape (m, k)."""
    kept = there.copy()
    spread = np.where(kept, np.sqrt(sse / counts), -np.inf)
    still = np.flatnonzero(kept.sum(axis=1) > 2)  # clients that may drop another one
    distances = distances[still]
    while len(still):
        rows = np.arange(len(still))
        i = spread[still].argmax(axis=1)
        p, q = np.divmod(distances.reshape(len(still), -1).argmin(axis=1), kept.shape[1])
        merged = merged_sse(
            counts[still, p], counts[still, q], sse[still, p], sse[still, q], distances[rows, p, q]
        )
        drops = sse[still, i] >= merged
        still, i, distances = still[drops], i[drops], distances[drops]
        rows = rows[: len(still)]
        kept[still, i] = False
        spread[still, i] = -np.inf
        distances[rows, i, :] = distances[rows, :, i] = np.inf
        more = kept[still].sum(axis=1) > 2
        still, distances = still[more], distances[more]
    return kept


def _padded(there: Any, values: Floats, fill: float) -> Floats:
    """Put the values of all clients into a table with one line for each client."""
    made = np.full((*there.shape, *values.shape[1:]), fill)
    made[there] = values
    return made


def distances_within(centers: Floats) -> Floats:
    """Return the distances between centers: infinite from each to itself.

    Examples
    --------
    >>> distances_within(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [[inf, 5.0], [5.0, inf]]
    """
    found: Floats = _distances_within(np.ones((1, len(centers)), dtype=bool), centers)[0]
    return found


def _distances_within(there: Any, centers: Floats) -> Floats:
    """Return distances between the centers of each client: shape (m, k, k).

    That of a center to itself is infinite, as is any to a place without a center. Columns are added
    one by one, so the bits depend neither on the other clients nor on the processor: a compiler may
    fuse the products and sums of scipy's distances.
    """
    (m, k), own = there.shape, np.arange(there.shape[1])
    columns = _padded(there, centers, np.nan).transpose(2, 1, 0).copy()  # clients last: fast
    squared, difference = np.zeros((k, k, m)), np.empty((k, k, m))
    for column in columns:
        np.subtract(column[:, None], column, out=difference)
        np.multiply(difference, difference, out=difference)
        squared += difference
    squared[np.isnan(squared)] = np.inf
    squared[own, own] = np.inf
    return np.sqrt(squared, out=squared).transpose(2, 0, 1).copy()


# ----------------------------------------------------------------------------- many centers


def group_by_radius(centers: Floats, radii: Floats) -> list[Ints]:
    """Return the groups of Algorithm 5, as `fedjigsaw.methods.feca.groups_within_radii` does.

    It works ahead: for the next centers in order, one matrix product in single precision finds
    candidates, and exact distances are computed only for those. It needs some tens of megabytes in
    addition to the input. Where circles are small, a tree finds the candidates.

    Examples
    --------
    >>> centers = np.array([[0.0], [1.0], [9.0], [2.5]])
    >>> groups = group_by_radius(centers, np.array([1.0, 2.0, 0.5, 0.1]))
    >>> [group.tolist() for group in groups]
    [[1, 0, 3], [2]]
    """
    order = np.lexsort((*centers.T[::-1], -radii))
    C, R = centers[order], radii[order]
    sparse = len(C) >= MANY and _are_sparse(C, R)
    find = _by_tree(C, R) if sparse else _by_products(C, R)
    free = np.ones(len(C), dtype=bool)
    groups: list[Ints] = []
    while len(rest := np.flatnonzero(free)):
        ahead = rest[: QUERIES if sparse else max(1, LOOK_AHEAD // len(rest))]
        for i, near in zip(ahead, find(ahead, rest), strict=True):
            if not free[i]:
                continue
            group = near
            if len(near) > 1:
                group = near[free[near]]
                group = group[pairwise_distances(C[i : i + 1], C[group])[0] <= R[i]]
            free[group] = free[i] = False
            groups.append(order[group])
    return groups


def _are_sparse(C: Floats, R: Floats) -> bool:
    """Tell whether few leaves of a tree are near a circle, and few centers are inside of it.

    Half of the leaves lie on each side of a median, and circles that reach across touch both.
    """
    spread = C - np.median(C, axis=0)
    depth = min(C.shape[1], int(np.log2(len(C) / LEAF)))
    across = np.sort((np.abs(spread) <= R.mean()).mean(axis=0))[:depth]
    if np.prod((1 + across) / 2) > VISITED:
        return False
    some = slice(None, None, len(C) // 20)
    inside = pairwise_distances(C[some], C) <= R[some, None]
    return bool(inside.sum(axis=1).mean() <= NEIGHBORS)


def _by_tree(C: Floats, R: Floats) -> Find:
    """Return a function that finds candidates by a tree."""
    from scipy.spatial import cKDTree

    X = C - C.mean(axis=0)
    tree = cKDTree(X, leafsize=LEAF)
    reach = R * (1 + 1e-9) + 1e-12 * np.abs(X).max()  # no candidate is missed

    def find(ahead: Ints, rest: Ints) -> Iterator[Ints]:
        options = {"return_sorted": True, "workers": available_threads()}
        found = tree.query_ball_point(X[ahead], reach[ahead], **options)
        return (np.array(near) for near in found)

    return find


def _by_products(C: Floats, R: Floats) -> Find:
    r"""Return a function that finds candidates by products in single precision.

    :math:`\|c_i - c_j\| \le r_i` implies :math:`(LR^T)_{ij} \le 0`. An entry is
    :math:`\|c_i\|^2 - 2 c_i \cdot c_j + \|c_j\|^2 - r_i^2`, with the norms reduced by a bound on
    rounding errors: there may be false positives, but no false negatives.
    """
    shifted = C - C.mean(axis=0)
    scale = max(np.abs(shifted).max(), R.max()) or 1.0  # keeps squares in range
    shifted, reach = shifted / scale, R / scale
    slack = 2 * (C.shape[1] + 8) * float(np.finfo(np.float32).eps)
    norms = np.einsum("ij,ij->i", shifted, shifted) * (1 - slack)
    ones = np.ones(len(C))
    # 1e-30 covers squares that underflow in single precision
    left = np.column_stack([-2 * shifted, norms - reach**2 * (1 + slack) - 1e-30, ones])
    right = np.column_stack([shifted, ones, norms]).astype(np.float32)
    left = left.astype(np.float32)

    def find(ahead: Ints, rest: Ints) -> Iterator[Ints]:
        asked, others = left[ahead], right[rest]
        mask = np.empty((len(ahead), len(rest)), dtype=bool)
        width = max(256, 2**18 // len(ahead))  # a tile of the product stays in the cache
        for start in range(0, len(rest), width):
            tile = slice(start, start + width)
            np.less_equal(asked @ others[tile].T, 0, out=mask[:, tile])
        hits = np.flatnonzero(mask)
        ends = np.searchsorted(hits, np.arange(len(ahead) + 1) * len(rest)).tolist()
        for i, (start, end) in enumerate(pairwise(ends)):
            yield rest[hits[start:end] - i * len(rest)]

    return find
