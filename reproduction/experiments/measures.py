"""What single studies measure about a fitted method, besides what all rows have."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedjigsaw import FederatedClusterer, metrics
from fedjigsaw.datasets import Dataset
from fedjigsaw.kernels.kmeans import nearest_centers, partition_of
from reproduction.studies import Ints, Row

REAL = 0.5  # Jaccard index with a true cluster from which on a found one is real
SCORE_EDGES = (0.0, 0.7, 0.9, 0.99, 1.0)  # of scores, of which most are near 1


def agreement(data: Dataset, labels: Ints, rule: str = "") -> Row:
    """Return purity and NMI of labels."""
    purity = metrics.purity(labels_true=data.y, labels_pred=labels)
    return {f"purity{rule}": purity, f"nmi{rule}": metrics.nmi(data.y, labels)}


def label_rules(method: FederatedClusterer, data: Dataset, clients: Any) -> Row:
    """Purity and NMI by the nearest center, and by each client's own centers."""
    if method.pools_data:
        return {}
    local = agreement(data, method.predict(data.X, clients=clients), "_local")
    return agreement(data, method.predict(data.X), "_nearest") | local


def after_lloyd(method: FederatedClusterer, data: Dataset, clients: Any) -> Row:
    """Purity and NMI after one step of Lloyd's algorithm on all rows."""
    means = partition_of(data.X, method.predict(data.X)).centers
    return agreement(data, nearest_centers(data.X, means)[0], "_lloyd")


def sigma(method: FederatedClusterer, data: Dataset, clients: Any) -> Row:
    r"""The paper's :math:`\sigma_i = \|c_i - \theta_s\| / r_s` over the received centers.

    :math:`\theta_s` is the true center nearest to :math:`c_i`, and :math:`r_s` the largest radius
    among the received centers nearest to :math:`\theta_s`: the one that the server groups by.
    """
    centers = np.concatenate([summary.centers for summary in method.summaries_])
    radii = np.concatenate([summary.radii for summary in method.summaries_])
    true = np.asarray(data.centers)
    nearest, distances = nearest_centers(centers, true)
    largest = np.zeros(len(true))
    np.maximum.at(largest, nearest, radii)
    found = distances / largest[nearest]
    return {
        "received": len(found),
        "sigma_below_half": float(np.mean(found < 0.5)),
        "sigma_largest": float(found.max()),
    }


def k_doubt(method: FederatedClusterer, data: Dataset, clients: Any) -> Row:
    """How sure Jigsaw is of its k, and how many clusters are real, by their scores.

    A cluster is real if it shares half of the rows of both with a true cluster (a Jaccard index of
    0.5). Data without structure have no real clusters, unless all rows are in one.
    """
    unknown = np.full(method.n_clusters_, np.nan)
    scores = getattr(method, "support_", {}).get("separation", unknown)
    real = _real_clusters(data.y, method.labels_, len(scores))
    confidence = getattr(method, "k_confidence_", None)
    known = np.isfinite(scores)
    return {
        "confidence": None if confidence is None else round(float(confidence), 3),
        "scored_real": score_counts(scores[real & known]),
        "scored_false": score_counts(scores[~real & known]),
    }


def score_counts(scores: Any) -> list[int]:
    """Count scores, rounded to two digits, between the edges."""
    rounded = np.round(np.asarray(scores, dtype=np.float64), 2)
    place = np.clip(np.searchsorted(SCORE_EDGES, rounded, side="right") - 1, 0, 3)
    return [int(n) for n in np.bincount(place, minlength=4)]


def _real_clusters(true: Ints, found: Ints, n_found: int) -> np.ndarray:
    """Return which found clusters are real; rows with the label -1 belong to no cluster."""
    inside = true >= 0
    n_true = int(true.max()) + 1
    if n_true == 1 and n_found > 1:
        return np.zeros(n_found, dtype=bool)
    shared = np.zeros((n_found, n_true))
    both = inside & (found >= 0)
    np.add.at(shared, (found[both], true[both]), 1)
    in_true = np.bincount(true[inside], minlength=n_true)
    jaccard = shared / np.maximum(shared.sum(axis=1)[:, None] + in_true - shared, 1)
    real: np.ndarray = jaccard.max(axis=1, initial=0) >= REAL
    return real


MEASURES = {measure.__name__: measure for measure in (label_rules, after_lloyd, sigma, k_doubt)}
