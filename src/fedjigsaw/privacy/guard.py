"""The guard: the rule that a summary passes before it leaves a client.

A center is a mean of rows. The mean of one row *is* that row, and the mean of two is close to both.
A guard makes sure that no center stands for fewer than a chosen number of rows, that counts tell no
more than they must, and that numbers have no more digits than they need
(:mod:`fedjigsaw.privacy.rounding`). It is not differential privacy: anyone who knows all rows of a
cluster but one still learns roughly where the last one is.

**Far rows.** A sum of squares that is mostly that of one row tells how far away this row is, and
k-means spends a center on it. This is what the dominance rule of statistical disclosure control is
for: fewer rows than a guard lets out may not make up most of a sum. So a guard moves such rows in,
as far as the farthest of the others: among all rows of a site, before they are clustered, and in
each cluster. It acts from four times as many rows on, and never for a column that has two values at
the site. In columns with heavy tails, the largest rows may be moved, too.

**Groups.** Two answers about the same rows may differ by a single row, and their difference is that
row. So a site that is asked several times remembers a partition of its rows into groups: two rows
are in the same group if every answer so far put them into the same cluster. The next answer may
split a group, but only into parts of at least `min_cluster_size` rows; fewer rows stay with the
rest of their group. So everything that all answers together can tell are sums over groups of that
many rows. Rows of a group are alike if they were in a cluster. Those that an answer left out are a
group, too, and may be anywhere: its small parts are left out again, since they would distort any
cluster. So may all rows before the first answer: if it leaves out too few, its smallest clusters go
with them.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedjigsaw._rows import is_sparse, unweighted
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import (
    DataError,
    ParameterError,
    PrivacyWarning,
    counted,
    invalid,
    warn,
    warn_of_client,
)
from fedjigsaw.kernels.kmeans import blocks, label_sums
from fedjigsaw.kernels.local_solutions import merged_sse
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import (
    CELLS_ONLY,
    COUNTS,
    FIELDS,
    LABELS,
    LEFT_OUT,
    QUANTIZATION,
    SUPPORT,
    Broadcast,
    Summary,
)
from fedjigsaw.number.cells import SHARED_BY, quantization_variance
from fedjigsaw.parameters import boolean, integer, one_of
from fedjigsaw.privacy.rounding import (
    columns_of,
    exact_moments,
    keep_bits,
    round_radii,
    round_summary,
    rounded_moments,
)

# cells are compared by what merging them adds to the sum of squares: of cells of one cluster about
# the scatter of a row, and rarely six deviations more
SIMILAR = 2.0  # times the typical scatter: cells of one cluster, as far as the guard can tell
FAR_CELLS = 8.0  # times the scatter of both cells: they may be clusters of their own
STEP_BITS = 4  # digits of a column's step: it is a difference of two values, known to 6 %

FAR = 3.0  # times as far from the middle as the farthest of the others
DOMINANT = 0.5  # share of the sum of squares of a cluster
WORTH_A_CENTER = 0.2  # share of that of all rows, from which k-means may spend a center
FEWEST = 4  # times as many rows as are let out: of fewer, gaps are chance, and digits are few
BLOCK = 2**18  # numbers that are copied at a time

Columns = npt.NDArray[np.bool_]


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
    half: ClassVar[str] = "summarize"  # of a method, which this release asks

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

    # ------------------------------------------------------------------- what any release does

    def ready(self, data: Any, client: str) -> Any:
        """Return the rows of a client as they may be clustered; tell it if some were far away."""
        if self.min_cluster_size == 1 or not isinstance(data, np.ndarray):
            return data
        near = pulled_in(data, self.min_cluster_size)
        if near is not data:
            n_far = int((near != data).any(axis=1).sum())
            warn_of_client(
                client,
                f"{counted(n_far, 'row is', 'rows are')} far from all others, and moved in",
                "If such values are wrong, correct them: they would tell how far away they are.",
                PrivacyWarning,
            )
        return near

    def summarize(
        self, method: Any, data: Any, broadcast: Broadcast, rng: np.random.Generator
    ) -> Any:
        """Let a method compute its exact summary, which may not leave as it is."""
        return method.summarize(data, broadcast, rng)

    def leaving(self, summary: Summary, method: Any, data: Any, client: str) -> Summary:
        """Return what may leave of an exact summary, with the client's name."""
        if self.min_cluster_size > 1 and getattr(method, "data_kind", "rows") == "rows":
            _check_rows(summary, client)  # heads of a network each count the same images
        return self.apply(summary, client=client, needed=method.sends, rows=unweighted(data)[0])

    # --------------------------------------------------------------------------------------------

    def apply(
        self, summary: Summary, *, client: str, needed: Collection[str], rows: Any = None
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
            summary = merge_small(replace(summary, client=client), self.min_cluster_size)
            summary, labels = self.settle(summary, rows)
            if labels is not None and isinstance(rows, np.ndarray) and rows.ndim == 2:
                summary = self._pull_in(summary, labels, rows)
            told = None
            if summary.counts is not None:
                told = self.told(summary.counts)
                summary = self.round(summary, told, rows)
            summary = replace(summary, counts=told, tensors=self._tensors(summary, rows))
        names = set(summary.tensors) - {LABELS, CELLS_ONLY} if "tensors" in fields else ()
        return summary.leaving(client, fields, names)

    def watch(self, rows: Floats) -> None:
        """Look at the rows before they are scaled; a plain guard does not."""

    def settle(self, summary: Summary, rows: Any) -> tuple[Summary, Ints | None]:
        """Return the clusters that may leave, and that of each row, if the method tells them."""
        return summary, summary.tensors.get(LABELS)

    def told(self, counts: Ints) -> Ints:
        """Return the sizes of clusters of at least `min_cluster_size` rows as they are told."""
        size = self.min_cluster_size
        rounded = np.maximum(size, np.rint(counts / size) * size).astype(np.int64)
        return rounded if self.counts == "rounded" else counts

    def round(self, summary: Summary, sizes: Ints, rows: Any) -> Summary:
        """Round what leaves; `sizes` are the rows of each cluster as they are told."""
        columns = columns_of(rows, self.min_cluster_size)
        return round_summary(summary, sizes, columns, self.scaled_by)

    def quantization(self, rows: Any) -> Floats:
        """Return how coarse each column is."""
        return keep_bits(
            quantization_variance(rows, max(self.min_cluster_size, SHARED_BY)), STEP_BITS
        )

    def _pull_in(self, summary: Summary, labels: Ints, rows: Floats) -> Summary:
        """Return the summary of rows of which none dominates the sum of squares of its cluster."""
        near = pulled_in_clusters(rows, labels, self.min_cluster_size)
        if near is rows:
            return summary
        k = len(summary.centers)
        moved = np.isin(np.arange(k), labels[(near != rows).any(axis=1)])
        _, means, squares = exact_moments(near, labels, k)
        centers, sse = np.where(moved[:, None], means, summary.centers), summary.sse
        sse = None if sse is None else np.where(moved, squares.sum(axis=1), sse)
        return replace(summary, centers=centers, sse=sse)

    def _tensors(self, summary: Summary, rows: Any) -> dict[str, np.ndarray]:
        """Return the tensors that may leave."""
        tensors = {n: t for n, t in summary.tensors.items() if n not in (LABELS, CELLS_ONLY)}
        if QUANTIZATION in tensors:
            tensors[QUANTIZATION] = self.quantization(rows)
        n_left = int(tensors.pop(LEFT_OUT, np.zeros(1))[0])
        if n_left < summary.n_samples and summary.counts is not None:
            outside = summary.n_samples - int(summary.counts.sum())
            n_left = 0 if self.counts == "none" else max(0, min(n_left, outside))
            n_left = self.min_cluster_size * round(n_left / self.min_cluster_size)
        return tensors | ({LEFT_OUT: np.array([n_left])} if n_left else {})


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
        of the file (:func:`~fedjigsaw.privacy.rounding.rounded_moments`), whatever `scaled_by` is,
        which may also be a scaler of the site's own.
    """

    memory: Memory = field(default_factory=Memory)
    scaler: Scaler | None = None

    def watch(self, rows: Floats) -> None:
        """Keep a copy of the rows, to round in their units."""
        if self.scaler is not None and self.min_cluster_size > 1:
            self.memory.rows = rows.copy()

    def settle(self, summary: Summary, rows: Any) -> tuple[Summary, Ints | None]:
        """Return the summary of clusters that split no group into small parts, and remember it."""
        memory, labels = self.memory, summary.tensors.get(LABELS)
        if labels is None:
            return summary, memory.labels
        groups = memory.groups
        if groups is None:  # below 0: before the first answer, its rows may be anywhere
            groups = np.full(len(labels), -1, dtype=np.int64)
        settled = settle(labels, groups, self.min_cluster_size, rows, summary.centers)
        if (settled < 0).all():  # something must leave: one center of all rows
            settled = np.zeros_like(labels)
            everything = {LEFT_OUT: np.array([summary.n_samples])}
            summary = replace(summary, tensors=dict(summary.tensors) | everything)
        memory.groups, memory.labels = refine(groups, settled), labels
        if (settled == labels).all():
            return summary, labels
        found, own = np.unique(settled, return_inverse=True)  # clusters without rows are left out
        n_outside = int(found[0] < 0)
        memory.labels = own - n_outside
        found = found[n_outside:]
        counts, centers, squares = exact_moments(rows, memory.labels, len(found))
        radii, sse = summary.radii, squares.sum(axis=1)
        radii = None if radii is None else radii[found]
        changed = replace(summary, centers=centers, counts=counts, sse=sse, radii=radii)
        return changed, memory.labels

    def round(self, summary: Summary, sizes: Ints, rows: Any) -> Summary:
        """Round in the units of the file, so that no scaler chooses a digit."""
        labels, unscaled, scaler = self.memory.labels, self.memory.rows, self.scaler
        if scaler is None or labels is None or unscaled is None:
            return super().round(summary, sizes, rows)
        unscaled = pulled_in_clusters(unscaled, labels, self.min_cluster_size)
        found = rounded_moments(unscaled, labels, len(summary.centers), self.min_cluster_size)
        sse = (found.squares / scaler.deviation**2).sum(axis=1)
        radii = None if summary.radii is None else round_radii(summary.radii, sizes, sse)
        return replace(summary, centers=scaler.scale(found.means), sse=sse, radii=radii)

    def quantization(self, rows: Any) -> Floats:
        """Return how coarse each column is, rounded in the units of the file."""
        if self.scaler is None or self.memory.rows is None:
            return super().quantization(rows)
        found = super().quantization(self.memory.rows)
        return np.where(found > 0, found / self.scaler.deviation**2, found)


# ----------------------------------------------------------------------------------- small clusters


def _check_rows(summary: Summary, client: str) -> None:
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


def merge_small(summary: Summary, size: int) -> Summary:
    """Merge every center of fewer than `size` rows into its nearest neighbor, smallest first.

    The merged center is the mean of both clusters' rows. It keeps the larger of the two radii. The
    tensor ``support``, one number per center as fuzzy methods send it, adds up as counts do; the
    tensor ``labels`` follows the centers. A summary without centers passes if it is about enough
    rows.

    Cells that only describe where rows are (tensor ``cells_only``) are merged with similar ones,
    and otherwise left out: a center between two clusters would be worse than none.
    """
    counts, has_centers = summary.counts, len(summary.centers) > 0
    if counts is None and has_centers:
        raise DataError(
            f"The guard of client {summary.client!r} needs cluster sizes, and the method does not "
            "compute them. Use min_cluster_size=1 or another method."
        )
    n_rows = summary.n_samples if counts is None or not has_centers else int(counts.sum())
    if n_rows < size:
        raise DataError(
            f"Client {summary.client!r} has {counted(n_rows, 'row')}, fewer than min_cluster_size "
            f"= {size}, so its guard blocks the summary. Leave this client out. A smaller number "
            "lets centers leave that tell more about single rows."
        )
    if not has_centers:
        return summary
    parts: dict[str, Any] = {
        name: np.array(getattr(summary, name), dtype=np.float64)
        for name in ("centers", "counts", "radii", "sse")
        if getattr(summary, name) is not None
    }
    if summary.tensors.get(SUPPORT, np.zeros(0)).shape == (len(summary.centers),):
        parts[SUPPORT] = np.array(summary.tensors[SUPPORT], dtype=np.float64)
    only_cells = CELLS_ONLY in summary.tensors
    if only_cells:  # mean squared distance of the rows of each, and at least the typical one
        several = parts["counts"] > 1
        scatter = np.where(several, parts["sse"] / np.maximum(parts["counts"] - 1, 1), 0.0)
        typical = float(np.median(scatter[several])) if several.any() else 0.0
        parts["scatter"] = np.maximum(scatter, max(typical, 1e-12))
        similar = SIMILAR * parts["scatter"].min()
    where, n_far = np.arange(len(summary.centers)), 0
    while parts["counts"].min() < size:
        i = int(parts["counts"].argmin())
        if len(parts["counts"]) == 1:  # too few cells are alike: merge them all
            # so the server does not count clusters by this summary
            everything = {LEFT_OUT: np.array([summary.n_samples])}
            tensors = {name: t for name, t in summary.tensors.items() if name != CELLS_ONLY}
            all_cells = merge_small(replace(summary, tensors=tensors), size)
            return replace(all_cells, tensors={**all_cells.tensors, **everything})
        distances = pairwise_distances(parts["centers"][i : i + 1], parts["centers"])[0]
        costs, n = distances.copy(), parts["counts"]
        if only_cells:  # what merging adds to the sum of squares, in units of six deviations
            units = 1 + 6 * np.sqrt(2 / parts["centers"].shape[1])
            costs = n[i] * n / (n[i] + n) * distances**2 / units
        costs[i] = np.inf
        j = int(costs.argmin())
        if not only_cells or costs[j] <= similar:
            _merge_into(parts, i, j, float(distances[j]))
            where[where == i] = j
        else:
            if costs[j] > FAR_CELLS * parts["scatter"][[i, j]].max():
                n_far += int(parts["counts"][i])
            where[where == i] = -1
        for name in parts:
            parts[name] = np.delete(parts[name], i, axis=0)
        where[where > i] -= 1
    merged = len(summary.centers) - len(parts["centers"])
    parts.pop("scatter", None)
    tensors = dict(summary.tensors)
    if SUPPORT in parts:
        tensors[SUPPORT] = parts.pop(SUPPORT)
    if merged and LABELS in tensors:
        tensors[LABELS] = np.append(where, -1)[tensors[LABELS]]
    if n_far:
        tensors[LEFT_OUT] = np.array([n_far])
    return replace(summary, **parts, tensors=tensors, merged=merged)


def _merge_into(parts: dict[str, Any], i: int, j: int, distance: float) -> None:
    n_i, n_j = parts["counts"][i], parts["counts"][j]
    share = n_i / max(n_i + n_j, 1)  # a fuzzy center may have no rows at all
    parts["centers"][j] += share * (parts["centers"][i] - parts["centers"][j])
    for name in {"counts", SUPPORT} & parts.keys():
        parts[name][j] += parts[name][i]
    if "sse" in parts and n_i + n_j:
        parts["sse"][j] = merged_sse(n_i, n_j, parts["sse"][i], parts["sse"][j], distance)
    if "scatter" in parts and n_i + n_j > 1:
        parts["scatter"][j] = max(parts["scatter"][j], parts["sse"][j] / (n_i + n_j - 1))
    if "radii" in parts:
        parts["radii"][j] = max(parts["radii"][i], parts["radii"][j])


# ----------------------------------------------------------------------------------------- far rows


def pulled_in(
    rows: Floats, size: int, share: float = WORTH_A_CENTER, columns: Columns | None = None
) -> Floats:
    """Return rows of which fewer than `size` no longer are most of the sum of squares.

    Each of them is moved onto the outermost of the other rows in its direction from the middle. The
    same array is returned if they are less than this share of the sum.

    Parameters
    ----------
    columns : which columns count; None is those with more than two values.

    Examples
    --------
    >>> rows = np.append(np.arange(40.0), 1e6)[:, None]
    >>> float(pulled_in(rows, 5).max())
    39.0
    """
    columns = _several_values(rows) if columns is None else columns
    if len(rows) < FEWEST * size or not columns.any():
        return rows
    middle = np.median(rows, axis=0)
    offsets = np.where(columns, rows - middle, 0.0)
    squared = (offsets**2).sum(axis=1)
    top = np.sort(np.partition(squared, -size)[-size:])
    gaps = np.flatnonzero(top[1:] > FAR**2 * top[:-1])
    far = squared > (top[gaps[0]] if len(gaps) else np.inf)
    if not far.any() or squared[far].sum() <= share * squared.sum():
        return rows
    moved, near = rows.copy(), np.flatnonzero(~far)
    for i in np.flatnonzero(far):
        # onto another row, not to a place between: that would depend on how far away it is
        outermost = near[(offsets[near] @ (offsets[i] / np.sqrt(squared[i]))).argmax()]
        moved[i] = np.where(columns, rows[outermost], rows[i])
    return moved


def pulled_in_clusters(rows: Floats, labels: Ints, size: int) -> Floats:
    """Return rows of which fewer than `size` dominate no cluster; label -1 is none."""
    moved, columns = rows, _several_values(rows)
    for j in range(int(labels.max(initial=-1)) + 1):
        own = np.flatnonzero(labels == j)
        near = pulled_in(rows[own], size, DOMINANT, columns)
        if (near != rows[own]).any():
            moved = moved.copy() if moved is rows else moved
            moved[own] = near
    return moved


def warn_of_far_row(rows: Floats) -> None:
    """Warn if a single row makes up most of the sum of squares; for rows without a guard."""
    if rows.shape[0] < 2 * FEWEST or is_sparse(rows):
        return
    columns = _several_values(rows)
    middle, total, largest, where = rows.mean(axis=0), 0.0, 0.0, 0
    for part in blocks(len(rows), max(1, rows.shape[1]), BLOCK):
        squared = ((rows[part] - middle)[:, columns] ** 2).sum(axis=1)
        total += float(squared.sum())
        if squared.max() > largest:
            largest, where = float(squared.max()), part.start + int(squared.argmax())
    if largest > DOMINANT * total:
        warn(
            f"Row {where} is far from all others: it makes up {largest / total:.0%} of the sum of "
            "squares, so a center may be spent on it, and what leaves its client tells how far "
            "away it is. Correct it or leave it out. With guard=Guard(), it is moved in if its "
            "client has at least 20 rows.",
            PrivacyWarning,
        )


def _several_values(rows: Floats) -> Columns:
    """Tell which columns have more than two values: a rare one of two is not far away."""
    low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
    found = np.zeros(rows.shape[1], dtype=bool)
    for part in blocks(len(rows), max(1, rows.shape[1]), BLOCK):
        found |= ((rows[part] != low) & (rows[part] != high)).any(axis=0)
    return found


# ------------------------------------------------------------------------------------------- groups


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
        small = sizes[own] < size
        if group < 0:  # its rows may be anywhere: leave out the small parts, or as many as needed
            outside = target[own] < 0  # these rows are left out anyway, so they come first
            order = own[np.lexsort((sizes[own], ~outside))]
            n_needed = int(np.searchsorted(np.cumsum(sizes[order]), size)) + 1
            target[order[: max(int((outside | small).sum()), n_needed)]] = -1
            continue
        kept = own[[sizes[own].argmax()]] if small.all() else own[~small]
        inside = kept[target[kept] >= 0]  # a part without a cluster is nearest to none
        for part in np.setdiff1d(own, kept):
            nearest = kept[0]
            if len(inside):
                gaps = centers[target[inside]] - means[part]
                nearest = inside[(gaps**2).sum(axis=1).argmin()]
            target[part] = target[nearest]
    moved: Ints = target[member]
    return moved


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
