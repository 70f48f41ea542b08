"""Centers, counts and sums of clusters, from the labels of rows."""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled


@compiled
def describe(X, w, clients, labels, centers, counts, sse, extents, found, means, first, order):
    """Write statistics of the clusters of clients, ordered by coordinates.

    Labels are given this order. Those without rows are left out: `found` is the number of clusters
    of each client. Clusters are inserted one by one at their places: they are few, and numba takes
    seconds to compile a sort.

    Rows are compared with the first of their cluster, so that a column in which all are equal has
    that value, however large it is.

    Parameters
    ----------
    clients : for each client its first row, the one after its last, its number of clusters and the
        place of the first.
    means, first, order : shapes (k, d + 1), (k,) and (k,), for the means and weights of clusters,
        and their order; k is the largest number of clusters.
    """
    d = X.shape[1]
    for m in range(len(clients)):
        a, b, k, at = clients[m, 0], clients[m, 1], clients[m, 2], clients[m, 3]
        for j in range(k):
            for c in range(d + 1):
                means[j, c] = 0.0
        for i in range(b - 1, a - 1, -1):
            first[labels[i]] = i
        for i in range(a, b):
            j, weight = labels[i], w[i]
            means[j, d] += weight
            for c in range(d):
                means[j, c] += weight * (X[i, c] - X[first[j], c])
        size = 0
        for j in range(k):
            if means[j, d] > 0.0:
                for c in range(d):
                    means[j, c] = X[first[j], c] + means[j, c] / means[j, d]
                free = size
                while free > 0:
                    other, c = order[free - 1], 0
                    while c < d - 1 and means[j, c] == means[other, c]:
                        c += 1
                    if means[j, c] >= means[other, c]:
                        break
                    order[free] = other
                    free -= 1
                order[free] = j
                size += 1
        for place in range(size):
            j = order[place]
            first[j] = at + place
            counts[at + place] = means[j, d]
            sse[at + place] = extents[at + place] = 0.0
            for c in range(d):
                centers[at + place, c] = means[j, c]
        for i in range(a, b):
            place = first[labels[i]]
            labels[i] = place - at
            squared = 0.0
            for c in range(d):
                squared += (X[i, c] - centers[place, c]) ** 2
            sse[place] += w[i] * squared
            extents[place] = max(extents[place], squared)
        for place in range(at, at + size):
            extents[place] = np.sqrt(extents[place])
        found[m] = size
