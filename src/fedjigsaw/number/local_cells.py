"""A client's half of the choice: many small clusters, which are called cells."""

from collections.abc import Sequence

import numpy as np

from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import (
    Problem,
    Solution,
    kmeans_many,
    nearest_centers,
    partition_of,
)

SAMPLE = 20  # rows per cell from which the cells of many rows are found
MAX_ITER = 8  # steps of k-means, after which cells are about 1 % larger than at its end


def find_cells(problems: Sequence[Problem], *, backend: Backend | None = None) -> list[Solution]:
    """Divide the rows of clients into cells: one start of k-means, on a sample of many rows.

    Cells need not be clusters, only small: more starts or steps would cost time and change nothing.
    """
    samples = [_sample(problem) for problem in problems]
    found = kmeans_many(samples, n_init=1, max_iter=MAX_ITER, backend=backend)
    return [
        cells
        if sample is problem
        else partition_of(problem.X, nearest_centers(problem.X, cells.centers)[0], problem.weights)
        for problem, sample, cells in zip(problems, samples, found, strict=True)
    ]


def _sample(problem: Problem) -> Problem:
    """Draw rows, if there are many; of rows with weights, copies."""
    X, n, rng, weights = problem
    n_rows, n_drawn = X.shape[0], SAMPLE * n
    if n_rows <= 2 * n_drawn:
        return problem
    if weights is None:
        return problem._replace(X=X[np.sort(rng.choice(n_rows, n_drawn, replace=False))])
    copies = rng.multinomial(n_drawn, weights / weights.sum())
    drawn = np.flatnonzero(copies)
    return problem._replace(X=X[drawn], weights=copies[drawn].astype(np.float64))
