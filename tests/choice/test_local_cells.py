"""Cells of clients: small groups of rows, found in little time."""

import numpy as np
import pytest

from fedjigsaw.choice import local_cells
from fedjigsaw.choice.local_cells import FEW_COLUMNS, find_cells
from fedjigsaw.kernels.backends import NumbaBackend, SizedBackend, SklearnBackend
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.kmeans import Problem, kmeans


def problem(rng, n=1500, d=4, k=100):
    return Problem(rng.normal(size=(n, d)), k, np.random.default_rng(0))


def test_a_few_steps_are_enough(rng):
    """Compared with k-means that runs to its end, from the same seeds."""
    given = problem(rng)
    (found,) = find_cells([given], backend=SklearnBackend())
    end = kmeans(given.X, 100, rng=np.random.default_rng(0), n_init=1, backend=SklearnBackend())
    assert found.counts.sum() == len(given.X)
    assert end.inertia <= found.inertia < 1.02 * end.inertia


@pytest.mark.skipif(not installed(), reason="needs numba")
@pytest.mark.parametrize("d", [FEW_COLUMNS, FEW_COLUMNS + 1])
def test_the_compiled_backend_takes_few_columns(rng, monkeypatch, d):
    """Whatever the sizes at which others are faster with ten starts."""
    asked = []
    search = local_cells.kmeans_many

    def record(problems, *, backend, **options):
        asked.append(type(backend))
        return search(problems, backend=SklearnBackend(), **options)

    monkeypatch.setattr(local_cells, "kmeans_many", record)
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "auto")
    given = [problem(rng, n=50, d=d, k=5)]
    find_cells(given)
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")
    find_cells(given)
    expected = NumbaBackend if d <= FEW_COLUMNS else SizedBackend
    assert asked == [expected, SklearnBackend]


def test_no_clients():
    assert find_cells([]) == []
