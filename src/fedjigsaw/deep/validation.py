r"""Choosing a round without labels: how well do clusters generalize to images not trained on?

Training can go on to lose: the loss falls while the network memorizes pseudo-labels that it made
itself. So each client keeps some images aside. They get pseudo-labels like all others, and after
its training the client measures the loss of new views of them. Subtracted from the entropy of the
clusters, that is a lower bound of the information, in nats, that one view of a new image has about
the cluster of another:

.. math:: I = \frac1H \sum_h H(y^h) - L_{validation}

A low loss alone would not do: clusters that all images fall into are easy to predict. The round
with the highest `information` is the one to keep.
"""

import numpy as np

from fedjigsaw._typing import Ints

VIEWS = 4  # of each image to validate on


def n_validation(n_images: int, share: float, least: int = 1) -> int:
    """Return how many of a client's images to validate on.

    Neither these nor the others are fewer than `least`, the guard's smallest number of images:
    numbers about each part leave. A client with too few images for both has none.

    Examples
    --------
    >>> [n_validation(n, 0.02) for n in (1, 2, 99, 5000)]
    [0, 1, 1, 100]
    >>> [n_validation(n, 0.02, 5) for n in (9, 10, 99)], n_validation(99, 0.99, 5)
    ([0, 5, 5], 94)
    """
    if not share or n_images < 2 * least:
        return 0
    return min(max(least, int(n_images * share)), n_images - least)


def split_rows(n_images: int, share: float, least: int = 1) -> tuple[Ints, Ints]:
    """Return the images to train on and those to validate on, the same in every round.

    The latter are spread evenly: images may be sorted by class. A client with too few images for
    both, such as a single one, uses all of them for both.

    Examples
    --------
    >>> [rows.tolist() for rows in split_rows(6, 0.34)]
    [[0, 2, 3, 5], [1, 4]]
    """
    n_held = n_validation(n_images, share, least)
    held = ((np.arange(n_held) + 0.5) * n_images / max(1, n_held)).astype(np.int64)
    everything = np.arange(n_images)
    trained = np.setdiff1d(everything, held)
    return trained, held if n_held or not share else everything


def information(sizes: Ints, heads: Ints, loss: float) -> float:
    """Compute the information of a round in nats, from cluster sizes and validation loss.

    Parameters
    ----------
    sizes : array of shape (clusters,)
        Images in each cluster.
    heads : array of shape (clusters,)
        Head of each cluster.

    Examples
    --------
    Four equal clusters have an entropy of log 4; a single one is predicted perfectly, but has none:

    >>> heads = np.zeros(4, dtype=int)
    >>> round(information(np.array([5, 5, 5, 5]), heads, 0.5), 3)
    0.886
    >>> information(np.array([20, 0, 0, 0]), heads, 0.0)
    0.0
    """
    entropies = []
    for head in np.unique(heads):
        own = sizes[(heads == head) & (sizes > 0)]
        shares = own / own.sum()
        entropies.append(float(-(shares * np.log(shares)).sum()) + 0.0)
    return float(np.mean(entropies)) - loss
