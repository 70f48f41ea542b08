"""The nearest center of each row, block by block: the inner loop of `nearest_centers`.

Scores are squared distances minus the squared norm of the row, by one matrix product. A block has
one line of scores per center, so that all loops over rows are vector loops. The nearest center does
not depend on rounding: where two centers are about equally near, exact distances decide.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.threads import one_thread

MAX_FLOATS = 2**17  # of a block: small enough for the cache
# Products up to this size are computed on one thread by OpenBLAS. Threads that share a product not
# much larger mostly wait for one another, which takes many times as long on a busy machine.
MAX_PRODUCTS = 2**19
FEWEST = 256  # rows of a block of such products; otherwise blocks are large, and threads pay


def block_rows(k: int, d: int) -> int:
    """Return the number of rows of a block."""
    rows = MAX_PRODUCTS // (k * (d + 1))
    return min(rows, MAX_FLOATS // (k + 2 * d)) if rows >= FEWEST else max(1, 2**22 // (16 * k + d))


def find_nearest(X: Floats, centers: Floats, n_threads: int) -> tuple[Ints, Floats]:
    """Return the nearest center of each row and the distance to it.

    Threads share the blocks, which do not depend on the number of threads.
    """
    (k, d), middle = centers.shape, centers.mean(axis=0)
    shifted = centers - middle
    norms = np.einsum("ij,ij->i", shifted, shifted)
    factors: Floats = np.concatenate([-2 * shifted, norms[:, None]], axis=1)
    rounding, largest = 4 * (d + 4) * np.finfo(np.float64).eps, norms.max()
    places = np.arange(k, dtype=np.min_scalar_type(k))[:, None]
    labels, distances = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    size = block_rows(k, d)

    def label(start: int) -> None:
        rows, part = X[start : start + size], slice(start, start + size)
        block: Floats = np.ones((len(rows), d + 1))  # the last column is for the norms
        moved = np.subtract(rows, middle, out=block[:, :-1])
        scores = factors @ block.T
        limits = scores.min(axis=0)
        limits += rounding * (np.einsum("ij,ij->i", moved, moved) + largest)
        near = scores <= limits
        found = (near * places).max(axis=0).astype(np.int64)  # the only near one, or see below
        if np.count_nonzero(near) > len(rows):
            close = near.sum(axis=0) > 1  # rounding could decide: compare exact distances instead
            found[close] = pairwise_distances(rows[close], centers).argmin(axis=1)
        offsets = rows - centers[found]  # so that rows far from the origin lose no digits
        labels[part], distances[part] = found, np.sqrt(np.einsum("ij,ij->i", offsets, offsets))

    starts = range(0, len(X), size)
    if min(n_threads, len(starts)) <= 1:
        for start in starts:
            label(start)
        return labels, distances
    with one_thread(), ThreadPoolExecutor(n_threads) as pool:  # one thread of BLAS for each
        list(pool.map(label, starts))
    return labels, distances
