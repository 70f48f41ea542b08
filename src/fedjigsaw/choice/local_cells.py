"""A client's half of the choice: many small clusters, which are called cells."""

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import Solution, kmeans, nearest_centers, partition_of

SAMPLE = 20  # rows per cell from which the cells of many rows are found


def find_cells(
    X: Floats, n: int, *, rng: np.random.Generator, backend: Backend | None = None
) -> Solution:
    """Divide rows into at most `n` cells: one start of k-means, on a sample where rows are many.

    Cells need not be clusters, only small: more starts would cost time and change nothing.
    """
    if len(X) <= 2 * SAMPLE * n:
        return kmeans(X, n, rng=rng, n_init=1, backend=backend)
    sample = X[np.sort(rng.choice(len(X), SAMPLE * n, replace=False))]
    centers = kmeans(sample, n, rng=rng, n_init=1, backend=backend).centers
    return partition_of(X, nearest_centers(X, centers)[0], np.ones(len(X)))
