"""k-means of many clients in one call, on several threads, with the same bits on any number."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedjigsaw._steps import tell_step
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.compiled import kmeans as kernels
from fedjigsaw.kernels.compiled import side_by_side
from fedjigsaw.kernels.labels import find_nearest

FEW = 512  # rows up to which looking at all of them in each step is faster than bounds
PARTS_PER_THREAD = 8  # parts of unequal clients, so that threads end at about the same time
TILE = 2**12  # numbers in a tile, as many as the fastest cache holds; rows are a multiple of 32


def search(
    rows: Sequence[Floats],
    weights: Sequence[Floats | None],
    n_clusters: Sequence[int],
    seeds: Sequence[int],
    starts: Sequence[Floats] | None,
    *,
    n_init: int,
    max_iter: int,
    tol: float,
    n_threads: int,
) -> list[Ints]:
    """Return the labels of each client's rows, by the best of `n_init` starts of k-means.

    Centers in `starts`, if given, are the only start.
    """
    n_init = 1 if starts is not None else n_init
    states = np.array(seeds, np.uint64)[:, None] + (
        np.arange(n_init, dtype=np.uint64) * (kernels.STEP << np.uint64(32))
    )
    found: list[Ints | None] = [None] * len(rows)
    few = [i for i, X in enumerate(rows) if len(X) <= FEW]
    n_parts = min(len(few), PARTS_PER_THREAD * n_threads) if n_threads > 1 else 1

    def cluster_few(part: Sequence[int]) -> None:
        chosen = [starts[i] for i in part] if starts is not None else None
        labels = _few(
            [rows[i] for i in part], [weights[i] for i in part], [n_clusters[i] for i in part],
            states[part], chosen, max_iter, tol,
        )  # fmt: skip
        for i, one in zip(part, labels, strict=True):
            found[i] = one

    many = [i for i, X in enumerate(rows) if len(X) > FEW]
    # starts side by side hold one client at a time; many clients, or single starts, go in turn
    over_starts = len(many) < PARTS_PER_THREAD * n_threads and n_init >= n_threads

    def cluster_many(i: int) -> None:
        found[i] = _many(
            rows[i], weights[i], n_clusters[i], states[i],
            None if starts is None else starts[i], max_iter, tol, n_threads if over_starts else 1,
        )  # fmt: skip

    side_by_side(cluster_many, many, 1 if over_starts else n_threads)
    side_by_side(cluster_few, [few[i::n_parts] for i in range(n_parts)] if few else [], n_threads)
    return found  # type: ignore[return-value]


def _few(
    rows: list[Floats], weights: list[Floats | None], n_clusters: list[int], states: Any,
    starts: list[Floats] | None, max_iter: int, tol: float,
) -> list[Ints]:  # fmt: skip
    n_rows = np.fromiter(map(len, rows), np.int64, len(rows))
    ends = np.cumsum(n_rows)
    X = rows[0] if len(rows) == 1 else np.concatenate(rows)
    means = np.add.reduceat(X, ends - n_rows) / n_rows[:, None]
    d = X.shape[1]
    columns = np.zeros((d + d % 2, len(X)))
    np.subtract(X.T, np.repeat(means.T, n_rows, axis=1), out=columns[:d])
    w = np.concatenate(
        [np.ones(n) if w is None else w for w, n in zip(weights, n_rows, strict=True)]
    )
    norms = np.einsum("ij,ij->j", columns, columns)
    spread = np.add.reduceat(w * norms, ends - n_rows) / np.add.reduceat(w, ends - n_rows)
    k = np.minimum(n_clusters, n_rows)
    first = np.cumsum(k) - k
    clients = np.column_stack([ends - n_rows, n_rows, k, first])
    given = np.zeros((0, len(columns)))
    if starts is not None:
        given = np.zeros((k.sum(), len(columns)))
        given[:, :d] = np.concatenate(starts) - np.repeat(means, k, axis=0)
    labels, n, k_most = np.zeros(len(X), np.int64), n_rows.max(), k.max()
    kernels.few(
        columns, norms, w, clients, tol * spread / d, states, given, max_iter, labels,
        *np.zeros((2, k_most, len(columns))), np.zeros(k_most), *np.zeros((4, n)),
        np.zeros(k_most, np.int64), *np.zeros((3, n), np.int64),
    )  # fmt: skip
    return np.split(labels, ends[:-1])


def _many(
    X: Floats, weights: Floats | None, k: int, states: Any, start: Floats | None,
    max_iter: int, tol: float, n_threads: int,
) -> Ints:  # fmt: skip
    (n, d), middle = X.shape, X.mean(axis=0)
    even = d + -d % 4
    size = min(256, max(32, TILE // even // 32 * 32))
    centered = np.zeros((-(-n // size), size, even))
    np.subtract(X, middle, out=centered.reshape(-1, even)[:n, :d])
    norms = np.einsum("tij,tij->ti", centered, centered)
    tiles = np.ascontiguousarray(centered.transpose(0, 2, 1))
    w = np.zeros(norms.shape)
    w.ravel()[:n] = 1.0 if weights is None else weights
    enough = tol * float((w * norms).sum() / w.sum()) / d
    del centered

    def search(state: Any) -> tuple[float, Ints]:
        labels, upper, found = np.zeros(w.shape, np.int64), np.zeros(w.shape), k
        if start is None:
            n_candidates = 2 + int(np.log(k))
            space = np.empty((n_candidates, *w.shape)), np.empty((n_candidates, even))
            found = kernels.seed(tiles, w, k, state, labels, upper, *space)
            np.sqrt(upper, out=upper)
        else:
            labels.ravel()[:n], upper.ravel()[:n] = find_nearest(X, start, 1)
        return kernels.lloyd(tiles, norms, w, labels, upper, found, max_iter, enough), labels

    best, best_labels = -1.0, np.zeros(w.shape, np.int64)
    for n_done, (explained, labels) in enumerate(side_by_side(search, list(states), n_threads), 1):
        tell_step(n_done, len(states))
        if explained > best:
            best, best_labels = explained, labels
    return best_labels.ravel()[:n]
