"""k-means: greedy k-means++ and Lloyd's iterations, once for few rows and once for many.

Few rows are columns of one table, and squared distances to the rows that were candidates for a
center are kept: they serve all starts. Many rows are in tiles that fit the cache. There, Lloyd's
iterations keep two bounds for each row (Hamerly, 2010): its distance to its own center is at most
the upper one, that to any other center at least the lower one. A row is looked at only where these
leave open which cluster it belongs to.

Rows are centered, and their number of columns is even: loops take two at a time.
"""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled

STEP = np.uint64(0x9E3779B97F4A7C15)  # between two states of SplitMix64
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SPARSE = 4  # rows of a tile are put together with others if fewer than one in so many are open


@compiled
def _uniform(state):
    """Return the number in [0, 1) of a state of SplitMix64."""
    word = (state ^ (state >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return np.float64(np.int64((word ^ (word >> np.uint64(31))) >> np.uint64(11))) / 2.0**53


@compiled
def _first_above(sums, n, value):
    """Return the first of n places at which the running sum exceeds the value."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > value:
            high = middle
        else:
            low = middle + 1
    while low > 0 and sums[low] == sums[low - 1]:  # rounding: the last rows may add nothing
        low -= 1
    return low


# ----------------------------------------------------------------------------------- few rows


@compiled
def few(
    columns, norms, w, clients, enough, states, starts, max_iter, labels,
    own, distances, centers, sums, totals, weights, lengths, squared, scores, sizes, known, found,
    nearest,
):  # fmt: skip
    """Write the labels of the best of several starts, for one client after another.

    Parameters
    ----------
    columns, norms, w, labels : shapes (d, n) and (n,), rows of all clients.
    clients : shape (m, 5), for each its first row, its numbers of rows and of clusters, the place
        of its first center in `starts`, and the number of candidates for each center.
    enough : shape (m,), squared shift of all centers at which the iterations end.
    states : shape (m, n_init), of random numbers.
    starts : centers of all clients, the only start, or an empty array for k-means++.
    own and all others : space for the largest client.
    """
    d = len(columns)
    for m in range(len(clients)):
        a, n, k, first = clients[m, 0], clients[m, 1], clients[m, 2], clients[m, 3]
        for i in range(n):
            known[i], weights[i], lengths[i] = 0, w[a + i], norms[a + i]
            for c in range(d):
                own[c, i] = columns[c, a + i]
        best = -1.0
        for start in range(states.shape[1]):
            for j in range(k if len(starts) else 0):
                for c in range(d):
                    centers[j, c] = starts[first + j, c]
            if not len(starts):
                k = _seed_few(
                    own, weights, n, k, clients[m, 4], states[m, start], distances, known, squared,
                    scores, centers,
                )  # fmt: skip
            explained = _lloyd_few(
                own, lengths, weights, n, k, enough[m], max_iter, centers, sums, totals, sizes,
                found, nearest, squared, scores,
            )  # fmt: skip
            if explained > best:
                best = explained
                for i in range(n):
                    labels[a + i] = found[i]


@compiled
def _seed_few(
    columns, w, n, k, n_candidates, state, distances, known, squared, sums, centers
):  # fmt: skip
    """Choose centers by k-means++, each the best of a few candidates.

    Return their number, which is smaller than k if there are fewer distinct rows.
    """
    d = len(columns)
    for i in range(n):
        squared[i] = 1.0  # the first center is drawn by weight alone
    for j in range(k):
        total = 0.0
        for i in range(n):
            total += w[i] * squared[i]
            sums[i] = total
        if total <= 0.0:
            return j
        least, chosen = np.inf, 0
        for _ in range(n_candidates if j else 1):
            state += STEP
            place = _first_above(sums, n, _uniform(state) * total)
            if not known[place]:
                known[place] = 1
                for i in range(n):
                    distances[place, i] = 0.0
                for c in range(d):
                    for i in range(n):
                        distances[place, i] += (columns[c, i] - columns[c, place]) ** 2
            left = 0.0
            for i in range(n):
                value = distances[place, i]
                left += w[i] * (value if value < squared[i] else squared[i])
            if left < least:
                least, chosen = left, place
        for i in range(n):
            value = distances[chosen, i]
            squared[i] = value if value < squared[i] or j == 0 else squared[i]
        for c in range(d):
            centers[j, c] = columns[c, chosen]
    return k


@compiled
def _lloyd_few(
    columns, norms, w, n, k, enough, max_iter, centers, sums, totals, sizes, labels, nearest, best,
    scores,
):  # fmt: skip
    """Run Lloyd's iterations. Return the sum of squares that the clusters explain."""
    d = len(columns)
    for j in range(k):
        totals[j] = 0.0
        for c in range(d):
            sums[j, c] = 0.0
    for i in range(n):
        labels[i] = -1
    explained = 0.0
    for _ in range(max_iter):
        for i in range(n):
            best[i], nearest[i] = np.inf, 0
        for j in range(k):
            sizes[j] = 0
            half = 0.0
            for c in range(d):
                half += 0.5 * centers[j, c] ** 2
            for i in range(n):
                scores[i] = half
            for c in range(0, d, 2):
                x, y = centers[j, c], centers[j, c + 1]
                for i in range(n):
                    scores[i] -= x * columns[c, i] + y * columns[c + 1, i]
            for i in range(n):
                nearest[i] = j if scores[i] < best[i] else nearest[i]
                best[i] = scores[i] if scores[i] < best[i] else best[i]
        for i in range(n):
            sizes[nearest[i]] += 1
        for j in range(k):
            if sizes[j] == 0:  # it gets the row that costs most in a cluster that has others
                most, farthest = -1.0, n - 1
                for i in range(n):
                    labels[i] = -1 if labels[i] == j else labels[i]  # no rounding is left over
                    cost = w[i] * (norms[i] + 2 * best[i])
                    if sizes[nearest[i]] > 1 and cost > most:
                        most, farthest = cost, i
                sizes[nearest[farthest]] -= 1
                nearest[farthest] = j
                sizes[j] = 1
                totals[j] = 0.0
                for c in range(d):
                    sums[j, c] = 0.0
        changed = False
        for i in range(n):
            to, source, weight = nearest[i], labels[i], w[i]
            if to != source:
                changed = True
                labels[i] = to
                totals[to] += weight
                for c in range(d):
                    sums[to, c] += weight * columns[c, i]
                if source >= 0:
                    totals[source] -= weight
                    for c in range(d):
                        sums[source, c] -= weight * columns[c, i]
        shift, explained = 0.0, 0.0
        for j in range(k):
            for c in range(d):
                mean = sums[j, c] / totals[j]
                explained += mean * sums[j, c]
                shift += (mean - centers[j, c]) ** 2
                centers[j, c] = mean
        if not changed or shift <= enough:
            break
    return explained


# ---------------------------------------------------------------------------------- many rows


@compiled
def seed(tiles, w, k, state, labels, squared, distances, centers):
    """Choose centers by k-means++, each the best of a few candidates, and label rows by them.

    Return their number, which is smaller than k if there are fewer distinct rows.

    Parameters
    ----------
    tiles : shape (t, d, size), columns of rows; the last one is filled up with rows of no weight.
    w, labels, squared : shape (t, size), squared distances of rows to their centers.
    distances : shape (candidates, t, size), space for those to each candidate.
    centers : shape (candidates, d), space for these.
    """
    (n_candidates, n_tiles, size), d = distances.shape, tiles.shape[1]
    sums, running, left = np.empty(n_tiles), np.empty(n_tiles), np.empty(n_candidates)
    for t in range(n_tiles):
        total = 0.0
        for r in range(size):
            squared[t, r] = 1.0  # the first center is drawn by weight alone
            total += w[t, r]
        sums[t] = total
    for j in range(k):
        total = 0.0
        for t in range(n_tiles):
            total += sums[t]
            running[t] = total
        if total <= 0.0:
            return j
        n_drawn, chosen = n_candidates if j else 1, 0
        for q in range(n_drawn):
            state += STEP
            value = _uniform(state) * total
            t = _first_above(running, n_tiles, value)
            value -= running[t] - sums[t]
            place = 0
            for r in range(size):
                part = w[t, r] * squared[t, r]
                if part > 0.0:
                    place = r
                    if value < part:
                        break
                    value -= part
            left[q] = 0.0
            for c in range(d):
                centers[q, c] = tiles[t, c, place]
        for t in range(n_tiles):
            for q in range(n_drawn):
                _distances(tiles[t], centers[q], distances[q, t])
                potential = 0.0
                for r in range(size):
                    potential += w[t, r] * min(distances[q, t, r], squared[t, r])
                left[q] += potential
        for q in range(n_drawn):
            chosen = q if left[q] < left[chosen] else chosen
        for t in range(n_tiles):
            total = 0.0
            for r in range(size):
                value = distances[chosen, t, r]
                nearer = value < squared[t, r] or j == 0
                labels[t, r] = j if nearer else labels[t, r]
                value = value if nearer else squared[t, r]
                squared[t, r] = value
                total += w[t, r] * value
            sums[t] = total
    return k


@compiled
def _distances(tile, x, squared):
    """Write the squared distances of a tile's rows to x; differences lose no digits."""
    d, size = tile.shape
    for r in range(size):
        squared[r] = 0.0
    for c in range(0, d, 4):
        x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
        for r in range(size):
            squared[r] += (tile[c, r] - x0) ** 2 + (tile[c + 1, r] - x1) ** 2
            squared[r] += (tile[c + 2, r] - x2) ** 2 + (tile[c + 3, r] - x3) ** 2


@compiled
def lloyd(tiles, norms, w, labels, upper, k, max_iter, enough):
    """Run Lloyd's iterations from labels. Return the sum of squares that the clusters explain.

    Parameters
    ----------
    tiles : as in :func:`seed`.
    norms, w, labels : shape (t, size), squared norms of the rows, their weights and clusters.
    upper : shape (t, size), distance of each row to its center.
    enough : squared shift of all centers at which the iterations end.
    """
    n_tiles, d, size = tiles.shape
    centers, sums, totals = np.zeros((k, d)), np.zeros((k, d)), np.zeros(k)
    sizes, halves, moves, reach = np.zeros(k, np.int64), np.empty(k), np.empty(k), np.empty(k)
    lower, packed, lengths = np.empty(w.shape), np.empty((d, 2 * size + 8)), np.empty(2 * size)
    best, second, scores = np.empty(2 * size), np.empty(2 * size), np.empty(2 * size)
    nearest, at_tile = np.zeros(2 * size, np.int64), np.zeros(2 * size, np.int64)
    at_row, still_open = np.zeros(2 * size, np.int64), np.zeros(size, np.int64)
    for t in range(n_tiles):
        for r in range(size):
            j, weight, lower[t, r] = labels[t, r], w[t, r], -np.inf  # look at all rows
            totals[j] += weight
            sizes[j] += weight > 0.0
            for c in range(d):
                sums[j, c] += weight * tiles[t, c, r]
    explained = 0.0
    for step in range(max_iter + 1):
        for j in range(k):
            if sizes[j] == 0:  # it gets the row that costs most in a cluster that has others
                most, tile, row = -1.0, 0, 0
                for t in range(n_tiles):
                    for r in range(size):
                        cost = w[t, r] * upper[t, r] ** 2
                        if sizes[labels[t, r]] > 1 and cost > most:
                            most, tile, row = cost, t, r
                _move(tiles, w, tile, row, j, labels, sums, totals, sizes)
                upper[tile, row] = np.inf
        shift, explained = 0.0, 0.0
        for j in range(k):
            moves[j], halves[j], reach[j] = 0.0, 0.0, np.inf
            for c in range(d):
                mean = sums[j, c] / totals[j]
                explained += mean * sums[j, c]
                moves[j] += (mean - centers[j, c]) ** 2
                halves[j] += 0.5 * mean * mean
                centers[j, c] = mean
            shift += moves[j]
            moves[j] = np.sqrt(moves[j])
        if step == max_iter or (step and shift <= enough):
            break
        fastest, most, next_most = 0, 0.0, 0.0
        for j in range(k):
            if moves[j] > most:
                fastest, most, next_most = j, moves[j], most
            else:
                next_most = max(next_most, moves[j])
            for other in range(j):
                squared = 0.0
                for c in range(d):
                    squared += (centers[j, c] - centers[other, c]) ** 2
                reach[j] = min(reach[j], squared)
                reach[other] = min(reach[other], squared)
        for j in range(k):
            reach[j] = 0.5 * np.sqrt(reach[j])  # rows within do not leave
        n_packed = 0
        for t in range(n_tiles + 1):
            n_open = 0
            for r in range(size if t < n_tiles else 0):
                j = labels[t, r]
                upper[t, r] += moves[j]
                lower[t, r] -= next_most if j == fastest else most
                if upper[t, r] > max(lower[t, r], reach[j]):
                    still_open[n_open] = r
                    n_open += 1
            whole = SPARSE * n_open > size
            for q in range(0 if whole else n_open):
                r = still_open[q]
                at_tile[n_packed + q], at_row[n_packed + q] = t, r
                lengths[n_packed + q] = norms[t, r]
                for c in range(d):
                    packed[c, n_packed + q] = tiles[t, c, r]
            n_packed += 0 if whole else n_open
            if not whole and n_packed <= size and t < n_tiles:
                continue
            source, squares = (tiles[t], norms[t]) if whole else (packed, lengths)
            n = size if whole else n_packed
            n_packed = n_packed if whole else 0
            _two_nearest(source, n, centers, halves, squares, scores, best, second, nearest)
            for q in range(n):
                tile, r = (t, q) if whole else (at_tile[q], at_row[q])
                upper[tile, r], lower[tile, r] = best[q], second[q]
                if nearest[q] != labels[tile, r]:
                    _move(tiles, w, tile, r, nearest[q], labels, sums, totals, sizes)
    return explained


@compiled
def _two_nearest(tile, n, centers, halves, norms, scores, best, second, nearest):
    """Write the nearest center of each row, and the distances to it and to the second nearest."""
    for r in range(n):
        best[r], second[r], nearest[r] = np.inf, np.inf, 0
    for j in range(len(centers)):
        for r in range(n):
            scores[r] = halves[j]
        for c in range(0, len(tile), 4):
            x0, x1, x2, x3 = centers[j, c], centers[j, c + 1], centers[j, c + 2], centers[j, c + 3]
            for r in range(n):
                value = tile[c, r] * x0 + tile[c + 1, r] * x1
                scores[r] -= value + (tile[c + 2, r] * x2 + tile[c + 3, r] * x3)
        for r in range(n):
            value, least = scores[r], best[r]
            second[r] = min(second[r], max(value, least))
            nearest[r] = j if value < least else nearest[r]
            best[r] = min(value, least)
    for r in range(n):
        best[r] = np.sqrt(max(0.0, norms[r] + 2 * best[r]))
        second[r] = np.sqrt(max(0.0, norms[r] + 2 * second[r]))


@compiled
def _move(tiles, w, t, r, to, labels, sums, totals, sizes):
    """Move a row to another cluster; a row that only fills up a tile counts nowhere."""
    source, weight = labels[t, r], w[t, r]
    labels[t, r] = to
    if weight > 0.0:
        sizes[source] -= 1
        sizes[to] += 1
        kept = 1.0 if sizes[source] else 0.0  # of an empty cluster no rounding is left over
        totals[source] = kept * (totals[source] - weight)
        totals[to] += weight
        for c in range(sums.shape[1]):
            value = weight * tiles[t, c, r]
            sums[source, c] = kept * (sums[source, c] - value)
            sums[to, c] += value
