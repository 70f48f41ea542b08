"""At the coordinator: aggregate the summaries of all sites into a model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedjigsaw.base import FederatedClusterer
from fedjigsaw.engine import aggregate_round, warn_of_fewer_clusters
from fedjigsaw.errors import MessageError
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.messages import Broadcast, Model
from fedjigsaw.privacy.guarantee import ROW, SITE, Privacy
from fedjigsaw.sites.admission import Admission, Loaded, server_method
from fedjigsaw.sites.compatibility import reorder
from fedjigsaw.sites.preparation import scale_bounds


def aggregate(
    files: Mapping[str, Loaded],
    n_clusters: int | str,
    *,
    without: Sequence[str] = (),
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    min_sites: int | None = None,
) -> ModelFile:
    """Aggregate summaries into a model.

    Parameters
    ----------
    files : file name -> its content, or the error on reading it
        See :func:`~fedjigsaw.sites.read_summaries`. The names are for error messages.
    without : sites to leave out, as if they had never sent a summary.
    params : parameters of the method that act at the server
        No summary can set them. The default is the method's.
    min_sites : how many good files are enough
        A bad file is then left out, with a RefusedFileWarning. None demands that all are good.
    """
    admission = Admission(files, min_sites)
    admission.leave_out(without)
    admission.check_together()
    first = min(admission.kept.values(), key=lambda file: file.summary.client)
    estimator = server_method(first, n_clusters, seed, params or {})
    broadcast = Broadcast(0, seed)
    admission.check_answers(estimator, broadcast)
    try:
        model, ordered = _aggregate(estimator, admission, broadcast)
    except MessageError:  # whose fault was it?
        if not admission.check_alone(estimator, broadcast):
            raise
        model, ordered = _aggregate(estimator, admission, broadcast)
    admission.warn()
    warn_of_fewer_clusters(n_clusters, len(model.centers))
    columns, scaler = ordered[0].columns, ordered[0].scaler
    privacy = weakest([file.privacy for file in ordered], len(columns))
    return ModelFile(
        within_bounds(model, privacy, scaler).with_feature_names(columns),
        scaler,
        tuple(file.summary.client for file in ordered),
        sum(file.summary.n_samples for file in ordered),
        privacy=privacy,
        n_skipped=sum(file.n_skipped for file in ordered),
    )


def within_bounds(model: Model, privacy: Privacy | None, scaler: Scaler | None) -> Model:
    """Keep the centers of a model inside the bounds of its promise, if it has one."""
    if privacy is None:
        return model
    return replace(model, centers=scale_bounds(privacy, scaler).within(model.centers))


def weakest(promises: Sequence[Privacy | None], n_columns: int) -> Privacy | None:
    """Return the promise that holds for the rows of every site; None if one promises nothing.

    Epsilon and delta are the largest of all, and a seed of one site voids the promise. A promise
    about each row holds where another site protects all of its rows together, too. Bounds are those
    that contain all others.
    """
    kept = [privacy for privacy in promises if privacy is not None]
    if len(kept) < len(promises) or not kept:
        return None
    unit = SITE if all(privacy.unit == SITE for privacy in kept) else ROW
    low, high = zip(*(privacy.limits(n_columns) for privacy in kept), strict=True)
    return replace(
        max(kept, key=lambda privacy: privacy.unit == unit),
        epsilon=max(privacy.epsilon for privacy in kept),
        delta=max(privacy.delta for privacy in kept),
        bounds=(np.min(low, axis=0), np.max(high, axis=0)),
        insecure_seed=next((p.insecure_seed for p in kept if p.insecure_seed is not None), None),
    )


def _aggregate(
    method: FederatedClusterer, admission: Admission, broadcast: Broadcast
) -> tuple[Model, list[SummaryFile]]:
    """Aggregate by client name, with the columns of all in the order of the first."""
    first, *others = sorted(admission.kept.values(), key=lambda file: file.summary.client)
    ordered = [first, *(reorder(file, first.columns) for file in others)]
    return aggregate_round(method, [file.summary for file in ordered], broadcast), ordered
