"""What is measured about a fitted method, and its mean over seeds."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import metrics
from fedjigsaw._typing import Floats
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import (
    FewerClustersWarning,
    NoiseWarning,
    UncertainNumberWarning,
)
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.compiled import on_compiling
from fedjigsaw.privacy import Privacy

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer

# what the number of clusters, its confidence and the objective in a row say
TOLD_BY_ROWS = (
    FewerClustersWarning,
    NoiseWarning,
    UncertainNumberWarning,
)
LONG = 10.0  # seconds, beside which those of loading libraries are few
OF_CLASSES = ("ari", "nmi", "purity")  # measures that need the true class of each row


def fit_and_measure(
    method: FederatedClusterer,
    data: Dataset,
    clients: Any,
    *,
    privacy: Privacy | None = None,
) -> dict[str, Any]:
    """Fit a method and return what was measured.

    A fit for which code was compiled is repeated, so that its seconds do not include that.

    Parameters
    ----------
    clients : client id of each row.
    privacy : differential privacy for each client; none by default.
    """
    seconds, was_first = _timed_fit(method, data.X, clients, privacy)
    if was_first:
        seconds, _ = _timed_fit(method, data.X, clients, privacy)
    n_clients = len(np.unique(clients))
    return {**standard_measures(method, data, n_clients), "seconds": seconds}


def _timed_fit(
    method: FederatedClusterer, X: Floats, clients: Any, privacy: Privacy | None
) -> tuple[float, bool]:
    """Return the seconds of a fit, and whether they include compiling, or loading that counts."""
    compiled: list[None] = []
    loaded = len(sys.modules)
    with on_compiling(lambda: compiled.append(None)), warnings.catch_warnings():
        # a warning for every run would hide everything else
        for kind in TOLD_BY_ROWS:
            warnings.simplefilter("ignore", kind)
        started = perf_counter()
        method.fit(X, clients=clients, privacy=privacy)
        seconds = perf_counter() - started
    return seconds, bool(compiled) or (len(sys.modules) > loaded and seconds < LONG)


def standard_measures(method: FederatedClusterer, data: Dataset, n_clients: int) -> dict[str, Any]:
    """Measure a fitted method; `l2` and `mse` only where the true centers are known."""
    labels = method.labels_
    numbers: dict[str, Any] = {"n_found": method.n_clusters_}
    if data.centers is not None:
        numbers["l2"] = metrics.center_l2(method.cluster_centers_, data.centers)
        numbers["mse"] = metrics.center_mse(method.cluster_centers_, data.centers)
    numbers["purity"] = metrics.purity(labels_true=data.y, labels_pred=labels)
    numbers["nmi"] = metrics.nmi(data.y, labels)
    numbers["ari"] = metrics.ari(data.y, labels)
    numbers["inertia"] = method.inertia_
    if hasattr(method, "k_confidence_"):
        numbers["confidence"] = round(method.k_confidence_, 3)
    numbers["bytes_per_client"] = method.transcript_.bytes_up / n_clients
    numbers["rounds"] = method.n_iter_
    return numbers


def without_classes(rows: Iterable[Row]) -> list[Row]:
    """Drop the numbers that need true classes."""
    return [{name: v for name, v in row.items() if name not in OF_CLASSES} for row in rows]
