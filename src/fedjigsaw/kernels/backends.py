"""Backends of k-means: the libraries that search for the clusters of one set of rows.

With the extra ``fast``, compiled kernels (:mod:`fedjigsaw.kernels.compiled`) cluster the rows of
many clients in one call. For sizes at which scikit-learn-intelex or scikit-learn was measured to be
faster, these are used. The environment variable ``FEDJIGSAW_BACKEND`` chooses one: ``numba``,
``intelex``, ``sklearn``, ``torch`` or ``auto``, the default. For one seed, each backend returns the
same bits in every run; two backends differ from each other as two seeds do.

``torch`` needs the extra ``deep``. It computes on a GPU what is large enough for one
(:mod:`fedjigsaw.kernels.device`): the k-means of clients, the server's solver, and the labels of
rows. Without a GPU it computes the same on the CPU, slower than ``auto`` does.

A backend of another kind is passed explicitly: see the parameter `backend` of
:func:`fedjigsaw.kernels.kmeans.kmeans` and the attribute `backend` of
:class:`fedjigsaw.estimator.FederatedClusterer`.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedjigsaw._rows import is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import ExtraError, requires_extra
from fedjigsaw.kernels.compiled.sizes import speedup
from fedjigsaw.parameters import one_of
from fedjigsaw.threads import one_thread_inside

VARIABLE = "FEDJIGSAW_BACKEND"
TORCH = "torch"  # the one that may compute on a GPU
SLOWER = 0.95  # as fast as another library, below which the compiled kernel is not used


class Backend(Protocol):
    """A search for clusters: rows and a number of clusters in, the label of each row out.

    Only labels come from a backend. Centers, counts and sums of squares are computed from them in
    :mod:`fedjigsaw.kernels.kmeans`, in double precision.
    """

    def labels(
        self,
        X: Floats,
        n_clusters: int,
        *,
        weights: Floats | None,
        n_init: int,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
        init: Floats | None = None,
    ) -> Ints:
        """Return the label of each row in the best of `n_init` restarts.

        Parameters
        ----------
        n_clusters : number of clusters, at most the number of distinct rows.
        weights : shape (n,), > 0; None gives every row the weight 1.
        init : shape (n_clusters, d), centers of a single start, instead of k-means++.
        """


class Found(NamedTuple):
    """Clusters of one set of rows; see :class:`fedjigsaw.kernels.kmeans.Solution`."""

    centers: Floats
    labels: Ints
    counts: Floats
    sse: Floats
    extents: Floats


@runtime_checkable
class BatchBackend(Backend, Protocol):
    """A backend that also clusters many sets of rows in one call, and describes the clusters.

    What it finds in one set depends neither on the other sets nor on the number of threads, but for
    rounding where the same array is given several times.
    """

    def takes(self, n_rows: int, n_columns: int, n_clusters: int) -> bool:
        """Say whether a problem of this size belongs into a call for many."""

    def find_many(
        self,
        rows: Sequence[Floats],
        n_clusters: Sequence[int],
        *,
        weights: Sequence[Floats | None],
        n_init: int,
        max_iter: int,
        tol: float,
        rngs: Sequence[np.random.Generator],
    ) -> Iterable[Found]:
        """Return the best of `n_init` restarts for each set of rows."""


@runtime_checkable
class StartBackend(BatchBackend, Protocol):
    """A backend that also clusters many sets of rows from given centers in one call."""

    def settle_many(
        self,
        rows: Sequence[Floats],
        starts: Sequence[Floats],
        *,
        weights: Sequence[Floats | None],
        max_iter: int,
        tol: float,
    ) -> Iterable[Found]:
        """Return the end of Lloyd's iterations from `starts` for each set of rows."""


class HeldRows(Protocol):
    """Rows with weights that stay where a backend computes, a GPU say, and answer questions.

    Only centers, and what is asked for, are copied.
    """

    def nearest(self, centers: Floats, among: Ints | None = None) -> tuple[Ints, Floats]:
        """Return the nearest center of each row, or of some, and the squared distance to it."""

    def nearest_two(self, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
        """Return the two nearest centers of each row, and both squared distances."""

    def lloyd(self, centers: Floats) -> tuple[Floats, Floats, float]:
        """Return the sums and the weights of the rows nearest to each center, and the objective."""

    def label(self, centers: Floats) -> tuple[Ints, Floats]:
        """Do as :func:`fedjigsaw.kernels.kmeans.nearest_centers`, with the same labels."""

    def settle_clouds(self, sse: Floats, start: Floats, *, max_iter: int) -> Floats:
        """Do as :func:`fedjigsaw.kernels.clouds.settle_clouds`, for k >= 2; weights are counts."""


@runtime_checkable
class HoldingBackend(Backend, Protocol):
    """A backend that also computes for the server, and labels rows, somewhere else than NumPy."""

    def hold(self, X: Floats, weights: Floats | None, n_centers: int) -> HeldRows | None:
        """Return rows held by the backend, or None if the host is faster for so few."""


def hold(
    X: Floats, weights: Floats | None, n_centers: int, backend: Backend | None = None
) -> HeldRows | None:
    """Return rows held by a backend, given or asked for by the environment; None is NumPy's."""
    if backend is None and os.environ.get(VARIABLE) == TORCH:
        backend = default_backend()
    if backend is None or not isinstance(backend, HoldingBackend):  # asking a protocol takes long
        return None
    return backend.hold(X, weights, n_centers)


def default_backend() -> Backend:
    """Return the backend that the environment asks for, or the fastest one installed.

    Raises
    ------
    ExtraError
        If ``FEDJIGSAW_BACKEND`` names a library that is not installed.
    """
    wanted = os.environ.get(VARIABLE, "auto")
    one_of("auto", *_BACKENDS).check(VARIABLE, "the environment", wanted)
    if wanted != "auto":
        library, extra, make = _BACKENDS[wanted]
        if not _installed(library):
            name = {"sklearnex": "scikit-learn-intelex"}.get(library, library)
            raise ExtraError(requires_extra(f"{VARIABLE}={wanted}", name, extra))
        return make()
    return _fastest()


def name_of(backend: Backend) -> str:
    """Return the name of a backend, for rows of results.

    It is no part of the protocol: asking whether a backend is of some kind would look it up.
    """
    return str(getattr(backend, "name", type(backend).__name__))


def _fastest() -> Backend:
    return SizedBackend() if _installed("numba") else _fastest_plain()


def _fastest_plain() -> "SklearnBackend":
    return IntelexBackend() if _installed("sklearnex") else SklearnBackend()


class SklearnBackend:
    """k-means of scikit-learn."""

    name = "sklearn"

    def labels(
        self,
        X: Floats,
        n_clusters: int,
        *,
        weights: Floats | None,
        n_init: int,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
        init: Floats | None = None,
    ) -> Ints:
        """See :meth:`Backend.labels`."""
        # far from the origin, intelex loses all digits; sparse rows would no longer be sparse
        mean = 0.0 if is_sparse(X) else X.mean(axis=0)
        estimator = self._estimator(
            n_clusters,
            weighted=weights is not None,
            init="k-means++" if init is None else init - mean,
            n_init=n_init if init is None else 1,
            max_iter=max_iter,
            tol=tol,
            random_state=int(rng.integers(2**31)),
        )
        with _QUIET, one_thread_inside():  # its libraries may have been loaded just now
            rows = _writable(X) if is_sparse(X) else X - mean
            labels: Ints = estimator.fit(rows, sample_weight=weights).labels_
        return labels.astype(np.int64)

    def _estimator(self, n_clusters: int, *, weighted: bool, **options: Any) -> Any:
        from sklearn.cluster import KMeans  # lazy: `import fedjigsaw` stays fast

        return KMeans(n_clusters, copy_x=False, **options)  # the rows are a copy already


class IntelexBackend(SklearnBackend):
    """k-means of scikit-learn-intelex; that of scikit-learn where rows have weights."""

    name = "intelex"

    def _estimator(self, n_clusters: int, *, weighted: bool, **options: Any) -> Any:
        if weighted:  # intelex does not support weights
            return super()._estimator(n_clusters, weighted=True, **options)
        return _intelex_kmeans()(n_clusters, n_jobs=1, **options)


class NumbaBackend:
    """Compiled k-means for one or many sets of rows."""

    name = "numba"

    def takes(self, n_rows: int, n_columns: int, n_clusters: int) -> bool:
        """See :meth:`BatchBackend.takes`."""
        return True

    def find_many(
        self,
        rows: Sequence[Floats],
        n_clusters: Sequence[int],
        *,
        weights: Sequence[Floats | None],
        n_init: int,
        max_iter: int,
        tol: float,
        rngs: Sequence[np.random.Generator],
    ) -> Iterable[Found]:
        """See :meth:`BatchBackend.find_many`."""
        from fedjigsaw.kernels.compiled.batches import Batch, cluster  # lazy: numba

        seeds = [int(rng.integers(2**31)) for rng in rngs]
        batch = Batch.of(rows, weights, n_clusters, seeds)
        found = cluster(batch, n_init=n_init, max_iter=max_iter, tol=tol)
        return (Found(*parts) for parts in found)

    def settle_many(
        self,
        rows: Sequence[Floats],
        starts: Sequence[Floats],
        *,
        weights: Sequence[Floats | None],
        max_iter: int,
        tol: float,
    ) -> Iterable[Found]:
        """See :meth:`StartBackend.settle_many`."""
        from fedjigsaw.kernels.compiled.batches import Batch, cluster

        if not rows:
            return ()
        batch = Batch.of(rows, weights, list(map(len, starts)), [0] * len(rows))
        given = np.concatenate(starts)
        found = cluster(batch, n_init=1, max_iter=max_iter, tol=tol, given=given)
        return (Found(*parts) for parts in found)

    def labels(
        self,
        X: Floats,
        n_clusters: int,
        *,
        weights: Floats | None,
        n_init: int,
        max_iter: int,
        tol: float,
        rng: np.random.Generator,
        init: Floats | None = None,
    ) -> Ints:
        """See :meth:`Backend.labels`."""
        if init is not None:
            from fedjigsaw.kernels.compiled.batches import settle

            return settle(X, weights, init, max_iter=max_iter, tol=tol)
        options: dict[str, Any] = {"n_init": n_init, "max_iter": max_iter, "tol": tol}
        (found,) = self.find_many([X], [n_clusters], weights=[weights], rngs=[rng], **options)
        return found.labels


class SizedBackend(NumbaBackend):
    """The compiled backend, and a plain one for the sizes at which that is faster.

    Parameters
    ----------
    plain : SklearnBackend or None
        None is the fastest one installed. It is looked for when a size needs it, since loading
        scikit-learn-intelex takes longer than clustering a small file.
    """

    def __init__(self, plain: SklearnBackend | None = None) -> None:
        self._given = plain

    @cached_property
    def plain(self) -> SklearnBackend:
        """The plain backend."""
        return self._given or _fastest_plain()

    @property
    def name(self) -> str:  # type: ignore[override]
        """Both names."""
        return f"numba+{self.plain.name}"

    def takes(self, n_rows: int, n_columns: int, n_clusters: int) -> bool:
        """See :meth:`BatchBackend.takes`: decided by the size alone, never by other problems."""
        size = (n_rows, n_columns, n_clusters)
        faster = {speedup(*size, name) >= SLOWER for name in self._possible}
        if len(faster) == 1:
            return faster.pop()
        return speedup(*size, self.plain.name) >= SLOWER  # it matters which one it is

    @cached_property
    def _possible(self) -> list[str]:
        """Names of backends of which one is the plain one."""
        if self._given is not None:
            return [self._given.name]
        there = find_spec("sklearnex") is not None  # which does not say that it fits this machine
        return [*([IntelexBackend.name] if there else []), SklearnBackend.name]

    def labels(self, X: Floats, n_clusters: int, **options: Any) -> Ints:
        """See :meth:`Backend.labels`."""
        if self.takes(len(X), X.shape[1], n_clusters):
            return super().labels(X, n_clusters, **options)
        return self.plain.labels(X, n_clusters, **options)


def _device_backend() -> Backend:
    from fedjigsaw.kernels.device.backend import DeviceBackend  # lazy: torch

    return DeviceBackend(small=_fastest())


def _installed(library: str) -> bool:
    if library != "sklearnex":
        return find_spec(library) is not None
    try:  # it may be there and not fit this machine
        _intelex_kmeans()
    except ImportError:
        return False
    return True


@cache
def _intelex_kmeans() -> Any:
    from sklearnex.cluster import KMeans as IntelexKMeans

    return IntelexKMeans


def _writable(X: Any) -> Any:
    """Return sparse rows in memory that may be written, which scikit-learn insists on.

    Those of worker processes are mapped from a file.
    """
    parts = (X.data, X.indices, X.indptr)
    return X if all(part.flags.writeable for part in parts) else X.copy()


class _Quiet:
    """Thread-safe suppression of k-means warnings.

    Filters of warnings are process-wide: the first thread to enter saves them, the last one to
    leave restores them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._saved = warnings.catch_warnings()

    def __enter__(self) -> None:
        from sklearn.exceptions import ConvergenceWarning

        with self._lock:
            if not self._inside:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                # fewer centers than requested is a valid result here; the caller decides
                warnings.simplefilter("ignore", ConvergenceWarning)
                # intelex warns in every thread but the main one, though it gets n_jobs=1
                warnings.filterwarnings("ignore", message="'Threading' parallel backend")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._saved.__exit__(None, None, None)


_QUIET = _Quiet()
# name in the environment -> the library that it needs, the extra with it, and how it is made
_BACKENDS: dict[str, tuple[str, str, Callable[[], Backend]]] = {
    "numba": ("numba", "fast", NumbaBackend),
    "intelex": ("sklearnex", "fast", IntelexBackend),
    "sklearn": ("sklearn", "fast", SklearnBackend),
    TORCH: ("torch", "deep", _device_backend),
}
