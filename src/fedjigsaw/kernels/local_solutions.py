r"""Structure of local solutions of k-means: which centers to keep, and their radii.

A locally optimal solution has a known structure: some centers lie between several true clusters
(*one-fit-many*), others share one true cluster (*many-fit-one*), and the rest are correct.
See Qian, Zhang and Chen (2021) and Section 3.1 of the Jigsaw paper.

Symbols: a cluster i has center :math:`c_i`, count :math:`n_i` and objective
:math:`G_i = \sum_{x \in D_i} \|x - c_i\|^2`.
"""

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances


def merged_sse(
    count_p: float, count_q: float, sse_p: float, sse_q: float, distance: float
) -> float:
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
    objective of the merged pair, a second center in cluster i would have been better than two in
    the pair: i is dropped, and the search continues with the remaining centers until only two are
    left.

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
    r"""Compute one radius per center: Algorithm 4 (RadiusAssign, empirical) of the paper.

    :math:`r_i = \min(r'_i, \frac12 \min_{j \ne i} \|c_i - c_j\|)`, where :math:`r'_i` is the extent
    of cluster i, the largest distance of a row to its center. The radius of a single center is its
    extent.

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
