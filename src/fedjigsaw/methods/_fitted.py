"""Attributes of fitted methods that are read from the model."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedjigsaw._typing import Floats
from fedjigsaw.messages import Model
from fedjigsaw.methods._support import k_curve_of, support_of
from fedjigsaw.number.confidence import KFindings

if TYPE_CHECKING:
    from fedjigsaw.io.formats import ModelFile


class ClusterFindings:
    """What a model says about each cluster, about k, and about all clusters together."""

    cluster_centers_: np.ndarray
    model_: Model
    _file: "ModelFile | None"

    @property
    def lone_centers_(self) -> np.ndarray:
        """Centers of clusters that one client alone claims, besides `cluster_centers_`."""
        check_is_fitted(self)
        lone = self.model_.centers[len(self.model_.centers) - self.model_.n_lone :]
        scaler = None if self._file is None else self._file.scaler
        lone = lone if scaler is None else scaler.unscale(lone)
        return lone.astype(self.cluster_centers_.dtype)

    @property
    def support_(self) -> dict[str, np.ndarray]:
        """How well each cluster is backed: clients, points, spread, margin, separation."""
        check_is_fitted(self)
        return support_of(self.model_) or {}

    @property
    def k_curve_(self) -> dict[str, np.ndarray]:
        """Every number of clusters that was tried, with its objective and index."""
        check_is_fitted(self)
        curve = k_curve_of(self.model_)
        if curve is None:
            raise AttributeError("k_curve_ exists only after a fit with n_clusters='auto'")
        return curve

    @property
    def k_runner_up_(self) -> int | None:
        """The next best number of clusters, or None."""
        return self._k_findings("k_runner_up_").runner_up

    @property
    def k_confidence_(self) -> float:
        """How sure the number of clusters is, from 0 to 1."""
        return self._k_findings("k_confidence_").confidence

    @property
    def k_sentence_(self) -> str:
        """The number of clusters in words, how sure it is, and what is nearly as good."""
        return self._k_findings("k_sentence_").sentence()

    @property
    def k_advice_(self) -> list[str]:
        """What else the clusters are like, and what helps."""
        return self._k_findings("k_advice_").advice(self.model_.feature_names)

    def _k_findings(self, name: str) -> KFindings:
        check_is_fitted(self)
        findings = KFindings.from_model(self.model_)
        if findings is None:
            raise AttributeError(f"{name} exists only after a fit with n_clusters='auto'")
        return findings

    @property
    def objective_(self) -> float:
        """Objective of all rows, as the server knows it from the summaries."""
        return self._number("objective")

    @property
    def skew_(self) -> float:
        """Mutual information of client and cluster, in bits: 0 if all clients are alike."""
        return self._number("skew")

    def _number(self, name: str) -> float:
        check_is_fitted(self)
        found = self.model_.tensors.get(name)
        if found is None or found.shape != (1,):
            raise AttributeError(f"The model has no {name}_")
        return float(found[0])


def site_tensors(rows: ArrayLike, table: Floats) -> dict[str, np.ndarray]:
    """Return what a model keeps about each client.

    Parameters
    ----------
    rows : number of rows of each client.
    table : shape (n_clients, k), rows of each client in each cluster.
    """
    present = table > 0
    return {
        "site_notes": np.zeros(len(table), dtype=np.int64),
        "site_rows": np.rint(rows).astype(np.int64),
        "site_clusters": present.sum(axis=1),
        "site_alone": (present & (present.sum(axis=0) == 1)).sum(axis=1),
    }
