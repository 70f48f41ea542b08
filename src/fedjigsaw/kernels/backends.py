"""Backends of k-means: the libraries that search for the clusters of one set of rows.

scikit-learn-intelex is used where it is installed, otherwise scikit-learn. The environment variable
``FEDJIGSAW_BACKEND`` chooses one of them: ``sklearn``, ``intelex`` or ``auto``, the default. For
one seed, each backend returns the same bits in every run; two backends differ from each other as
two seeds do.

A backend of another kind, such as k-means on a GPU, is passed explicitly: see the parameter
`backend` of :func:`fedjigsaw.kernels.kmeans.kmeans` and the attribute `backend` of
:class:`fedjigsaw.base.FederatedClusterer`.
"""

import os
import warnings
from functools import cache
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import ExtraError, requires_extra
from fedjigsaw.parameters import one_of

VARIABLE = "FEDJIGSAW_BACKEND"


class Backend(Protocol):
    """A search for clusters: rows and a number of clusters in, the label of each row out.

    Only labels come from a backend. Centers, counts and sums of squares are computed from them in
    :mod:`fedjigsaw.kernels.kmeans`, in double precision.
    """

    @property
    def name(self) -> str:
        """Name of the backend, as rows of benchmarks record it."""

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


@runtime_checkable
class CloudBackend(Backend, Protocol):
    """A backend that also implements :func:`fedjigsaw.kernels.clouds.settle_clouds`."""

    def settle_clouds(
        self, centers: Floats, counts: Floats, sse: Floats, start: Floats, *, max_iter: int
    ) -> Floats:
        """Return the settled centers, shape (k, d), for k >= 2."""


def default_backend() -> Backend:
    """Return the backend that the environment asks for, or the fastest one installed.

    Raises
    ------
    ExtraError
        If ``FEDJIGSAW_BACKEND=intelex`` is set and scikit-learn-intelex is not installed.
    """
    wanted = os.environ.get(VARIABLE, "auto")
    one_of("auto", "intelex", "sklearn").check(VARIABLE, "the environment", wanted)
    if wanted == "sklearn":
        return SklearnBackend()
    try:
        _intelex_kmeans()
    except ImportError as error:
        if wanted == "intelex":
            missing = requires_extra(f"{VARIABLE}=intelex", "scikit-learn-intelex", "fast")
            raise ExtraError(missing) from error
        return SklearnBackend()
    return IntelexBackend()


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
        mean = X.mean(axis=0)  # far from the origin, intelex loses all digits
        estimator = self._estimator(
            n_clusters,
            weighted=weights is not None,
            init="k-means++" if init is None else init - mean,
            n_init=n_init if init is None else 1,
            max_iter=max_iter,
            tol=tol,
            random_state=int(rng.integers(2**31)),
        )
        with _QUIET:
            labels: Ints = estimator.fit(X - mean, sample_weight=weights).labels_
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


@cache
def _intelex_kmeans() -> Any:
    from sklearnex.cluster import KMeans as IntelexKMeans

    return IntelexKMeans


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
