r"""k-means for few rows, from the matrix of their squared distances.

All starts share the matrix :math:`D_{im} = \|x_i - x_m\|^2`, and nothing else depends on the number
of columns. The distance of row i to the mean of cluster j, with weights w that sum to W, is

.. math:: \frac{T_{ji}}{W_j} - \frac{1}{2 W_j^2} \sum_{m \in j} w_m T_{jm} ,
   \qquad T_{ji} = \sum_{m \in j} w_m D_{im} ,

and a row that changes its cluster changes two rows of T. A search ends where no row changes.
"""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled
from fedjigsaw.kernels.compiled.drawing import start_state, uniform

MIN_GAIN = 1e-12  # relative; less is rounding


@compiled
def best_of(X, w, k, n_init, max_iter, seed, labels):
    """Write the labels of the best of `n_init` starts."""
    n = len(X)
    D = _squared_distances(X)
    T, totals, inside = np.empty((k, n)), np.empty(k), np.empty(k)
    sizes = np.empty(k, np.int64)
    nearest, squared, sums = np.zeros(n, np.int64), np.empty(n), np.empty(n)
    found = np.empty(n, np.int64)
    best = np.inf
    for start in range(n_init):
        state = start_state(seed, start)
        n_found = _seed(D, w, k, state, found, squared, sums)
        _sum_up(D, w, n_found, found, T, totals, sizes)
        objective = _settle(
            D, w, n_found, max_iter, found, T, totals, sizes, inside, nearest, squared
        )
        if objective < best:
            best = objective
            for i in range(n):
                labels[i] = found[i]


@compiled
def from_centers(X, w, centers, max_iter, labels):
    """Write the labels of a search from given centers."""
    (n, d), k = X.shape, len(centers)
    D = _squared_distances(X)
    T, totals, inside = np.empty((k, n)), np.empty(k), np.empty(k)
    sizes = np.empty(k, np.int64)
    nearest, squared = np.zeros(n, np.int64), np.full(n, np.inf)
    for i in range(n):
        labels[i] = 0
    for j in range(k):
        for i in range(n):
            value = 0.0
            for c in range(d):
                value += (X[i, c] - centers[j, c]) ** 2
            if value < squared[i]:
                squared[i] = value
                labels[i] = j
    _sum_up(D, w, k, labels, T, totals, sizes)
    for j in range(k):
        if sizes[j] == 0:
            _move(D, w, _loneliest(w, labels, squared, sizes), j, labels, T, totals, sizes)
    _settle(D, w, k, max_iter, labels, T, totals, sizes, inside, nearest, squared)


@compiled
def _squared_distances(X):
    n, d = X.shape
    columns = np.ascontiguousarray(X.T)
    D = np.zeros((n, n))
    for i in range(n):
        row = D[i]
        c = 0
        while c + 3 < d:
            a0, a1, a2, a3 = columns[c], columns[c + 1], columns[c + 2], columns[c + 3]
            x0, x1, x2, x3 = a0[i], a1[i], a2[i], a3[i]
            for m in range(i + 1, n):
                t0, t1, t2, t3 = a0[m] - x0, a1[m] - x1, a2[m] - x2, a3[m] - x3
                row[m] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3)
            c += 4
        while c < d:
            a0 = columns[c]
            x0 = a0[i]
            for m in range(i + 1, n):
                t0 = a0[m] - x0
                row[m] += t0 * t0
            c += 1
        for m in range(i + 1, n):
            D[m, i] = row[m]
    return D


@compiled
def _seed(D, w, k, state, labels, squared, sums):
    """Run greedy k-means++: of a few candidates, each new center is the best.

    Return the number of centers, which is smaller than k if there are fewer distinct rows.
    """
    n = len(w)
    n_candidates = 2 + int(np.log(k))
    total = 0.0
    for i in range(n):
        total += w[i]
        sums[i] = total
    row = D[_place(sums, uniform(state) * total)]
    for i in range(n):
        squared[i] = row[i]
        labels[i] = 0
    for j in range(1, k):
        total = 0.0
        for i in range(n):
            total += w[i] * squared[i]
            sums[i] = total
        if total <= 0.0:
            return j
        best, chosen = np.inf, 0
        for _ in range(n_candidates):
            place = _place(sums, uniform(state) * total)
            left = _potential(D[place], squared, w)
            if left < best:
                best, chosen = left, place
        row = D[chosen]
        for i in range(n):
            nearer = row[i] < squared[i]
            squared[i] = row[i] if nearer else squared[i]
            labels[i] = j if nearer else labels[i]
    return k


@compiled
def _potential(row, squared, w):
    left = 0.0
    for i in range(len(w)):
        left += w[i] * min(row[i], squared[i])
    return left


@compiled
def _place(sums, value):
    """Return the first place at which the running sum exceeds the value."""
    low, high = 0, len(sums) - 1
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
def _sum_up(D, w, k, labels, T, totals, sizes):
    """Compute T, and weight and number of rows of each cluster."""
    n = len(w)
    for j in range(k):
        totals[j] = 0.0
        sizes[j] = 0
        row = T[j]
        for i in range(n):
            row[i] = 0.0
    for m in range(n):
        j, weight, distances = labels[m], w[m], D[m]
        totals[j] += weight
        sizes[j] += 1
        row = T[j]
        for i in range(n):
            row[i] += weight * distances[i]


@compiled
def _settle(D, w, k, max_iter, labels, T, totals, sizes, inside, nearest, squared):
    """Run Lloyd's iterations. Return the objective."""
    n = len(w)
    objective = np.inf
    for _ in range(max_iter):
        _find_nearest(w, k, labels, T, totals, inside, nearest, squared)
        last, objective = objective, 0.0
        for i in range(n):
            objective += w[i] * max(squared[i], 0.0)
        if objective >= last * (1 - MIN_GAIN):
            break
        changed = False
        for m in range(n):
            if nearest[m] != labels[m]:
                changed = True
                _move(D, w, m, nearest[m], labels, T, totals, sizes)
        for j in range(k):
            if sizes[j] == 0:
                changed = True
                _move(D, w, _loneliest(w, labels, squared, sizes), j, labels, T, totals, sizes)
        if not changed:
            break
    return objective


@compiled
def _find_nearest(w, k, labels, T, totals, inside, nearest, squared):
    """Write the nearest center of each row and the squared distance to it."""
    n = len(w)
    for j in range(k):
        inside[j] = 0.0
    for m in range(n):
        inside[labels[m]] += w[m] * T[labels[m], m]
    for i in range(n):
        squared[i] = np.inf
    for j in range(k):
        row, share = T[j], 1.0 / totals[j]
        constant = 0.5 * inside[j] * share * share
        for i in range(n):
            value = row[i] * share - constant
            nearer = value < squared[i]
            squared[i] = value if nearer else squared[i]
            nearest[i] = j if nearer else nearest[i]


@compiled
def _move(D, w, m, to, labels, T, totals, sizes):
    """Move row m to another cluster."""
    source, weight, distances = labels[m], w[m], D[m]
    labels[m] = to
    totals[source] -= weight
    totals[to] += weight
    sizes[source] -= 1
    sizes[to] += 1
    old, new = T[source], T[to]
    for i in range(len(w)):
        old[i] -= weight * distances[i]
    for i in range(len(w)):
        new[i] += weight * distances[i]
    if sizes[source] == 0:  # no rounding is left over
        totals[source] = 0.0
        old[:] = 0.0


@compiled
def _loneliest(w, labels, squared, sizes):
    """Return the row that costs most in a cluster that has others."""
    most, found = -1.0, 0
    for i in range(len(w)):
        if sizes[labels[i]] > 1 and w[i] * squared[i] > most:
            most, found = w[i] * squared[i], i
    return found
