"""Groups: rows that all answers about a data set have left together.

Two answers about the same rows may differ by a single row, and their difference is that row. So a
site that is asked several times remembers a partition of its rows into groups: two rows are in the
same group if every answer so far put them into the same cluster. The next answer may split a group,
but only into parts of at least `min_cluster_size` rows; fewer rows stay with the rest of their
group. So everything that all answers together can tell are sums over groups of that many rows.

Rows of a group are alike if they were in a cluster. Those that an answer left out are a group, too,
and may be anywhere: its small parts are left out again, since they would distort any cluster. So
may all rows before the first answer: if it leaves out too few, its smallest clusters go with them.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.kernels.kmeans import label_sums, squared_distances
from fedjigsaw.messages import Summary
from fedjigsaw.privacy.far_rows import pulled_in_clusters
from fedjigsaw.privacy.guard import LABELS, LEFT_OUT, Guard
from fedjigsaw.privacy.moments import rounded_moments
from fedjigsaw.privacy.rounding import round_radii


@dataclass
class Memory:
    """The groups of a data set, before and after an answer; None if nothing was answered.

    Attributes
    ----------
    groups : group of each row; below 0 if the last answer that split it left its rows out.
    labels : cluster of each row in this answer.
    rows : the rows in the units of the file.
    """

    groups: Ints | None = None
    labels: Ints | None = None
    rows: Floats | None = None


@dataclass(frozen=True)
class RememberingGuard(Guard):
    """A guard that also keeps groups of rows together over several answers.

    It needs the label of each row (tensor ``labels``, which never leaves). A method that computes
    none passes as with a plain guard.

    Parameters
    ----------
    scaler : the scaler of the rows, if the server chose it. Numbers are then rounded in the units
        of the file (:mod:`fedjigsaw.privacy.moments`), whatever `scaled_by` is, which may also be
        a scaler of the site's own.
    """

    memory: Memory = field(default_factory=Memory)
    scaler: Scaler | None = None

    def watch(self, rows: Floats) -> None:
        """Keep a copy of the rows, to round in their units."""
        if self.scaler is not None and self.min_cluster_size > 1:
            self.memory.rows = rows.copy()

    def labels(self, summary: Summary) -> Ints | None:
        """Return the cluster of each row, after `settle`."""
        return self.memory.labels

    def round(self, summary: Summary, sizes: Ints, rows: Any) -> Summary:
        """Round in the units of the file, so that no scaler chooses a digit."""
        labels, unscaled, scaler = self.memory.labels, self.memory.rows, self.scaler
        if scaler is None or labels is None or unscaled is None:
            return super().round(summary, sizes, rows)
        unscaled = pulled_in_clusters(unscaled, labels, self.min_cluster_size)
        found = rounded_moments(unscaled, labels, len(summary.centers), self.min_cluster_size)
        means = scaler.scale(found.means)
        sse = (found.squares / scaler.deviation**2).sum(axis=1)
        radii = None if summary.radii is None else round_radii(summary.radii, sizes, sse)
        return replace(summary, centers=means, sse=sse, radii=radii)

    def _grain(self, rows: Any) -> Floats:
        if self.scaler is None or self.memory.rows is None:
            return super()._grain(rows)
        grain = super()._grain(self.memory.rows)
        return np.where(grain > 0, grain / self.scaler.deviation**2, grain)

    def settle(self, summary: Summary, rows: Floats) -> Summary:
        """Return the summary of clusters that split no group into small parts, and remember it."""
        if LABELS not in summary.tensors:
            return summary
        labels = summary.tensors[LABELS]
        groups = self.memory.groups
        if groups is None:  # below 0: before the first answer, its rows may be anywhere
            groups = np.full(len(labels), -1, dtype=np.int64)
        settled = settle(labels, groups, self.min_cluster_size, rows, summary.centers)
        if (settled < 0).all():  # something must leave: one center of all rows
            settled = np.zeros_like(labels)
            everything = {LEFT_OUT: np.array([summary.n_samples])}
            summary = replace(summary, tensors=dict(summary.tensors) | everything)
        self.memory.groups = refine(groups, settled)
        if (settled == labels).all():
            self.memory.labels = labels
            return summary
        self.memory.labels = _places(settled)
        return _relabel(summary, rows, settled)


def settle(labels: Ints, groups: Ints, size: int, rows: Floats, centers: Floats) -> Ints:
    """Return labels that split no group into parts of fewer than `size` rows.

    A small part goes to the nearest cluster that holds a large part of its group or, if there is
    none, to the cluster that holds most of it. Label -1 is for rows that are in no cluster. Small
    parts of a group of such rows, which is below 0, get it again, together with the smallest of its
    large parts if they are too few.

    Examples
    --------
    >>> rows = np.array([[0.0], [1.0], [2.0], [8.0], [9.0]])
    >>> labels, groups = np.array([0, 0, 0, 1, 1]), np.zeros(5, dtype=np.int64)
    >>> settle(labels, groups, 3, rows, np.array([[1.0], [8.5]])).tolist()
    [0, 0, 0, 0, 0]
    """
    k = len(centers) + 1
    parts, member, sizes = np.unique(
        groups * k + labels + 1, return_inverse=True, return_counts=True
    )
    if sizes.min() >= size:
        return labels
    owner, target = parts // k, parts % k - 1
    means = label_sums(rows, member, np.ones(len(rows)), len(parts)) / sizes[:, None]
    for group in np.unique(owner[sizes < size]):
        own = np.arange(*np.searchsorted(owner, [group, group + 1]))  # owners are sorted
        kept = own[sizes[own] >= size]
        if group < 0:  # its rows may be anywhere
            target[_left_out(own, target, sizes, size)] = -1
            continue
        if not len(kept):
            kept = own[[sizes[own].argmax()]]
        for part in np.setdiff1d(own, kept):
            target[part] = target[_nearest(means[part], kept, target, centers)]
    moved: Ints = target[member]
    return moved


def _left_out(own: Ints, target: Ints, sizes: Ints, size: int) -> Ints:
    """Return the small parts of a group, and as many others as make `size` rows together."""
    outside = target[own] < 0  # these rows are left out anyway, so they come first
    order = own[np.lexsort((sizes[own], ~outside))]
    n_small = int((outside | (sizes[own] < size)).sum())
    n_needed = int(np.searchsorted(np.cumsum(sizes[order]), size)) + 1
    return order[: max(n_small, n_needed)]


def _nearest(mean: Floats, kept: Ints, target: Ints, centers: Floats) -> int:
    """Return the kept part whose cluster is nearest to a mean; one without a cluster comes last."""
    inside = kept[target[kept] >= 0]
    if not len(inside):
        return int(kept[0])
    return int(inside[((centers[target[inside]] - mean) ** 2).sum(axis=1).argmin()])


def refine(groups: Ints, labels: Ints) -> Ints:
    """Return the groups after an answer: rows of one group and one cluster.

    Groups of rows that it left out are below 0.

    Examples
    --------
    >>> refine(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 7])).tolist()
    [0, 0, 1, 2]
    >>> refine(np.array([0, 0, 1, 1]), np.array([5, 5, -1, -1])).tolist()
    [0, 0, -2, -2]
    """
    pairs = groups * (int(labels.max()) + 2) + labels + 1
    refined: Ints = np.unique(pairs, return_inverse=True)[1]
    return np.where(labels < 0, -1 - refined, refined)


def _places(labels: Ints) -> Ints:
    """Number the clusters that have rows from 0 on; -1 stays.

    Examples
    --------
    >>> _places(np.array([4, -1, 2, 4])).tolist()
    [1, -1, 0, 1]
    """
    places = np.full(len(labels), -1, dtype=np.int64)
    inside = labels >= 0
    places[inside] = np.unique(labels[inside], return_inverse=True)[1]
    return places


def _relabel(summary: Summary, rows: Floats, labels: Ints) -> Summary:
    """Compute a summary anew for other labels; clusters without rows are left out."""
    inside = labels >= 0
    found, labels = np.unique(labels[inside], return_inverse=True)
    rows = rows[inside]
    counts = np.bincount(labels)
    centers = label_sums(rows, labels, np.ones(len(rows)), len(found)) / counts[:, None]
    sse: Floats = np.bincount(labels, squared_distances(rows, centers, labels)).astype(np.float64)
    radii = None if summary.radii is None else summary.radii[found]
    return replace(summary, centers=centers, counts=counts, sse=sse, radii=radii)
