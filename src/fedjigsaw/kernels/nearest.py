"""Nearest centers of many rows, and sums over them: compiled where that pays, else in NumPy.

Rows are divided into parts by their number alone. Threads take whole parts, and sums of parts are
added up in their order, so that the number of threads changes no bit.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import TORCH, VARIABLE, Backend, HoldingBackend, NumbaBackend
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.kmeans import blocks, label_sums, nearest_centers
from fedjigsaw.threads import available_threads

PAIRS = 2**19  # of rows and centers, from where on compiled code is loaded
PARTS = 32  # into which rows are divided, at most
SMALLEST = 4096  # rows of a part
LONG = 2**23  # products of coordinates from where on threads pay, about 1 ms


def compiles(
    n_rows: int, n_centers: int, least: int = PAIRS, backend: Backend | None = None
) -> bool:
    """Tell whether work of this size is done by compiled code: at least so many pairs.

    A given backend decides whether compiled code is wanted, or else the environment does.
    """
    if n_rows * n_centers < least or not installed():
        return False
    if backend is None:
        return os.environ.get(VARIABLE, "auto") in ("auto", "numba", TORCH)
    return isinstance(backend, NumbaBackend | HoldingBackend)


class HostRows:
    """Rows with weights, and the functions below, as a search needs them.

    See :class:`fedjigsaw.kernels.backends.HeldRows`, which may be on a GPU instead.
    """

    def __init__(
        self,
        X: Floats,
        w: Floats,
        n_centers: int,
        fast: bool | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.X, self.w = X, w
        self.fast = compiles(len(X), n_centers, backend=backend) if fast is None else fast

    def nearest(self, centers: Floats, among: Ints | None = None) -> tuple[Ints, Floats]:
        """Call :func:`nearest` for all rows, or some."""
        return nearest(self.X if among is None else self.X[among], centers, fast=self.fast)

    def nearest_two(self, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
        """Call :func:`nearest_two`."""
        return nearest_two(self.X, centers, fast=self.fast)

    def lloyd(self, centers: Floats) -> tuple[Floats, Floats, float]:
        """Call :func:`lloyd`."""
        return lloyd(self.X, self.w, centers, fast=self.fast)


def nearest(X: Floats, centers: Floats, *, fast: bool) -> tuple[Ints, Floats]:
    """Return the nearest center of each row and the squared distance to it.

    Much faster than :func:`~fedjigsaw.kernels.kmeans.nearest_centers`, and less exact: rows should
    be centered. With `fast`, compiled code does it.
    """
    labels, squared = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    if fast:
        _compiled("nearest", X, centers, labels, squared)
        return labels, squared
    for part, scores in _scores(X, centers):
        labels[part] = scores.argmin(axis=1)
        squared[part] = scores[np.arange(len(scores)), labels[part]]
    squared += np.einsum("ij,ij->i", X, X)
    return labels, np.maximum(squared, 0, out=squared)


def nearest_two(X: Floats, centers: Floats, *, fast: bool) -> tuple[Ints, Ints, Floats, Floats]:
    """Return the nearest and the second nearest center of each row, and both squared distances."""
    own, other = np.empty(len(X), dtype=np.int64), np.empty(len(X), dtype=np.int64)
    first, second = np.empty(len(X)), np.empty(len(X))
    if fast:
        _compiled("nearest_two", X, centers, own, other, first, second)
        return own, other, first, second
    for part, scores in _scores(X, centers):
        at = np.arange(len(scores))
        own[part] = scores.argmin(axis=1)
        first[part] = scores[at, own[part]]
        scores[at, own[part]] = np.inf
        other[part] = scores.argmin(axis=1)
        second[part] = scores[at, other[part]]
    norms = np.einsum("ij,ij->i", X, X)
    return own, other, np.maximum(first + norms, 0), np.maximum(second + norms, 0)


def lloyd(X: Floats, w: Floats, centers: Floats, *, fast: bool) -> tuple[Floats, Floats, float]:
    """Return the sums and the weights of the rows nearest to each center, and the objective."""
    k = len(centers)
    if not fast:
        labels, squared = nearest(X, centers, fast=False)
        counts: Floats = np.bincount(labels, w, minlength=k).astype(np.float64)
        return label_sums(X, labels, w, k), counts, float(w @ squared)
    from fedjigsaw.kernels.compiled.nearest import lloyd as kernel

    return add_up(kernel, X, centers, w)


def add_up(
    kernel: Callable[..., float], X: Floats, centers: Floats, *per_row: Floats
) -> tuple[Floats, Floats, float]:
    """Return the sums, weights and objective that a compiled kernel adds up at each center."""
    half = np.einsum("ij,ij->i", centers, centers) / 2
    parts = list(_parts(len(X)))
    sums, totals = np.zeros((len(parts), *centers.shape)), np.zeros((len(parts), len(centers)))

    def work(i: int) -> float:
        start, stop = parts[i]
        return float(kernel(X, *per_row, centers, half, start, stop, sums[i], totals[i]))

    objective = sum(side_by_side(work, range(len(parts)), X.size * len(centers)))
    return sums.sum(axis=0), totals.sum(axis=0), objective


def _compiled(name: str, X: Floats, centers: Floats, *results: Any) -> None:
    from fedjigsaw.kernels.compiled import nearest as kernels

    kernel = getattr(kernels, name)
    X, centers = np.ascontiguousarray(X), np.ascontiguousarray(centers)
    half = np.einsum("ij,ij->i", centers, centers) / 2

    def work(part: tuple[int, int]) -> None:
        kernel(X, centers, half, *part, *results)

    side_by_side(work, list(_parts(len(X))), X.size * len(centers))


def nearest_on_threads(X: Floats, centers: Floats, backend: Backend | None = None) -> Ints:
    """Return which center is nearest to each row, on as many threads as pay."""
    n_threads = threads_for(X.size * len(centers))
    return nearest_centers(X, centers, n_threads=n_threads, backend=backend)[0]


def threads_for(n_products: int) -> int:
    """Return the number of threads that pay for so many products of coordinates."""
    return available_threads() if n_products >= LONG else 1


def side_by_side(work: Callable[[Any], Any], parts: Sequence[Any], n_products: int) -> list[Any]:
    """Return what the work finds for each part; threads share the parts if that pays."""
    n_threads = min(threads_for(n_products), len(parts))
    if n_threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, parts))


def _parts(n_rows: int) -> Iterator[tuple[int, int]]:
    step = max(SMALLEST, -(-n_rows // PARTS))
    return ((start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _scores(X: Floats, centers: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield squared distances minus the rows' squared norms, in blocks."""
    norms = np.einsum("ij,ij->i", centers, centers)
    twice = -2 * centers.T
    for part in blocks(len(X), 16 * len(centers)):  # small enough for the cache
        scores = X[part] @ twice
        scores += norms
        yield part, scores
