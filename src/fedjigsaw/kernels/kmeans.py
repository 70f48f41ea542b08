r"""k-means, the one kernel under every method, and the one door to its fast backends.

The problem: rows :math:`x_n \in R^d` with weights :math:`w_n \ge 0` and a number k; find centers

.. math:: \min_{c_1, \dots, c_k} \; \sum_n w_n \min_j \|x_n - c_j\|^2 .

It is solved by k-means++ seeding, Lloyd's iterations and restarts: those of scikit-learn-intelex
where it is installed, else those of scikit-learn. ``FEDJIGSAW_BACKEND=sklearn`` in the environment
keeps to scikit-learn. For one seed, each backend gives the same bits on every run; the two differ
from one another, as two seeds do.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csc_array
from sklearn.exceptions import ConvergenceWarning

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DataError, ExtraError, invalid
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.parameters import one_of


@dataclass(frozen=True)
class Solution:
    r"""A clustering of one set of rows, with all that a method may want to know about it.

    Attributes
    ----------
    centers : shape (k, d); each is exactly the weighted mean of its rows.
    labels : shape (n,), the center of each row (-1 for a row of weight zero).
    counts : shape (k,), total weight of each cluster.
    sse : shape (k,), :math:`G_i = \sum_{n \in i} w_n \|x_n - c_i\|^2`.
    extents : shape (k,), largest distance of a cluster's row to its center.
    """

    centers: Floats
    labels: Ints
    counts: Floats
    sse: Floats
    extents: Floats

    @property
    def inertia(self) -> float:
        return float(self.sse.sum())


def kmeans(
    X: Floats,
    n_clusters: int,
    *,
    rng: np.random.Generator,
    weights: Floats | None = None,
    n_init: int = 10,
    max_iter: int = 300,
    tol: float = 1e-4,
    spherical: bool = False,
    init: Floats | None = None,
) -> Solution:
    """Cluster the rows of `X` around at most `n_clusters` centers.

    There are never more centers than distinct rows, and no center is empty. With `spherical`, rows
    and centers are scaled to length one and compared by angle.

    Parameters
    ----------
    weights : shape (n,), how much each row counts; None counts each once. A row of weight w acts
        as w copies of it.
    n_init : restarts; the best one is kept.
    max_iter, tol : when a restart ends, as in :class:`sklearn.cluster.KMeans`.
    init : centers to start from, instead of k-means++; then `n_init` has no meaning. Not with
        `spherical`.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> solution = kmeans(X, 2, rng=np.random.default_rng(0))
    >>> sorted(solution.centers.ravel().tolist()), solution.inertia
    ([0.5, 10.5], 1.0)
    """
    if weights is not None:
        _check_weights(weights, len(X))
    used = slice(None) if weights is None else np.flatnonzero(weights)
    rows, w = X[used], None if weights is None else weights[used]
    if spherical:
        rows = _unit(rows)
    k = count_distinct(rows, at_most=n_clusters)
    brought = brought_search()
    if brought is not None:
        found = brought(rows, k, w, n_init, max_iter, tol, rng, init, spherical=spherical)
    elif spherical:
        found = _spherical_labels(rows, k, w, n_init, max_iter, tol, rng)
    else:
        found = _labels(rows, k, w, n_init, max_iter, tol, rng, init)
    return _solution(rows, found, w, spherical, len(X), used)


def nearest_centers(X: Floats, centers: Floats) -> tuple[Ints, Floats]:
    """Nearest center of each row, and the distance to it; memory stays bounded for any n.

    Examples
    --------
    >>> labels, distances = nearest_centers(np.array([[0.0], [4.0]]), np.array([[5.0], [1.0]]))
    >>> labels.tolist(), distances.tolist()
    ([1, 0], [1.0, 1.0])
    """
    middle = centers.mean(axis=0)
    shifted = centers - middle
    norms = np.einsum("ij,ij->i", shifted, shifted)
    rounding = 4 * (X.shape[1] + 4) * np.finfo(np.float64).eps
    labels = np.empty(len(X), dtype=np.int64)
    for part in blocks(len(X), X.shape[1] + 16 * len(centers)):  # small enough for the cache
        rows = X[part] - middle
        scores = norms - 2 * (rows @ shifted.T)  # squared distance, less the row's own norm
        labels[part] = scores.argmin(axis=1)
        slack = rounding * (np.einsum("ij,ij->i", rows, rows) + norms.max())
        close = (scores <= (scores.min(axis=1) + slack)[:, None]).sum(axis=1) > 1
        if close.any():  # too close to tell after rounding: exact distances decide
            labels[part][close] = pairwise_distances(X[part][close], centers).argmin(axis=1)
    return labels, np.sqrt(squared_distances(X, centers, labels))


def partition_of(X: Floats, labels: Ints, weights: Floats) -> Solution:
    """Means, counts and spreads of given clusters; those without rows are left out.

    Examples
    --------
    >>> X, weights = np.array([[0.0], [4.0], [9.0]]), np.array([3.0, 1.0, 1.0])
    >>> partition_of(X, np.array([0, 0, 2]), weights).centers.ravel().tolist()
    [1.0, 9.0]
    """
    return _solution(X, labels, weights, False, len(X), slice(None))


# ------------------------------------------------------------------------------------- backends


def backend() -> str:
    """Name of the backend in use: ``"intelex"`` or ``"sklearn"``."""
    wanted = os.environ.get("FEDJIGSAW_BACKEND", "auto")
    one_of("auto", "intelex", "sklearn").check("FEDJIGSAW_BACKEND", "the environment", wanted)
    if wanted == "sklearn":
        return "sklearn"
    try:
        _intelex_kmeans()
    except ImportError as error:
        if wanted == "intelex":
            advice = "Install it with `pip install 'fedjigsaw[fast]'`."
            missing = invalid("backend", "k-means", "installed", "no intelex", advice)
            raise ExtraError(missing) from error
        return "sklearn"
    return "intelex"


class Search(Protocol):
    """Where k-means looks for its clusters: rows and a number k in, the label of each row out."""

    def __call__(
        self,
        X: Floats,
        k: int,
        w: Floats | None,
        n_init: int,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
        init: Floats | None,
        /,
        *,
        spherical: bool,
    ) -> Ints: ...


_brought_search: ContextVar[Search | None] = ContextVar("_brought_search", default=None)


def brought_search() -> Search | None:
    """What `searching_with` brought, if this is inside of such a block."""
    return _brought_search.get()


@contextmanager
def searching_with(search: Search | None) -> Iterator[None]:
    """Let every k-means in this block look for its clusters with `search`, such as one on a GPU.

    Only labels come from it: centers, counts and spreads are worked out here, as always. Clouds
    (:mod:`fedjigsaw.kernels.clouds`) settle with it, too, if it knows how.
    """
    token = _brought_search.set(search)
    try:
        yield
    finally:
        _brought_search.reset(token)


@cache
def _intelex_kmeans() -> Any:
    from sklearnex.cluster import KMeans as IntelexKMeans

    return IntelexKMeans


def _labels(
    X: Floats,
    k: int,
    w: Floats | None,
    n_init: int,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    init: Floats | None = None,
) -> Ints:
    middle = X.mean(axis=0)  # around the mean: intelex loses all digits far from the origin
    options = {
        "init": "k-means++" if init is None else init - middle,
        "n_init": n_init if init is None else 1,
        "max_iter": max_iter,
        "tol": tol,
        "random_state": int(rng.integers(2**31)),
    }
    if w is None and backend() == "intelex":
        solver = _intelex_kmeans()(k, n_jobs=1, **options)
    else:  # intelex knows no weights
        from sklearn.cluster import KMeans  # here, so that `import fedjigsaw` stays quick

        solver = KMeans(k, **options)
    with _QUIET:
        labels: Ints = solver.fit(X - middle, sample_weight=w).labels_
    return labels.astype(np.int64)


class _Quiet:
    """Some warnings do not count while anybody is inside.

    Filters of warnings are those of the process: were each thread to set and reset them, the last
    to leave would bring back what another had set.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                # fewer centers than asked for is a result here, and the caller's to judge
                warnings.simplefilter("ignore", ConvergenceWarning)
                # intelex tells of every thread but the main one; it is told to use one anyway
                warnings.filterwarnings("ignore", message="'Threading' parallel backend")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.__exit__(None, None, None)


_QUIET = _Quiet()


def _spherical_labels(
    X: Floats,
    k: int,
    w: Floats | None,
    n_init: int,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
) -> Ints:
    from sklearn.cluster import kmeans_plusplus

    best: Ints = np.zeros(len(X), dtype=np.int64)
    best_similarity = -np.inf
    w = np.ones(len(X)) if w is None else w
    for _ in range(n_init):
        centers, _ = kmeans_plusplus(X, k, sample_weight=w, random_state=int(rng.integers(2**31)))
        similarity = -np.inf
        for _ in range(max_iter):
            cosines = X @ centers.T
            labels = cosines.argmax(axis=1)
            before, similarity = similarity, float(w @ cosines[np.arange(len(X)), labels])
            if similarity - before <= tol * w.sum() * 1e-2:
                break
            sums = label_sums(X, labels, w, k)
            norms = np.linalg.norm(sums, axis=1, keepdims=True)
            centers = np.where(norms > 0, sums / np.where(norms > 0, norms, 1), centers)
        if similarity > best_similarity:
            best, best_similarity = labels, similarity
    return best


# ---------------------------------------------------------------------------------------- parts


def _solution(
    X: Floats, labels: Ints, w: Floats | None, spherical: bool, n_rows: int, used: slice | Ints
) -> Solution:
    """Means, counts and spreads of the clusters that are not empty."""
    _, labels = np.unique(labels, return_inverse=True)
    w = np.ones(len(X)) if w is None else w
    k = int(labels.max()) + 1
    counts: Floats = np.bincount(labels, w, minlength=k).astype(np.float64)
    centers = label_sums(X, labels, w, k) / counts[:, None]
    if spherical:
        direction = np.any(centers, axis=1, keepdims=True)  # opposite rows may leave none
        centers = _unit(np.where(direction, centers, X[_first(labels)]))
    order = coordinate_order(centers)  # no trace of the order of the rows
    centers, counts, labels = centers[order], counts[order], np.argsort(order)[labels]
    squared = squared_distances(X, centers, labels)
    extents = np.zeros(k)
    np.maximum.at(extents, labels, squared)
    all_labels = np.full(n_rows, -1, dtype=np.int64)
    all_labels[used] = labels
    sse: Floats = np.bincount(labels, w * squared, minlength=k).astype(np.float64)
    return Solution(centers, all_labels, counts, sse, np.sqrt(extents))


def _check_weights(weights: Floats, n_rows: int) -> None:
    if (
        weights.shape != (n_rows,)
        or not np.isfinite(weights).all()
        or (weights < 0).any()
        or not weights.any()
    ):
        allowed = f"finite, >= 0, not all zero, shape ({n_rows},)"
        raise DataError(invalid("weights", "k-means", allowed, f"others, shape {weights.shape}"))


def cluster_means(X: Floats, labels: Ints) -> Floats:
    """Means of the clusters that have rows, in the order of their labels: half a Lloyd step.

    Examples
    --------
    >>> cluster_means(np.array([[0.0], [5.0], [2.0]]), np.array([3, 7, 3])).ravel().tolist()
    [1.0, 5.0]
    """
    _, labels = np.unique(labels, return_inverse=True)
    counts = np.bincount(labels)
    means: Floats = label_sums(X, labels, np.ones(len(X)), len(counts)) / counts[:, None]
    return means


def count_distinct(X: Floats, *, at_most: int) -> int:
    """Number of different rows, or `at_most` if there are more."""
    if len(np.unique(X[:, 0])) >= at_most:  # different in one column is different: cheap, usual
        return at_most
    return min(at_most, len(np.unique(X, axis=0)))


def _first(labels: Ints) -> Ints:
    """The first row of each cluster."""
    return np.unique(labels, return_index=True)[1]


def label_sums(X: Floats, labels: Ints, w: Floats, k: int) -> Floats:
    """Weighted sum of the rows of each cluster: a sparse product beats all of numpy's ways.

    Examples
    --------
    >>> label_sums(np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 2]), np.ones(3), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    n = len(labels)
    sums: Floats = csc_array((w, labels, np.arange(n + 1)), shape=(k, n)) @ X
    return sums


def coordinate_order(X: Floats) -> Ints:
    """The rows in the order of their first columns, then of their next ones."""
    first = np.argsort(X[:, 0], kind="stable")
    if (np.diff(X[first, 0]) > 0).all():  # no ties, as usual: the other columns have no say
        return first
    return np.lexsort(X.T[::-1])


def squared_distances(X: Floats, centers: Floats, labels: Ints) -> Floats:
    """Squared distance of each row to the center of its label, from differences: exact anywhere."""
    squared = np.empty(len(X))
    for part in blocks(len(X), X.shape[1], 2**15):  # small enough for the cache
        difference = X[part] - centers[labels[part]]
        np.einsum("ij,ij->i", difference, difference, out=squared[part])
    return squared


def blocks(n_rows: int, width: int, most: int = 2**22) -> Iterator[slice]:
    """Cut rows into blocks of at most so many floats, when each needs `width`; usually 32 MB."""
    step = max(1, most // width)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _unit(X: Floats) -> Floats:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    if not norms.all():
        row = int(np.flatnonzero(norms == 0)[0])
        raise DataError(
            invalid("rows", "spherical k-means", "different from zero", f"a zero row {row}")
        )
    unit: Floats = X / norms
    return unit
