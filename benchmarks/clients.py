"""A client's k-means with ten starts, by size and library."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from unittest.mock import patch

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.kmeans import Problem, kmeans_many
from fedjigsaw.threads import one_thread
from measuring import Row, alternate, faiss_centers, mixture, named, objective

SIZES = (  # rows, columns, clusters, and how many clients in one call
    (50, 2, 5, 500),
    (50, 2, 15, 500),
    (50, 16, 15, 500),
    (500, 2, 15, 200),
    (500, 512, 10, 20),
    (20_000, 2, 15, 20),
)
Found = dict[str, list[float]]


def small_clients(
    sizes: Sequence[tuple[int, int, int, int]] = SIZES, repeats: int = 2
) -> Iterator[Row]:
    """Measure the compiled kernel on one thread and two, and other libraries.

    Objectives are means over all clients, each with rows and a seed of its own, over the mean of
    scikit-learn. Target: at most 1.002.
    """
    for n, d, k, many in sizes:
        rng = np.random.default_rng(0)
        sets = [mixture(rng, n, d, k) for _ in range(many)]
        found: Found = {}
        works: dict[str, Callable[[], object]] = {
            "compiled": partial(_compiled, found, "compiled", sets, k, 1),
            "compiled_two": partial(_compiled, found, "compiled_two", sets, k, 2),
            "sklearn": partial(_library, found, "sklearn", sets, k),
        }
        if find_spec("sklearnex"):
            works["intelex"] = partial(_library, found, "sklearnex", sets, k)
        if find_spec("faiss"):
            works["faiss"] = partial(_faiss, found, sets, k)
        _compiled({}, "", sets[:2], k, 1)  # compile, or load what was compiled
        times = alternate(works, repeats)
        objectives = {name: sum(values) / sum(found["sklearn"]) for name, values in found.items()}
        yield {
            "n_rows": n,
            "n_columns": d,
            "n_clusters": k,
            "n_clients": many,
            **named(times, "microseconds", 1e6 / many),
            "ratio": times["sklearn"] / times["compiled"],
            "ratio_two": times["sklearn"] / times["compiled_two"],
            "objective": objectives.pop("compiled"),
            **named(objectives, "objective"),
        }


def _compiled(found: Found, name: str, sets: list[Floats], k: int, threads: int) -> None:
    problems = [Problem(X, k, np.random.default_rng(i)) for i, X in enumerate(sets)]
    with patch.dict(os.environ, FEDJIGSAW_BACKEND="numba", OMP_NUM_THREADS=str(threads)):
        found[name] = [solution.inertia for solution in kmeans_many(problems)]


def _library(found: Found, name: str, sets: list[Floats], k: int) -> None:
    kmeans = partial(import_module(f"{name}.cluster").KMeans, k, n_init=10)
    with one_thread():
        found[name] = [kmeans(random_state=i).fit(X).inertia_ for i, X in enumerate(sets)]


def _faiss(found: Found, sets: list[Floats], k: int) -> None:
    found["faiss"] = [objective(X, faiss_centers(X, k, threads=1)) for X in sets]
