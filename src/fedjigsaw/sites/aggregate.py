"""At the coordinator: aggregate the summaries of all sites into a model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import warn_of_fewer_clusters
from fedjigsaw.errors import MessageError, SiteWarning, warn
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.regions import clients_of, n_rows_of, own_model, sites_of, unpacked
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.privacy.dp import ROW, SITE, Privacy
from fedjigsaw.privacy.summaries import has_cells
from fedjigsaw.sites.admission import Admission, Loaded, aggregate_round, server_method
from fedjigsaw.sites.compatibility import reorder, rows_in_common, warn_of_copies
from fedjigsaw.sites.preparation import scale_bounds
from fedjigsaw.threads import one_thread

if TYPE_CHECKING:
    from fedjigsaw.engine import FederatedMethod
    from fedjigsaw.estimator import FederatedClusterer


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
    n_clusters : number of clusters, or "auto"; fewer may be found, with a FewerClustersWarning.
    without : names of sites to leave out, as if they had never sent a summary.
    seed : seed of the server's part, an integer >= 0.
    params : parameters of the method that act at the server
        No summary can set them. The default is the method's.
    min_sites : how many good files are enough
        A bad file is then left out, with a SiteWarning. None demands that all are good.

    Returns
    -------
    ModelFile
        The model with its scaler; save it by :func:`fedjigsaw.io.formats.save` and send it to all
        sites, for :func:`~fedjigsaw.sites.assign`. Centers are scaled, if sites used a scaler.

    Raises
    ------
    MessageError
        If a summary is broken or cannot be used, if two are from one site, or if they differ in
        columns, scaler, method or parameters.
    QuorumError
        If fewer than `min_sites` files are good, or no file is given.
    ParameterError
        If no summary is from a site in `without`, or if `params` has one that does not act at the
        server.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import aggregate, summarize
    >>> ages = [[30], [31], [32], [33], [34], [60], [61], [62], [63], [64]]
    >>> bern = summarize(from_array(ages, ["age"]), 2, client="bern")
    >>> oslo = summarize(from_array([[age + 1] for [age] in ages], ["age"]), 2, client="oslo")
    >>> file = aggregate({"bern": bern, "oslo": oslo}, 2)
    >>> file.model.centers.round(1).tolist(), file.clients, file.n_samples
    ([[32.5], [62.5]], ('bern', 'oslo'), 20)
    """
    together = solve_together(
        files, n_clusters, without=without, seed=seed, params=params, min_sites=min_sites
    )
    made = together.model_file()
    n_found = len(made.model.centers) - made.model.n_lone
    warn_of_fewer_clusters(n_clusters, n_found, together.members)
    return made


@dataclass(frozen=True)
class Together:
    """Summaries that were aggregated, with the model that the method made of them.

    Attributes
    ----------
    method : the method, with the parameters of the server.
    model : None only for a region whose cells, without those of others, are hardly more than noise.
    files : in the order of their sites, with the columns of all in the order of the first.
    """

    method: FederatedClusterer
    files: tuple[SummaryFile, ...]
    model: Model | None

    @property
    def members(self) -> list[Summary]:
        """The summaries, with the sites of regions that were not merged instead of the region."""
        return unpacked(file.summary for file in self.files)

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients that the model speaks of."""
        return clients_of(self.members, self.method.method, self.method.configuration())

    @property
    def privacy(self) -> Privacy | None:
        return weakest([file.privacy for file in self.files], len(self.files[0].columns))

    @property
    def n_skipped(self) -> int:
        return sum(file.n_skipped for file in self.files)

    def model_file(self) -> ModelFile:
        """Return the model with all that its readers must know."""
        assert self.model is not None
        columns, scaler = self.files[0].columns, self.files[0].scaler
        return ModelFile(
            within_bounds(self.model, self.privacy, scaler).with_feature_names(columns),
            scaler,
            self.clients,
            n_rows_of(self.members),
            privacy=self.privacy,
            n_skipped=self.n_skipped,
        )


def solve_together(
    files: Mapping[str, Loaded],
    n_clusters: int | str,
    *,
    without: Sequence[str] = (),
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    min_sites: int | None = None,
    in_parts: bool = False,
) -> Together:
    """Aggregate summaries; the parameters are those of :func:`aggregate`.

    Parameters
    ----------
    in_parts : whether these are only some of the sites. Tables of shared cells may then be too
        noisy for a model of their own.
    """
    admission = Admission(files, min_sites)
    admission.leave_out(without)
    admission.check_together()
    first = min(admission.kept.values(), key=_first_site)
    if without and first.scaler is not None:
        _warn_of_scaler(without, first.scaler)
    estimator = server_method(first, n_clusters, seed, params or {})
    admission.check_vouched(getattr(estimator, "vouch", None) or ())
    broadcast = Broadcast(0, seed, cells=None if first.privacy is None else first.privacy.cells)
    admission.check_answers(estimator, broadcast)
    try:
        together = _aggregate(estimator, admission, broadcast)
    except MessageError:  # whose fault was it?
        ordered = _ordered(admission)
        if in_parts and all(has_cells(m) for m in Together(estimator, ordered, None).members):
            return Together(estimator, ordered, None)
        if not admission.check_alone(estimator, broadcast):
            raise
        together = _aggregate(estimator, admission, broadcast)
    admission.warn()
    warn_of_copies({member.client: rows_in_common(member) for member in together.members})
    return together


def with_reports(method: FederatedMethod, summaries: Sequence[Summary], model: Model) -> Model:
    """Add what reports tell of each site, and what no further round needs: its influence."""
    from fedjigsaw.robust.influence import with_influences  # it needs what clusters

    members = unpacked(summaries)
    if own_model(members, method.method, method.configuration()) is not None:  # it has them
        return model
    with one_thread():
        return with_influences(method, members, model)


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


def _warn_of_scaler(without: Sequence[str], scaler: Scaler) -> None:
    """Tell what is still inside of a site that was left out: means can be computed of a scaler."""
    names = ", ".join(without)
    left = "".join(f" --without {shlex.quote(name)}" for name in without)
    warn(
        f"No row of {names} is in the summaries that count. Their scaler, {scaler.fingerprint}, "
        f"still has mean and spread of {names}, unless it was made without (or from bounds). To "
        f"forget these, too, make the scaler again (`fedjigsaw scaler *.stats{left} -o SCALER`), "
        "and with it the summaries of all others (`fedjigsaw summarize`).",
        SiteWarning,
    )


def _aggregate(method: FederatedClusterer, admission: Admission, broadcast: Broadcast) -> Together:
    files = _ordered(admission)
    summaries = [file.summary for file in files]
    model = aggregate_round(method, summaries, broadcast)
    return Together(method, files, with_reports(method, summaries, model))


def _ordered(admission: Admission) -> tuple[SummaryFile, ...]:
    """Return files by the names of their sites, with the columns in the order of the first."""
    first, *others = sorted(admission.kept.values(), key=_first_site)
    return (first, *(reorder(file, first.columns) for file in others))


def _first_site(file: SummaryFile) -> str:
    """Return the first of the names of the sites that a file stands for."""
    return min(sites_of(file.summary))
