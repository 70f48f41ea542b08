r"""Lloyd's iterations over local clusters as Gaussians instead of points.

A local cluster is received as a center :math:`c_i`, a count :math:`n_i` and a sum of squared
distances :math:`s_i`. The final boundaries run through some local clusters, but k-means over the
received centers assigns each local cluster as a whole. Here it is a spherical Gaussian with
variance :math:`\sigma_i^2 = s_i / (n_i d)` in each of the d directions, which a boundary can
divide (:meth:`fedjigsaw.kernels.nearest.HostRows.divide`).
"""

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import coordinate_order, means_of
from fedjigsaw.kernels.nearest import nearest_on_threads, rows_of

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
    :func:`lloyd`.

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
        moved = lloyd(centers, counts, sse, start, max_iter=max_iter, backend=backend)
    inside = np.clip(moved, low, high)
    order = coordinate_order(inside)
    labels = nearest_on_threads(centers, inside[order], backend)
    n_used = len(np.unique(labels))
    if n_used == len(start) and not np.array_equal(moved, inside):
        n_used = len(np.unique(nearest_on_threads(centers, moved, backend)))
    if n_used < len(start):
        inside = np.clip(start, low, high)
        order = coordinate_order(inside)
        labels = nearest_on_threads(centers, inside[order], backend)
    return inside[order], labels, order


def lloyd(
    centers: Floats,
    counts: Floats,
    sse: Floats,
    start: Floats,
    *,
    max_iter: int = 300,
    backend: Backend | None = None,
) -> Floats:
    """Run Lloyd's iterations over Gaussians, each divided between its two nearest centers.

    Parameters
    ----------
    centers, counts, sse : shapes (n, d), (n,) and (n,), the Gaussians.
    start : shape (k, d), the centers to start from.
    backend : runs the iterations if it is a :class:`~fedjigsaw.kernels.backends.HoldingBackend`;
        otherwise, NumPy or compiled code does. None is the one that the environment asks for.

    Returns
    -------
    centers of shape (k, d), in the order of `start`.

    Examples
    --------
    Halfway between two centers, a point belongs to the first one; a Gaussian is divided.

    >>> centers, counts, start = np.array([[-3.0], [0.0], [3.0]]), np.ones(3), [[-2.0], [2.0]]
    >>> lloyd(centers, counts, np.zeros(3), start).ravel().tolist()
    [-1.5, 3.0]
    >>> lloyd(centers, counts, np.array([0.0, 1.0, 0.0]), start).ravel().round(3).tolist()
    [-2.266, 2.266]
    """
    middle = np.average(centers, axis=0, weights=counts)  # rounding errors are smallest around it
    found = np.asarray(start) - middle
    if len(found) == 1:
        return np.zeros_like(found) + middle
    rows = rows_of(centers - middle, counts, len(found), backend)
    widths = np.sqrt(sse / (counts * centers.shape[1]))
    for _ in range(max_iter):
        sums, mass, objective = rows.divide(widths, found)
        means = means_of(sums, mass, found)
        gain = mass @ ((means - found) ** 2).sum(axis=1)
        found = means
        if gain <= TOL * (objective + sse.sum()):
            break
    return found + middle
