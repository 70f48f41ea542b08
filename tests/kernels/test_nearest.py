"""Nearest centers: compiled and plain code agree, and threads change no bit."""

import numpy as np
import pytest

from fedjigsaw.kernels import nearest as kernel
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.kmeans import label_sums
from fedjigsaw.kernels.matching import pairwise_distances

needs_numba = pytest.mark.skipif(not installed(), reason="needs numba")
WAYS = [False, pytest.param(True, marks=needs_numba)]


def draw(n, d, k):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.normal(size=(k, d)), rng.uniform(1, 9, n)


@pytest.mark.parametrize("fast", WAYS)
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (500, 3, 7), (1000, 20, 300), (129, 2, 128)])
class TestExactly:
    def test_the_nearest_center(self, fast, n, d, k):
        X, centers, _ = draw(n, d, k)
        labels, squared = kernel.nearest(X, centers, fast=fast)
        distances = pairwise_distances(X, centers) ** 2
        assert labels.tolist() == distances.argmin(axis=1).tolist()
        assert squared == pytest.approx(distances.min(axis=1))

    def test_the_two_nearest_centers(self, fast, n, d, k):
        X, centers, _ = draw(n, d, k)
        own, other, first, second = kernel.nearest_two(X, centers, fast=fast)
        if k == 1:
            assert second.tolist() == [np.inf]
            return
        order = np.argsort(pairwise_distances(X, centers), axis=1)
        distances = np.sort(pairwise_distances(X, centers) ** 2, axis=1)
        assert (own.tolist(), other.tolist()) == (order[:, 0].tolist(), order[:, 1].tolist())
        assert first == pytest.approx(distances[:, 0])
        assert second == pytest.approx(distances[:, 1])

    def test_sums_of_a_lloyd_step(self, fast, n, d, k):
        X, centers, w = draw(n, d, k)
        sums, counts, objective = kernel.HostRows(X, w, k, fast).lloyd(centers)
        labels = pairwise_distances(X, centers).argmin(axis=1)
        assert sums == pytest.approx(label_sums(X, labels, w, k))
        assert counts == pytest.approx(np.bincount(labels, w, minlength=k))
        assert objective == pytest.approx(w @ pairwise_distances(X, centers).min(axis=1) ** 2)


@needs_numba
def test_the_number_of_threads_changes_no_bit(monkeypatch):
    X, centers, w = draw(30_000, 4, 20)
    monkeypatch.setattr(kernel, "LONG", 0)
    found = []
    for n_threads in (1, 2, 5):
        monkeypatch.setattr(kernel, "available_threads", lambda n=n_threads: n)
        results = (
            *kernel.nearest(X, centers, fast=True),
            *kernel.nearest_two(X, centers, fast=True),
            *kernel.HostRows(X, w, 20, True).lloyd(centers),
        )
        found.append([np.asarray(result).tobytes() for result in results])
    assert found[0] == found[1] == found[2]
