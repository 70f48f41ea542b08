r"""How much clusters changed from one model to the next, beside what chance alone does.

The change between an old cluster i and a new one j is
:math:`c_{ij} = \sqrt{|a_i - b_j|^2 + (s_i - t_j)^2}`, with centers a and b, and spreads s and t
where both models know them. If scalers differ, s - t is as small as the factors of the columns
allow: a spread is one number for all columns. A cluster changed by its distance to the nearest
cluster of the other model, so that moves, new and lost clusters, splits and merges all count; sizes
do not, since they follow from which sites took part.

What chance does is measured by resampling sites: :data:`N_RESAMPLES` models are made, each from as
many summaries, drawn with replacement. The noise of a cluster is the change that a share
:data:`USUAL` of these models stay below, and at least :data:`LEAST` standard errors of a mean of
its rows. Drift is the largest change of a cluster, divided by the noise of both models together.
The noise of the new model counts up to :data:`MOST` times that of the old one: a number of clusters
that no longer fits must not hide why. The constants were set on simulated years, other ones than
those that the documentation reports (`python reproduction/run.py drift`).

A site that is unlike all others is left out of the resampling: it would make everything look like
chance. Clusters that are new, gone, split or merged are an alarm, whatever the drift.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import FedJigsawError, MessageError
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods import find_for_rows
from fedjigsaw.robust.influence import site_reports
from fedjigsaw.sites.admission import aggregate_round
from fedjigsaw.sites.compatibility import check_one_round, reorder, scaler_name
from fedjigsaw.sites.succession import Places, Succession, places_of, relate

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer

N_RESAMPLES = 20
USUAL = 0.8  # share of resampled models
LEAST = 1.5  # standard errors
MOST = 3.0  # noise of the new model, relative to the old one
ALARM = 2.0  # drift from which on there is an alarm

Noise = tuple[float, ...]  # of each cluster, in the order of the centers


@dataclass(frozen=True)
class ClusterChange:
    """What became of one cluster.

    Attributes
    ----------
    old, new : its ids in both models; None if it is not in that model.
    change : how much it changed, in units of the clustering; of a cluster in one model only, its
        distance to the nearest cluster of the other.
    spread : of the old cluster, or of the new one if there is none; infinite if it is not known.
    noise : change by chance alone; None if it is not known.
    shares : shares of all rows, before and after; None where sizes are not known.

    Examples
    --------
    >>> from fedjigsaw.sites import ClusterChange
    >>> moved = ClusterChange(0, 0, change=0.3, spread=1.0, noise=0.1, shares=(0.5, 0.4))
    >>> round(moved.drift, 2)
    3.0
    """

    old: int | None
    new: int | None
    change: float
    spread: float
    noise: float | None
    shares: tuple[float | None, float | None]

    @property
    def drift(self) -> float | None:
        """The change relative to the noise; None if that is not known."""
        return None if self.noise is None else _ratio(self.change, self.noise)


@dataclass(frozen=True)
class Difference:
    """The difference of two models.

    Attributes
    ----------
    clusters : clusters of the old model in its order, then those that are new.
    succession : which clusters live on, are new or gone, split or merged; by the ids that each
        model has.
    drift : the largest change of a cluster relative to its noise; None if the noise is not known.
    limit : drift from which on there is an alarm.

    See Also
    --------
    compare : has an example.
    """

    clusters: tuple[ClusterChange, ...]
    succession: Succession
    drift: float | None
    limit: float = ALARM

    @property
    def alarm(self) -> bool:
        """Tell whether clusters came, went, split or merged, or changed more than by chance."""
        return not self.succession.is_calm or (self.drift is not None and self.drift > self.limit)


def compare(
    old: ModelFile,
    new: ModelFile,
    *,
    old_noise: Sequence[float] | None = None,
    new_noise: Sequence[float] | None = None,
    limit: float = ALARM,
) -> Difference:
    """Compare two models: what became of each cluster, and how much that is beside chance.

    Parameters
    ----------
    old, new : the models, of the same columns; each may have a scaler of its own.
    old_noise, new_noise : what :func:`measure_noise` found for each model
        With one of them, that of the other model is taken to be the same. Without any, the
        difference has no drift.
    limit : drift from which on there is an alarm.

    Returns
    -------
    Difference

    Raises
    ------
    MessageError
        If the models have different columns.

    Examples
    --------
    >>> from fedjigsaw.io.formats import ModelFile
    >>> from fedjigsaw.messages import Model
    >>> from fedjigsaw.sites import compare
    >>> old = ModelFile(Model([[0.0], [9.0]], feature_names=("x",)), None, (), 2)
    >>> new = ModelFile(Model([[0.5], [9.0]], feature_names=("x",)), None, (), 2)
    >>> found = compare(old, new, old_noise=[0.1, 0.1])
    >>> [cluster.change for cluster in found.clusters], round(found.drift, 2), found.alarm
    ([0.5, 0.0], 3.54, True)
    """
    relation = relate(old, new)
    before, after = relation.before, relation.after
    changes = _costs(before, after)
    noise = _joint_noise(changes, *_checked(old, new, old_noise, new_noise))
    drift = None if noise is None else _largest(changes, noise)
    followers = {int(i): j for j, i in enumerate(relation.partners) if i >= 0}
    pairs: list[tuple[int | None, int | None]]
    pairs = [(i, followers.get(i)) for i in range(len(before.centers))]
    pairs += [(None, j) for j in np.flatnonzero(relation.partners < 0).tolist()]
    clusters = tuple(_cluster(i, j, (old, new), (before, after), changes, noise) for i, j in pairs)
    succession = relation.changes(old.cluster_ids, new.cluster_ids)
    return Difference(clusters, succession, drift, limit)


def _largest(changes: Floats, noise: Floats) -> float:
    """Return the largest change of a cluster to the nearest one of the other model, over noise."""
    nearest = [*zip(range(len(changes)), changes.argmin(axis=1).tolist(), strict=True)]
    nearest += zip(changes.argmin(axis=0).tolist(), range(changes.shape[1]), strict=True)
    return max(_ratio(float(changes[place]), float(noise[place])) for place in nearest)


def _cluster(
    i: int | None,
    j: int | None,
    files: tuple[ModelFile, ModelFile],
    places: tuple[Places, Places],
    changes: Floats,
    noise: Floats | None,
) -> ClusterChange:
    """Describe a cluster with the place i in the old model and j in the new one."""
    if i is not None:
        place = (i, int(changes[i].argmin()) if j is None else j)
        spread = places[0].spread[i]
    else:
        assert j is not None
        place = (int(changes[:, j].argmin()), j)
        spread = places[1].spread[j]
    return ClusterChange(
        None if i is None else files[0].cluster_ids[i],
        None if j is None else files[1].cluster_ids[j],
        float(changes[place]),
        float(spread),
        None if noise is None else float(noise[place]),
        (_share(places[0], i), _share(places[1], j)),
    )


def _share(places: Places, i: int | None) -> float | None:
    if places.points is None or i is None or not places.points.sum():
        return None
    return float(places.points[i] / places.points.sum())


def _costs(before: Places, after: Places) -> Floats:
    """Return the change between any old and any new cluster, shape (k, l)."""
    apart = pairwise_distances(before.centers, after.centers)
    if not (before.knows_spread and after.knows_spread):
        return apart
    (low, high), old, new = after.limits, before.spread[:, None], after.spread[None, :]
    wider = np.maximum(np.maximum(low * new - old, old - high * new), 0)
    found: Floats = np.hypot(apart, wider)
    return found


def _checked(
    old: ModelFile,
    new: ModelFile,
    old_noise: Sequence[float] | None,
    new_noise: Sequence[float] | None,
) -> tuple[Floats | None, Floats | None]:
    """Return the noise of both models, the new one's in the units of the old one."""
    found: list[Floats | None] = []
    for file, noise in ((old, old_noise), (new, new_noise)):
        if noise is not None and len(noise) != len(file.model.centers):
            raise MessageError(
                f"The noise is that of {len(noise)} clusters, and the model has "
                f"{len(file.model.centers)}: it belongs to another model."
            )
        found.append(None if noise is None else np.asarray(noise, dtype=np.float64))
    first, second = found
    if second is not None and scaler_name(old) != scaler_name(new):
        own, theirs = places_of(new).centers, places_of(new, old).centers
        wide = np.linalg.norm(own - own.mean(axis=0)), np.linalg.norm(theirs - theirs.mean(axis=0))
        second = second * (wide[1] / wide[0] if wide[0] > 0 else 1.0)
    return first, second


def _joint_noise(changes: Floats, first: Floats | None, second: Floats | None) -> Floats | None:
    """Return the noise of the change between any old and any new cluster, shape (k, l)."""
    k, n = changes.shape
    if first is None and second is None:
        return None
    if first is None:
        assert second is not None
        return np.broadcast_to(np.sqrt(2) * second[None, :], (k, n))
    if second is None:
        return np.broadcast_to(np.sqrt(2) * first[:, None], (k, n))
    found: Floats = np.hypot(first[:, None], np.minimum(second[None, :], MOST * first[:, None]))
    return found


def _ratio(change: float, noise: float) -> float:
    if change <= 0:
        return 0.0
    return change / noise if noise > 0 else np.inf


# ------------------------------------------------------------------------------------------ noise


def measure_noise(
    files: Mapping[str, SummaryFile] | Sequence[SummaryFile],
    model: ModelFile,
    *,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
) -> Noise | None:
    """Measure how much chance moves the clusters of a model, by resampling its sites.

    Parameters
    ----------
    files : the summaries that the model was made from; others are left alone.
    model : the model.
    seed : seed of the resampling, an integer >= 0.
    n_resamples : how many models are made from sites that are drawn with replacement.

    Returns
    -------
    tuple of float, or None
        For each cluster, the change that is usual by chance, in units of the clustering; None if
        there are fewer than two sites, or no model can be made from resampled ones.

    Examples
    --------
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import aggregate, measure_noise, summarize
    >>> ages = {"bern": [[30.0]] * 5, "oslo": [[31.0]] * 5, "rome": [[33.0]] * 5}
    >>> files = {site: summarize(from_array(X), 1, client=site) for site, X in ages.items()}
    >>> noise = measure_noise(files, aggregate(files, 1))
    >>> len(noise), 0 < noise[0] < 3
    (1, True)
    """
    given = files.values() if isinstance(files, Mapping) else files
    summaries = _summaries(list(given), model)
    strange = {r.client for r in site_reports(model.model, model.clients) or [] if r.reason}
    kept = [summary for summary in summaries if summary.client not in strange]
    if len(kept) < 2:
        return None
    method, rng = _method(model, seed), np.random.default_rng(seed)
    base = model.model if len(kept) == len(summaries) else _again(method, kept, seed)
    if base is None:
        return None
    full, found = _places(base), []
    for _ in range(n_resamples):
        drawn = rng.integers(len(kept), size=len(kept))
        part = [replace(kept[i], client=f"{n:06d}") for n, i in enumerate(drawn)]
        other = _again(method, part, seed)
        if other is not None:
            found.append(_own_changes(full, _places(other)))
    if len(found) < n_resamples / 2:
        return None
    noise = np.quantile(found, USUAL, axis=0)
    if full.points is not None:
        noise = np.maximum(noise, LEAST * full.spread / np.sqrt(np.maximum(full.points, 1)))
    nearest = nearest_centers(model.model.centers, full.centers)[0]
    return tuple(noise[nearest].tolist())


def _summaries(files: Sequence[SummaryFile], model: ModelFile) -> list[Summary]:
    """Return the summaries that count in a model, by name, with its order of columns."""
    found = {}
    for file in (file for file in files if file.summary.client in model.clients):
        fits = sorted(file.columns) == sorted(model.columns) and file.method == model.model.method
        if not fits or scaler_name(file) != scaler_name(model):
            raise MessageError(
                f"The summary of {file.summary.client!r} has other columns, another scaler or "
                "another method than the model: it is of another run."
            )
        found[file.summary.client] = reorder(file, model.columns).summary
    missing = [name for name in model.clients if name not in found]
    if missing:
        raise MessageError(
            f"There is no summary of {', '.join(map(repr, missing[:9]))}. The noise of a model is "
            "measured with the summaries of all its sites."
        )
    if (rows := sum(one.n_samples for one in found.values())) != model.n_samples:
        raise MessageError(
            f"The summaries are of {rows:,} rows, and the model is of {model.n_samples:,}: they "
            "are of another run."
        )
    return [found[name] for name in sorted(found)]


def _method(model: ModelFile, seed: int) -> FederatedClusterer:
    """Make the method of a model, without looking at single sites: it was done already."""
    params: dict[str, Any] = dict(model.model.params)
    method = find_for_rows(model.model.method).cls.from_settings({**params, "random_state": seed})
    if params.get("liars"):
        method.set_params(liars=0)
    method.for_reports = False
    check_one_round(method)
    made: FederatedClusterer = method
    return made


def _again(method: FederatedClusterer, part: Sequence[Summary], seed: int) -> Model | None:
    """Make a model from resampled summaries; None if they do not allow one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return aggregate_round(method, list(part), Broadcast(0, seed))
        except FedJigsawError:
            return None


def _places(model: Model) -> Places:
    return places_of(ModelFile(model, None, (), 1))


def _own_changes(full: Places, other: Places) -> Floats:
    """Return how much each cluster changed: to its nearest one, and from all nearest to it."""
    changes = _costs(full, other)
    found: Floats = changes.min(axis=1)
    np.maximum.at(found, changes.argmin(axis=0), changes.min(axis=0))
    return found
