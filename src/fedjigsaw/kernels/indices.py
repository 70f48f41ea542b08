"""Indices of a clustering: number of clusters, separation, dependence on the clients."""

import numpy as np
from scipy.special import rel_entr

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances


def calinski_harabasz(
    n_clusters: Ints, objectives: Floats, n_points: float, n_features: int
) -> Floats:
    r"""Calinski-Harabasz index of clusterings of one data set, from their objectives alone.

    The larger the index, the better the clustering:

    .. math:: \frac{(G_1 - G_k) / (k - 1)^e}{G_k / (n - k)}

    for n points, with the objective :math:`G_k` of k clusters and e = 1. For one feature (or
    several, one of which dominates), e is 2: there :math:`G_k` falls as :math:`k^{-2}` even without
    any clusters, and with e = 1 a larger k would always seem better.

    Parameters
    ----------
    n_clusters, objectives : shape (n,), k and :math:`G_k` of each clustering. The first one must
        have one cluster, with which the others are compared; its index is minus infinity.

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
    index[np.isnan(index)] = np.inf  # every row lies at its center
    index[0] = -np.inf
    return index


def effective_dimension(centers: Floats, counts: Floats, sse: Floats) -> int:
    r"""Return the effective dimension of the data: :math:`(\sum_j v_j)^2 / \sum_j v_j^2`, rounded.

    :math:`v_j` are the variances along the principal axes of all rows: those of the
    centers, plus in each direction an equal share of the variance within local clusters. Columns on
    very different scales count as one.
    """
    n, d = counts.sum(), centers.shape[1]
    offset = centers - np.average(centers, axis=0, weights=counts)
    scale = np.abs(offset).max() or 1.0  # squares of squares stay in range
    offset = offset / scale
    within = sse.sum() / (n * d)
    unit = max(scale**2, within)
    covariance = (offset * counts[:, None]).T @ offset / n * (scale**2 / unit)
    covariance += np.eye(d) * (within / unit)
    spread = (covariance**2).sum()
    return max(1, round(float(np.trace(covariance) ** 2 / spread))) if spread > 0 else d


def margins(centers: Floats, spread: Floats) -> Floats:
    r"""Separation of each cluster from the nearest other one: :math:`1 - s / \sqrt{s^2 + D^2}`.

    s is the root mean square distance of a cluster's rows to their own center, and
    :math:`\sqrt{s^2 + D^2}` their distance to the nearest other center, which is D away. Margins
    lie between 0 and 1; that of a single cluster is 1.

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


def mutual_information(table: Floats) -> float:
    r"""Mutual information of the rows and columns of a contingency table, in bits.

    :math:`\sum_{ij} p_{ij} \log_2 \frac{p_{ij}}{p_i p_j}`, where p is the table divided by its sum.
    The entries may be fractions, which :func:`sklearn.metrics.mutual_info_score` would truncate:
    counts that a client did not send are estimated.

    Examples
    --------
    >>> mutual_information(np.array([[5.0, 0.0], [0.0, 5.0]]))
    1.0
    """
    joint = table / table.sum()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return max(0.0, float(rel_entr(joint, independent).sum() / np.log(2)))
