"""k-means of many clients in one call, on several threads, with the same bits on any number."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from fedjigsaw._steps import listener
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.compiled import kmeans as kernels
from fedjigsaw.kernels.compiled import side_by_side
from fedjigsaw.kernels.labels import find_nearest

FEW = 512  # rows up to which looking at all of them in each step is faster than bounds
PARTS_PER_THREAD = 8  # parts of unequal clients, so that threads end at about the same time
TILE = 2**12  # numbers in a tile, as many as the fastest cache holds

# rows, their weights, number of clusters, states of random numbers, and given centers
Client = tuple[Floats, Floats | None, int, Any, Floats | None]


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
    apart = np.arange(n_init, dtype=np.uint64) * (kernels.STEP << np.uint64(32))
    states = np.array(seeds, np.uint64)[:, None] + apart
    clients = list(zip(rows, weights, n_clusters, states, starts or repeat(None), strict=False))
    few = [i for i, X in enumerate(rows) if len(X) <= FEW]
    many = [i for i, X in enumerate(rows) if len(X) > FEW]
    # starts side by side hold one client at a time; many clients, or single starts, go in turn
    over_starts = len(many) < PARTS_PER_THREAD * n_threads and n_init >= n_threads
    found = side_by_side(
        lambda i: _many(clients[i], max_iter, tol, n_threads if over_starts else 1),
        many,
        1 if over_starts else n_threads,
    )
    labels: dict[int, Ints] = dict(zip(many, found, strict=True))
    n_parts = min(len(few), PARTS_PER_THREAD * n_threads if n_threads > 1 else 1)
    parts = [few[i::n_parts] for i in range(n_parts)]
    found = side_by_side(
        lambda part: _few([clients[i] for i in part], max_iter, tol), parts, n_threads
    )
    for part, ends in zip(parts, found, strict=True):
        labels |= zip(part, ends, strict=True)
    return [labels[i] for i in range(len(rows))]


def _few(clients: list[Client], max_iter: int, tol: float) -> list[Ints]:
    """Return the labels of clients with few rows each."""
    rows, weights, n_clusters, states, starts = zip(*clients, strict=True)
    n_rows = np.array([len(X) for X in rows])
    ends, k = np.cumsum(n_rows), np.minimum(n_clusters, n_rows)
    X, n, d, k_most = np.concatenate(rows), n_rows.max(), rows[0].shape[1], k.max()
    means = np.add.reduceat(X, ends - n_rows) / n_rows[:, None]
    columns = np.zeros((d + d % 2, len(X)))
    np.subtract(X.T, np.repeat(means.T, n_rows, axis=1), out=columns[:d])
    w = np.concatenate(
        [np.ones(len(X)) if w is None else w for X, w in zip(rows, weights, strict=True)],
        dtype=np.float64,
    )
    norms = np.einsum("ij,ij->j", columns, columns)
    spread = np.add.reduceat(w * norms, ends - n_rows) / np.add.reduceat(w, ends - n_rows)
    places = (ends - n_rows, n_rows, k, np.cumsum(k) - k, 2 + np.log(k).astype(np.int64))
    given = np.zeros((0 if starts[0] is None else k.sum(), len(columns)))
    if len(given):
        given[:, :d] = np.concatenate(starts) - np.repeat(means, k, axis=0)
    labels = np.zeros(len(X), np.int64)
    kernels.few(
        columns, norms, w, np.column_stack(places), tol * spread / d, np.stack(states), given,
        max_iter, labels, np.empty((len(columns), n)), np.empty((n, n)),
        *np.zeros((2, k_most, len(columns))), np.zeros(k_most), *np.zeros((4, n)),
        np.zeros(k_most, np.int64), *np.zeros((3, n), np.int64),
    )  # fmt: skip
    return np.split(labels, ends[:-1])


def _many(client: Client, max_iter: int, tol: float, n_threads: int) -> Ints:
    """Return the labels of one client with many rows."""
    X, weights, k, states, start = client
    n, d = X.shape
    width, size = d + -d % 4, 256
    while size > 32 and size * width > TILE:
        size //= 2
    centered = np.zeros((-(-n // size), size, width))
    np.subtract(X, X.mean(axis=0), out=centered.reshape(-1, width)[:n, :d])
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
            space = np.empty((n_candidates, *w.shape)), np.empty((n_candidates, width))
            found = kernels.seed(tiles, w, k, state, labels, upper, *space)
            np.sqrt(upper, out=upper)
        else:
            labels.ravel()[:n], upper.ravel()[:n] = find_nearest(X, start, 1)
        return kernels.lloyd(tiles, norms, w, labels, upper, found, max_iter, enough), labels

    best, best_labels = -1.0, np.zeros(w.shape, np.int64)
    for n_done, (explained, labels) in enumerate(side_by_side(search, list(states), n_threads), 1):
        listener.get()(n_done, len(states))
        if explained > best:
            best, best_labels = explained, labels
    return best_labels.ravel()[:n]
