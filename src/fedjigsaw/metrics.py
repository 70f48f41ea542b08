r"""Metrics of centers and labels, all returned as floats.

Centers are compared with true centers :math:`c^*` after an optimal one-to-one matching, labels with
true classes. scikit-learn's metrics are imported lazily, so that ``import fedjigsaw`` stays fast.
"""

from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import DataError
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.matching import match


def center_mse(found: Any, true: Any) -> float:
    r"""Mean squared distance :math:`\frac1k \sum_i \|c_i - c^*_{\pi(i)}\|^2` of matched centers.

    If the numbers of centers differ, only matched pairs count.

    Examples
    --------
    >>> center_mse([[0.0, 3.0], [5.0, 5.0]], [[5.0, 5.0], [0.0, 0.0]])
    4.5
    """
    found, true = np.asarray(found, dtype=np.float64), np.asarray(true, dtype=np.float64)
    rows, partners = match(found, true)
    return float(((found[rows] - true[partners]) ** 2).sum(axis=1).mean())


def center_l2(found: Any, true: Any) -> float:
    r"""Frobenius norm of the differences of matched centers, :math:`\sqrt{k \cdot MSE}`.

    The main metric of the paper.

    Examples
    --------
    >>> center_l2([[0.0, 3.0], [5.0, 5.0]], [[5.0, 5.0], [0.0, 0.0]])
    3.0
    """
    return float(np.sqrt(min(len(found), len(true)) * center_mse(found, true)))


def purity(labels: Any, classes: Any) -> float:
    """Share of rows whose class is the most frequent one in their cluster.

    Examples
    --------
    >>> purity([0, 0, 1, 1], ["a", "a", "a", "b"])
    0.75
    """
    from sklearn.metrics.cluster import contingency_matrix

    _check_same_length(labels, classes)
    table = contingency_matrix(classes, labels)
    return float(table.max(axis=0).sum() / table.sum())


def nmi(labels: Any, classes: Any) -> float:
    r"""Normalized mutual information :math:`2 I(X; Y) / (H(X) + H(Y))`.

    Examples
    --------
    >>> nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    from sklearn.metrics import normalized_mutual_info_score

    _check_same_length(labels, classes)
    return float(normalized_mutual_info_score(classes, labels, average_method="arithmetic"))


def ari(labels: Any, classes: Any) -> float:
    """Rand index adjusted for chance: 1 for equal partitions, close to 0 for random labels.

    Examples
    --------
    >>> ari([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    from sklearn.metrics import adjusted_rand_score

    _check_same_length(labels, classes)
    return float(adjusted_rand_score(classes, labels))


def inertia(X: Any, centers: Any) -> float:
    r"""The k-means objective :math:`\sum_n \min_j \|x_n - c_j\|^2`.

    Examples
    --------
    >>> inertia([[0.0], [3.0]], [[1.0]])
    5.0
    """
    _, distances = nearest_centers(_rows(X), _rows(centers))
    return float(distances @ distances)


def inertia_ratio(X: Any, centers: Any, reference: Any) -> float:
    """Ratio of the objective of `centers` to that of `reference` centers on the same rows.

    Examples
    --------
    >>> inertia_ratio([[0.0], [2.0]], [[0.0]], [[1.0]])
    2.0
    """
    best = inertia(X, reference)
    if best == 0:
        raise DataError("The reference centers have inertia 0, so the ratio is undefined.")
    return inertia(X, centers) / best


def _rows(values: Any) -> Floats:
    return np.atleast_2d(np.asarray(values, dtype=np.float64))


def _check_same_length(labels: Any, classes: Any) -> None:
    if len(labels) != len(classes):
        raise DataError(f"labels and classes differ in length: {len(labels)} and {len(classes)}.")
