"""One method on one data set and split: most tables of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from fedjigsaw import partition
from fedjigsaw.comparison.measures import fit_and_measure
from fedjigsaw.datasets import Dataset, load
from fedjigsaw.kernels.backends import Backend, SklearnBackend, name_of
from fedjigsaw.methods import make
from fedjigsaw.report.provenance import provenance
from reproduction.experiments.measures import MEASURES, agreement
from reproduction.studies import Floats, Row

SELDOM = ("mse", "ari")  # measures that are in a row only if the study asks for them


def fit(
    seed: int,
    dataset: str,
    method: str,
    n_clusters: int | str,
    n_clients: int = 10,
    split: str = "iid",
    share: float = 1.0,
    params: Mapping[str, Any] | None = None,
    measures: Sequence[str] = (),
    backend: Backend | None = None,
    **options: Any,
) -> Row:
    """Measure a method; where clients hold a share of the rows, purity and NMI are those of all."""
    data = part = data_set(dataset)
    made = make(method, n_clusters, seed, **(params or {}))
    if share < 1:
        used = np.random.default_rng(seed).permutation(len(data.X))[: round(share * len(data.X))]
        part = replace(data, X=data.X[used], y=data.y[used])
    made.backend = backend or made.backend
    clients = partition.split(split, part.y, n_clients, rng=seed, X=part.X, **options)
    row = {"n_clients": n_clients, **fit_and_measure(made, part, clients)}
    row |= agreement(data, made.predict(data.X)) if part is not data else {}
    row = {name: v for name, v in row.items() if name not in SELDOM or name in measures}
    for name in set(measures) - set(SELDOM):
        row |= MEASURES[name](made, data, clients if part is data else None)
    return row if backend is None else row | provenance(name_of(backend))


def fit_sklearn(seed: int, **settings: Any) -> Row:
    """Measure a method with scikit-learn's k-means."""
    return fit(seed, **settings, backend=SklearnBackend())


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
def data_set(name: str) -> Dataset:
    """Return a data set by its name, generated or loaded."""
    return GENERATED[name](name) if name in GENERATED else load(name)
