"""One cell of a table (data set, split, method, seed), computed into one row.

A row is a plain dictionary, one line of JSON; tables and pages are made from rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw import partition
from fedjigsaw._random import stream
from fedjigsaw._typing import Ints
from fedjigsaw.bench.measures import MEASURES
from fedjigsaw.comparison.measures import fit_and_measure
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import ParameterError, invalid, quote_names
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.backends import Backend, SklearnBackend
from fedjigsaw.methods import make
from fedjigsaw.parameters import one_of
from fedjigsaw.report.provenance import provenance

if TYPE_CHECKING:
    from fedjigsaw.base import FederatedClusterer

BACKENDS: dict[str, type[Backend]] = {"sklearn": SklearnBackend}


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
    extra: Sequence[str] = (),
    backend: str | None = None,
    *,
    method: Any = None,
) -> tuple[FederatedClusterer, Row]:
    """Fit a cell's method on its data set and measure it; return the fitted method and the row.

    Parameters
    ----------
    extra : names of further measures, of :data:`fedjigsaw.bench.measures.MEASURES`.
    backend : name of a k-means backend, of :data:`BACKENDS`; None is the default.
    method : class or estimator of the cell's method; None is the one of that name.
    """
    made = make(method or cell.method, cell.n_clusters, cell.seed, **cell.params)
    if backend is not None:
        made.backend = BACKENDS[backend]()
    used = _used_rows(cell, len(data.X))
    held = data.clients if data.clients is None else data.clients[used]
    part = replace(data, X=data.X[used], y=data.y[used], clients=held)
    clients = split_rows(part.y, cell, part)
    numbers = fit_and_measure(made, data, clients, used)
    for name in extra:
        numbers |= MEASURES[name](made, data, clients)
    return made, {**cell.as_row(), **numbers, **provenance(backend)}


def _used_rows(cell: Cell, n_rows: int) -> Ints | slice:
    if cell.share == 1:
        return slice(None)
    rng = stream(cell.seed, 0, "the rows that take part")
    return np.sort(rng.permutation(n_rows)[: round(cell.share * n_rows)])
