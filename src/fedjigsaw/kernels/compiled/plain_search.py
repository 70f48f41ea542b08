"""k-means for few rows: greedy k-means++, then Lloyd's iterations over all rows.

Rows are held as columns, so that inner loops over rows are vector loops. Squared distances to the
rows that were candidates for a center are kept, and serve all starts.
"""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled
from fedjigsaw.kernels.compiled.drawing import STEP, uniform


def workspace(n_rows, n_columns, n_clusters):
    """Return the last arguments of :func:`search`: space for clients of at most this size."""
    even = n_columns + n_columns % 2
    sums = np.zeros((2, n_clusters, even))
    floats, ints = np.zeros((3, n_rows)), np.zeros((3, n_rows), np.int64)
    totals, sizes = np.zeros(n_clusters), np.zeros(n_clusters, np.int64)
    return np.zeros(even), *sums, totals, sizes, *floats, *ints


@compiled
def search(
    X, w, clients, states, given, max_iter, tol, labels,
    middle, centers, sums, totals, sizes, weights, squared, scores, known, found, nearest,
):  # fmt: skip
    """Cluster the rows of clients by the best of several starts.

    Parameters
    ----------
    clients : as in :func:`~fedjigsaw.kernels.compiled.statistics.describe`.
    states : shape (m, n_init), of random numbers.
    given : centers of all clients, the only start, or an empty array for k-means++.
    labels : shape (n,), for the result.
    """
    d, even = X.shape[1], len(middle)
    for m in range(len(clients)):
        a, n, k, first = clients[m, 0], clients[m, 1] - clients[m, 0], clients[m, 2], clients[m, 3]
        columns, distances = np.empty((even, n)), np.empty((n, n))
        for c in range(even):
            middle[c] = 0.0
        for r in range(n):
            for c in range(d):
                middle[c] += X[a + r, c] / n
        spread, total = 0.0, 0.0
        for r in range(n):
            known[r] = 0
            weights[r] = w[a + r]
            total += weights[r]
            columns[even - 1, r] = 0.0
            for c in range(d):
                columns[c, r] = X[a + r, c] - middle[c]
                spread += weights[r] * columns[c, r] ** 2
        best = -1.0
        for start in range(states.shape[1]):
            k_found = k
            if len(given):
                for j in range(k):
                    for c in range(d):
                        centers[j, c] = given[first + j, c] - middle[c]
            else:
                k_found = _seed(
                    columns,
                    weights,
                    k,
                    states[m, start],
                    distances,
                    known,
                    squared,
                    scores,
                    centers,
                )
            explained = _settle(
                columns, weights, k_found, max_iter, tol * spread / (total * d), centers, sums,
                totals, sizes, found, nearest, squared, scores,
            )  # fmt: skip
            if explained > best:
                best = explained
                for r in range(n):
                    labels[a + r] = found[r]


@compiled
def _seed(columns, weights, k, state, distances, known, squared, sums, centers):
    """Run greedy k-means++: of a few candidates, each new center is the best.

    Return the number of centers, which is smaller than k if there are fewer distinct rows.
    """
    d, n = columns.shape
    for i in range(n):
        squared[i] = 1.0  # the first center is drawn by weight alone
    for j in range(k):
        total = 0.0
        for i in range(n):
            total += weights[i] * squared[i]
            sums[i] = total
        if total <= 0.0:
            return j
        least, chosen = np.inf, 0
        for _ in range(2 + int(np.log(k)) if j else 1):
            state += STEP
            place = _place(sums, n, uniform(state) * total)
            if not known[place]:
                known[place] = 1
                for i in range(n):
                    distances[place, i] = 0.0
                for c in range(d):
                    for i in range(n):
                        distances[place, i] += (columns[c, i] - columns[c, place]) ** 2
            left = 0.0
            for i in range(n):
                left += weights[i] * min(distances[place, i], squared[i])
            if left < least:
                least, chosen = left, place
        for i in range(n):
            squared[i] = min(distances[chosen, i], squared[i]) if j else distances[chosen, i]
        for c in range(d):
            centers[j, c] = columns[c, chosen]
    return k


@compiled
def _place(sums, n, value):
    """Return the first of n places at which the running sum exceeds the value."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > value:
            high = middle
        else:
            low = middle + 1
    # rounding: the last rows may add nothing
    while low > 0 and sums[low] == sums[low - 1]:
        low -= 1
    return low


@compiled
def _settle(
    columns,
    weights,
    k,
    max_iter,
    enough,
    centers,
    sums,
    totals,
    sizes,
    labels,
    nearest,
    squared,
    scores,
):
    """Run Lloyd's iterations. Return the sum of squares that the clusters explain."""
    d, n = columns.shape
    for j in range(k):
        totals[j] = sizes[j] = 0
        for c in range(d):
            sums[j, c] = 0.0
    for i in range(n):
        labels[i] = -1
    explained = 0.0
    for _ in range(max_iter):
        _look(columns, centers, k, nearest, squared, scores)
        changed = False
        for i in range(n):
            if nearest[i] != labels[i]:
                changed = True
                _move(columns, weights[i], i, nearest[i], labels, sums, totals, sizes)
        for j in range(k):
            if sizes[j] == 0:  # it gets the row that costs most in a cluster that has others
                changed = True
                most, farthest = -1.0, n - 1
                for i in range(n):
                    cost = 0.0
                    for c in range(d):
                        cost += weights[i] * (columns[c, i] - centers[labels[i], c]) ** 2
                    if sizes[labels[i]] > 1 and cost > most:
                        most, farthest = cost, i
                totals[j] = 0.0  # no rounding is left over
                for c in range(d):
                    sums[j, c], centers[j, c] = 0.0, columns[c, farthest]
                _move(columns, weights[farthest], farthest, j, labels, sums, totals, sizes)
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


@compiled
def _look(columns, centers, k, nearest, best, scores):
    """Find the nearest center of each row, the first one of equals, with two columns at a time."""
    d, n = columns.shape
    for i in range(n):
        best[i] = np.inf
    for j in range(k):
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
            best[i] = min(scores[i], best[i])


@compiled
def _move(columns, weight, i, to, labels, sums, totals, sizes):
    """Move a row to another cluster, or into its first one."""
    source = labels[i]
    labels[i] = to
    totals[to] += weight
    sizes[to] += 1
    for c in range(len(columns)):
        sums[to, c] += weight * columns[c, i]
    if source >= 0:
        totals[source] -= weight
        sizes[source] -= 1
        for c in range(len(columns)):
            sums[source, c] -= weight * columns[c, i]
