"""Simulate a federation: split a named data set among clients, cluster it, measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedjigsaw import datasets
from fedjigsaw._typing import Ints
from fedjigsaw.bench.cells import Cell, run_cell, split_rows
from fedjigsaw.comparison.comparing import Track
from fedjigsaw.comparison.contenders import params_by_method, supporting
from fedjigsaw.comparison.problems import smallest_client
from fedjigsaw.io.rows import Row
from fedjigsaw.methods import DEFAULT

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer


# methods of the demo: those of the paper, so that its table and picture stay small
SHOWN = ("feca", "jigsaw", "kfed", "match", "fuzzy", "central")


def simulate(
    dataset: str = "gaussian-grid",
    n_clients: int = 10,
    split: str = "dirichlet",
    *,
    alpha: float = 0.3,
    min_size: int | None = None,
    shards: int = 2,
    methods: Sequence[str] | None = None,
    n_clusters: int | str | None = None,
    params: Mapping[str, Any] | None = None,
    runs: int = 10,
    seed: int = 0,
    track: Track = iter,
) -> list[Row]:
    """Run several methods on a named data set, with several seeds; return one row for each run.

    Parameters
    ----------
    split : {"iid", "dirichlet", "shards"}
    alpha, min_size : options of "dirichlet"; see :func:`smallest_client` for None.
    shards : option of "shards": how many each client gets.
    methods : names of methods; None is all that support this number of clusters.
    n_clusters : number of clusters; None is the true one, "auto" lets the method find it.
    params : parameters; each goes to all methods that have it.
    runs, seed : run r has the seed ``seed + r``, for the split and for everything else.
    track : wraps the list of cells to show progress, such as ``tqdm.tqdm``.
    """
    data = datasets.load(dataset)
    k = n_clusters or data.n_clusters
    if min_size is None:
        min_size = smallest_client(data, n_clients, k)
    chosen = params_by_method(methods or supporting(k), params or {}, k)
    cells = [
        Cell(dataset, name, k, seed + r, n_clients, split, alpha, min_size, shards, own)
        for name, own in chosen.items()
        for r in range(runs)
    ]
    return [run_cell(cell, data)[1] for cell in track(cells)]


@dataclass(frozen=True)
class Demo:
    """The methods of the paper, fitted on the same ten clients.

    Parameters
    ----------
    clients : client id of each row of `data`.
    fitted : methods by name.
    rows : what was measured, one row for each method.
    """

    data: datasets.Dataset
    clients: Ints
    fitted: Mapping[str, FederatedClusterer]
    rows: Sequence[Row]


def run_demo(seed: int = 0, *, track: Track = iter) -> Demo:
    """Run the methods of the paper on 15 Gaussians, 5000 rows split by Dirichlet(0.3)."""
    data = datasets.load("gaussian-grid")
    k = data.n_clusters
    cell = Cell(data.name, DEFAULT, k, seed, 10, "dirichlet", alpha=0.3, min_size=k)
    made = {name: run_cell(replace(cell, method=name), data) for name in track(SHOWN)}
    fitted = {name: method for name, (method, _) in made.items()}
    return Demo(data, split_rows(data.y, cell), fitted, [row for _, row in made.values()])
