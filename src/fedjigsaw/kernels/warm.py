"""Compile before it is needed: at the start of a service, or before tests run side by side."""

import numpy as np

from fedjigsaw.kernels.backends import NumbaBackend
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.gaussians import lloyd
from fedjigsaw.kernels.kmeans import Problem, kmeans_many, settle_many
from fedjigsaw.kernels.local_search import InTiles
from fedjigsaw.kernels.nearest import PAIRS, HostRows


def compile_kernels() -> None:
    """Compile the code of k-means and of the server's search, as far as no cache has it.

    It takes about half a minute once, and less than a second from then on. Without numba there is
    nothing to compile.
    """
    if not installed():
        return
    rng = np.random.default_rng(0)
    for n in (40, 3000):  # few rows, and in tiles
        problem = Problem(rng.normal(size=(n, 2)), 4, rng)
        kmeans_many([problem], backend=NumbaBackend())
        settle_many([problem], [problem.X[:4]], backend=NumbaBackend())
    n, k = PAIRS // 16, 16  # enough for compiled code
    X, ones, owners = rng.normal(size=(n, 2)), np.ones(n), np.arange(n) % k
    held, centers = HostRows(X, ones, k, fast=True), X[:k].copy()
    held.nearest(centers)
    held.nearest_two(centers)
    held.lloyd(centers)
    lloyd(X, ones, ones, centers, max_iter=1, backend=NumbaBackend())
    InTiles(X, ones).sums(X, owners, ones, k)
