"""Merge the summaries of a region's sites into one summary with fewer centers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjigsaw._received import Received
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.kmeans import partition_of
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import CELL_NOISE, CELLS, LEFT_OUT, NOISE, QUANTIZATION, Summary
from fedjigsaw.privacy.summaries import check_same_cells, count_noise


def merge_received(received: Received, labels: Ints, summaries: Sequence[Summary]) -> Summary:
    r"""Merge local clusters by their labels.

    Rows add up, and so do sums of squares: those within the local clusters, and those between them
    and the center that they are merged into. With noise, a center counts by how well it is known.

    Parameters
    ----------
    received : the local clusters that are used.
    summaries : where they come from; sites have the same numbers in both.

    Examples
    --------
    >>> from fedjigsaw._received import receive
    >>> a = Summary(4, [[0.0], [4.0]], counts=[1, 3], sse=[0.0, 6.0])
    >>> merged = merge_received(receive([a]), np.zeros(2, dtype=np.int64), [a])
    >>> merged.centers.tolist(), merged.counts.tolist(), merged.sse.tolist()
    ([[3.0]], [4], [18.0])
    """
    weights = received.weights
    found = partition_of(received.centers, labels, weights)
    squared = ((received.centers - found.centers[found.labels]) ** 2).sum(axis=1)

    def total(values: Floats) -> Floats:
        sums = np.bincount(found.labels, values, minlength=len(found.counts))
        return np.asarray(sums, dtype=np.float64)

    n_rows = _n_rows(float(received.counts.sum()), summaries)
    tensors = _of_cells(received, summaries, n_rows)
    if received.noise.any():
        per_count = np.array([count_noise(summary) for summary in summaries])[received.owners]
        on_centers = np.sqrt(total((weights * received.noise) ** 2)) / found.counts
        tensors[NOISE] = np.column_stack([np.sqrt(total(per_count**2)), on_centers])
    return Summary(
        n_rows,
        found.centers,
        counts=whole_numbers(total(received.counts)),
        sse=total(received.sse + received.counts * squared) if received.has_sse else None,
        tensors=tensors,
    )


def divide(
    received: Received, clusters: Ints, n_parts: int, *, rng: np.random.Generator, **options: Any
) -> Ints:
    """Divide each cluster of local ones into parts by weighted k-means; return the part of each.

    All clusters get the same number of parts, as far as they have so many local clusters.

    Parameters
    ----------
    clusters : shape (n,), the cluster of each local one.
    n_parts : most parts in all, at least as many as clusters.
    options : those of :func:`~fedjigsaw.kernels.solver.solve`.

    Examples
    --------
    >>> from fedjigsaw._received import receive
    >>> a = Summary(5, [[0.0], [1.0], [4.0], [9.0], [8.0]], counts=[1, 1, 1, 1, 1])
    >>> rng = np.random.default_rng(0)
    >>> divide(receive([a]), np.array([0, 0, 0, 1, 1]), 4, rng=rng, max_iter=300).tolist()
    [0, 0, 1, 3, 2]
    """
    labels = np.zeros(len(clusters), dtype=np.int64)
    names, n_found = np.unique(clusters), 0
    for i, name in enumerate(names):
        own = np.flatnonzero(clusters == name)
        quota = n_parts // len(names) + (i < n_parts % len(names))
        weighted = received.centers[own], received.weights[own]
        found = solve(*weighted, quota, rng=rng, n_tries=0, **options)
        labels[own] = n_found + found.labels
        n_found += len(found.centers)
    return labels


def whole_numbers(rows: Floats) -> Ints:
    """Round rows to whole numbers that have the same sum, rounded, unless some were below 1.

    Examples
    --------
    >>> whole_numbers(np.array([2.4, 2.4, 2.2, 0.1])).tolist()
    [2, 2, 2, 1]
    """
    counts = np.maximum(np.floor(rows), 1).astype(np.int64)
    missing = round(float(rows.sum())) - int(counts.sum())
    if missing > 0:
        counts[np.argsort(counts - rows, kind="stable")[:missing]] += 1
    return counts


def merge_tables(summaries: Sequence[Summary]) -> Summary:
    """Add up tables of cells that all sites share; noise adds up by its variance."""
    check_same_cells(summaries)
    tables = np.stack([summary.tensors[CELLS] for summary in summaries])
    noises = np.stack([summary.tensors[CELL_NOISE] for summary in summaries])
    total = tables.sum(axis=0)
    return Summary(
        _n_rows(float(total[:, 0].sum()), summaries),
        summaries[0].centers,
        tensors={CELLS: total, CELL_NOISE: np.sqrt((noises**2).sum(axis=0))},
    )


def _n_rows(rows: float, summaries: Sequence[Summary]) -> int:
    """Return the rows that merged centers stand for: no more than the sites have."""
    return min(max(1, round(rows)), sum(summary.n_samples for summary in summaries))


def _of_cells(
    received: Received, summaries: Sequence[Summary], n_rows: int
) -> dict[str, np.ndarray]:
    """Return what is known besides, where the number of clusters is to be found."""
    tensors: dict[str, np.ndarray] = {}
    sent = [
        summary.tensors[QUANTIZATION] for summary in summaries if QUANTIZATION in summary.tensors
    ]
    if sent:
        columns = [column[column >= 0] for column in np.array(sent, dtype=np.float64).T]
        enough = [2 * len(known) >= len(summaries) for known in columns]
        found = [np.median(c) if e else -1.0 for c, e in zip(columns, enough, strict=True)]
        tensors[QUANTIZATION] = np.array(found)
    if received.mixed is not None and received.mixed.all():
        tensors[LEFT_OUT] = np.array([n_rows])
    elif received.left_out >= 1:  # the receiver takes these rows out of all rows again
        left = min(received.left_out, n_rows / 2)
        tensors[LEFT_OUT] = np.array([round(n_rows * left / (n_rows - left))])
    return tensors
