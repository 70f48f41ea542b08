r"""Received centers as clouds of rows, not as points.

A local cluster is received as a center :math:`c_i`, a count :math:`n_i` and a summed squared
distance :math:`s_i`. The final boundaries run through some local clusters, and k-means over the
centers cannot cut those: all of a local cluster goes to one side. Taken for a round Gaussian cloud,
of variance :math:`\sigma_i^2 = s_i / (n_i d)` in each of the d directions, it can be cut: it lies
at a distance h from the plane halfway between its nearest center and the next one; the share
:math:`p = \Phi(-h / \sigma_i)` of it lies beyond, and the cut moves a mass times distance of
:math:`\sigma_i \phi(h / \sigma_i)` along the normal of the plane.
"""

import numpy as np
from scipy.special import ndtr

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.kernels.backends import Backend, CloudBackend
from fedjigsaw.kernels.kmeans import blocks, label_sums

TOL = 1e-5  # ends when the means move by less than this share of the objective


def settle_clouds(
    centers: Floats,
    counts: Floats,
    sse: Floats,
    start: Floats,
    *,
    max_iter: int = 300,
    backend: Backend | None = None,
) -> Floats:
    """Lloyd's iterations over clouds: each is shared by its nearest center and the next one.

    Parameters
    ----------
    centers, counts, sse : the clouds.
    start : shape (k, d), the centers to start from.
    backend : where to compute, if it can settle clouds; all others compute here.

    Returns
    -------
    centers of shape (k, d), each in the place of that of `start`.

    Examples
    --------
    Halfway between two centers, a point goes to the first; a cloud is shared.

    >>> centers, counts, start = np.array([[-3.0], [0.0], [3.0]]), np.ones(3), [[-2.0], [2.0]]
    >>> settle_clouds(centers, counts, np.zeros(3), start).ravel().tolist()
    [-1.5, 3.0]
    >>> settle_clouds(centers, counts, np.array([0.0, 1.0, 0.0]), start).ravel().round(3).tolist()
    [-2.266, 2.266]
    """
    middle = np.average(centers, axis=0, weights=counts)  # rounding is least around it
    X, found = centers - middle, np.asarray(start) - middle
    widths = np.sqrt(sse / (counts * X.shape[1]))
    if len(found) == 1:
        return np.zeros_like(found) + middle
    if isinstance(backend, CloudBackend):
        return backend.settle_clouds(X, counts, sse, found, max_iter=max_iter) + middle
    one = np.ones(len(X))
    for _ in range(max_iter):
        own, other, squared, h = _bisectors(X, found)
        z = np.divide(h, widths, out=np.full(len(X), np.inf), where=widths > 0)
        beyond = ndtr(-z)
        normal = found[other] - found[own]
        length = np.linalg.norm(normal, axis=1)
        cut = counts * widths * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        shift = normal * (cut / np.where(length > 0, length, 1))[:, None]
        kept, given = counts * (1 - beyond), counts * beyond
        mass = label_sums(kept, own, one, len(found)) + label_sums(given, other, one, len(found))
        sums = label_sums(kept[:, None] * X - shift, own, one, len(found))
        sums += label_sums(given[:, None] * X + shift, other, one, len(found))
        filled = mass > 0
        means = np.where(filled[:, None], sums / np.where(filled, mass, 1)[:, None], found)
        gain = mass @ ((means - found) ** 2).sum(axis=1)
        found = means
        if gain <= TOL * (counts @ squared + sse.sum()):
            break
    return found + middle


def _bisectors(X: Floats, centers: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """Of each row: its nearest center, the next one, the squared distance to the nearest, and the
    distance to the plane between the two."""
    own, other = np.empty(len(X), dtype=np.int64), np.empty(len(X), dtype=np.int64)
    first, second = np.empty(len(X)), np.empty(len(X))
    norms = np.einsum("ij,ij->i", centers, centers)
    twice = -2 * centers.T
    for part in blocks(len(X), 16 * len(centers)):
        scores = X[part] @ twice
        scores += norms
        at = np.arange(len(scores))
        own[part] = scores.argmin(axis=1)
        first[part] = scores[at, own[part]]
        scores[at, own[part]] = np.inf
        other[part] = scores.argmin(axis=1)
        second[part] = scores[at, other[part]]
    apart = np.linalg.norm(centers[other] - centers[own], axis=1)
    h = (second - first) / np.where(apart > 0, 2 * apart, 1)
    squared = np.maximum(first + np.einsum("ij,ij->i", X, X), 0)
    return own, other, squared, h
