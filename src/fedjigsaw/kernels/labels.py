"""The nearest center of each row, block by block: the inner loops of `nearest_centers`.

Scores are squared distances minus the squared norm of the row, by one matrix product. A block has
one line of scores per center, so that all loops over rows are vector loops. The nearest center does
not depend on rounding: where two centers are about equally near, exact distances decide.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances

MAX_FLOATS = 2**17  # of a block: small enough for the cache
# Products up to this size are computed on one thread by OpenBLAS. Threads that share a product not
# much larger mostly wait for one another, which takes many times as long on a busy machine.
MAX_PRODUCTS = 2**19
FEWEST = 256  # rows of a block of such products; otherwise blocks are large, and threads pay


class Search:
    """Search for the nearest of some centers, with the memory of one block.

    Parameters
    ----------
    block_rows : rows of a block; with more centers or columns, a block has fewer.
    """

    def __init__(self, centers: Floats, block_rows: int) -> None:
        k, d = centers.shape
        self.centers, self.middle = centers, centers.mean(axis=0)
        shifted = centers - self.middle
        norms = np.einsum("ij,ij->i", shifted, shifted)
        self.factors: Floats = np.concatenate([-2 * shifted, norms[:, None]], axis=1)
        self.rounding, self.largest = 4 * (d + 4) * np.finfo(np.float64).eps, norms.max()
        self.places = np.arange(k, dtype=np.min_scalar_type(k))[:, None]
        self.block_rows = block_rows
        self.rows: Floats = np.ones((block_rows, d + 1))  # the last column is for the norms
        self.offsets: Floats = np.empty((block_rows, d))

    def run(self, X: Floats, labels: Ints, distances: Floats, first: int, step: int) -> None:
        """Write labels and distances of every block whose number is first, first + step, ..."""
        size = self.block_rows
        for start in range(first * size, len(X), step * size):
            part = slice(start, start + size)
            self._label(X[part], labels[part])
            self._measure(X[part], labels[part], distances[part])

    def _label(self, X: Floats, labels: Ints) -> None:
        block = self.rows[: len(X)]
        rows = np.subtract(X, self.middle, out=block[:, :-1])
        scores = self.factors @ block.T
        limits = scores.min(axis=0)
        limits += self.rounding * (np.einsum("ij,ij->i", rows, rows) + self.largest)
        near = scores <= limits
        labels[:] = (near * self.places).max(axis=0)  # the only near one, or else see below
        if np.count_nonzero(near) > len(X):
            close = near.sum(axis=0) > 1  # rounding could decide: compare exact distances instead
            labels[close] = pairwise_distances(X[close], self.centers).argmin(axis=1)

    def _measure(self, X: Floats, labels: Ints, distances: Floats) -> None:
        """Compute from differences, so that rows far from the origin lose no digits."""
        offsets = np.take(self.centers, labels, axis=0, out=self.offsets[: len(X)], mode="clip")
        np.subtract(X, offsets, out=offsets)
        np.sqrt(np.einsum("ij,ij->i", offsets, offsets), out=distances)


def block_rows(k: int, d: int) -> int:
    """Return the number of rows of a block."""
    rows = MAX_PRODUCTS // (k * (d + 1))
    return min(rows, MAX_FLOATS // (k + 2 * d)) if rows >= FEWEST else max(1, 2**22 // (16 * k + d))


def find_nearest(X: Floats, centers: Floats, n_threads: int) -> tuple[Ints, Floats]:
    """Return the nearest center of each row and the distance to it.

    Threads share the blocks, which do not depend on the number of threads.
    """
    labels, distances = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    size = block_rows(*centers.shape)
    n_threads = min(n_threads, -(-len(X) // size))
    if n_threads <= 1:
        Search(centers, max(1, min(size, len(X)))).run(X, labels, distances, 0, 1)
        return labels, distances
    from fedjigsaw.threads import one_thread

    with one_thread(), ThreadPoolExecutor(n_threads) as pool:  # one thread of BLAS for each
        searches = [Search(centers, size) for _ in range(n_threads)]
        tasks = [
            pool.submit(search.run, X, labels, distances, i, n_threads)
            for i, search in enumerate(searches)
        ]
        for task in tasks:
            task.result()
    return labels, distances
