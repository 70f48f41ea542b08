"""Lloyd's iterations of the server's solver for a few thousand rows, see `local_search.py`."""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled
from fedjigsaw.kernels.compiled.nearest import CENTERS, ROWS, best_of


@compiled
def in_tiles(X):
    """Return rows in tiles, shape (t, d, size), and their squared norms; fill up with zeros."""
    n, d = X.shape
    n_tiles = (n + ROWS - 1) // ROWS
    tiles, norms = np.zeros((n_tiles, d, ROWS)), np.zeros((n_tiles, ROWS))
    for i in range(n):
        t, r = i // ROWS, i % ROWS
        for c in range(d):
            tiles[t, c, r] = X[i, c]
            norms[t, r] += X[i, c] * X[i, c]
    return tiles, norms


@compiled
def settle(X, w, tiles, norms, centers, moved, goal, max_iter, tol, horizon, labels, squared):
    """Run Lloyd's iterations from `centers`, which become the means of the clusters.

    Parameters
    ----------
    moved : shape (k,), the centers that are not those of the given labels.
    goal, horizon : end if the objective needs more steps than that, at its current rate, to become
        less than the goal.
    labels, squared : shape (n,), label of each row and its squared distance to the mean.

    Returns
    -------
    The objective, whether the iterations converged, and the distances that a search takes which
    looks only at what has moved.
    """
    (n, d), k = X.shape, len(centers)
    products, half = np.empty((CENTERS, ROWS)), np.empty(k)
    best, own = np.empty(ROWS), np.empty(ROWS, np.int64)
    means, counts, sizes = np.empty((k, d)), np.empty(k), np.zeros(k)
    for i in range(n):
        sizes[labels[i]] += 1
    objective, settled, work = np.inf, False, 0.0
    for _ in range(max_iter):
        work += _work(n, moved, sizes)
        for j in range(k):
            half[j] = 0.5 * (centers[j] ** 2).sum()
        means[:] = 0.0
        counts[:] = 0.0
        sizes[:] = 0.0
        last, objective = objective, 0.0
        for t in range(len(tiles)):
            best_of(tiles[t], centers, half, products, best, own)
            start = t * ROWS
            for r in range(min(ROWS, n - start)):
                i, j = start + r, own[r]
                labels[i] = j
                sizes[j] += 1
                counts[j] += w[i]
                objective += w[i] * max(0.0, norms[t, r] + 2 * best[r])
                for c in range(d):
                    means[j, c] += w[i] * X[i, c]
        settled = True
        for j in range(k):
            gain = 0.0
            for c in range(d):
                means[j, c] = means[j, c] / counts[j] if counts[j] > 0.0 else centers[j, c]
                gain += counts[j] * (means[j, c] - centers[j, c]) ** 2
            moved[j] = gain > tol * objective / k
            settled = settled and not moved[j]
        if settled or objective - goal > horizon * (last - objective):
            break
        for j in range(k):
            if moved[j]:
                for c in range(d):
                    centers[j, c] = means[j, c]
    for j in range(k):
        for c in range(d):
            centers[j, c] = means[j, c]
    objective = 0.0
    for i in range(n):
        j, value = labels[i], 0.0
        for c in range(d):
            value += (X[i, c] - centers[j, c]) ** 2
        squared[i] = value
        objective += w[i] * value
    return objective, settled, work


@compiled
def _work(n, moved, sizes):
    """Count distances: of all rows to moved centers, and of the rows of these to all centers."""
    n_moved, stale = 0, 0.0
    for j in range(len(moved)):
        if moved[j]:
            n_moved += 1
            stale += sizes[j]
    if 2 * n_moved >= len(moved):
        return 1.0 * n * len(moved)
    return 1.0 * n * n_moved + stale * len(moved)


@compiled
def sums_of(X, labels, w, sums):
    """Add up the weighted rows of each label, shape (k, d)."""
    for i in range(len(X)):
        line = sums[labels[i]]
        for c in range(X.shape[1]):
            line[c] += w[i] * X[i, c]
