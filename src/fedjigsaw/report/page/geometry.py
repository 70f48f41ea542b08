"""The map of clusters: principal components of their centers, weighted by size."""

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.report.page.words import listed, share, short

MAX_WORDS = 3  # columns that name a direction
FLAT = 0.01  # of the width of the map: centers that differ less in a direction lie on a line


@dataclass(frozen=True)
class Projection:
    """Centers in the plane.

    Attributes
    ----------
    places : shape (k, 2).
    axes : shape (2, d), the directions to the right and up.
    shown : part of the variance between centers that the plane shows.
    """

    places: Floats
    axes: Floats
    shown: float


def project(centers: Floats, weights: Floats) -> Projection:
    """Return the plane in which centers differ most.

    A direction points to where its largest coordinate grows, so that the same centers always give
    the same map.
    """
    k, d = centers.shape
    middled = centers - np.average(centers, axis=0, weights=weights)
    root = np.sqrt(weights / weights.sum())[:, None]
    _, lengths, directions = np.linalg.svd(root * middled, full_matrices=False)
    axes = np.zeros((2, d))
    axes[: min(2, k, d)] = directions[:2]
    heaviest = np.abs(axes).argmax(axis=1)
    signs = np.sign(axes[np.arange(2), heaviest])
    axes *= np.where(signs == 0, 1.0, signs)[:, None]
    total = float((lengths**2).sum())
    shown = float((lengths[:2] ** 2).sum()) / total if total else 1.0
    return Projection(middled @ axes.T, axes, shown)


def directions_in_words(
    found: Projection,
    names: tuple[str, ...],
    dates: Container[str] = (),
    unnamed: Container[str] = (),
) -> list[str]:
    """Say what it means that a cluster lies further to the right, or further up.

    Parameters
    ----------
    dates : names of columns whose values are earlier or later, not less or more.
    unnamed : names of columns that name no direction.
    """
    told = []
    named = np.array([name not in unnamed for name in names])
    width = np.ptp(found.places, axis=0)
    for i, where in enumerate(("to the right", "to the top")):
        axis = np.where(named, found.axes[i], 0.0)
        size = np.abs(axis)
        if not size.any() or width[i] < FLAT * width.max():
            continue
        order = np.argsort(-size, kind="stable")[:MAX_WORDS]
        words = [
            f"{_way(axis[j] > 0, names[j] in dates)} {short(names[j], 40)}"
            for j in order
            if size[j] >= 0.35 * size.max()
        ]
        told.append(f"Further {where}: {listed(words)}.")
    return told


def _way(grows: bool, is_date: bool) -> str:
    less, more = ("earlier", "later") if is_date else ("less", "more")
    return more if grows else less


def shown_in_words(found: Projection) -> str:
    """Say how much of the differences between clusters the map shows."""
    text = f"The map shows {share(found.shown, 1)} of the differences between the centers"
    if found.shown > 0.99:
        return text + "."
    return text + "; clusters that overlap here may lie apart in other directions."
