"""Distances and optimal matching between two sets of centers."""

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DataError


def pairwise_distances(a: Floats, b: Floats) -> Floats:
    """Return the Euclidean distance between each row of `a` and each row of `b`.

    Computed from differences, so that rows far from the origin lose no digits.

    Examples
    --------
    >>> pairwise_distances([[0, 0]], [[3, 4], [0, 1]])
    array([[5., 1.]])
    """
    # scipy takes half a second and 45 MB, and the processes that carry messages need this module
    from scipy.spatial.distance import cdist

    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2:
        raise DataError(f"The centers must be 2-D arrays; got shapes {a.shape} and {b.shape}.")
    if a.shape[1] != b.shape[1]:
        raise DataError(
            f"The centers have different numbers of columns: {a.shape[1]} and {b.shape[1]}."
        )
    distances: Floats = cdist(a, b)
    return distances


def match(a: Floats, b: Floats) -> tuple[Ints, Ints]:
    r"""Match rows of `a` with rows of `b` so that the sum of squared distances is minimal.

    Solves :math:`\min_\pi \sum_i \|a_i - b_{\pi(i)}\|^2` over one-to-one :math:`\pi`. If the sets
    differ in size, the larger one has unmatched rows.

    Returns
    -------
    indices of the matched rows of `a`, and of their partners in `b`.

    Examples
    --------
    >>> rows, partners = match([[0.0], [9.0]], [[8.0], [1.0], [50.0]])
    >>> partners
    array([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    rows, partners = linear_sum_assignment(pairwise_distances(a, b) ** 2)
    return rows, partners
