"""Centers, counts and sums of clusters, from the labels of rows."""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled


@compiled
def describe(
    X, w, starts, ends, n_clusters, first, one, end, labels, centers, counts, sse, extents, found
):
    """Write statistics of the clusters of clients `one` to `end`, ordered by coordinates.

    Labels are given this order. Those without rows are left out: `found` is the number of clusters
    of each client, of which the first is at the place `first`.
    """
    for m in range(one, end):
        a, b, k, at = starts[m], ends[m], n_clusters[m], first[m]
        means, totals = _means(X[a:b], w[a:b], k, labels[a:b])
        order = _by_coordinates(means, totals)
        places = np.zeros(k, np.int64)
        for place in range(len(order)):
            j = order[place]
            places[j] = at + place
            counts[at + place] = totals[j]
            for c in range(X.shape[1]):
                centers[at + place, c] = means[j, c]
            sse[at + place] = 0.0
            extents[at + place] = 0.0
        for i in range(a, b):
            place = places[labels[i]]
            labels[i] = place - at
            squared = 0.0
            for c in range(X.shape[1]):
                squared += (X[i, c] - centers[place, c]) ** 2
            sse[place] += w[i] * squared
            extents[place] = max(extents[place], squared)
        for place in range(at, at + len(order)):
            extents[place] = np.sqrt(extents[place])
        found[m] = len(order)


@compiled
def _means(X, w, k, labels):
    """Return the mean and the weight of each cluster.

    Rows are compared with the first of their cluster, so that a column in which all are equal has
    that value, however large it is.
    """
    first, sums, totals = np.zeros(k, np.int64), np.zeros((k, X.shape[1])), np.zeros(k)
    for i in range(len(X) - 1, -1, -1):
        first[labels[i]] = i
    for i in range(len(X)):
        j, weight = labels[i], w[i]
        totals[j] += weight
        for c in range(X.shape[1]):
            sums[j, c] += weight * (X[i, c] - X[first[j], c])
    for j in range(k):
        if totals[j] > 0.0:
            for c in range(X.shape[1]):
                sums[j, c] = X[first[j], c] + sums[j, c] / totals[j]
    return sums, totals


@compiled
def _by_coordinates(means, totals):
    """Sort the clusters that have rows by the first column, then by the next ones.

    Each is inserted at its place: clusters are few, and numba takes seconds to compile a sort.
    """
    order, size = np.empty(len(means), np.int64), 0
    for j in range(len(means)):
        if totals[j] > 0.0:
            free = size
            while free > 0 and _before(means[j], means[order[free - 1]]):
                order[free] = order[free - 1]
                free -= 1
            order[free] = j
            size += 1
    return order[:size]


@compiled
def _before(a, b):
    for c in range(len(a)):
        if a[c] != b[c]:
            return a[c] < b[c]
    return False
