"""One step of Lloyd's iterations over Gaussians; see :mod:`fedjigsaw.kernels.gaussians`."""

import math

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled
from fedjigsaw.kernels.compiled.nearest import CENTERS, ROWS, best_two_of, load

WHOLE = 9.0  # deviations from a boundary at which nothing of a Gaussian lies beyond it


@compiled
def divide(X, counts, widths, C, half, start, stop, sums, mass):
    """Add up the parts of Gaussians at each center; return the objective of their means."""
    tile, products = np.zeros((X.shape[1], ROWS)), np.empty((CENTERS, ROWS))
    best, after, norms = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    own, other = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    total = 0.0
    for at in range(start, stop, ROWS):
        n = min(ROWS, stop - at)
        load(X, at, n, tile, norms)
        best_two_of(tile, C, half, products, best, after, own, other)
        for r in range(n):
            row, weight, width = X[at + r], counts[at + r], widths[at + r]
            a, b = own[r], other[r]
            total += weight * max(0.0, norms[r] + 2 * best[r])
            apart = 0.0
            for c in range(X.shape[1]):
                apart += (C[b, c] - C[a, c]) ** 2
            apart = math.sqrt(apart) if apart > 0 else 1.0
            z = (after[r] - best[r]) / (apart * width) if width > 0 else WHOLE
            if z >= WHOLE:
                mass[a] += weight
                for c in range(X.shape[1]):
                    sums[a, c] += weight * row[c]
                continue
            given = weight * 0.5 * math.erfc(z / math.sqrt(2))
            kept = weight - given
            moment = weight * width * math.exp(-z * z / 2) / (math.sqrt(2 * math.pi) * apart)
            mass[a] += kept
            mass[b] += given
            for c in range(X.shape[1]):
                shift = moment * (C[b, c] - C[a, c])
                sums[a, c] += kept * row[c] - shift
                sums[b, c] += given * row[c] + shift
    return total
