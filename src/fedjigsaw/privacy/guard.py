"""The guard: the rule that a summary passes before it leaves a client.

A center is a mean of rows. The mean of one row *is* that row, and the mean of two is close to both.
A guard makes sure that no center stands for fewer than a chosen number of rows, that counts tell no
more than they must, and that numbers have no more digits than they need
(:mod:`fedjigsaw.privacy.rounding`). It is not differential privacy: anyone who knows all rows of a
cluster but one still learns roughly where the last one is.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import DataError, ParameterError, counted, invalid
from fedjigsaw.kernels.local_solutions import merged_sse
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import COUNTS, FIELDS, QUANTIZATION, Summary
from fedjigsaw.number.cells import SHARED_BY, quantization_variance
from fedjigsaw.parameters import boolean, integer, one_of
from fedjigsaw.privacy.far_rows import pulled_in_clusters
from fedjigsaw.privacy.rounding import SUPPORT, columns_of, keep_bits, round_summary

LABELS = "labels"  # tensor with the cluster of each row, -1 for none; it never leaves
CELLS_ONLY = "cells_only"  # tensor of a summary whose clusters may be left out; it never leaves
LEFT_OUT = "left_out"  # tensor with the number of rows that were left out far from all others
# cells are compared by what merging them adds to the sum of squares: of cells of one cluster about
# the scatter of a row, and rarely six deviations more
SIMILAR = 2.0  # times the typical scatter: cells of one cluster, as far as the guard can tell
FAR = 8.0  # times the scatter of both cells: they may be clusters of their own
STEP_BITS = 4  # digits of a column's step: it is a difference of two values, known to 6 %


@dataclass(frozen=True)
class Guard:
    """The rule that a client applies to its summary before it leaves.

    Parameters
    ----------
    min_cluster_size : int, default 5
        Smallest number of rows that a center may stand for. 1 lets every center pass as it is.
        From 2 on, centers and sums are rounded to their sampling error.
    counts : {"exact", "rounded", "none"} or None
        How cluster sizes leave: exactly, rounded to multiples of `min_cluster_size`, or not at
        all. None sends them exactly if the method's server needs them, and otherwise not at all.
    sums : bool, default True
        Whether sums of squares leave, if the method's server needs them.
    scaled_by : Scaler or None
        How the rows were scaled: centers are then rounded in the units that they had before, in
        which 0 is a step. It is `scaler_` of a `FederatedPreparation`.

    Raises
    ------
    ParameterError
        If a parameter is not one of these, or counts of single rows are to be rounded.

    Examples
    --------
    In a simulation, ``fit`` applies it at every client:

    >>> from fedjigsaw import Guard, Jigsaw, Summary
    >>> rows = [[30.0], [31.0], [32.0], [99.0], [60.0], [61.0], [62.0]]
    >>> site = ["bern"] * 4 + ["oslo"] * 3
    >>> model = Jigsaw(2, random_state=0).fit(rows, clients=site, guard=Guard(3))
    >>> [(sent.client, sent.counts.tolist()) for sent in model.summaries_]
    [('bern', [4]), ('oslo', [3])]

    A summary alone:

    >>> summary = Summary(n_samples=6, centers=[[0.0], [1.0], [9.0]], counts=[1, 2, 3])
    >>> leaves = Guard(min_cluster_size=3).apply(summary, client="berlin", needed=("counts",))
    >>> leaves.counts.tolist(), leaves.merged
    ([3, 3], 1)
    """

    min_cluster_size: int = 5
    counts: str | None = None
    sums: bool = True
    scaled_by: Scaler | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        integer(1).check("min_cluster_size", "a guard", self.min_cluster_size)
        boolean().check("sums", "a guard", self.sums)
        if self.counts is not None:
            one_of(*COUNTS).check("counts", "a guard", self.counts)
        if self.counts == "rounded" and self.min_cluster_size == 1:
            allowed = "greater than 1 for rounded counts"
            raise ParameterError(invalid("min_cluster_size", "a guard", allowed, 1))

    @classmethod
    def check(cls, guard: object, owner: str) -> None:
        """Raise a ParameterError if an argument `guard` is none: None could mean on or off."""
        if not isinstance(guard, cls):
            advice = "Guard() is the guard of the commands, Guard(1) lets every center pass."
            raise ParameterError(invalid("guard", owner, "a Guard", repr(guard), advice))

    def apply(
        self,
        summary: Summary,
        *,
        client: str,
        needed: Collection[str],
        rows: Any = None,
    ) -> Summary:
        """Return what may leave: clusters that are large enough, and only the needed fields.

        Parameters
        ----------
        summary : Summary
            What the method computed, with counts and sums of squares.
        client : str
            Name of the client.
        needed : collection of str
            Fields besides the centers that the server needs.
        rows : array or None
            The client's rows, for guards that look at them, and to round to values within them.

        Raises
        ------
        DataError
            If the client has fewer than `min_cluster_size` rows, or the method tells no counts.
        """
        fields = set(FIELDS) & set(needed)
        if self.counts is not None:
            fields = fields - {"counts"} if self.counts == "none" else fields | {"counts"}
        if not self.sums:
            fields.discard("sse")
        if self.min_cluster_size > 1:
            named = replace(summary, client=client)
            summary = self.settle(merge_small(named, self.min_cluster_size), rows)
            summary = self._pull_in(summary, rows)
            told = None
            if summary.counts is not None:
                told = self.told(summary.counts)
                summary = self.round(summary, told, rows)
            summary = replace(summary, counts=told, tensors=self._tensors(summary, rows))
        names = set(summary.tensors) - {LABELS, CELLS_ONLY} if "tensors" in fields else ()
        return summary.leaving(client, fields, names)

    def told(self, counts: Ints) -> Ints:
        """Return the sizes of clusters of at least `min_cluster_size` rows as they are told."""
        if self.counts != "rounded":
            return counts
        size = self.min_cluster_size
        told: Ints = np.maximum(size, np.rint(counts / size) * size).astype(np.int64)
        return told

    def settle(self, summary: Summary, rows: Floats) -> Summary:
        """Change the clusters before they are rounded; a plain guard leaves them as they are."""
        return summary

    def labels(self, summary: Summary) -> Ints | None:
        """Return the cluster of each row, after `settle`; None if the method tells none."""
        return summary.tensors.get(LABELS)

    def _pull_in(self, summary: Summary, rows: Any) -> Summary:
        """Return the summary of rows of which none dominates the sum of squares of its cluster."""
        labels = self.labels(summary)
        if labels is None or not isinstance(rows, np.ndarray) or rows.ndim != 2:
            return summary
        near = pulled_in_clusters(rows, labels, self.min_cluster_size)
        if near is rows:
            return summary
        changed = np.unique(labels[(near != rows).any(axis=1)])
        centers = summary.centers.copy()
        sse = None if summary.sse is None else summary.sse.copy()
        for j in changed:
            own = near[labels == j]
            centers[j] = own.mean(axis=0)
            if sse is not None:
                sse[j] = ((own - centers[j]) ** 2).sum()
        return replace(summary, centers=centers, sse=sse)

    def round(self, summary: Summary, sizes: Ints, rows: Any) -> Summary:
        """Round what leaves; `sizes` are the rows of each cluster as they are told."""
        return round_summary(
            summary, sizes, columns_of(rows, self.min_cluster_size), self.scaled_by
        )

    def watch(self, rows: Floats) -> None:
        """Look at the rows before they are scaled; a plain guard does not."""

    def _grain(self, rows: Any) -> Floats:
        """Return how coarse each column is."""
        return keep_bits(
            quantization_variance(rows, max(self.min_cluster_size, SHARED_BY)), STEP_BITS
        )

    def _tensors(self, summary: Summary, rows: Any) -> dict[str, np.ndarray]:
        """Return the tensors that may leave."""
        tensors = {n: t for n, t in summary.tensors.items() if n not in (LABELS, CELLS_ONLY)}
        size = self.min_cluster_size
        if QUANTIZATION in tensors:
            tensors[QUANTIZATION] = self._grain(rows)
        n_left = int(tensors.pop(LEFT_OUT, np.zeros(1))[0])
        if n_left < summary.n_samples and summary.counts is not None:
            outside = summary.n_samples - int(summary.counts.sum())
            n_left = 0 if self.counts == "none" else max(0, min(n_left, outside))
            n_left = size * round(n_left / size)
        return tensors | ({LEFT_OUT: np.array([n_left])} if n_left else {})


def merge_small(summary: Summary, size: int) -> Summary:
    """Merge every center of fewer than `size` rows into its nearest neighbor, smallest first.

    The merged center is the mean of both clusters' rows. It keeps the larger of the two radii. The
    tensor ``support``, one number per center as fuzzy methods send it, adds up as counts do; the
    tensor ``labels`` follows the centers. A summary without centers passes if it is about enough
    rows.

    Cells that only describe where rows are (tensor ``cells_only``) are merged with similar ones,
    and otherwise left out: a center between two clusters would be worse than none.
    """
    if not len(summary.centers):
        _check_size(summary, summary.n_samples, size)
        return summary
    if summary.counts is None:
        raise DataError(
            f"The guard of client {summary.client!r} needs cluster sizes, and the method does not "
            "compute them. Use min_cluster_size=1 or another method."
        )
    parts: dict[str, Any] = {
        name: np.array(getattr(summary, name), dtype=np.float64)
        for name in ("centers", "counts", "radii", "sse")
        if getattr(summary, name) is not None
    }
    if summary.tensors.get(SUPPORT, np.zeros(0)).shape == (len(summary.centers),):
        parts[SUPPORT] = np.array(summary.tensors[SUPPORT], dtype=np.float64)
    if CELLS_ONLY in summary.tensors:
        parts["scatter"] = _scatter(parts)
        similar = SIMILAR * parts["scatter"].min()
    where, n_far = np.arange(len(summary.centers)), 0
    while parts["counts"].min() < size:
        i = int(parts["counts"].argmin())
        if len(parts["counts"]) == 1:
            if "scatter" in parts:
                return _merge_all(summary, size)
            _check_size(summary, int(parts["counts"][0]), size)
        j, distance = _nearest(parts, i)
        if "scatter" not in parts or _added(parts, i, j, distance) <= similar:
            _merge_into(parts, i, j, distance)
            where[where == i] = j
        else:
            n_far += int(parts["counts"][i]) if _is_far(parts, i, j, distance) else 0
            where[where == i] = -1
        for name in parts:
            parts[name] = np.delete(parts[name], i, axis=0)
        where[where > i] -= 1
    merged = len(summary.centers) - len(parts["centers"])
    parts.pop("scatter", None)
    tensors = {n: parts.pop(n, t) if n == SUPPORT else t for n, t in summary.tensors.items()}
    if merged and LABELS in tensors:
        tensors[LABELS] = np.append(where, -1)[tensors[LABELS]]
    if n_far:
        tensors[LEFT_OUT] = np.array([n_far])
    return replace(summary, **parts, tensors=tensors, merged=merged)


def _merge_all(summary: Summary, size: int) -> Summary:
    """Merge cells if too few of them are alike.

    The server is told that all rows were left out, and does not count clusters by this summary.
    """
    tensors = {name: t for name, t in summary.tensors.items() if name != CELLS_ONLY}
    merged = merge_small(replace(summary, tensors=tensors), size)
    everything = np.array([summary.n_samples])
    return replace(merged, tensors={**merged.tensors, LEFT_OUT: everything})


def _nearest(parts: dict[str, Any], i: int) -> tuple[int, float]:
    """Return the nearest other cluster and its distance; of cells, the most similar one."""
    distances = pairwise_distances(parts["centers"][i : i + 1], parts["centers"])[0]
    costs = distances.copy()
    if "scatter" in parts:
        costs = _added(parts, i, np.arange(len(distances)), distances)
    costs[i] = np.inf
    j = int(costs.argmin())
    return j, float(distances[j])


def _added(parts: dict[str, Any], i: int, j: Any, distance: Any) -> Any:
    """Return what merging two cells adds to the sum of squares, in units of six deviations."""
    n_i, n_j, d = parts["counts"][i], parts["counts"][j], parts["centers"].shape[1]
    return n_i * n_j / (n_i + n_j) * distance**2 / (1 + 6 * np.sqrt(2 / d))


def _is_far(parts: dict[str, Any], i: int, j: int, distance: float) -> bool:
    scatter = max(parts["scatter"][i], parts["scatter"][j])
    return bool(_added(parts, i, j, distance) > FAR * scatter)


def _scatter(parts: dict[str, Any]) -> Any:
    """Return the mean squared distance of the rows of each cell, and at least the typical one."""
    several = parts["counts"] > 1
    scatter = np.where(several, parts["sse"] / np.maximum(parts["counts"] - 1, 1), 0.0)
    typical = float(np.median(scatter[several])) if several.any() else 0.0
    return np.maximum(scatter, max(typical, 1e-12))


def check_counts(summary: Summary, client: str) -> None:
    """Raise if counts or labels of a method cannot be right: a guard relies on them.

    Counts claim no more rows than there are. Those that a guard has rounded may sum to more.
    """
    total = 0 if summary.counts is None else int(summary.counts.sum())
    if total > summary.n_samples:
        raise DataError(
            f"Client {client!r} has {counted(summary.n_samples, 'row')}, but the counts of its "
            f"method sum to {total}, so its guard blocks the summary. Correct the method."
        )
    labels, k = summary.tensors.get(LABELS, np.zeros(0, dtype=np.int64)), len(summary.centers)
    whole = labels.ndim == 1 and labels.dtype.kind in "iu"
    if not whole or (labels.size and not -1 <= labels.min() <= labels.max() < k):
        raise DataError(
            f"The method of client {client!r} gave labels that are not whole numbers from -1 to "
            f"{k - 1}, so its guard blocks the summary. Correct the method."
        )


def _check_size(summary: Summary, n_rows: int, size: int) -> None:
    if n_rows < size:
        raise DataError(
            f"Client {summary.client!r} has {counted(n_rows, 'row')}, fewer than min_cluster_size "
            f"= {size}, so its guard blocks the summary. Leave this client out. A smaller number "
            "lets centers leave that tell more about single rows."
        )


def _merge_into(parts: dict[str, Any], i: int, j: int, distance: float) -> None:
    n_i, n_j = parts["counts"][i], parts["counts"][j]
    share = n_i / max(n_i + n_j, 1)  # a fuzzy center may have no rows at all
    parts["centers"][j] += share * (parts["centers"][i] - parts["centers"][j])
    parts["counts"][j] += n_i
    if SUPPORT in parts:
        parts[SUPPORT][j] += parts[SUPPORT][i]
    if "sse" in parts and n_i + n_j:
        parts["sse"][j] = merged_sse(n_i, n_j, parts["sse"][i], parts["sse"][j], distance)
    if "scatter" in parts and n_i + n_j > 1:
        parts["scatter"][j] = max(parts["scatter"][j], parts["sse"][j] / (n_i + n_j - 1))
    if "radii" in parts:
        parts["radii"][j] = max(parts["radii"][i], parts["radii"][j])
