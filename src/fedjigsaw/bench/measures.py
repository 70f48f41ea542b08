"""What single studies measure about a fitted method, besides what all rows have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import metrics
from fedjigsaw._typing import Ints
from fedjigsaw.datasets import Dataset
from fedjigsaw.kernels.kmeans import cluster_means, nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.methods._support import k_curve_of

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer

REAL = 0.5  # Jaccard index with a true cluster from which on a found one is real


def _label_rules(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    """Purity and NMI by the nearest center, and by each client's own centers."""
    if method.pools_data:
        return {}
    rules = {"nearest": method.predict(data.X), "local": method.predict(data.X, clients=clients)}
    return {
        f"{number.__name__}_{rule}": number(labels_true=data.y, labels_pred=labels)
        for rule, labels in rules.items()
        for number in (metrics.purity, metrics.nmi)
    }


def _after_lloyd(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    """Purity and NMI after one step of Lloyd's algorithm on all rows."""
    means = cluster_means(data.X, method.predict(data.X))
    labels, _ = nearest_centers(data.X, means)
    return {
        "purity_lloyd": metrics.purity(labels_true=data.y, labels_pred=labels),
        "nmi_lloyd": metrics.nmi(data.y, labels),
    }


def _sigma(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    r"""The paper's :math:`\sigma_i = \|c_i - \theta_s\| / r_s` of every received center.

    :math:`\theta_s` is the true center nearest to :math:`c_i`, and :math:`r_s` the largest radius
    among the received centers nearest to :math:`\theta_s`: the one that the server groups by.
    """
    centers = np.concatenate([summary.centers for summary in method.summaries_])
    radii = np.concatenate([summary.radii for summary in method.summaries_])
    assert data.centers is not None
    distances = pairwise_distances(centers, data.centers)
    nearest = distances.argmin(axis=1)
    largest = np.zeros(len(data.centers))
    np.maximum.at(largest, nearest, radii)
    sigma = distances.min(axis=1) / largest[nearest]
    return {"sigma": sigma.round(4).tolist(), "true_center": nearest.tolist()}


def _centers(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    """The recovered centers, for a picture."""
    return {"centers": method.cluster_centers_.round(0).tolist()}


def _truth(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    """True centers, and the number of rows in each cell of a 40 x 40 grid over the data."""
    assert data.centers is not None
    counts, *edges = np.histogram2d(data.X[:, 0], data.X[:, 1], bins=40)
    window = [[float(edge[0]), float(edge[-1])] for edge in edges]
    density = counts.astype(int).tolist()
    return {"true_centers": data.centers.tolist(), "window": window, "density": density}


def _k_curve(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    """Every k that was considered, its index (None for one cluster) and its objective."""
    curve = k_curve_of(method.model_)
    assert curve is not None
    index = [None if not np.isfinite(value) else float(value) for value in curve["index"]]
    return {"k": curve["k"].tolist(), "index": index, "objective": curve["objective"].tolist()}


def k_doubt(method: FederatedClusterer, data: Dataset, clients: Ints) -> dict[str, Any]:
    """How sure Jigsaw is of its k and of each cluster, and which clusters are real.

    A cluster is real if it shares half of the rows of both with a true cluster (a Jaccard index of
    0.5). Data without structure have no real clusters, unless all rows are in one.
    """
    unknown = np.full(method.n_clusters_, np.nan)
    scores = getattr(method, "support_", {}).get("separation", unknown)
    real = _real_clusters(data.y, method.labels_, len(scores))
    confidence = getattr(method, "k_confidence_", None)
    return {
        "confidence": None if confidence is None else round(float(confidence), 3),
        "runner_up": getattr(method, "k_runner_up_", None),
        "scores_real": np.sort(scores[real & np.isfinite(scores)]).round(2).tolist(),
        "scores_false": np.sort(scores[~real & np.isfinite(scores)]).round(2).tolist(),
    }


def _real_clusters(true: Ints, found: Ints, n_found: int) -> np.ndarray:
    """Return which found clusters are real; rows with the label -1 belong to no cluster."""
    inside = true >= 0
    n_true = int(true.max()) + 1
    if n_true == 1 and n_found > 1:
        return np.zeros(n_found, dtype=bool)
    shared = np.zeros((n_found, n_true))
    both = inside & (found >= 0)
    np.add.at(shared, (found[both], true[both]), 1)
    in_found = shared.sum(axis=1)[:, None]
    in_true = np.bincount(true[inside], minlength=n_true)
    jaccard = shared / np.maximum(in_found + in_true - shared, 1)
    real: np.ndarray = jaccard.max(axis=1, initial=0) >= REAL
    return real


MEASURES: dict[str, Callable[[FederatedClusterer, Dataset, Ints], dict[str, Any]]] = {
    "label_rules": _label_rules,
    "after_lloyd": _after_lloyd,
    "sigma": _sigma,
    "centers": _centers,
    "truth": _truth,
    "k_curve": _k_curve,
    "k_doubt": k_doubt,
}
