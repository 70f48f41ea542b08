"""Cells of clients: small groups of rows, found in little time."""

import numpy as np

from fedjigsaw.kernels.backends import SklearnBackend
from fedjigsaw.kernels.kmeans import Problem, kmeans
from fedjigsaw.number.cells import find_cells


def problem(rng, n=1500, d=4, k=100):
    return Problem(rng.normal(size=(n, d)), k, np.random.default_rng(0))


def test_a_few_steps_are_enough(rng):
    """Compared with k-means that runs to its end, from the same seeds."""
    given = problem(rng)
    (found,) = find_cells([given], backend=SklearnBackend())
    end = kmeans(given.X, 100, rng=np.random.default_rng(0), n_init=1, backend=SklearnBackend())
    assert found.counts.sum() == len(given.X)
    assert end.inertia <= found.inertia < 1.02 * end.inertia
