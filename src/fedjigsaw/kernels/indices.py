"""Indices of a clustering: separation, and dependence on the clients."""

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.nearest import nearest_two

SKEWED = 1.0  # bits; from here on knowing the client halves the clusters that a row may be in


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
    own, other, *_ = nearest_two(*2 * [centers - centers.mean(axis=0)], fast=False)
    nearest = np.where(own == np.arange(len(centers)), other, own)
    to_other = np.hypot(spread, np.linalg.norm(centers - centers[nearest], axis=1))
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
    from scipy.special import rel_entr

    if not table.any():
        return 0.0
    joint = table / table.sum()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return max(0.0, float(rel_entr(joint, independent).sum() / np.log(2)))
