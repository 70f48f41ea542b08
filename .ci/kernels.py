"""Compile what most tests use, so that tests side by side need not each do it.

python .ci/kernels.py

Numba keeps the machine code, and compiles only what has changed.
"""

import numpy as np

from fedjigsaw import Jigsaw
from fedjigsaw.kernels.backends import NumbaBackend
from fedjigsaw.kernels.clouds import settle_clouds
from fedjigsaw.kernels.kmeans import Problem, kmeans_many, settle_many
from fedjigsaw.kernels.local_search import InTiles
from fedjigsaw.kernels.nearest import PAIRS, HostRows, to_other_owners


def compile_kmeans() -> None:
    for n in (40, 3000):  # by the matrix of all distances, and in tiles
        rng = np.random.default_rng(0)
        problem = Problem(rng.normal(size=(n, 2)), 4, rng)
        kmeans_many([problem], backend=NumbaBackend())
        settle_many([problem], [problem.X[:4]], backend=NumbaBackend())


def compile_searches() -> None:
    n, k = PAIRS // 16, 16  # enough for compiled code
    X, ones, owners = np.random.default_rng(0).normal(size=(n, 2)), np.ones(n), np.arange(n) % k
    held, centers = HostRows(X, ones, k), X[:k].copy()
    held.nearest(centers)
    held.nearest_two(centers)
    held.lloyd(centers)
    to_other_owners(X, owners, centers, np.arange(k), 1, fast=True)
    settle_clouds(X, ones, ones, centers, max_iter=1)
    InTiles(X, ones).sums(X, owners, ones, k)


if __name__ == "__main__":
    compile_kmeans()
    compile_searches()
    X = np.random.default_rng(0).normal(size=(3000, 2))
    Jigsaw("auto", random_state=0).fit(X, clients=np.arange(3000) % 5)  # and mixtures
