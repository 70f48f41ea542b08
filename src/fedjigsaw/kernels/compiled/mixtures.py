"""Steps of EM for mixtures of Gaussians, see :mod:`fedjigsaw.number.mixture`.

Arrays have one line for each component or column, so that all loops over cells are vector loops.
They run over tiles of cells, which stay in the cache.
"""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled

CELLS = 256  # of a tile
NEGLIGIBLE = -30.0  # logarithm of a share that changes no sum: 1e-13


@compiled
def memberships(points, squared, counts, variances, means, forms, narrow, factors, logs, shares):
    r"""Write the shares of components and background in each cell; return the log-likelihood.

    Parameters
    ----------
    points, means : shapes (r, n) and (k, r), along the axes of the basis.
    squared : shape (k, n), squared distances that forms do not cover, or (k, 0) for none.
    counts, variances : shape (n,), rows of a cell and the variance within it.
    forms : shape (k, r, r), matrices M of the squared distances :math:`x^T M x` along the axes.
    narrow, factors : shape (k,), by which squared distances and variances lower the logarithm.
    logs : shape (k + 1,), logarithms at the mean; the last is that of the background.
    shares : shape (k + 1, n), for the result.
    """
    (r, n), k = points.shape, len(means)
    offsets, top, sums = np.empty((r, CELLS)), np.empty(CELLS), np.empty(CELLS)
    total = 0.0
    for start in range(0, n, CELLS):
        size = min(CELLS, n - start)
        stop = start + size
        background = shares[k, start:stop]
        for i in range(size):
            background[i] = top[i] = logs[k]
            sums[i] = 0.0
        for j in range(k):
            found = shares[j, start:stop]
            for i in range(size):
                found[i] = squared[j, start + i] if squared.shape[1] else 0.0
            _add_form(points, means[j], forms[j], start, size, offsets, found)
            within, log, wide, narrower = variances[start:stop], logs[j], factors[j], narrow[j]
            for i in range(size):
                value = found[i] if found[i] > 0.0 else 0.0
                value = log - narrower * value - wide * within[i]
                found[i] = value
                top[i] = value if value > top[i] else top[i]
        for j in range(k + 1):
            found = shares[j, start:stop]
            for i in range(size):
                below = found[i] - top[i]
                value = _exp(below if below > NEGLIGIBLE else NEGLIGIBLE)
                value = value if below > NEGLIGIBLE else 0.0
                found[i] = value
                sums[i] += value
        for i in range(size):
            total += counts[start + i] * (top[i] + np.log(sums[i]))
            sums[i] = 1.0 / sums[i]
        for j in range(k + 1):
            found = shares[j, start:stop]
            for i in range(size):
                found[i] *= sums[i]
    return total


@compiled
def _add_form(points, mean, form, start, size, offsets, found):
    """Add the squared distances of cells to a mean, along the axes of the basis."""
    for a in range(len(mean)):
        line, offset, at = points[a, start : start + size], offsets[a], mean[a]
        for i in range(size):
            offset[i] = line[i] - at
        for b in range(a + 1):
            value, other = form[a, b] if a == b else 2 * form[a, b], offsets[b]
            if value != 0.0:  # round components have a diagonal only
                for i in range(size):
                    found[i] += value * offset[i] * other[i]


@compiled
def _exp(x):
    """Return the exponential of a number between -30 and 0, in vectors, unlike that of C."""
    y = x * (1 / 64)
    p = 1 / 6227020800
    for c in (
        1 / 479001600, 1 / 39916800, 1 / 3628800, 1 / 362880, 1 / 40320, 1 / 5040, 1 / 720,
        1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0,
    ):  # fmt: skip
        p = p * y + c
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    return p * p


@compiled
def moments(points, weights, sse, shares, counts, means, scatters):
    """Write rows, means and scatter matrices of components, shapes (k,), (k, d) and (k, d, d).

    Parameters
    ----------
    points : shape (d, n).
    weights, sse : shape (n,), rows and squares of the cells.
    shares : shape (k, n), share of each cell that belongs to each component.
    """
    (d, n), members = points.shape, np.empty(CELLS, np.int64)
    offsets, rows = np.empty((d, CELLS)), np.empty(CELLS)
    for j in range(len(counts)):
        share, mean, scatter = shares[j], means[j], scatters[j]
        total, inside = 0.0, 0.0
        for i in range(n):
            total += share[i] * weights[i]
            inside += share[i] * sse[i]
        counts[j] = total
        for a in range(d):
            line, value = points[a], 0.0
            for i in range(n):
                value += share[i] * weights[i] * line[i]
            mean[a] = value / max(total, 1e-12)
        scatter[:] = 0.0
        for start in range(0, n, CELLS):
            size = _members(share, start, min(start + CELLS, n), members)
            for q in range(size):
                rows[q] = share[members[q]] * weights[members[q]]
            for a in range(d):
                line, offset, at = points[a], offsets[a], mean[a]
                for q in range(size):
                    offset[q] = line[members[q]] - at
                for b in range(a + 1):
                    other, value = offsets[b], 0.0
                    for q in range(size):
                        value += rows[q] * offset[q] * other[q]
                    scatter[a, b] += value
        for a in range(d):
            scatter[a, a] += inside / d
            for b in range(a):
                scatter[b, a] = scatter[a, b]


@compiled
def _members(share, start, stop, members):
    """Write the cells of which a component has a share; return their number."""
    size = 0
    for i in range(start, stop):
        members[size] = i
        size += share[i] > 0.0
    return size


@compiled
def free_axes(
    values, vectors, traces, counts, d, log_rows,
    pulls, variances, log_dets, inverse_traces, n_free, longest, penalties,
):  # fmt: skip
    """Choose the number of free axes of each component, and describe its covariance.

    Parameters
    ----------
    values, vectors : shapes (k, r) and (k, r, r), of covariance matrices, the smallest first.
    traces, counts : shape (k,), traces of the whole covariances, and rows.
    """
    k, r = values.shape
    for j in range(k):
        best, chosen = np.inf, 0
        taken, logs = 0.0, 0.0
        for q in range(min(r, d - 1) + 1):
            if q > 0:
                value = max(values[j, r - q], 1e-12)
                taken += value
                logs += np.log(value)
            rest = max((traces[j] - taken) / (d - q), 1e-12)
            log_det = logs + (d - q) * np.log(rest)
            n_parameters = d * q - q * (q + 1) / 2 + q + 1
            cost = counts[j] / 2 * log_det + log_rows / 2 * n_parameters
            # a free axis that is no longer than the others is none
            if cost < best and (q == 0 or value > rest):
                best, chosen = cost, q
                variances[j], log_dets[j] = rest, log_det
                penalties[j] = log_rows / 2 * (n_parameters + d)
        n_free[j] = chosen
        longest[j] = max(values[j, r - 1], 1e-12) if chosen else variances[j]
        shrunk = 0.0
        pulls[j] = 0.0
        for q in range(chosen):
            shrink = 1 - variances[j] / max(values[j, r - 1 - q], 1e-12)
            shrunk += shrink
            for a in range(r):
                for b in range(r):
                    pulls[j, a, b] += shrink * vectors[j, a, r - 1 - q] * vectors[j, b, r - 1 - q]
        inverse_traces[j] = (d - shrunk) / variances[j]
