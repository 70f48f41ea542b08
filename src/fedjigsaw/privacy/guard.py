"""The guard: the rule that a summary passes before it leaves a client.

A center is a mean of rows. The mean of one row *is* that row, and the mean of two is close to both.
A guard makes sure that no center stands for fewer than a chosen number of rows, that counts tell no
more than they must, and that numbers have no more digits than they need
(:mod:`fedjigsaw.privacy.rounding`). It is not differential privacy: anyone who knows all rows of a
cluster but one still learns roughly where the last one is.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import DataError, ParameterError, invalid
from fedjigsaw.kernels.local_solutions import merged_sse
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import COUNTS, Summary
from fedjigsaw.parameters import boolean, integer, one_of
from fedjigsaw.privacy.rounding import SUPPORT, range_of, round_summary

LABELS = "labels"  # tensor with the cluster of each row, -1 for none; it never leaves


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

    Examples
    --------
    >>> summary = Summary(n_samples=6, centers=[[0.0], [1.0], [9.0]], counts=[1, 2, 3])
    >>> leaves = Guard(min_cluster_size=3).apply(summary, client="berlin", needed=("counts",))
    >>> leaves.counts.tolist(), leaves.merged
    ([3, 3], 1)
    """

    min_cluster_size: int = 5
    counts: str | None = None
    sums: bool = True

    def __post_init__(self) -> None:
        integer(1).check("min_cluster_size", "a guard", self.min_cluster_size)
        boolean().check("sums", "a guard", self.sums)
        if self.counts is not None:
            one_of(*COUNTS).check("counts", "a guard", self.counts)
        if self.counts == "rounded" and self.min_cluster_size == 1:
            allowed = "greater than 1 for rounded counts"
            raise ParameterError(invalid("min_cluster_size", "a guard", allowed, 1))

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
        """
        summary = replace(summary, client=client)
        guarded = self.min_cluster_size > 1
        if guarded:
            summary = self.settle(merge_small(summary, self.min_cluster_size), rows)
        counts = summary.counts
        if self.counts == "rounded" and counts is not None:
            size = self.min_cluster_size
            counts = np.maximum(size, np.rint(counts / size) * size).astype(np.int64)
        if guarded and summary.counts is not None:
            sizes = summary.counts if counts is None else counts
            summary = round_summary(summary, sizes, range_of(rows))
        if self.counts == "none" or (self.counts is None and "counts" not in needed):
            counts = None
        tensors = {name: t for name, t in summary.tensors.items() if name != LABELS}
        return replace(
            summary,
            counts=counts,
            radii=summary.radii if "radii" in needed else None,
            sse=summary.sse if "sse" in needed and self.sums else None,
            tensors=tensors if "tensors" in needed else {},
        )

    def settle(self, summary: Summary, rows: Floats) -> Summary:
        """Change the clusters before they are rounded; a plain guard leaves them as they are."""
        return summary


def merge_small(summary: Summary, size: int) -> Summary:
    """Merge every center of fewer than `size` rows into its nearest neighbor, smallest first.

    The merged center is the mean of both clusters' rows. It keeps the larger of the two radii. The
    tensor ``support``, one number per center as fuzzy methods send it, adds up as counts do; the
    tensor ``labels`` follows the centers. A summary without centers passes if it is about enough
    rows.
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
    where = np.arange(len(summary.centers))
    while parts["counts"].min() < size:
        i = int(parts["counts"].argmin())
        if len(parts["counts"]) == 1:
            _check_size(summary, int(parts["counts"][0]), size)
        distances = pairwise_distances(parts["centers"][i : i + 1], parts["centers"])[0]
        distances[i] = np.inf
        j = int(distances.argmin())
        _merge_into(parts, i, j, float(distances[j]))
        where[where == i] = j
        where[where > i] -= 1
    merged = len(summary.centers) - len(parts["centers"])
    tensors = {n: parts.pop(n, t) if n == SUPPORT else t for n, t in summary.tensors.items()}
    if merged and LABELS in tensors:
        tensors[LABELS] = np.append(where, -1)[tensors[LABELS]]
    return replace(summary, **parts, tensors=tensors, merged=merged)


def _check_size(summary: Summary, n_rows: int, size: int) -> None:
    if n_rows < size:
        raise DataError(
            f"Client {summary.client!r} has {n_rows} rows, fewer than min_cluster_size = {size}, "
            "so its guard blocks the summary. Lower min_cluster_size, or leave this client out."
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
    if "radii" in parts:
        parts["radii"][j] = max(parts["radii"][i], parts["radii"][j])
    for name in parts:
        parts[name] = np.delete(parts[name], i, axis=0)
