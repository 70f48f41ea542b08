r"""Indices that judge a clustering: how many clusters, how far apart, how much clients tell."""

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances


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
