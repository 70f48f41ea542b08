import subprocess
import sys

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.errors import ExtraError, ParameterError
from fedjigsaw.kernels import backends
from fedjigsaw.kernels.backends import (
    HoldingBackend,
    SklearnBackend,
    default_backend,
    name_of,
)
from fedjigsaw.kernels.gaussians import lloyd
from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.kernels.nearest import HostRows
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import Broadcast

X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0]])
OPTIONS = {"n_init": 3, "max_iter": 300, "tol": 1e-4}


class OneCluster:
    """Puts all rows into one cluster, and records how it was called."""

    name = "one cluster"

    def __init__(self):
        self.calls = []

    def labels(self, X, n_clusters, **options):
        self.calls.append({"n_clusters": n_clusters, **options})
        return np.zeros(len(X), dtype=np.int64)


class OneGaussian(OneCluster):
    """Holds rows, and moves every center to the mean of the Gaussians."""

    def hold(self, X, weights, n_centers):
        held = Held(X, np.ones(len(X)) if weights is None else weights, n_centers)
        held.calls = self.calls
        return held


class Held(HostRows):
    def divide(self, widths, centers):
        self.calls.append("divide")
        ones = np.ones(len(centers))
        return np.zeros_like(centers), ones, 0.0

    def label(self, centers):
        self.calls.append("label")
        return super().label(centers)


class TestDefault:
    def test_follows_the_environment(self, monkeypatch):
        monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")
        assert name_of(default_backend()) == "sklearn"
        monkeypatch.setenv("FEDJIGSAW_BACKEND", "fastest")
        with pytest.raises(ParameterError, match="FEDJIGSAW_BACKEND of the environment"):
            default_backend()

    def test_auto_takes_what_is_installed(self, monkeypatch):
        monkeypatch.delenv("FEDJIGSAW_BACKEND", raising=False)
        monkeypatch.setattr(backends, "find_spec", lambda name: name)
        assert name_of(default_backend()) == "numba"
        monkeypatch.setattr(backends, "find_spec", lambda name: None)
        assert name_of(default_backend()) == "sklearn"

    @pytest.mark.parametrize(("library", "extra"), [("numba", "fast"), ("torch", "deep")])
    def test_what_is_not_installed_is_named_with_its_extra(self, monkeypatch, library, extra):
        monkeypatch.setattr(backends, "find_spec", lambda name: None)
        monkeypatch.setenv("FEDJIGSAW_BACKEND", library)
        with pytest.raises(ExtraError, match=rf"{library}.*pip install 'fedjigsaw\[{extra}\]'"):
            default_backend()


@pytest.mark.usefixtures("backend")
class TestLabels:
    @pytest.mark.parametrize("weights", [None, np.array([1.0, 1, 1, 1, 2])])
    def test_of_three_groups(self, rng, weights):
        labels = default_backend().labels(X, 3, weights=weights, rng=rng, **OPTIONS)
        assert labels.dtype == np.int64
        assert labels[0] == labels[1] != labels[2] == labels[3] != labels[4] != labels[0]

    def test_init_gives_the_order_of_the_labels(self, rng):
        init = np.array([[20.0], [0.0], [10.0]])
        labels = default_backend().labels(X, 3, weights=None, rng=rng, init=init, **OPTIONS)
        assert labels.tolist() == [1, 1, 2, 2, 0]


class TestExplicit:
    def test_kmeans_takes_labels_from_its_backend(self, rng):
        backend = OneCluster()
        found = kmeans(X, 9, rng=rng, n_init=2, max_iter=7, tol=0.5, backend=backend)
        assert found.centers.tolist() == [[8.4]]
        expected = {"n_clusters": 5, "weights": None, "n_init": 2, "max_iter": 7, "tol": 0.5}
        assert backend.calls == [{**expected, "rng": rng, "init": None}]

    def test_kmeans_without_one_takes_the_default(self, rng, monkeypatch):
        backend = OneCluster()
        monkeypatch.setattr("fedjigsaw.kernels.kmeans.default_backend", lambda: backend)
        assert len(kmeans(X, 3, rng=rng).centers) == 1

    @pytest.mark.parametrize("n_tries", [0, None])
    def test_solve_searches_as_without_one(self, n_tries):
        rows, weights = np.random.default_rng(0).normal(size=(300, 2)), np.ones(300)
        own, found = (
            solve(rows, weights, 9, rng=np.random.default_rng(0), n_tries=n_tries, backend=backend)
            for backend in (None, OneCluster())
        )
        assert found.labels.tolist() == own.labels.tolist()

    @pytest.mark.slow
    def test_one_without_numba_does_not_load_it(self):
        code = """
import sys, numpy as np
from fedjigsaw import Jigsaw
from fedjigsaw.kernels.backends import SklearnBackend
from fedjigsaw.kernels.nearest import PAIRS
X = np.random.default_rng(0).normal(size=(3000, 2))
for k, options in (("auto", {}), (60, {"n_local_clusters": PAIRS // 5 // 60 + 1})):
    rows = np.random.default_rng(0).normal(size=(9000, 2)) if options else X
    jigsaw = Jigsaw(k, n_init=1, max_iter=2, patience=0, random_state=0, **options)
    jigsaw.backend = SklearnBackend()
    jigsaw.fit(rows, clients=np.arange(len(rows)) % 5)
print("numba" in sys.modules)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "False\n", done.stderr

    def test_gaussians_are_divided_by_a_backend_that_can(self):
        assert isinstance(OneGaussian(), HoldingBackend)
        assert not isinstance(SklearnBackend(), HoldingBackend)
        given = X, np.ones(5), np.ones(5), X[[0, 4]]
        moved = lloyd(*given, max_iter=1, backend=(backend := OneGaussian()))
        assert moved.tolist() == [[8.4], [8.4]]
        assert backend.calls == ["divide"]
        assert lloyd(*given, backend=OneCluster()).tolist() == lloyd(*given).tolist()

    def test_a_server_divides_gaussians_and_finds_nearest_centers_with_it(self):
        jigsaw = Jigsaw(2, patience=0, random_state=0)
        client = jigsaw.summarize(X, Broadcast(0, 0), np.random.default_rng(0))
        jigsaw.backend = OneGaussian()
        jigsaw.aggregate([client], Broadcast(0, 0), np.random.default_rng(0))
        assert set(jigsaw.backend.calls) == {"divide", "label"}
