r"""Metrics of centers and labels, all returned as floats.

Centers are compared with true centers :math:`c^*` after an optimal one-to-one matching, labels with
true classes. scikit-learn's metrics are imported lazily, so that ``import fedjigsaw`` stays fast.
"""

from typing import Any

import numpy as np

from fedjigsaw._rows import dense
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.matching import match
from fedjigsaw.validation import check_data, distinct


def center_mse(found: Any, true: Any) -> float:
    r"""Mean squared distance :math:`\frac1k \sum_i \|c_i - c^*_{\pi(i)}\|^2` of matched centers.

    If the numbers of centers differ, only matched pairs count.

    Parameters
    ----------
    found : array of shape (k, n_features)
        The centers to judge.
    true : array of shape (l, n_features)
        The true centers.

    Returns
    -------
    float
        At least 0, in squared units of the centers; 0 is best.

    Raises
    ------
    DataError
        If there are no centers, they are not finite numbers, or have different numbers of columns.

    Examples
    --------
    >>> from fedjigsaw.metrics import center_mse
    >>> center_mse([[0.0, 3.0], [5.0, 5.0]], [[5.0, 5.0], [0.0, 0.0]])
    4.5
    """
    return float(_squared_distances(found, true).mean())


def center_l2(found: Any, true: Any) -> float:
    r"""Frobenius norm of the differences of matched centers, :math:`\sqrt{k \cdot MSE}`.

    The main metric of the paper. If the numbers of centers differ, only matched pairs count.

    Parameters
    ----------
    found : array of shape (k, n_features)
        The centers to judge.
    true : array of shape (l, n_features)
        The true centers.

    Returns
    -------
    float
        At least 0, in units of the centers; 0 is best.

    Raises
    ------
    DataError
        If there are no centers, they are not finite numbers, or have different numbers of columns.

    Examples
    --------
    >>> from fedjigsaw.metrics import center_l2
    >>> center_l2([[0.0, 3.0], [5.0, 5.0]], [[5.0, 5.0], [0.0, 0.0]])
    3.0
    """
    squared = _squared_distances(found, true)
    return float(np.sqrt(len(squared) * squared.mean()))


def purity(*positional: Any, labels_true: Any = None, labels_pred: Any = None) -> float:
    """Share of rows whose class is the most frequent one in their cluster.

    It is not symmetric, so it must be called with keywords, those of scikit-learn's metrics. Many
    small clusters are pure by chance: compare only models with the same number of clusters.

    Parameters
    ----------
    labels_true : array of shape (n_samples,)
        The class of each row, as numbers or texts.
    labels_pred : array of shape (n_samples,)
        The cluster of each row.

    Returns
    -------
    float
        Above 0 and at most 1; 1 is best.

    Raises
    ------
    ParameterError
        If it is called without keywords.
    DataError
        If the two differ in length, are empty, or have missing values.

    Examples
    --------
    >>> from fedjigsaw.metrics import purity
    >>> purity(labels_true=["a", "a", "a", "b"], labels_pred=[0, 0, 1, 1])
    0.75
    """
    from sklearn.metrics.cluster import contingency_matrix

    if positional or labels_true is None or labels_pred is None:
        raise ParameterError(
            "purity needs keywords, since clusters and classes are easily swapped: "
            "purity(labels_true=classes, labels_pred=clusters)."
        )
    table = contingency_matrix(*_codes(labels_true, labels_pred, "purity"))
    return float(table.max(axis=0).sum() / table.sum())


def nmi(labels_true: Any, labels_pred: Any) -> float:
    r"""Normalized mutual information :math:`2 I(X; Y) / (H(X) + H(Y))`. It is symmetric.

    Parameters
    ----------
    labels_true : array of shape (n_samples,)
        The class of each row, as numbers or texts.
    labels_pred : array of shape (n_samples,)
        The cluster of each row.

    Returns
    -------
    float
        From 0 for labels that tell nothing about the classes to 1 for equal partitions.

    Raises
    ------
    DataError
        If the two differ in length, are empty, or have missing values.

    Examples
    --------
    >>> from fedjigsaw.metrics import nmi
    >>> nmi(["b", "b", "a", "a"], [0, 0, 1, 1])
    1.0
    """
    from sklearn.metrics import normalized_mutual_info_score

    codes = _codes(labels_true, labels_pred, "nmi")
    return float(normalized_mutual_info_score(*codes, average_method="arithmetic"))


def ari(labels_true: Any, labels_pred: Any) -> float:
    """Rand index adjusted for chance: 1 for equal partitions, close to 0 for random labels.

    It is symmetric.

    Parameters
    ----------
    labels_true : array of shape (n_samples,)
        The class of each row, as numbers or texts.
    labels_pred : array of shape (n_samples,)
        The cluster of each row.

    Returns
    -------
    float
        At most 1; below 0 if there is less agreement than by chance.

    Raises
    ------
    DataError
        If the two differ in length, are empty, or have missing values.

    Examples
    --------
    >>> from fedjigsaw.metrics import ari
    >>> ari(["b", "b", "a", "a"], [0, 0, 1, 1])
    1.0
    >>> ari([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_codes(labels_true, labels_pred, "ari")))


def inertia(X: Any, centers: Any) -> float:
    r"""The k-means objective :math:`\sum_n \min_j \|x_n - c_j\|^2`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    centers : array of shape (k, n_features)

    Returns
    -------
    float
        At least 0, in squared units of the columns; smaller is better for the same number of
        centers.

    Raises
    ------
    DataError
        If the two have different numbers of columns, there are no centers, or a number is missing.

    Examples
    --------
    >>> from fedjigsaw.metrics import inertia
    >>> inertia([[0.0], [3.0]], [[1.0]])
    5.0
    """
    rows, found = _rows(X, "X"), _rows(centers, "the centers")
    if rows.shape[1] != found.shape[1]:
        shapes = f"{rows.shape} and {found.shape}"
        raise DataError(f"X and centers must have equally many columns; got shapes {shapes}.")
    _, distances = nearest_centers(rows, found)
    return float(distances @ distances)


def inertia_ratio(X: Any, centers: Any, reference: Any) -> float:
    """Ratio of the objective of `centers` to that of `reference` centers on the same rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    centers : array of shape (k, n_features)
        The centers to judge.
    reference : array of shape (l, n_features)
        The centers to compare with, such as those of k-means on all rows.

    Returns
    -------
    float
        1 if both are equally good; 1.1 means that `centers` have a 10 % larger objective.

    Raises
    ------
    DataError
        If numbers of columns differ, or the objective of `reference` is 0.

    Examples
    --------
    >>> from fedjigsaw.metrics import inertia_ratio
    >>> inertia_ratio([[0.0], [2.0]], [[0.0]], [[1.0]])
    2.0
    """
    best = inertia(X, reference)
    if best == 0:
        raise DataError("The reference centers have inertia 0, so the ratio is undefined.")
    return inertia(X, centers) / best


def _squared_distances(found: Any, true: Any) -> Floats:
    """Return the squared distance of each pair of matched centers."""
    ours, others = _rows(found, "the found centers"), _rows(true, "the true centers")
    rows, partners = match(ours, others)
    squared: Floats = ((ours[rows] - others[partners]) ** 2).sum(axis=1)
    return squared


def _rows(values: Any, owner: str) -> Floats:
    return dense(check_data(None, values, owner=owner))


def _codes(labels_true: Any, labels_pred: Any, owner: str) -> tuple[Ints, Ints]:
    """Return labels as numbers, after checks of both."""
    _, true, _ = distinct(labels_true, "labels_true", owner)
    _, pred, _ = distinct(labels_pred, "labels_pred", owner)
    if len(true) != len(pred):
        lengths = f"{len(true)} and {len(pred)}"
        raise DataError(f"labels_true and labels_pred differ in length: {lengths}.")
    return true, pred
