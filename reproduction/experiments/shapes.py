"""Shapes that the sets of sets.toml are made of.

Each function takes a random generator first, and returns rows with the cluster of each row, or
rows alone that are one cluster. The number -1 marks a row of the background, which belongs to no
cluster. Distances and widths are in standard deviations of a round cluster, where nothing else is
said.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.random import Generator

from reproduction.studies import Floats, Ints

Drawn = tuple[Floats, Ints]
BACKGROUND = -1
APART = 4.5  # least Mahalanobis distance of two elongated clusters
TRIES = 2000  # draws of elongated clusters; the space grows by one percent each time


def equal(n_clusters: int, n_rows: int = 3000) -> list[int]:
    """Return equal sizes of so many clusters, of about `n_rows` rows in all."""
    return [n_rows // n_clusters] * n_clusters


# ------------------------------------------------------------------------------------- Gaussian


def spread_centers(
    rng: Generator, k: int, n_columns: int, gap: float, side: float | None = None
) -> Floats:
    """Draw centers at least `gap` apart, in a box that grows until they fit."""
    side = side or gap * max(1.6, 1.25 * k ** (1 / n_columns))
    while True:
        centers = np.empty((0, n_columns))
        for _ in range(400 * k):
            point = rng.uniform(0, side, n_columns)
            if (np.linalg.norm(centers - point, axis=1) >= gap).all():
                centers = np.vstack([centers, point])
                if len(centers) == k:
                    return centers
        side *= 1.1


def around(
    rng: Generator, centers: Floats, sizes: Sequence[int], width: float | Sequence[float] = 1.0
) -> Drawn:
    """Draw round clusters around these centers; `width` is one number, or one per cluster."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    widths = np.broadcast_to(np.asarray(width, dtype=np.float64), (len(sizes),))
    return centers[y] + widths[y, None] * rng.normal(size=(len(y), centers.shape[1])), y


def blobs(
    rng: Generator,
    sizes: Sequence[int],
    n_columns: int,
    gap: float,
    width: float | Sequence[float] = 1.0,
) -> Drawn:
    """Draw round clusters of these sizes, whose centers are at least `gap` apart."""
    return around(rng, spread_centers(rng, len(sizes), n_columns, gap), sizes, width)


def all_sizes(rng: Generator) -> Drawn:
    """Draw 20 round clusters of 60 to 400 rows, and of widths from 0.7 to 1.4."""
    sizes = rng.integers(60, 400, 20).tolist()
    return blobs(rng, sizes, 64, 12, width=rng.uniform(0.7, 1.4, 20).tolist())


def elongated(
    rng: Generator,
    k: int,
    n_columns: int,
    ratio: float,
    n_rows: int,
    *,
    side: float,
    parallel: bool = False,
    n_long: int = 1,
) -> Drawn:
    """Draw clusters of `n_rows` rows each, with `n_long` axes `ratio` times as long as the others.

    They are drawn in a box, which grows from `side` on, until no two overlap.

    Parameters
    ----------
    parallel : whether all clusters point in the same direction.
    """
    scales = np.where(np.arange(n_columns) < n_long, ratio, 1.0)
    shared = rotation(rng, n_columns)
    for attempt in range(TRIES):
        centers = rng.uniform(0, side * 1.01**attempt, (k, n_columns))
        axes = np.stack(
            [(shared if parallel else rotation(rng, n_columns)) * scales for _ in range(k)]
        )
        if _separate(centers, axes):
            break
    else:
        raise RuntimeError(f"No {k} elongated clusters found that are apart.")
    y = np.repeat(np.arange(k), n_rows)
    return centers[y] + np.einsum("nij,nj->ni", axes[y], rng.normal(size=(len(y), n_columns))), y


def _separate(centers: Floats, axes: Floats) -> bool:
    """Return whether all clusters are apart, in deviations of their mean covariance."""
    for i, j in combinations(range(len(centers)), 2):
        mean = (axes[i] @ axes[i].T + axes[j] @ axes[j].T) / 2
        between = centers[i] - centers[j]
        if between @ np.linalg.solve(mean, between) < APART**2:
            return False
    return True


def rotation(rng: Generator, n_columns: int) -> Floats:
    """Draw an orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0]


def whole_numbers(rng: Generator) -> Drawn:
    """Draw twelve round clusters and round all values to whole numbers."""
    X, y = blobs(rng, equal(12), 3, 7)
    return np.round(X), y


def nested(rng: Generator) -> Drawn:
    """Draw three groups, far apart, of three clusters each."""
    groups = spread_centers(rng, 3, 2, 40)
    inner = [group + spread_centers(rng, 3, 2, 6, side=9) for group in groups]
    return around(rng, np.concatenate(inner), equal(9))


def along_a_curve(rng: Generator) -> Drawn:
    """Draw 50 small clusters along a wave."""
    t = np.arange(50) / 49 * 3 * np.pi
    centers = np.column_stack([12 * t, 25 * np.sin(t)]).astype(np.float64)
    return around(rng, centers, equal(50, 5000), width=0.5)


def on_a_grid(rng: Generator) -> Drawn:
    """Draw 100 clusters on a grid, six deviations apart."""
    places = np.divmod(np.arange(100), 10)
    return around(rng, 6.0 * np.column_stack(places).astype(np.float64), equal(100, 6000))


# --------------------------------------------------------------------------------- no structure


def single(
    rng: Generator, distribution: str, n_columns: int, options: Sequence[float] = ()
) -> Floats:
    """Draw one cluster whose columns have a distribution that NumPy knows."""
    return np.asarray(getattr(rng, distribution)(*options, size=(3000, n_columns)), np.float64)


def log_normal(rng: Generator) -> Floats:
    """Draw two skewed columns."""
    return np.exp(0.7 * rng.normal(size=(3000, 2)))


def disk(rng: Generator) -> Floats:
    """Draw rows evenly from a disk."""
    angle, radius = rng.uniform(0, 2 * np.pi, 3000), np.sqrt(rng.uniform(size=3000))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def correlated(rng: Generator) -> Floats:
    """Draw one Gaussian whose axes have deviations from 1 to 10."""
    X = rng.normal(size=(3000, 10))
    return X @ (rotation(rng, 10) * np.geomspace(1, 10, 10)).T


def all_scales(rng: Generator) -> Floats:
    """Draw six independent columns with deviations from 1 to 100."""
    return rng.normal(size=(3000, 6)) * np.geomspace(1, 100, 6)


def zeros_and_ones(rng: Generator) -> Floats:
    """Draw eight independent columns of zeros and ones."""
    return (rng.random((3000, 8)) < rng.uniform(0.2, 0.8, 8)).astype(np.float64)


def banana(rng: Generator) -> Floats:
    """Draw one bent cluster."""
    a = rng.normal(size=(3000, 2))
    return np.column_stack([2 * a[:, 0], a[:, 1] + a[:, 0] ** 2])


def stick(rng: Generator) -> Floats:
    """Draw one cluster spread evenly along a line in three columns."""
    return np.outer(rng.uniform(0, 20, 3000), [1, 1, 1]) + rng.normal(size=(3000, 3))


# --------------------------------------------------------------------------------- other shapes


def moons(rng: Generator) -> Drawn:
    """Draw two interlocking half circles."""
    t, y = rng.uniform(0, np.pi, 3000), np.repeat([0, 1], 1500)
    upper = np.column_stack([np.cos(t), np.sin(t)])
    lower = np.column_stack([1 - np.cos(t), 0.5 - np.sin(t)])
    return np.where(y[:, None] == 0, upper, lower) + 0.08 * rng.normal(size=(3000, 2)), y


def with_coin_tosses(rng: Generator) -> Drawn:
    """Draw four round clusters, and two columns of zeros and ones that mean nothing."""
    X, y = blobs(rng, equal(4), 3, 6)
    coins = rng.integers(0, 2, (len(X), 2)) * 2.0 - 1
    return np.column_stack([X / X.std(axis=0), coins]), y


def with_noise_columns(rng: Generator) -> Drawn:
    """Draw five round clusters in two columns, and 18 columns of noise as wide as those."""
    X, y = blobs(rng, equal(5), 2, 6)
    return np.column_stack([X / X.std(axis=0), rng.normal(size=(len(X), 18))]), y


def with_background(
    rng: Generator, sizes: Sequence[int], n_columns: int, gap: float, n_rows: int, *, rim: float
) -> Drawn:
    """Draw round clusters and a background of `n_rows` rows, even in a box around all of them."""
    X, y = blobs(rng, sizes, n_columns, gap)
    low, high = X.min(axis=0) - rim, X.max(axis=0) + rim
    background = rng.uniform(low, high, (n_rows, n_columns))
    return np.concatenate([X, background]), np.concatenate([y, np.full(n_rows, BACKGROUND)])


def one_hot(rng: Generator) -> Drawn:
    """Draw six categorical columns, one-hot, with other frequencies in each of four classes."""
    y = np.repeat(np.arange(4), 750)
    columns = []
    for _ in range(6):
        limits = np.cumsum(rng.dirichlet(np.full(4, 0.25), size=4), axis=1)
        category = (rng.random((len(y), 1)) > limits[y, :3]).sum(axis=1)
        columns.append(np.eye(4)[category])
    return np.concatenate(columns, axis=1), y


def answers(rng: Generator) -> Drawn:
    """Draw answers from 1 to 5 to ten questions, by four classes of people."""
    y = np.repeat(np.arange(4), 750)
    typical = rng.choice([1.5, 3, 4.5], size=(4, 10))
    return np.clip(np.round(typical[y] + 0.9 * rng.normal(size=(3000, 10))), 1, 5), y


def heaps(
    rng: Generator,
    sizes: Sequence[int],
    n_columns: int,
    gap: float,
    distribution: str,
    options: Sequence[float] = (),
) -> Drawn:
    """Draw clusters whose rows lie around their centers as a distribution of NumPy says."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    centers = spread_centers(rng, len(sizes), n_columns, gap)
    return centers[y] + getattr(rng, distribution)(*options, size=(len(y), n_columns)), y
