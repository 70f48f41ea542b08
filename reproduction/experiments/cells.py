"""One method on one data set and split: most tables of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from fedjigsaw.comparison.simulation import Cell, run_cell, split_rows
from fedjigsaw.datasets import Dataset, load
from fedjigsaw.kernels.backends import SklearnBackend
from reproduction.experiments.measures import MEASURES
from reproduction.studies import Floats, Row

SELDOM = ("mse", "ari")  # measures that are in a row only if the study asks for them


def fit(seed: int, measures: Sequence[str] = (), **settings: Any) -> Row:
    """Fit a method and measure it."""
    return _fitted(Cell(seed=seed, **settings), measures)


def fit_sklearn(seed: int, **settings: Any) -> Row:
    """Fit a method with scikit-learn's k-means."""
    return _fitted(Cell(seed=seed, **settings), (), SklearnBackend())


def _fitted(cell: Cell, measures: Sequence[str], backend: Any = None) -> Row:
    data = dataset(cell.dataset)
    method, row = run_cell(cell, data, backend=backend)
    row = {n: v for n, v in row.items() if v != {} and (n not in SELDOM or n in measures)}
    for name in set(measures) - set(SELDOM):
        clients = None if cell.share < 1 else split_rows(data.y, cell, data)
        row |= MEASURES[name](method, data, clients)
    return row


def blobs(name: str, sizes: Sequence[int], n_features: int, gap: float, seed: int = 7) -> Dataset:
    """Draw Gaussian clusters of these sizes, on average `gap` standard deviations apart."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=gap / np.sqrt(2 * n_features), size=(len(sizes), n_features))
    y = np.repeat(np.arange(len(sizes)), sizes)
    return Dataset(centers[y] + rng.normal(size=(len(y), n_features)), y, centers, name)


def _shape(name: str, draw: Callable[[np.random.Generator], Floats]) -> Dataset:
    """Draw rows without round clusters; twelve stripes along the first axis serve as classes."""
    X = draw(np.random.default_rng(7))
    y = np.empty(len(X), dtype=np.int64)
    y[np.argsort(X[:, 0], kind="stable")] = np.arange(len(X)) * 12 // len(X)
    return Dataset(X, y, None, name)


def _rings(rng: np.random.Generator) -> Floats:
    angle, radius = rng.uniform(0, 2 * np.pi, 4000), rng.choice([1.0, 2.0, 3.0], 4000)
    noise = rng.normal(scale=0.1, size=(4000, 2))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + noise


GENERATED: dict[str, Callable[[str], Dataset]] = {
    "rings": partial(_shape, draw=_rings),
    "cube": partial(_shape, draw=lambda rng: rng.uniform(size=(4000, 3))),
    "heavy-tails": partial(_shape, draw=lambda rng: rng.standard_t(3, size=(4000, 4))),
    "unequal": partial(blobs, sizes=[2000] * 3 + [100] * 9, n_features=2, gap=14.0),
    "k50": partial(blobs, sizes=[120] * 50, n_features=2, gap=40.0),
    "k100": partial(blobs, sizes=[100] * 100, n_features=16, gap=14.0),
    "d512": partial(blobs, sizes=[200] * 20, n_features=512, gap=12.0),
    "small-clients": partial(blobs, sizes=[200] * 10, n_features=8, gap=10.0),
}


@cache
def dataset(name: str) -> Dataset:
    """Return a data set by its name, generated or loaded."""
    return GENERATED[name](name) if name in GENERATED else load(name)
