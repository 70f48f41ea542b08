"""Backends of k-means: the libraries that search for the clusters of rows.

The environment variable ``FEDJIGSAW_BACKEND`` chooses one. ``numba``, of the extra ``fast``, is
compiled code (:mod:`fedjigsaw.kernels.compiled`) that clusters the rows of many clients in one
call. ``sklearn`` is scikit-learn. ``torch``, of the extra ``deep``, computes on a GPU what is large
enough for one (:mod:`fedjigsaw.kernels.torch`): the k-means of clients, the server's solver, and
the labels of rows; without a GPU it computes the same on the CPU, slower. ``auto``, the default, is
``numba`` where it is installed, else ``sklearn``. For one seed, each backend returns the same bits
in every run; two backends differ from each other as two seeds do.

A backend of another kind is passed explicitly: see the parameter `backend` of
:func:`fedjigsaw.kernels.kmeans.kmeans` and the attribute `backend` of
:class:`fedjigsaw.estimator.FederatedClusterer`.
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedjigsaw._rows import is_sparse
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import ExtraError, requires_extra
from fedjigsaw.parameters import one_of
from fedjigsaw.threads import available_threads, one_thread_inside

VARIABLE = "FEDJIGSAW_BACKEND"
TORCH = "torch"  # the one that may compute on a GPU
EXTRAS = {"numba": "fast", TORCH: "deep"}  # the extra with each library


class Backend(Protocol):
    """A search for clusters: rows and a number of clusters in, the label of each row out.

    Only labels come from a backend. Centers, counts and sums of squares are computed from them in
    :mod:`fedjigsaw.kernels.kmeans`, in double precision. A backend may also have a method
    `labels_many`, which clusters many sets of dense rows in one call, as that of
    :class:`NumbaBackend` does. What it finds in one set depends neither on the other sets nor on
    the number of threads.
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


class HeldRows(Protocol):
    """Rows with weights that stay where a backend computes, a GPU say, and answer questions.

    Each method does as that of :class:`fedjigsaw.kernels.nearest.HostRows`.
    """

    def nearest(self, centers: Floats, among: Ints | None = None) -> tuple[Ints, Floats]: ...
    def nearest_two(self, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]: ...
    def lloyd(self, centers: Floats) -> tuple[Floats, Floats, float]: ...
    def divide(self, widths: Floats, centers: Floats) -> tuple[Floats, Floats, float]: ...
    def label(self, centers: Floats) -> tuple[Ints, Floats]: ...


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
    one_of("auto", "numba", "sklearn", TORCH).check(VARIABLE, "the environment", wanted)
    if wanted in EXTRAS and find_spec(wanted) is None:
        raise ExtraError(requires_extra(f"{VARIABLE}={wanted}", wanted, EXTRAS[wanted]))
    on_host = wanted != "sklearn" and find_spec("numba") is not None
    host: Backend = NumbaBackend() if on_host else SklearnBackend()
    if wanted != TORCH:
        return host
    from fedjigsaw.kernels.torch import DeviceBackend  # lazy: torch

    return DeviceBackend(small=host)


def name_of(backend: Backend) -> str:
    """Return the name of a backend, for rows of results.

    It is no part of the protocol: asking whether a backend is of some kind would look it up.
    """
    return str(getattr(backend, "name", type(backend).__name__))


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
        from sklearn.cluster import KMeans  # lazy: `import fedjigsaw` stays fast

        rows: Any = X
        mean = 0.0 if is_sparse(X) else X.mean(axis=0)  # sparse rows would no longer be sparse
        if not is_sparse(X):
            rows = X - mean
        elif not all(part.flags.writeable for part in (rows.data, rows.indices, rows.indptr)):
            rows = rows.copy()  # those of worker processes are mapped from a file
        estimator = KMeans(
            n_clusters if init is None else len(init),
            init="k-means++" if init is None else init - mean,
            n_init=n_init if init is None else 1,
            max_iter=max_iter,
            tol=tol,
            random_state=int(rng.integers(2**31)),
            copy_x=False,  # the rows are a copy already
        )
        with one_thread_inside():  # its libraries may have been loaded just now
            labels: Ints = estimator.fit(rows, sample_weight=weights).labels_
        return labels.astype(np.int64)


class NumbaBackend:
    """Compiled k-means for one or many sets of rows.

    Parameters
    ----------
    n_threads : int, optional
        Threads to compute on; None takes all that this process may use. They change no bit.
    """

    name = "numba"

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads

    def labels(
        self,
        X: Floats,
        n_clusters: int,
        *,
        weights: Floats | None,
        rng: np.random.Generator,
        init: Floats | None = None,
        **options: Any,
    ) -> Ints:
        """See :meth:`Backend.labels`."""
        starts = None if init is None else [init]
        (labels,) = self.labels_many(
            [X], [n_clusters], weights=[weights], rngs=[rng], starts=starts, **options
        )
        return labels

    def labels_many(
        self,
        rows: Sequence[Floats],
        n_clusters: Sequence[int],
        *,
        weights: Sequence[Floats | None],
        rngs: Sequence[np.random.Generator],
        starts: Sequence[Floats] | None = None,
        **options: Any,
    ) -> Sequence[Ints]:
        """Do as :meth:`Backend.labels` for each set; there may be fewer distinct rows."""
        from fedjigsaw.kernels.compiled.batches import search  # lazy: numba

        seeds = [int(rng.integers(2**63)) for rng in rngs]
        n_threads = self.n_threads or available_threads()
        return search(rows, weights, n_clusters, seeds, starts, n_threads=n_threads, **options)
