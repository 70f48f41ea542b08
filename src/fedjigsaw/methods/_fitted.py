"""Attributes of fitted methods that are read from the model."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedjigsaw.messages import Model, Summary
from fedjigsaw.methods._support import k_curve_of, runner_up, support_of
from fedjigsaw.trust.site_reports import SiteReport, site_reports


class SiteFindings:
    """What a model says about each client."""

    model_: Model
    summaries_: tuple[Summary, ...]

    @property
    def sites_(self) -> list[SiteReport]:
        check_is_fitted(self)
        return site_reports(self.model_, [summary.client for summary in self.summaries_]) or []


class ClusterFindings(SiteFindings):
    """What a model says about each cluster, about k, and about all clusters together."""

    @property
    def support_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        return support_of(self.model_) or {}

    @property
    def k_curve_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        curve = k_curve_of(self.model_)
        if curve is None:
            raise AttributeError("k_curve_ exists only after a fit with n_clusters='auto'")
        return curve

    @property
    def k_runner_up_(self) -> int | None:
        return runner_up(self.k_curve_)

    @property
    def objective_(self) -> float:
        check_is_fitted(self)
        return float(self.model_.tensors["objective"][0])

    @property
    def skew_(self) -> float:
        check_is_fitted(self)
        return float(self.model_.tensors["skew"][0])
