"""Attributes of fitted methods that are read from the model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedjigsaw.messages import Model, Summary
from fedjigsaw.methods._support import k_curve_of, support_of
from fedjigsaw.number.confidence import KFindings
from fedjigsaw.robust.site_reports import PREFIX, SiteReport, lone_clients, site_reports

if TYPE_CHECKING:
    from fedjigsaw.io.formats import ModelFile


class SiteFindings:
    """What a model says about each client."""

    cluster_centers_: np.ndarray
    model_: Model
    summaries_: tuple[Summary, ...]
    _file: "ModelFile | None"

    @property
    def sites_(self) -> list[SiteReport]:
        """What is known about each client: rows, clusters, influence, and what is strange."""
        check_is_fitted(self)
        model = self.model_ if self._file is not None else with_influences(self, self.summaries_)
        return site_reports(model, self._clients) or []

    @property
    def _clients(self) -> list[str]:
        if self._file is not None:
            return list(self._file.clients)
        return [summary.client for summary in self.summaries_]


def with_influences(method: Any, summaries: Sequence[Summary], model: Model | None = None) -> Model:
    """Return a model, by default that of a fitted method, with the influence of each client."""
    model = method.model_ if model is None else model
    found = method.influences(summaries, model) if hasattr(method, "influences") else None
    if found is None:
        return model
    return replace(model, tensors={**model.tensors, f"{PREFIX}influence": found})


class ClusterFindings(SiteFindings):
    """What a model says about each cluster, about k, and about all clusters together."""

    @property
    def lone_centers_(self) -> np.ndarray:
        """Centers of clusters that one client alone claims, besides `cluster_centers_`."""
        check_is_fitted(self)
        lone = self.model_.centers[len(self.model_.centers) - self.model_.n_lone :]
        scaler = None if self._file is None else self._file.scaler
        lone = lone if scaler is None else scaler.unscale(lone)
        return lone.astype(self.cluster_centers_.dtype)

    @property
    def lone_clients_(self) -> list[str]:
        """The client that claims each of `lone_centers_`."""
        check_is_fitted(self)
        return lone_clients(self.model_, self._clients)

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
        check_is_fitted(self)
        return float(self.model_.tensors["objective"][0])

    @property
    def skew_(self) -> float:
        """Mutual information of client and cluster, in bits: 0 if all clients are alike."""
        check_is_fitted(self)
        return float(self.model_.tensors["skew"][0])
