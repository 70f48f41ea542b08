"""k-means of many clients in one call, on several threads, with the same bits on any number."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fedjigsaw._steps import listener
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.compiled import plain_search, tile_search
from fedjigsaw.kernels.compiled.drawing import start_states
from fedjigsaw.kernels.compiled.statistics import describe
from fedjigsaw.threads import available_threads

# Rows, and rows times clusters, up to which all rows are looked at in each step. From there on,
# tiles and bounds pay; they take longer to compile.
FEW_ROWS, FEW_PAIRS = 2048, 2**16
PARTS_PER_THREAD = 8  # parts of unequal clients, so that threads end at about the same time


@dataclass(frozen=True)
class Batch:
    """Clients whose rows are clustered in one call.

    Attributes
    ----------
    X, weights : shapes (n, d) and (n,), rows of all clients one after the other, and their weights.
    ends : shape (m,), for each client the place after its last row.
    n_clusters : shape (m,), number of clusters that each looks for, at most its number of rows.
    seeds : shape (m,), from which all random numbers of a client come.
    """

    X: Floats
    weights: Floats
    ends: Ints
    n_clusters: Ints
    seeds: Ints

    @classmethod
    def of(
        cls,
        rows: Sequence[Floats],
        weights: Sequence[Floats | None],
        n_clusters: Sequence[int],
        seeds: Sequence[int],
    ) -> "Batch":
        """Put clients together."""
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        w = np.ones(int(sizes.sum()))
        if any(given is not None for given in weights):
            ones = np.split(w, np.cumsum(sizes)[:-1])
            w = _plain(
                [o if given is None else given for o, given in zip(ones, weights, strict=True)]
            )
        return cls(
            _plain(rows),
            w,
            np.cumsum(sizes),
            np.minimum(np.array(n_clusters, np.int64), sizes),
            np.array(seeds, np.int64),
        )


def _plain(parts: Sequence[Floats]) -> Floats:
    """Put arrays together to one that may be written: for others, numba would compile anew."""
    if len(parts) == 1 and parts[0].flags.carray and parts[0].dtype == np.float64:
        return parts[0]
    return np.ascontiguousarray(np.concatenate(parts), np.float64)


@dataclass(frozen=True)
class Clusters:
    """What was found: for each client a label of every row, and statistics of its clusters."""

    labels: Ints
    centers: Floats
    counts: Floats
    sse: Floats
    extents: Floats
    row_ends: Ints
    first: Ints  # place of each client's first cluster
    found: Ints  # number of each client's clusters

    def __iter__(self) -> Iterator[tuple[Floats, Ints, Floats, Floats, Floats]]:
        """Give centers, labels, counts, sums of squares and extents of one client after another."""
        rows = pairwise([0, *self.row_ends.tolist()])
        clusters = zip(self.first.tolist(), (self.first + self.found).tolist(), strict=True)
        for (row, row_end), (one, end) in zip(rows, clusters, strict=True):
            yield (
                self.centers[one:end],
                self.labels[row:row_end],
                self.counts[one:end],
                self.sse[one:end],
                self.extents[one:end],
            )


def cluster(
    batch: Batch, *, n_init: int, max_iter: int, tol: float, given: Floats | None = None
) -> Clusters:
    """Cluster the rows of each client by the best of `n_init` starts of k-means.

    Centers that are `given`, those of one client after the other, are the only start.
    """
    m, d = len(batch.ends), batch.X.shape[1]
    starts = np.concatenate([[0], batch.ends[:-1]])
    first = np.concatenate([[0], np.cumsum(batch.n_clusters)[:-1]])
    total = int(batch.n_clusters.sum())
    made = Clusters(
        labels=np.zeros(len(batch.X), np.int64),
        centers=np.empty((total, d)),
        counts=np.empty(total),
        sse=np.empty(total),
        extents=np.empty(total),
        row_ends=batch.ends,
        first=first,
        found=np.empty(m, np.int64),
    )
    if given is not None:
        n_init = 1
    n_rows = batch.ends - starts
    small = (n_rows <= FEW_ROWS) & (n_rows * batch.n_clusters <= FEW_PAIRS)
    threads = available_threads()
    large = [(i, slice(int(starts[i]), int(batch.ends[i]))) for i in np.flatnonzero(~small)]
    # starts side by side hold one client at a time; many clients, or single starts, go in turn
    over_starts = len(large) < PARTS_PER_THREAD * threads and n_init >= threads
    search = partial(_in_tiles, batch, n_init, max_iter, tol, threads if over_starts else 1)
    if given is not None:
        search = partial(_settled, batch, first, given, max_iter, tol)
    found = _side_by_side(search, large, 1 if over_starts else threads)
    for (_, place), labels in zip(large, found, strict=True):
        made.labels[place] = labels
    n_parts = min(m, PARTS_PER_THREAD * threads) if threads > 1 else 1
    cuts = np.searchsorted(batch.ends, np.linspace(0, len(batch.X), n_parts + 1)[1:-1])
    clients = np.column_stack([starts, batch.ends, batch.n_clusters, first])
    states = start_states(batch.seeds, n_init)
    init = np.empty((0, d)) if given is None else np.ascontiguousarray(given)
    statistics = (made.centers, made.counts, made.sse, made.extents)

    def work(one: int, end: int) -> None:
        part, few = clients[one:end], small[one:end]
        if few.any():
            sizes = int(n_rows[one:end][few].max()), d, int(part[few, 2].max())
            plain_search.search(
                *(batch.X, batch.weights, part[few], states[one:end][few], init, max_iter),
                *(float(tol), made.labels, *plain_search.workspace(*sizes)),
            )
        k = int(part[:, 2].max())
        space = np.empty((k, d + 1)), *np.zeros((2, k), np.int64)
        describe(
            *(batch.X, batch.weights, part, made.labels, *statistics, made.found[one:end], *space)
        )

    parts = [(one, end) for one, end in pairwise([0, *cuts.tolist(), m]) if one < end]
    for _ in _side_by_side(work, parts, threads):
        pass
    return made


def settle(
    X: Floats, weights: Floats | None, centers: Floats, *, max_iter: int, tol: float
) -> Ints:
    """Return the labels of rows after Lloyd's iterations from given centers."""
    w = _plain([np.ones(len(X)) if weights is None else weights])
    rows = _plain([X])
    return _from_centers(rows, w, centers, max_iter, tol)


def _settled(
    batch: Batch, first: Ints, given: Floats, max_iter: int, tol: float, i: int, rows: slice
) -> Ints:
    """Return the labels of a client's rows after Lloyd's iterations from its given centers."""
    start = given[first[i] : first[i] + batch.n_clusters[i]]
    return _from_centers(batch.X[rows], batch.weights[rows], start, max_iter, tol)


def _from_centers(rows: Floats, w: Floats, centers: Floats, max_iter: int, tol: float) -> Ints:
    tiles, w, norms = tile_search.in_tiles(rows, w, tile_search.tile_rows(rows.shape[1]))
    labels = np.zeros(w.shape, np.int64)
    start = np.ascontiguousarray(centers - rows.mean(axis=0))
    tile_search.from_centers(tiles, w, norms, start, max_iter, tol, labels)
    return labels.reshape(-1)[: len(rows)]


def _in_tiles(
    batch: Batch, n_init: int, max_iter: int, tol: float, threads: int, i: int, rows: slice
) -> Ints:
    """Return the labels of a client's rows by the best start; of equal ones, the first."""
    X, k = batch.X[rows], int(batch.n_clusters[i])
    (states,) = start_states(batch.seeds[i : i + 1], n_init)
    tiles, weights, norms = tile_search.in_tiles(
        X, batch.weights[rows], tile_search.tile_rows(X.shape[1])
    )

    def search(start: int) -> tuple[float, Ints]:
        labels = np.zeros(weights.shape, np.int64)
        objective = tile_search.one_start(
            tiles, weights, norms, k, max_iter, tol, states[start], labels
        )
        return objective, labels

    best, found = np.inf, np.zeros(weights.shape, np.int64)
    ends = _side_by_side(search, [(start,) for start in range(n_init)], threads)
    for n_done, (objective, labels) in enumerate(ends, start=1):
        listener.get()(n_done, n_init)
        if objective < best:
            best, found = objective, labels
    return found.reshape(-1)[: len(X)]


def _side_by_side(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], threads: int
) -> Iterator[Any]:
    """Run tasks on threads. Give their results in order."""
    if threads == 1 or len(tasks) == 1:
        yield from (function(*task) for task in tasks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda task: function(*task), tasks)
