"""Simulate a federation: split a data set among clients, cluster it, measure.

A cell (data set, split, method, seed) gives one row: a plain dictionary, one line of JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import datasets, partition
from fedjigsaw._random import stream
from fedjigsaw._typing import Ints
from fedjigsaw.comparison.comparing import Track
from fedjigsaw.comparison.contenders import params_by_method, supporting
from fedjigsaw.comparison.measures import fit_and_measure, without_classes
from fedjigsaw.comparison.problems import smallest_client
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import DataError, ParameterError, invalid, quote_names
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.backends import Backend, name_of
from fedjigsaw.methods import DEFAULT, find_for_rows, make
from fedjigsaw.parameters import one_of
from fedjigsaw.report.provenance import provenance

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer

# methods of the demo: those of the paper, so that its table and picture stay small
SHOWN = ("feca", "jigsaw", "kfed", "match", "fuzzy", "central")


@dataclass(frozen=True)
class Cell:
    """What to compute.

    Parameters
    ----------
    alpha, min_size : options of the splits "dirichlet" and "quantity".
    shards : option of the split "shards": how many each client gets.
    params : further parameters of the method.
    share : share of the rows, drawn at random, that clients hold. Purity and NMI are measured on
        all rows.
    mix : option of the split "features": share of rows that are dealt at random.
    by : column that decides: for "features", that of the region; for "column", that of the client.
    """

    dataset: str
    method: str
    n_clusters: int | str
    seed: int
    n_clients: int = 10
    split: str = "iid"
    alpha: float = 0.3
    min_size: int = 1
    shards: int = 2
    params: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0
    mix: float = 0.0
    by: str = ""

    def __post_init__(self) -> None:
        one_of(*partition.SPLITS).check("split", "a simulation", self.split)
        if not 0 < self.share <= 1:
            allowed = "above 0 and at most 1"
            raise ParameterError(invalid("share", "a simulation", allowed, self.share))

    def as_row(self) -> Row:
        """Return the fields that matter for this cell's split, as the beginning of its row."""
        used = {"shards" if o == "shards_per_client" else o for o in partition.SPLITS[self.split]}
        skip = {"alpha", "min_size", "shards", "mix"} - used
        skip |= {"share"} if self.share == 1 else set()
        skip |= set() if self.by else {"by"}
        return {name: value for name, value in asdict(self).items() if name not in skip}


def split_rows(labels: Ints, cell: Cell, data: Dataset | None = None) -> Ints:
    """Return client ids for a cell; they depend on its seed, not on its method.

    Parameters
    ----------
    labels : class of each row.
    data : the data set, with these rows alone: splits by features or by a column need it.
    """
    direction: Any = partition.PRINCIPAL
    if cell.by and data is not None and cell.split == "features":
        direction = _place(cell.by, data)
    return partition.split(
        cell.split,
        labels,
        cell.n_clients,
        rng=cell.seed,
        alpha=cell.alpha,
        min_size=cell.min_size,
        shards_per_client=cell.shards,
        X=None if data is None else data.X,
        direction=direction,
        mix=cell.mix,
        values=None if data is None else data.clients,
    )


def _place(column: str, data: Dataset) -> int:
    """Return the number of a column."""
    names = data.columns or [f"x{j}" for j in range(data.X.shape[1])]
    if column not in names:
        raise ParameterError(f"{data.name} has no column {column!r}. It has {quote_names(names)}.")
    return list(names).index(column)


def run_cell(
    cell: Cell,
    data: Dataset,
    *,
    method: Any = None,
    backend: Backend | None = None,
) -> tuple[FederatedClusterer, Row]:
    """Fit a cell's method on its data set and measure it; return the fitted method and the row.

    Parameters
    ----------
    method : class or estimator of the cell's method; None is the one of that name.
    backend : of k-means; None is the default of the machine.
    """
    made = make(method or cell.method, cell.n_clusters, cell.seed, **cell.params)
    if backend is not None:
        made.backend = backend
    used = _used_rows(cell, len(data.X))
    held = data.clients if data.clients is None else data.clients[used]
    part = replace(data, X=data.X[used], y=data.y[used], clients=held)
    clients = split_rows(part.y, cell, part)
    numbers = fit_and_measure(made, data, clients, used)
    name = None if backend is None else name_of(backend)
    return made, {**cell.as_row(), **numbers, **provenance(name)}


def _used_rows(cell: Cell, n_rows: int) -> Ints | slice:
    if cell.share == 1:
        return slice(None)
    rng = stream(cell.seed, 0, "the rows that take part")
    return np.sort(rng.permutation(n_rows)[: round(cell.share * n_rows)])


def simulate(
    dataset: str | Path | datasets.Dataset = "gaussian-grid",
    n_clients: int = 10,
    split: str = "dirichlet",
    *,
    alpha: float = 0.3,
    min_size: int | None = None,
    shards: int = 2,
    mix: float = 0.0,
    by: str | None = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    methods: Sequence[Any] | None = None,
    n_clusters: int | str | None = None,
    params: Mapping[str, Any] | None = None,
    runs: int = 10,
    seed: int = 0,
    track: Track = iter,
) -> list[Row]:
    """Run several methods on a data set, with several seeds; return one row for each run.

    Parameters
    ----------
    dataset : what :func:`fedjigsaw.datasets.load` takes: a name or the path of a file; or a data
        set in memory.
    n_clients : number of clients; "column" has as many as the column has values.
    split : a key of :data:`fedjigsaw.partition.SPLITS`.
    alpha, min_size : options of "dirichlet" and "quantity"; see :func:`smallest_client` for None.
    shards : option of "shards": how many each client gets.
    mix, by : options of "features": share of rows that are dealt at random, and the column that
        decides (None is the direction in which rows vary most). For "column", `by` is the column of
        a file that tells who holds each row.
    label, columns : of a file: the column with the true classes, and the columns to use.
    methods : names, classes or estimators; None is all of the package that support this number of
        clusters.
    n_clusters : number of clusters; None is the true one, "auto" lets the method find it.
    params : parameters; each goes to all methods that have it.
    runs, seed : run r has the seed ``seed + r``, for the split and for everything else.
    track : wraps the list of cells to show progress, such as ``tqdm.tqdm``.
    """
    data = _load(dataset, split, label=label, columns=columns, by=by)
    k = n_clusters or _true_number(data)
    if split == "column":
        n_clients = len(np.unique(data.clients))
    if min_size is None:
        min_size = smallest_client(data, n_clients, k)
    given = _by_name(methods or supporting(k))
    chosen = params_by_method([m for m in given.values() if isinstance(m, str)], params or {}, k)
    own = {name: method for name, method in given.items() if name not in chosen}
    for name, method in own.items():
        known = find_for_rows(method).own_parameters
        chosen[name] = {p: v for p, v in (params or {}).items() if p in known}
    cells = [
        Cell(
            *(data.name, name, k, seed + r, n_clients, split, alpha, min_size, shards),
            chosen[name],
            mix=mix,
            by=by or "",
        )
        for name in given
        for r in range(runs)
    ]
    rows = [run_cell(cell, data, method=own.get(cell.method))[1] for cell in track(cells)]
    return rows if data.has_classes else without_classes(rows)


def _load(dataset: Any, split: str, *, by: str | None, **options: Any) -> datasets.Dataset:
    """Load the data of a simulation, and check that this split can be made."""
    by_column = split == "column"
    data = dataset
    if not isinstance(data, datasets.Dataset):
        data = datasets.load(data, clients=by if by_column else None, **options)
    if by_column and data.clients is None:
        raise ParameterError(
            "The split 'column' needs a file, and the column that tells who holds a row.",
            parameter="by",
        )
    if split not in partition.WITHOUT_CLASSES and not data.has_classes:
        others = ", ".join(n for n in partition.SPLITS if n in partition.WITHOUT_CLASSES)
        raise DataError(
            f"The classes of {data.name} are not known, and the split {split!r} needs them. Name "
            f"their column, or use another split: {others}.",
            parameter="label",
        )
    return data


def _true_number(data: datasets.Dataset) -> int:
    if not data.has_classes:
        raise ParameterError(
            f"The number of clusters of {data.name} is not known: give it.",
            parameter="n_clusters",
        )
    return data.n_clusters


def _by_name(methods: Sequence[Any]) -> dict[str, Any]:
    """Return names, classes and estimators by the names of their methods."""
    found: dict[str, Any] = {}
    for method in methods:
        name = find_for_rows(method).name
        if name in found and not (isinstance(method, str) and found[name] == method):
            raise ParameterError(f"Two methods are called {name!r}. Run them one after the other.")
        found[name] = method
    return found


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
