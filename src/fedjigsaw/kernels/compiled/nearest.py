"""Nearest centers of many rows, in tiles of rows that stay in the cache.

A tile holds rows as columns, so that every loop over its rows is a vector loop. A score is half the
squared norm of a center minus its product with the row: the nearest center has the smallest one.
"""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled

ROWS = 128  # of a tile
CENTERS = 128  # whose products with a tile are computed at once


@compiled
def load(X, start, n, tile, norms):
    """Fill a tile with `n` rows as columns, and compute their squared norms."""
    for r in range(n):
        for c in range(X.shape[1]):
            tile[c, r] = X[start + r, c]
    for r in range(ROWS):
        norms[r] = 0.0
    for c in range(X.shape[1]):
        column = tile[c]
        for r in range(ROWS):
            norms[r] += column[r] * column[r]


@compiled
def best_of(tile, C, half, products, best, own):
    """Find the nearest center of each row of a tile: the first one of equals."""
    for r in range(ROWS):
        best[r] = np.inf
        own[r] = 0
    for start in range(0, len(C), CENTERS):
        part = products[: min(CENTERS, len(C) - start)]
        np.dot(C[start : start + CENTERS], tile, part)
        for j in range(len(part)):
            row, h, at = part[j], half[start + j], start + j
            for r in range(ROWS):
                v, b = h - row[r], best[r]
                own[r] = at if v < b else own[r]
                best[r] = v if v < b else b


@compiled
def best_two_of(tile, C, half, products, best, second, own, other):
    """Find the nearest and the second nearest center of each row of a tile."""
    for r in range(ROWS):
        best[r] = second[r] = np.inf
        own[r] = other[r] = 0
    for start in range(0, len(C), CENTERS):
        part = products[: min(CENTERS, len(C) - start)]
        np.dot(C[start : start + CENTERS], tile, part)
        for j in range(len(part)):
            row, h, at = part[j], half[start + j], start + j
            for r in range(ROWS):
                v, b, s = h - row[r], best[r], second[r]
                other[r] = own[r] if v < b else (at if v < s else other[r])
                second[r] = b if v < b else (v if v < s else s)
                own[r] = at if v < b else own[r]
                best[r] = v if v < b else b


@compiled
def nearest(X, C, half, start, stop, labels, squared):
    """Write the nearest center of each row and the squared distance to it."""
    tile, products = np.zeros((X.shape[1], ROWS)), np.empty((CENTERS, ROWS))
    best, norms, own = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS, np.int64)
    for at in range(start, stop, ROWS):
        n = min(ROWS, stop - at)
        load(X, at, n, tile, norms)
        best_of(tile, C, half, products, best, own)
        for r in range(n):
            labels[at + r] = own[r]
            squared[at + r] = max(0.0, norms[r] + 2 * best[r])


@compiled
def nearest_two(X, C, half, start, stop, own, other, first, second):
    """Write the two nearest centers of each row and the squared distances to them."""
    tile, products = np.zeros((X.shape[1], ROWS)), np.empty((CENTERS, ROWS))
    best, after, norms = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    mine, others = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    for at in range(start, stop, ROWS):
        n = min(ROWS, stop - at)
        load(X, at, n, tile, norms)
        best_two_of(tile, C, half, products, best, after, mine, others)
        for r in range(n):
            own[at + r], other[at + r] = mine[r], others[r]
            first[at + r] = max(0.0, norms[r] + 2 * best[r])
            second[at + r] = max(0.0, norms[r] + 2 * after[r])


@compiled
def lloyd(X, w, C, half, start, stop, sums, counts):
    """Add up the rows nearest to each center; return their weighted squared distances."""
    tile, products = np.zeros((X.shape[1], ROWS)), np.empty((CENTERS, ROWS))
    best, norms, own = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS, np.int64)
    total = 0.0
    for at in range(start, stop, ROWS):
        n = min(ROWS, stop - at)
        load(X, at, n, tile, norms)
        best_of(tile, C, half, products, best, own)
        for r in range(n):
            weight, j = w[at + r], own[r]
            total += weight * max(0.0, norms[r] + 2 * best[r])
            counts[j] += weight
            for c in range(X.shape[1]):
                sums[j, c] += weight * X[at + r, c]
    return total
