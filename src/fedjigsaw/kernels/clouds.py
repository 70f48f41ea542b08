r"""Lloyd's iterations over clouds: local clusters treated as Gaussians instead of points.

A local cluster is received as a center :math:`c_i`, a count :math:`n_i` and a sum of squared
distances :math:`s_i`. The final boundaries run through some local clusters, but k-means over the
received centers assigns each local cluster as a whole. A *cloud* models it as a spherical Gaussian
with variance :math:`\sigma_i^2 = s_i / (n_i d)` in each of the d directions, which a boundary can
divide. Let h be its distance from the plane halfway between its nearest and its second nearest
center. The fraction :math:`p = \Phi(-h / \sigma_i)` of the cloud lies beyond the plane, and the
means of the two parts are shifted along the normal of the plane, by
:math:`\sigma_i \phi(h / \sigma_i)` divided by the fraction of the part.
"""

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend, hold
from fedjigsaw.kernels.kmeans import blocks, coordinate_order, label_sums
from fedjigsaw.kernels.nearest import add_up, compiles, nearest_on_threads, nearest_two

TOL = 1e-5  # stop when moving to the means gains less than this share of the objective


def refine(
    centers: Floats,
    counts: Floats,
    sse: Floats,
    start: Floats,
    *,
    settle: bool = True,
    max_iter: int = 300,
    backend: Backend | None = None,
) -> tuple[Floats, Ints, Ints]:
    """Refine centers, treating each local cluster as a Gaussian.

    A Gaussian has rows beyond those of the client, so centers are kept, column by column, in the
    range of the received ones: no share below 0, and no age that nobody has. If a cluster would
    become empty, or without `settle`, the centers stay as they are. Other parameters are those of
    :func:`settle_clouds`.

    Returns
    -------
    The centers in the order of their coordinates, the cluster of each local one, and which of the
    given centers each center was.

    Examples
    --------
    >>> centers, counts = np.array([[-3.0], [0.0], [3.0]]), np.ones(3)
    >>> found, labels, order = refine(centers, counts, np.zeros(3), np.array([[2.0], [-2.0]]))
    >>> found.ravel().tolist(), labels.tolist(), order.tolist()
    ([-3.0, 1.5], [0, 1, 1], [1, 0])
    """
    low, high = centers.min(axis=0), centers.max(axis=0)
    moved = start
    if settle:
        moved = settle_clouds(centers, counts, sse, start, max_iter=max_iter, backend=backend)
    inside = np.clip(moved, low, high)
    order = coordinate_order(inside)
    labels = nearest_on_threads(centers, inside[order], backend)
    used = _uses_all(labels, inside)
    if used and not np.array_equal(moved, inside):
        used = _uses_all(nearest_on_threads(centers, moved, backend), moved)
    if not used:
        inside = np.clip(start, low, high)
        order = coordinate_order(inside)
        labels = nearest_on_threads(centers, inside[order], backend)
    return inside[order], labels, order


def _uses_all(labels: Ints, centers: Floats) -> bool:
    """Tell whether each center is the nearest one of some local center."""
    return len(np.unique(labels)) == len(centers)


def settle_clouds(
    centers: Floats,
    counts: Floats,
    sse: Floats,
    start: Floats,
    *,
    max_iter: int = 300,
    backend: Backend | None = None,
) -> Floats:
    """Run Lloyd's iterations over clouds, each divided between its two nearest centers.

    Parameters
    ----------
    centers, counts, sse : shapes (n, d), (n,) and (n,), the clouds.
    start : shape (k, d), the centers to start from.
    backend : runs the iterations if it is a :class:`~fedjigsaw.kernels.backends.HoldingBackend`;
        otherwise, NumPy or compiled code does. None is the one that the environment asks for.

    Returns
    -------
    centers of shape (k, d), in the order of `start`.

    Examples
    --------
    Halfway between two centers, a point belongs to the first one; a cloud is divided.

    >>> centers, counts, start = np.array([[-3.0], [0.0], [3.0]]), np.ones(3), [[-2.0], [2.0]]
    >>> settle_clouds(centers, counts, np.zeros(3), start).ravel().tolist()
    [-1.5, 3.0]
    >>> settle_clouds(centers, counts, np.array([0.0, 1.0, 0.0]), start).ravel().round(3).tolist()
    [-2.266, 2.266]
    """
    middle = np.average(centers, axis=0, weights=counts)  # rounding errors are smallest around it
    X, found = centers - middle, np.asarray(start) - middle
    widths = np.sqrt(sse / (counts * X.shape[1]))
    if len(found) == 1:
        return np.zeros_like(found) + middle
    held = hold(X, counts, len(found), backend)
    if held is not None:
        return held.settle_clouds(sse, found, max_iter=max_iter) + middle
    fast = compiles(len(X), len(found), backend=backend)
    for _ in range(max_iter):
        sums, mass, objective = _divided(X, counts, widths, found, fast)
        filled = mass > 0
        means = np.where(filled[:, None], sums / np.where(filled, mass, 1)[:, None], found)
        gain = mass @ ((means - found) ** 2).sum(axis=1)
        found = means
        if gain <= TOL * (objective + sse.sum()):
            break
    return found + middle


def _divided(
    X: Floats, counts: Floats, widths: Floats, centers: Floats, fast: bool
) -> tuple[Floats, Floats, float]:
    """Return sums and numbers of rows at each center, and the objective of the clouds' middles."""
    if fast:
        from fedjigsaw.kernels.compiled.clouds import divide

        return add_up(divide, X, centers, counts, widths)
    from scipy.special import ndtr  # lazy: the processes that carry messages need this module

    k = len(centers)
    sums, mass, objective = np.zeros(centers.shape), np.zeros(k), 0.0
    for part in blocks(len(X), 8 * X.shape[1]):
        rows, weights = X[part], counts[part]
        own, other, squared, h = _bisectors(rows, centers)
        width = widths[part]
        z = np.divide(h, width, out=np.full(len(rows), np.inf), where=width > 0)
        beyond = ndtr(-z)
        normal = centers[other] - centers[own]
        length = np.linalg.norm(normal, axis=1)
        moment = weights * width * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        shift = normal * (moment / np.where(length > 0, length, 1))[:, None]
        kept, given, one = weights * (1 - beyond), weights * beyond, np.ones(len(rows))
        mass += label_sums(kept, own, one, k) + label_sums(given, other, one, k)
        sums += label_sums(kept[:, None] * rows - shift, own, one, k)
        sums += label_sums(given[:, None] * rows + shift, other, one, k)
        objective += float(weights @ squared)
    return sums, mass, objective


def _bisectors(X: Floats, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Return, for each row, its nearest and second nearest center, the squared distance to the
    nearest one, and the distance to the plane halfway between the two."""
    own, other, first, second = nearest_two(X, centers, fast=False)
    apart = np.linalg.norm(centers[other] - centers[own], axis=1)
    h = (second - first) / np.where(apart > 0, 2 * apart, 1)
    return own, other, first, h
