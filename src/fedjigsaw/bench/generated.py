"""Generated data sets that no method was tuned on, of various shapes, sizes and dimensions.

They are drawn from fixed seeds, so that rows can be computed again.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.datasets import Dataset, load


def blobs(name: str, sizes: Sequence[int], n_features: int, gap: float, seed: int = 7) -> Dataset:
    """Draw Gaussian clusters of these sizes, on average `gap` standard deviations apart."""
    rng = np.random.default_rng(seed)
    spread = gap / np.sqrt(2 * n_features)
    centers = rng.normal(scale=spread, size=(len(sizes), n_features))
    y = np.repeat(np.arange(len(sizes)), sizes)
    return Dataset(centers[y] + rng.normal(size=(len(y), n_features)), y, centers, name)


def shape(name: str, draw: Callable[[np.random.Generator], Floats]) -> Dataset:
    """Draw rows without round clusters; twelve stripes along the first axis serve as classes."""
    X = draw(np.random.default_rng(7))
    order = np.argsort(X[:, 0], kind="stable")
    y = np.empty(len(X), dtype=np.int64)
    y[order] = np.arange(len(X)) * 12 // len(X)
    return Dataset(X, y, None, name)


def _rings(rng: np.random.Generator) -> Floats:
    """Three rings around one center."""
    angle, radius = rng.uniform(0, 2 * np.pi, 4000), rng.choice([1.0, 2.0, 3.0], 4000)
    noise = rng.normal(scale=0.1, size=(4000, 2))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + noise


def _heavy_tails(rng: np.random.Generator) -> Floats:
    """Student's t with 3 degrees of freedom: one cluster with outliers."""
    tails: Floats = rng.standard_t(3, size=(4000, 4))
    return tails


def _cube(rng: np.random.Generator) -> Floats:
    return rng.uniform(size=(4000, 3))


GENERATED: dict[str, Callable[[], Dataset]] = {
    "rings": partial(shape, "rings", _rings),
    "cube": partial(shape, "cube", _cube),
    "heavy-tails": partial(shape, "heavy-tails", _heavy_tails),
    "unequal": partial(blobs, "unequal", [2000] * 3 + [100] * 9, 2, 14.0),
    "k50": partial(blobs, "k50", [120] * 50, 2, 40.0),
    "k100": partial(blobs, "k100", [100] * 100, 16, 14.0),
    "d512": partial(blobs, "d512", [200] * 20, 512, 12.0),
    "small-clients": partial(blobs, "small-clients", [200] * 10, 8, 10.0),
}


def load_any(name: str) -> Dataset:
    """Return a data set by its name, generated or loaded."""
    return GENERATED[name]() if name in GENERATED else load(name)
