"""Compile before it is needed: at the start of a service, or before tests run side by side."""

import numpy as np

from fedjigsaw.kernels.backends import NumbaBackend
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.kmeans import Problem, kmeans_many
from fedjigsaw.kernels.nearest import PAIRS, HostRows


def compile_kernels() -> None:
    """Compile the code of k-means and of the server's search, as far as no cache has it.

    It takes some seconds once, and less than a second from then on. Without numba there is
    nothing to compile.
    """
    if not installed():
        return
    rng, ones = np.random.default_rng(0), np.ones(PAIRS // 16)
    X = rng.normal(size=(len(ones), 2))
    kmeans_many([Problem(X[:n], 4, rng) for n in (40, 3000)], n_init=1, backend=NumbaBackend())
    rows, centers = HostRows(X, ones, 16, fast=True), X[:16].copy()
    rows.nearest(centers)
    rows.nearest_two(centers)
    rows.lloyd(centers)
    rows.divide(ones, centers)
