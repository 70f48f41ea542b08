"""Compile the k-means that most tests use, so that tests side by side need not each do it.

python .ci/kernels.py

Numba keeps the machine code, and compiles only what has changed.
"""

import numpy as np

from fedjigsaw.kernels.backends import NumbaBackend
from fedjigsaw.kernels.kmeans import Problem, kmeans_many, settle_many

if __name__ == "__main__":
    for n in (40, 3000):  # by the matrix of all distances, and in tiles
        rng = np.random.default_rng(0)
        problem = Problem(rng.normal(size=(n, 2)), 4, rng)
        kmeans_many([problem], backend=NumbaBackend())
        settle_many([problem], [problem.X[:4]], backend=NumbaBackend())
