"""k-means for many rows, in tiles that fit the cache.

A tile holds the columns of some rows one after the other, so that inner loops over its rows are
vector loops. Lloyd's iterations keep two bounds for each row (Hamerly, 2010): its distance to its
own center is at most the upper one, that to any other center at least the lower one. A row is
looked at only where these do not settle its cluster.
"""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled
from fedjigsaw.kernels.compiled.drawing import STEP, uniform

TILE_BYTES = 2**15  # of the fastest cache
FEWEST, MOST = 32, 256  # rows of a tile
SPARSE = 4  # rows of a tile are looked at one by one if fewer than one in so many are open


def tile_rows(n_columns: int) -> int:
    """Return the number of rows of a tile.

    Examples
    --------
    >>> tile_rows(2), tile_rows(20), tile_rows(1000)
    (256, 128, 32)
    """
    rows = MOST
    while rows > FEWEST and 8 * rows * n_columns > TILE_BYTES:
        rows //= 2
    return rows


@compiled
def in_tiles(X, w, size):
    """Return centered rows in tiles (t, d, size), their weights and their squared norms.

    The last tile is filled up with rows of weight zero.
    """
    n, d = X.shape
    n_tiles = (n + size - 1) // size
    middle = np.zeros(d)
    for i in range(n):
        for c in range(d):
            middle[c] += X[i, c]
    middle /= n
    tiles, weights = np.zeros((n_tiles, d, size)), np.zeros((n_tiles, size))
    norms = np.zeros((n_tiles, size))
    for i in range(n):
        t, r = i // size, i % size
        weights[t, r] = w[i]
        for c in range(d):
            value = X[i, c] - middle[c]
            tiles[t, c, r] = value
            norms[t, r] += value * value
    return tiles, weights, norms


@compiled
def one_start(tiles, w, norms, k, max_iter, tol, state, labels):
    """Write the labels of one start, shape (t, size). Return the objective."""
    n_tiles, d, size = tiles.shape
    centers, upper = np.empty((k, d)), np.empty((n_tiles, size))
    k = _seed(tiles, w, k, state, labels, upper, centers)
    centers = centers[:k].copy()
    sums, totals, sizes = np.zeros((k, d)), np.zeros(k), np.zeros(k, np.int64)
    _sum_up(tiles, w, labels, sums, totals, sizes)
    _settle(tiles, w, norms, centers, max_iter, tol, labels, upper, sums, totals, sizes)
    # the sum of squares of the rows, less that of the centers
    objective = 0.0
    for t in range(n_tiles):
        for r in range(size):
            objective += w[t, r] * norms[t, r]
    for j in range(k):
        for c in range(d):
            objective -= sums[j, c] * sums[j, c] / totals[j]
    return objective


@compiled
def from_centers(tiles, w, norms, centers, max_iter, tol, labels):
    """Write the labels of a search from given centers, which it moves; none may coincide."""
    (n_tiles, d, size), k = tiles.shape, len(centers)
    halves, upper = np.empty(k), np.empty((n_tiles, size))
    scores, second = np.empty(size), np.empty(size)
    for j in range(k):
        halves[j] = 0.5 * (centers[j] ** 2).sum()
    for t in range(n_tiles):
        _look_at_all(tiles[t], centers, halves, norms[t], scores, upper[t], second, labels[t])
    sums, totals, sizes = np.zeros((k, d)), np.zeros(k), np.zeros(k, np.int64)
    _sum_up(tiles, w, labels, sums, totals, sizes)
    for j in range(k):
        if sizes[j] == 0:
            _fill(tiles, w, upper, j, labels, sums, totals, sizes)
    _settle(tiles, w, norms, centers, max_iter, tol, labels, upper, sums, totals, sizes)


# ------------------------------------------------------------------------------------- seeding


@compiled
def _seed(tiles, w, k, state, labels, squared, centers):
    """Run greedy k-means++: of a few candidates, each new center is the best.

    Return the number of centers, which is smaller than k if there are fewer distinct rows.
    """
    n_tiles, d, size = tiles.shape
    n_candidates = 2 + int(np.log(k))
    candidates = np.empty((n_candidates, d))
    left, distances, sums = np.empty(n_candidates), np.empty(size), np.empty(n_tiles)
    for t in range(n_tiles):
        sums[t] = 0.0
        for r in range(size):
            squared[t, r] = 1.0
            sums[t] += w[t, r]
    state += STEP
    _copy_row(tiles, _place(sums, w, squared, uniform(state)), centers[0])
    for t in range(n_tiles):
        for r in range(size):
            squared[t, r] = np.inf
    # not a plain 0, for which numba would compile it once more
    _add_center(tiles, w, centers, np.int64(0), labels, squared, distances, sums)
    for j in range(1, k):
        if sums.sum() <= 0.0:
            return j
        for q in range(n_candidates):
            left[q] = 0.0
            state += STEP
            _copy_row(tiles, _place(sums, w, squared, uniform(state)), candidates[q])
        for t in range(n_tiles):
            weights, current = w[t], squared[t]
            for q in range(n_candidates):
                _distances(tiles[t], candidates[q], distances)
                potential = 0.0
                for r in range(size):
                    potential += weights[r] * min(distances[r], current[r])
                left[q] += potential
        chosen = left.argmin()
        for c in range(d):
            centers[j, c] = candidates[chosen, c]
        _add_center(tiles, w, centers, j, labels, squared, distances, sums)
    return k


@compiled
def _add_center(tiles, w, centers, j, labels, squared, distances, sums):
    """Give center j the rows that are nearest to it, and sum up what is left in each tile."""
    for t in range(len(tiles)):
        _distances(tiles[t], centers[j], distances)
        weights, current, places = w[t], squared[t], labels[t]
        potential = 0.0
        for r in range(len(distances)):
            nearer = distances[r] < current[r]
            value = distances[r] if nearer else current[r]
            current[r] = value
            places[r] = j if nearer else places[r]
            potential += weights[r] * value
        sums[t] = potential


@compiled
def _place(sums, w, squared, share):
    """Draw a row with a probability that is proportional to its weighted squared distance."""
    value, t, last = share * sums.sum(), 0, len(sums) - 1
    while t < last and (value >= sums[t] or sums[t] <= 0.0):
        value -= sums[t]
        t += 1
    while t > 0 and sums[t] <= 0.0:  # rounding
        t -= 1
    found = 0
    for r in range(w.shape[1]):
        part = w[t, r] * squared[t, r]
        if part > 0.0:
            found = r
            if value < part:
                break
            value -= part
    return t * w.shape[1] + found


@compiled
def _copy_row(tiles, place, row):
    size = tiles.shape[2]
    for c in range(len(row)):
        row[c] = tiles[place // size, c, place % size]


@compiled
def _distances(tile, x, squared):
    """Write the squared distances of a tile's rows to x; differences lose no digits."""
    d, size = tile.shape
    for r in range(size):
        squared[r] = 0.0
    c = 0
    while c + 3 < d:
        a0, a1, a2, a3 = tile[c], tile[c + 1], tile[c + 2], tile[c + 3]
        x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
        for r in range(size):
            t0, t1, t2, t3 = a0[r] - x0, a1[r] - x1, a2[r] - x2, a3[r] - x3
            squared[r] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
        c += 4
    while c < d:
        a0, x0 = tile[c], x[c]
        for r in range(size):
            t0 = a0[r] - x0
            squared[r] += t0 * t0
        c += 1


# ---------------------------------------------------------------------------------- iterations


@compiled
def _settle(tiles, w, norms, centers, max_iter, tol, labels, upper, sums, totals, sizes):
    """Run Lloyd's iterations in place."""
    (n_tiles, d, size), k = tiles.shape, len(centers)
    lower = np.empty((n_tiles, size))
    columns, halves, moves, reach = np.empty((d, k)), np.empty(k), np.empty(k), np.empty(k)
    scores, best, second = np.empty(size), np.empty(size), np.empty(size)
    nearest, still_open = np.zeros(size, np.int64), np.empty(size, np.int64)
    row, row_scores = np.empty(d), np.empty(k)
    total = 0.0
    for t in range(n_tiles):
        for r in range(size):
            total += w[t, r] * norms[t, r]
    enough = tol * total / (totals.sum() * d)
    for iteration in range(max_iter):
        shift = _move_centers(centers, sums, totals, columns, halves, moves)
        _half_gaps(centers, reach)
        first, other, who = _largest(moves)
        changed = False
        for t in range(n_tiles):
            if iteration == 0:
                n_open = size
            else:
                n_open = _open_rows(
                    labels[t], upper[t], lower[t], moves, reach, first, other, who, still_open
                )
            if n_open == 0:
                continue
            if SPARSE * n_open > size:
                _look_at_all(tiles[t], centers, halves, norms[t], scores, best, second, nearest)
                for r in range(size):
                    upper[t, r], lower[t, r] = best[r], second[r]
                    if nearest[r] != labels[t, r]:
                        changed = True
                        _reassign(tiles, w, t, r, nearest[r], labels, sums, totals, sizes)
            else:
                for q in range(n_open):
                    r = still_open[q]
                    for c in range(d):
                        row[c] = tiles[t, c, r]
                    j, nearest_score, next_score = _look_at(row, columns, halves, row_scores)
                    upper[t, r] = np.sqrt(max(0.0, norms[t, r] + 2 * nearest_score))
                    lower[t, r] = np.sqrt(max(0.0, norms[t, r] + 2 * next_score))
                    if j != labels[t, r]:
                        changed = True
                        _reassign(tiles, w, t, r, j, labels, sums, totals, sizes)
        for j in range(k):
            if sizes[j] == 0:
                changed = True
                _fill(tiles, w, upper, j, labels, sums, totals, sizes)
        if not changed or shift <= enough:
            break


@compiled
def _sum_up(tiles, w, labels, sums, totals, sizes):
    n_tiles, d, size = tiles.shape
    for t in range(n_tiles):
        for r in range(size):
            j, weight = labels[t, r], w[t, r]
            if weight > 0.0:
                totals[j] += weight
                sizes[j] += 1
                for c in range(d):
                    sums[j, c] += weight * tiles[t, c, r]


@compiled
def _move_centers(centers, sums, totals, columns, halves, moves):
    """Move centers to their means. Return the sum of all squared moves."""
    k, d = centers.shape
    shift = 0.0
    for j in range(k):
        squared, norm = 0.0, 0.0
        for c in range(d):
            mean = sums[j, c] / totals[j]
            squared += (mean - centers[j, c]) ** 2
            norm += mean * mean
            centers[j, c] = mean
            columns[c, j] = mean
        halves[j] = 0.5 * norm
        moves[j] = np.sqrt(squared)
        shift += squared
    return shift


@compiled
def _half_gaps(centers, reach):
    """Write half the distance of each center to the nearest other one: rows within stay."""
    k, d = centers.shape
    reach[:] = np.inf
    for a in range(k):
        for b in range(a):
            squared = 0.0
            for c in range(d):
                squared += (centers[a, c] - centers[b, c]) ** 2
            reach[a] = min(reach[a], squared)
            reach[b] = min(reach[b], squared)
    for a in range(k):
        reach[a] = 0.5 * np.sqrt(reach[a])


@compiled
def _largest(moves):
    """Return the largest move, the largest of all others, and whose the first is."""
    first, other, who = 0.0, 0.0, 0
    for j in range(len(moves)):
        if moves[j] > first:
            first, other, who = moves[j], first, j
        elif moves[j] > other:
            other = moves[j]
    return first, other, who


@compiled
def _open_rows(labels, upper, lower, moves, reach, first, other, who, still_open):
    """Update the bounds after centers moved. Return the number of rows that these leave open."""
    n_open = 0
    for r in range(len(labels)):
        j = labels[r]
        upper[r] += moves[j]
        lower[r] -= other if j == who else first
        if upper[r] > max(lower[r], reach[j]):
            still_open[n_open] = r
            n_open += 1
    return n_open


@compiled
def _look_at_all(tile, centers, halves, norms, scores, best, second, nearest):
    """Write the nearest center of each row of a tile, and the two smallest distances."""
    size = tile.shape[1]
    for r in range(size):
        best[r] = np.inf
        second[r] = np.inf
    for j in range(len(centers)):
        _scores(tile, centers[j], halves[j], scores)
        for r in range(size):
            value, least = scores[r], best[r]
            second[r] = min(second[r], max(value, least))
            nearest[r] = j if value < least else nearest[r]
            best[r] = min(value, least)
    for r in range(size):
        best[r] = np.sqrt(max(0.0, norms[r] + 2 * best[r]))
        second[r] = np.sqrt(max(0.0, norms[r] + 2 * second[r]))


@compiled
def _scores(tile, center, half, scores):
    """Write half the squared distances of a tile's rows to a center, less half their norms."""
    d, size = tile.shape
    for r in range(size):
        scores[r] = half
    c = 0
    while c + 3 < d:
        a0, a1, a2, a3 = tile[c], tile[c + 1], tile[c + 2], tile[c + 3]
        x0, x1, x2, x3 = center[c], center[c + 1], center[c + 2], center[c + 3]
        for r in range(size):
            scores[r] -= (a0[r] * x0 + a1[r] * x1) + (a2[r] * x2 + a3[r] * x3)
        c += 4
    while c < d:
        a0, x0 = tile[c], center[c]
        for r in range(size):
            scores[r] -= a0[r] * x0
        c += 1


@compiled
def _look_at(row, columns, halves, scores):
    """Return the nearest center of one row and the two smallest scores."""
    d, k = columns.shape
    for j in range(k):
        scores[j] = halves[j]
    c = 0
    while c + 3 < d:
        a0, a1, a2, a3 = columns[c], columns[c + 1], columns[c + 2], columns[c + 3]
        x0, x1, x2, x3 = row[c], row[c + 1], row[c + 2], row[c + 3]
        for j in range(k):
            scores[j] -= (a0[j] * x0 + a1[j] * x1) + (a2[j] * x2 + a3[j] * x3)
        c += 4
    while c < d:
        a0, x0 = columns[c], row[c]
        for j in range(k):
            scores[j] -= a0[j] * x0
        c += 1
    best, second, found = np.inf, np.inf, 0
    for j in range(k):
        if scores[j] < best:
            best, second, found = scores[j], best, j
        elif scores[j] < second:
            second = scores[j]
    return found, best, second


@compiled
def _reassign(tiles, w, t, r, to, labels, sums, totals, sizes):
    """Move a row to another cluster; a row that only fills up a tile counts nowhere."""
    source, weight = labels[t, r], w[t, r]
    labels[t, r] = to
    if weight <= 0.0:
        return
    totals[source] -= weight
    totals[to] += weight
    sizes[source] -= 1
    sizes[to] += 1
    for c in range(sums.shape[1]):
        value = weight * tiles[t, c, r]
        sums[source, c] -= value
        sums[to, c] += value
    if sizes[source] == 0:  # no rounding is left over
        totals[source] = 0.0
        sums[source, :] = 0.0


@compiled
def _fill(tiles, w, upper, j, labels, sums, totals, sizes):
    """Give a cluster without rows the one that is farthest from its center."""
    n_tiles, size = labels.shape
    most, place = -1.0, 0
    for t in range(n_tiles):
        for r in range(size):
            if w[t, r] > 0.0 and sizes[labels[t, r]] > 1:
                cost = w[t, r] * upper[t, r] ** 2
                if cost > most:
                    most, place = cost, t * size + r
    t, r = place // size, place % size
    _reassign(tiles, w, t, r, j, labels, sums, totals, sizes)
    upper[t, r] = np.inf  # its bounds are those of another cluster
