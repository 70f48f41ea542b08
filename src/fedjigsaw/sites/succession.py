"""Which clusters of a model are those of the model before: ids that stay with a cluster.

A new cluster may take the id of an old one if their centers lie nearer to each other than halfway
to another center, and within :data:`REACH` times the larger of their spreads. Of all ways to pair
clusters so, the one with the least summed squared distance counts. A pair that is too far apart
counts as much as two clusters without partners, so that one cluster that is gone cannot shift the
others. A new cluster without a partner gets an id that no cluster has had.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import MessageError, counted, quote_names
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.methods._support import support_of
from fedjigsaw.sites.compatibility import check_has_centers, scaler_name

REACH = 2.0  # spreads that a cluster may move and still keep its id
NO_SPREAD = 1e-9  # in the units of the clustering: a remainder of rounding
MAX_CLUSTERS = 5_000  # of a model: memory grows with their square, up to a gigabyte


@dataclass(frozen=True)
class Places:
    """Clusters of a model in the units of another one.

    Attributes
    ----------
    centers : shape (k, d).
    spread : shape (k,), root mean square distance of a cluster's rows to its center; infinite where
        the model does not know it.
    points : shape (k,), rows of each cluster; None if the model does not know them.
    limits : between which multiples of `spread` the true one is. It is one number for all columns,
        so in other units it is only known up to the smallest and the largest factor of a column.
    """

    centers: Floats
    spread: Floats
    points: Floats | None
    limits: tuple[float, float] = (1.0, 1.0)

    @property
    def knows_spread(self) -> bool:
        """Tell whether the spread of every cluster is known."""
        return bool(np.isfinite(self.spread).all())


@dataclass(frozen=True)
class Succession:
    """What became of the clusters of an old model in a new one; all numbers are ids.

    Attributes
    ----------
    kept : ids of the old model that live on in the new one.
    new : ids that the new model has and no model before had.
    gone : ids of the old model that will not be used again.
    splits : id of the old model -> ids of the clusters that are now where it was.
    merges : id of the new model -> ids of the clusters that were where it is now.

    Examples
    --------
    >>> from fedjigsaw.sites import Succession
    >>> changes = Succession(kept=(0,), new=(3,), gone=(2,), splits={0: (0, 3)}, merges={})
    >>> list(changes.sentences())
    ['1 cluster keeps its id.', 'Cluster 0 split into 0 and 3.', 'Gone: cluster 2.']
    """

    kept: tuple[int, ...]
    new: tuple[int, ...]
    gone: tuple[int, ...]
    splits: dict[int, tuple[int, ...]]
    merges: dict[int, tuple[int, ...]]

    @property
    def is_calm(self) -> bool:
        """Tell whether every cluster kept its id, and there is no other."""
        return not self.new and not self.gone

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "kept": list(self.kept),
            "new": list(self.new),
            "gone": list(self.gone),
            "splits": {str(i): list(ids) for i, ids in self.splits.items()},
            "merges": {str(i): list(ids) for i, ids in self.merges.items()},
        }

    def sentences(self) -> Iterator[str]:
        """Say what became of the clusters."""
        yield counted(len(self.kept), "cluster keeps its id.", "clusters keep their ids.")
        parts = {i for ids in self.splits.values() for i in ids}
        joined = {i for ids in self.merges.values() for i in ids}
        for old, ids in self.splits.items():
            yield f"Cluster {old} split into {_listed(ids)}."
        for new, ids in self.merges.items():
            yield f"Clusters {_listed(ids)} merged into {new}."
        if appeared := [i for i in self.new if i not in parts]:
            yield f"New: {_named(appeared)}."
        if lost := [i for i in self.gone if i not in joined]:
            yield f"Gone: {_named(lost)}."


def succeed(new: ModelFile, old: ModelFile) -> tuple[ModelFile, Succession]:
    """Give the clusters of a model the ids that they had in the model before.

    Parameters
    ----------
    new : the model whose clusters get ids.
    old : the model before, of the same columns.

    Returns
    -------
    file : ModelFile
        The new model with ids. The order of the centers, and everything else, stays as it was.
    changes : Succession
        What became of the old clusters.

    Raises
    ------
    MessageError
        If the models have different columns.

    Examples
    --------
    >>> from fedjigsaw.io.formats import ModelFile
    >>> from fedjigsaw.messages import Model
    >>> from fedjigsaw.sites import succeed
    >>> old = ModelFile(Model([[0.0], [9.0]], feature_names=("x",)), None, (), 2)
    >>> new = ModelFile(Model([[-8.0], [0.1], [9.0]], feature_names=("x",)), None, (), 3)
    >>> file, changes = succeed(new, old)
    >>> file.cluster_ids, changes.new, file.next_id
    ((2, 0, 1), (2,), 3)
    """
    relation = relate(old, new)
    next_id = old.next_id or len(old.model.centers)
    ids: list[int] = []
    for i in relation.partners.tolist():
        ids.append(old.cluster_ids[i] if i >= 0 else next_id)
        next_id += i < 0
    file = replace(new, ids=tuple(ids), next_id=next_id)
    return file, relation.changes(old.cluster_ids, file.cluster_ids)


@dataclass(frozen=True)
class Relation:
    """Old and new clusters in the same units, and which of them belong together.

    Attributes
    ----------
    near : shape (k, l), which new clusters are near enough to which old ones to be the same.
    partners : shape (l,), the place of each new cluster's partner among the old ones, or -1.
    """

    before: Places
    after: Places
    near: np.ndarray
    partners: Ints

    def changes(self, old: tuple[int, ...], new: tuple[int, ...]) -> Succession:
        """Tell splits and merges from clusters that are new or gone, by the ids of both."""
        near, partners = self.near, self.partners
        apart = np.where(near, pairwise_distances(self.before.centers, self.after.centers), np.inf)
        splits: dict[int, list[int]] = {}
        merges: dict[int, list[int]] = {}
        followers = {int(i): j for j, i in enumerate(partners) if i >= 0}
        alone = [i for i in range(len(old)) if i not in followers]
        added = np.flatnonzero(partners < 0).tolist()
        for j in added:
            i = int(apart[:, j].argmin())
            if near[i, j] and i in followers:
                splits.setdefault(old[i], [new[followers[i]]]).append(new[j])
        for i in alone:
            j = int(apart[i].argmin())
            if near[i, j] and partners[j] >= 0:
                merges.setdefault(new[j], [old[partners[j]]]).append(old[i])
        return Succession(
            tuple(old[i] for i in sorted(followers)),
            tuple(new[j] for j in added),
            tuple(old[i] for i in alone),
            {i: tuple(sorted(ids)) for i, ids in splits.items()},
            {i: tuple(sorted(ids)) for i, ids in merges.items()},
        )


def relate(old: ModelFile, new: ModelFile) -> Relation:
    """Find which clusters of two models belong together."""
    before, after = places_of(old), places_of(new, old)
    near = reachable(before, after)
    return Relation(before, after, near, pair(before.centers, after.centers, near))


# --------------------------------------------------------------------------------------- geometry


def places_of(file: ModelFile, like: ModelFile | None = None) -> Places:
    """Return where the clusters of a model are, in the units and column order of another one."""
    check_has_centers(file)
    centers, k = file.model.centers, len(file.model.centers)
    if k > MAX_CLUSTERS:
        raise MessageError(
            f"A model has {k:,} clusters; at most {MAX_CLUSTERS:,} can be compared with others."
        )
    support = support_of(file.model)
    spread, points = np.full(k, np.inf), None
    least, usual, most = 1.0, 1.0, 1.0
    if support is not None:
        spread = np.asarray(support["spread"], dtype=np.float64)
        points = np.asarray(support["points"], dtype=np.float64)
    if like is not None:
        centers, width = _in_units_of(file, like)
        least, most = float(width.min()), float(width.max())
        usual = float(np.sqrt(np.mean(width**2)))
    return Places(centers, usual * spread, points, (least / usual, most / usual))


def _in_units_of(file: ModelFile, like: ModelFile) -> tuple[Floats, Floats]:
    """Return centers in the units of another model, and the factor of each column."""
    if sorted(file.columns) != sorted(like.columns):
        ours, theirs = (
            quote_names(sorted(set(a.columns) - set(b.columns))) or "no others"
            for a, b in ((file, like), (like, file))
        )
        raise MessageError(
            f"The models have different columns, so their clusters cannot be compared: {ours} in "
            f"the new one only, {theirs} in the old one only."
        )
    if file.columns == like.columns and scaler_name(file) == scaler_name(like):
        return file.model.centers, np.ones(len(file.columns))
    where = [file.columns.index(name) for name in like.columns]
    centers, width = file.model.centers, np.ones(len(where))
    if file.scaler is not None:
        centers, width = file.scaler.unscale(centers), file.scaler.deviation
    centers, width = centers[:, where], width[where]
    if like.scaler is not None:
        centers, width = like.scaler.scale(centers), width / like.scaler.deviation
    return centers, width


def reachable(before: Places, after: Places) -> np.ndarray:
    """Tell which new clusters are near enough to which old ones to be the same, shape (k, l)."""
    apart = pairwise_distances(before.centers, after.centers)
    halfway = np.maximum(_halfway(before.centers)[:, None], _halfway(after.centers)[None, :])
    spread = np.maximum(before.spread[:, None], after.spread[None, :])
    limit = np.where(spread > NO_SPREAD, REACH * spread, np.inf)
    near: np.ndarray = apart <= np.minimum(halfway, limit)
    return near


def _halfway(centers: Floats) -> Floats:
    """Return half the distance of each center to the nearest other one; infinite if alone."""
    apart = pairwise_distances(centers, centers)
    np.fill_diagonal(apart, np.inf)
    half: Floats = apart.min(axis=1) / 2
    return half


def pair(before: Floats, after: Floats, near: np.ndarray) -> Ints:
    """Return the old partner of each new center, or -1: the pairs with the least squared distance.

    Examples
    --------
    >>> near = np.array([[True, True], [False, True]])
    >>> pair(np.array([[0.0], [9.0]]), np.array([[1.0], [8.0]]), near).tolist()
    [0, 1]
    """
    from scipy.optimize import linear_sum_assignment

    squared = pairwise_distances(before, after) ** 2
    # two clusters without partners must cost more than any pair that is near enough
    most = float(squared[near].max(initial=0.0))
    cost = np.where(near, squared, 2 * most or 1.0)
    partners: Ints = np.full(len(after), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(cost)
    kept = near[rows, columns]
    partners[columns[kept]] = rows[kept]
    return partners


def _listed(ids: tuple[int, ...] | list[int]) -> str:
    *first, last = map(str, ids)
    return f"{', '.join(first)} and {last}" if first else last


def _named(ids: list[int]) -> str:
    return f"cluster{'s' * (len(ids) > 1)} {_listed(ids)}"
