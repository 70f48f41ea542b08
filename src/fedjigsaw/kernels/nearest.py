"""Nearest centers of many rows, and sums over them: compiled where that pays, else in NumPy.

Rows are divided into parts by their number alone. Threads take whole parts, and sums of parts are
added up in their order, so that the number of threads changes no bit.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import (
    TORCH,
    VARIABLE,
    Backend,
    HeldRows,
    HoldingBackend,
    NumbaBackend,
    hold,
)
from fedjigsaw.kernels.compiled import installed, side_by_side
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
    """Rows with weights in memory; see :class:`fedjigsaw.kernels.backends.HeldRows`."""

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
        """Return the nearest center of each row, or of some, and the squared distance to it."""
        return nearest(self.X if among is None else self.X[among], centers, fast=self.fast)

    def nearest_two(self, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the two nearest centers of each row, and both squared distances."""
        return nearest_two(self.X, centers, fast=self.fast)

    def label(self, centers: Floats) -> tuple[Ints, Floats]:
        """Return the exactly nearest center of each row and the distance to it."""
        return nearest_centers(self.X, centers)

    def lloyd(self, centers: Floats) -> tuple[Floats, Floats, float]:
        """Return the sums and the weights of the rows nearest to each center, and the objective."""
        if self.fast:
            from fedjigsaw.kernels.compiled.nearest import lloyd

            return _add_up(lloyd, self.X, centers, self.w)
        labels, squared = self.nearest(centers)
        counts: Floats = np.bincount(labels, self.w, minlength=len(centers)).astype(np.float64)
        return label_sums(self.X, labels, self.w, len(counts)), counts, float(self.w @ squared)

    def divide(self, widths: Floats, centers: Floats) -> tuple[Floats, Floats, float]:
        r"""Divide rows, as Gaussians, between their two nearest centers.

        Let h be the distance of a mean from the plane halfway between the two. The fraction
        :math:`p = \Phi(-h / \sigma_i)` of the Gaussian lies beyond the plane, and the means of
        the two parts are shifted along the normal of the plane, by
        :math:`\sigma_i \phi(h / \sigma_i)` divided by the fraction of the part.

        Parameters
        ----------
        widths : shape (n,), standard deviations :math:`\sigma_i`.

        Returns
        -------
        The sums and the weights of the parts at each center, and the objective of the means.
        """
        if self.fast:
            from fedjigsaw.kernels.compiled.gaussians import divide

            return _add_up(divide, self.X, centers, self.w, widths)
        from scipy.special import ndtr  # lazy: the processes that carry messages need this module

        k = len(centers)
        sums, mass, objective = np.zeros(centers.shape), np.zeros(k), 0.0
        for part in blocks(len(self.X), 8 * self.X.shape[1]):
            rows, w, width = self.X[part], self.w[part], widths[part]
            own, other, first, second = nearest_two(rows, centers, fast=False)
            normal = centers[other] - centers[own]
            apart = np.linalg.norm(normal, axis=1)
            apart = np.where(apart > 0, apart, 1)
            h = (second - first) / (2 * apart)
            z = np.divide(h, width, out=np.full(len(rows), np.inf), where=width > 0)
            beyond = ndtr(-z)
            moment = w * width * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
            shift = normal * (moment / apart)[:, None]
            kept, given, one = w * (1 - beyond), w * beyond, np.ones(len(rows))
            mass += label_sums(kept, own, one, k) + label_sums(given, other, one, k)
            sums += label_sums(kept[:, None] * rows - shift, own, one, k)
            sums += label_sums(given[:, None] * rows + shift, other, one, k)
            objective += float(w @ first)
        return sums, mass, objective


def rows_of(
    X: Floats,
    w: Floats,
    n_centers: int,
    backend: Backend | None = None,
    fast: bool | None = None,
) -> HeldRows:
    """Return rows that a backend holds, on a GPU say, or those in memory."""
    return hold(X, w, n_centers, backend) or HostRows(X, w, n_centers, fast, backend)


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


def _add_up(
    kernel: Callable[..., float], X: Floats, centers: Floats, *per_row: Floats
) -> tuple[Floats, Floats, float]:
    """Return the sums, weights and objective that a compiled kernel adds up at each center."""
    half = np.einsum("ij,ij->i", centers, centers) / 2
    parts = list(_parts(len(X)))
    sums, totals = np.zeros((len(parts), *centers.shape)), np.zeros((len(parts), len(centers)))

    def work(i: int) -> float:
        return float(kernel(X, *per_row, centers, half, *parts[i], sums[i], totals[i]))

    n_threads = threads_for(X.size * len(centers))
    objective = sum(side_by_side(work, range(len(parts)), n_threads))
    return sums.sum(axis=0), totals.sum(axis=0), objective


def _compiled(name: str, X: Floats, centers: Floats, *results: Any) -> None:
    from fedjigsaw.kernels.compiled import nearest as kernels

    kernel = getattr(kernels, name)
    X, centers = np.ascontiguousarray(X), np.ascontiguousarray(centers)
    half = np.einsum("ij,ij->i", centers, centers) / 2
    n_threads = threads_for(X.size * len(centers))
    parts = list(_parts(len(X)))
    list(side_by_side(lambda part: kernel(X, centers, half, *part, *results), parts, n_threads))


def nearest_on_threads(X: Floats, centers: Floats, backend: Backend | None = None) -> Ints:
    """Return which center is nearest to each row, on as many threads as pay."""
    n_threads = threads_for(X.size * len(centers))
    return nearest_centers(X, centers, n_threads=n_threads, backend=backend)[0]


def threads_for(n_products: int) -> int:
    """Return the number of threads that pay for so many products of coordinates."""
    return available_threads() if n_products >= LONG else 1


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
