r"""What a local solution of k-means looks like, and what can be made of it.

A solution that is only locally optimal has a known shape: some centers sit in the middle of several
true clusters (*one-fit-many*), others share one true cluster (*many-fit-one*), the rest are right.
See Qian, Zhang and Chen (2021) and Section 3.1 of the Jigsaw paper.

Symbols: a cluster i has center :math:`c_i`, count :math:`n_i` and objective
:math:`G_i = \sum_{x \in D_i} \|x - c_i\|^2`.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedjigsaw._inputs import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances

Singles = npt.NDArray[np.float32]


def merged_sse(
    count_p: float, count_q: float, sse_p: float, sse_q: float, distance: float
) -> float:
    r"""Objective of two clusters put together, without touching their rows.

    .. math:: G_j = G_p + G_q + \frac{n_p n_q}{n_p + n_q} \|c_p - c_q\|^2

    Examples
    --------
    >>> merged_sse(1, 1, 0.0, 0.0, distance=2.0)  # the points -1 and 1
    2.0
    """
    return sse_p + sse_q + count_p * count_q / (count_p + count_q) * distance**2


def drop_one_fit_many(centers: Floats, counts: Floats, sse: Floats) -> Ints:
    r"""Which centers to keep: Algorithm 2 (ClientUpdate) of the paper.

    The cluster with the largest spread :math:`\sqrt{G_i / n_i}` is the candidate for one-fit-many,
    the closest pair of centers the candidate for many-fit-one. If :math:`G_i` is at least the
    objective of the merged pair, spending a center on i instead would have paid, so i is dropped
    and the search goes on. At two centers it always ends.

    Returns
    -------
    indices of the centers that stay, ascending.

    Examples
    --------
    Two centers share the cluster at 0; one sits between the clusters at 10 and 20.

    >>> centers = np.array([[-0.5], [0.5], [15.0]])
    >>> drop_one_fit_many(centers, np.array([9, 9, 18]), np.array([1, 1, 450]))
    array([0, 1])
    """
    spread = np.sqrt(sse / counts)
    distances = pairwise_distances(centers, centers)
    np.fill_diagonal(distances, np.inf)
    while np.isfinite(spread).sum() > 2:
        i = int(spread.argmax())
        p, q = divmod(int(distances.argmin()), len(centers))
        if sse[i] < merged_sse(counts[p], counts[q], sse[p], sse[q], distances[p, q]):
            break
        spread[i] = -np.inf
        distances[i, :] = distances[:, i] = np.inf
    return np.flatnonzero(np.isfinite(spread))


def empirical_radii(centers: Floats, extents: Floats) -> Floats:
    r"""One radius per center: Algorithm 4 (RadiusAssign, empirical) of the paper.

    :math:`r_i = \min(r'_i, \frac12 \min_{j \ne i} \|c_i - c_j\|)`, where :math:`r'_i` is the extent
    of cluster i, its largest distance of a row to the center. A single center keeps its extent.

    Examples
    --------
    >>> empirical_radii(np.array([[0.0], [4.0], [20.0]]), np.array([3.0, 1.0, 5.0]))
    array([2., 1., 5.])
    """
    if len(centers) == 1:
        return extents.copy()
    distances = pairwise_distances(centers, centers)
    np.fill_diagonal(distances, np.inf)
    radii: Floats = np.minimum(extents, distances.min(axis=1) / 2)
    return radii


def theoretical_radii(centers: Floats, extents: Floats) -> Floats:
    r"""The same radius for every center: Algorithm 3 (RadiusAssign, theoretical) of the paper.

    Pairs of nearest centers whose clusters touch (:math:`r'_i + r'_j > d_{ij}`) are taken for
    many-fit-one and set aside, both of them; half the smallest distance among the others is the
    radius of *all* centers. The paper leaves two things open. The order in which pairs are looked
    at: here the closest first, so that the order of the centers does not matter. And what to do
    when fewer than two centers are left, as happens on data that are not separated balls: here
    the empirical radii are used instead.

    Examples
    --------
    The two centers near 0 touch; the others are 10 apart.

    >>> theoretical_radii(np.array([[-0.5], [0.5], [20.0], [30.0]]), np.array([1.0, 1.0, 1.0, 1.0]))
    array([5., 5., 5., 5.])
    """
    order = np.lexsort(centers.T[::-1])  # ties go by coordinates
    centers, extents = centers[order], extents[order]
    distances = pairwise_distances(centers, centers)
    np.fill_diagonal(distances, np.inf)
    aside = np.zeros(len(centers), dtype=bool)
    for i in np.argsort(distances.min(axis=1), kind="stable"):
        if aside[i] or len(centers) - aside.sum() < 2:
            continue
        j = int(np.where(aside, np.inf, distances[i]).argmin())
        if extents[i] + extents[j] > distances[i, j]:
            aside[[i, j]] = True
    if len(centers) - aside.sum() < 2:
        return empirical_radii(centers, extents)[np.argsort(order)]
    return np.full(len(centers), distances[np.ix_(~aside, ~aside)].min() / 2)


def calinski_harabasz(
    n_clusters: Ints, objectives: Floats, n_points: float, n_features: int
) -> Floats:
    r"""The index of clusterings of one data set, from their objectives alone; larger is better.

    .. math:: \frac{(G_1 - G_k) / (k - 1)^e}{G_k / (n - k)}

    for n points, with the objective :math:`G_k` of k clusters and e = 1. On a line (one feature, or
    several of which one outweighs the others) e is 2: there :math:`G_k` falls with :math:`k^{-2}`
    even where there are no clusters, and with e = 1 more would always seem better.
    The first objective must be that of one cluster; its own index is minus infinity, since the
    index compares clusterings with having none.

    Examples
    --------
    >>> ks, objectives = np.array([1, 2, 3]), np.array([101.0, 1.0, 0.5])
    >>> calinski_harabasz(ks, objectives, 4, n_features=2).tolist()
    [-inf, 200.0, 100.5]
    """
    between, spare = objectives[0] - objectives, np.maximum(n_points - n_clusters, 0)
    penalty = (n_clusters - 1.0) ** max(1, 2 / n_features)
    with np.errstate(divide="ignore", invalid="ignore"):
        index: Floats = (between / penalty) / (objectives / spare)
    index[np.isnan(index)] = np.inf  # nothing is left within clusters
    index[0] = -np.inf
    return index


def margins(centers: Floats, spread: Floats) -> Floats:
    r"""How far clusters stand apart: :math:`1 - s / \sqrt{s^2 + D^2}`, between 0 and 1.

    s is the root mean square distance of a cluster's rows to their own center, and
    :math:`\sqrt{s^2 + D^2}` that to the nearest other center, at a distance D. A single cluster has
    a margin of 1.

    Examples
    --------
    >>> margins(np.array([[0.0], [4.0], [4.0]]), np.array([3.0, 1.0, 0.0])).tolist()
    [0.4, 0.0, 0.0]
    """
    if len(centers) == 1:
        return np.ones(1)
    distances = pairwise_distances(centers, centers)
    np.fill_diagonal(distances, np.inf)
    to_other = np.hypot(spread, distances.min(axis=1))
    apart = to_other > 0
    return np.where(apart, 1 - spread / np.where(apart, to_other, 1), 0.0)


def shared_information(table: Floats) -> float:
    """Mutual information of the rows and columns of a table of counts, in bits.

    Examples
    --------
    >>> shared_information(np.array([[5.0, 5.0], [1.0, 1.0]]))
    0.0
    >>> shared_information(np.array([[5.0, 0.0], [0.0, 5.0]]))
    1.0
    """
    joint = table / table.sum()
    parts = (joint.sum(axis=0), joint.sum(axis=1), -joint)
    return max(0.0, sum(_entropy(shares) for shares in parts))


def _entropy(shares: Floats) -> float:
    """In bits; of negative shares, its negative."""
    shares = shares[shares != 0]
    return -float(shares @ np.log2(np.abs(shares)))


def group_by_radius(centers: Floats, radii: Floats) -> list[Ints]:
    """Put received centers into groups: the loop of Algorithm 5 (ServerAggregation) of the paper.

    Again and again, the free center with the largest radius takes all free centers within that
    radius. Equal radii are taken in the order of their coordinates, so that the order in which
    clients arrive does not matter.

    The loop looks ahead: for the next few centers in line at once, a matrix product in single
    precision finds who may be within reach, and only those few distances are then computed
    exactly. Memory stays within some tens of megabytes beyond the input.

    Returns
    -------
    groups in the order in which they were made; each holds row indices, ordered by radius.

    Examples
    --------
    >>> centers = np.array([[0.0], [1.0], [9.0], [2.5]])
    >>> groups = group_by_radius(centers, np.array([1.0, 2.0, 0.5, 0.1]))
    >>> [group.tolist() for group in groups]
    [[1, 0, 3], [2]]
    """
    rows = np.lexsort((*centers.T[::-1], -radii))  # who is still free, the next in line first
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
            taken[i] = True  # whatever happens, the loop ends
            groups.append(rows[group])
        rows = rows[~taken]
    return groups


_LOOK_AHEAD = 2**24  # pairs of centers looked at in one go


def _factors(centers: Floats, radii: Floats) -> tuple[Singles, Singles]:
    r"""Matrices L, R whose product has :math:`(LR^T)_{ij} \le 0` if :math:`\|c_i - c_j\| \le r_i`.

    It is :math:`\|c_i\|^2 - 2 c_i \cdot c_j + \|c_j\|^2 - r_i^2`, with the norms lowered by a bound
    on the rounding in single precision: a pair may pass wrongly, but never fail wrongly.
    """
    shifted = centers - centers.mean(axis=0)
    scale = max(np.abs(shifted).max(), radii.max()) or 1.0  # keeps squares in range
    shifted, reach = shifted / scale, radii / scale
    slack = 2 * (centers.shape[1] + 8) * float(np.finfo(np.float32).eps)
    norms = np.einsum("ij,ij->i", shifted, shifted) * (1 - slack)
    ones = np.ones(len(centers))
    # the last term covers squares that are too small for single precision
    left = np.column_stack([-2 * shifted, norms - reach**2 * (1 + slack) - 1e-30, ones])
    right = np.column_stack([shifted, ones, norms])
    return left.astype(np.float32), right.astype(np.float32)


def _maybe_within(left: Singles, right: Singles) -> Iterator[Ints]:
    """For each row of `left`, the rows of `right` that it may reach, ascending."""
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
