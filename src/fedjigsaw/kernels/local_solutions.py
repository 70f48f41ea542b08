r"""Structure of local solutions of k-means: which centers to keep, and their radii.

A locally optimal solution has a known structure: some centers lie between several true clusters
(*one-fit-many*), others share one true cluster (*many-fit-one*), and the rest are correct.
See Qian, Zhang and Chen (2021) and Section 3.1 of the Jigsaw paper.

Symbols: a cluster i has center :math:`c_i`, count :math:`n_i` and objective
:math:`G_i = \sum_{x \in D_i} \|x - c_i\|^2`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import Solution
from fedjigsaw.kernels.matching import pairwise_distances

AT_A_TIME = 2**17  # distances between centers: they fit the cache

Number = TypeVar("Number", float, Floats)


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
    return sse_p + sse_q + count_p * count_q / (count_p + count_q) * distance**2


def drop_one_fit_many(centers: Floats, counts: Floats, sse: Floats) -> Ints:
    r"""Select the centers to keep: Algorithm 2 (ClientUpdate) of the paper.

    The cluster with the largest spread :math:`\sqrt{G_i / n_i}` is the candidate for one-fit-many,
    the closest pair of centers the candidate for many-fit-one. If :math:`G_i` is at least the
    objective of the merged pair, a center seems to be missing in cluster i and one too many in the
    pair: i is dropped, and the search continues with the remaining centers until only two are left.

    Returns
    -------
    indices of the centers to keep, ascending.

    Examples
    --------
    Two centers share the cluster at 0; one lies between the clusters at 10 and 20.

    >>> centers = np.array([[-0.5], [0.5], [15.0]])
    >>> drop_one_fit_many(centers, np.array([9, 9, 18]), np.array([1, 1, 450]))
    array([0, 1])
    """
    there = np.ones((1, len(centers)), dtype=bool)
    distances = _distances_within(there, centers)
    return np.flatnonzero(_kept(there, distances, counts[None], sse[None])[0])


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


def empirical_radii(centers: Floats, extents: Floats) -> Floats:
    r"""Compute one radius per center: Algorithm 4 (RadiusAssign, empirical) of the paper.

    :math:`r_i = \min(r'_i, \frac12 \min_{j \ne i} \|c_i - c_j\|)`, where :math:`r'_i` is the extent
    of cluster i, the largest distance of a row to its center. The radius of a single center is its
    extent.

    Examples
    --------
    >>> empirical_radii(np.array([[0.0], [4.0], [20.0]]), np.array([3.0, 1.0, 5.0]))
    array([2., 1., 5.])
    """
    distances = _distances_within(np.ones((1, len(centers)), dtype=bool), centers)
    radii: Floats = np.minimum(extents, distances[0].min(axis=1) / 2)
    return radii


def theoretical_radii(centers: Floats, extents: Floats) -> Floats:
    r"""Compute one radius for all centers: Algorithm 3 (RadiusAssign, theoretical) of the paper.

    Pairs of nearest centers whose clusters overlap (:math:`r'_i + r'_j > d_{ij}`) are considered
    many-fit-one, and both are set aside. Half the smallest distance among the other centers is the
    radius of *all* centers.

    The paper leaves two questions open. In which order are pairs examined? Here, the closest first,
    so that the order of the centers does not matter. What if fewer than two centers remain, as
    happens if clusters are not separated balls? Here, the empirical radii are used instead.

    Examples
    --------
    The clusters of the two centers near 0 overlap; the other centers are 10 apart.

    >>> theoretical_radii(np.array([[-0.5], [0.5], [20.0], [30.0]]), np.array([1.0, 1.0, 1.0, 1.0]))
    array([5., 5., 5., 5.])
    """
    order = np.lexsort(centers.T[::-1])  # break ties by coordinates
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


# ----------------------------------------------------------------------------- many clients


def refine_many(found: Sequence[Solution], *, drop: bool = True) -> list[tuple[Solution, Floats]]:
    """Return the clusters of many clients without one-fit-many centers, and their radii.

    Centers and radii have the bits of :func:`drop_one_fit_many` and :func:`empirical_radii` for
    each client alone. A row of a cluster that was dropped has the label -1.

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


def _padded(there: Any, values: Floats, fill: float) -> Floats:
    """Put the values of all clients into a table with one line for each client."""
    made = np.full((*there.shape, *values.shape[1:]), fill)
    made[there] = values
    return made


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
