"""One cell of a table (data set, split, method, seed), computed into one row.

A row is a plain dictionary, one line of JSON; tables and pages are made from rows only.
"""

import subprocess
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import fedjigsaw
from fedjigsaw import datasets, metrics, partition
from fedjigsaw._inputs import Ints, one_of
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.errors import FewerClustersWarning
from fedjigsaw.kmeans import backend
from fedjigsaw.methods import make

SPLITS = ("iid", "dirichlet", "shards")
MEASURED = (
    "n_found", "l2", "mse", "purity", "nmi", "ari", "inertia", "bytes_per_client", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What to compute. `alpha` and `min_size` are for dirichlet, `shards` for shards."""

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

    def __post_init__(self) -> None:
        one_of(*SPLITS).check("split", "a simulation", self.split)

    def describe(self) -> dict[str, Any]:
        """The fields that matter for this cell's split."""
        unused = {"iid": ("alpha", "min_size", "shards"), "dirichlet": ("shards",)}
        skip = unused.get(self.split, ("alpha", "min_size"))
        return {name: value for name, value in asdict(self).items() if name not in skip}


def deal(labels: Ints, cell: Cell) -> Ints:
    """Client ids for a cell; they depend on its seed, not on its method."""
    if cell.split == "dirichlet":
        return partition.dirichlet(
            labels, cell.n_clients, alpha=cell.alpha, rng=cell.seed, min_size=cell.min_size
        )
    if cell.split == "shards":
        return partition.shards(
            labels, cell.n_clients, rng=cell.seed, shards_per_client=cell.shards
        )
    return partition.iid(len(labels), cell.n_clients, rng=cell.seed)


def run(cell: Cell, data: datasets.Dataset) -> tuple[FederatedClusterer, dict[str, Any]]:
    """Fit a cell's method on its data set and measure it: the fitted method and the row."""
    method = make(cell.method, cell.n_clusters, cell.seed, **cell.params)
    clients = deal(data.y, cell)
    started = perf_counter()
    with warnings.catch_warnings():
        # the row says how many were found; a warning per run would drown it
        warnings.simplefilter("ignore", FewerClustersWarning)
        method.fit(data.X, clients=clients)
    seconds = perf_counter() - started
    numbers = measure(method, data, cell.n_clients)
    return method, {**cell.describe(), **numbers, "seconds": seconds, **origin()}


def measure(method: FederatedClusterer, data: datasets.Dataset, n_clients: int) -> dict[str, Any]:
    """All that a table can ask about a fitted method; centers only where the truth is known."""
    numbers: dict[str, Any] = {"n_found": method.n_clusters_}
    if data.centers is not None:
        numbers["l2"] = metrics.center_l2(method.cluster_centers_, data.centers)
        numbers["mse"] = metrics.center_mse(method.cluster_centers_, data.centers)
    numbers["purity"] = metrics.purity(method.labels_, data.y)
    numbers["nmi"] = metrics.nmi(method.labels_, data.y)
    numbers["ari"] = metrics.ari(method.labels_, data.y)
    numbers["inertia"] = method.inertia_
    sent = data.X.nbytes if method.pools_data else method.transcript_.bytes_up
    numbers["bytes_per_client"] = sent / n_clients
    return numbers


@cache
def origin() -> dict[str, Any]:
    """Where a row comes from: version, commit (with a + if the code differs), k-means backend."""
    return {"version": fedjigsaw.__version__, "commit": _commit(), "backend": backend()}


def _commit() -> str | None:
    package = Path(fedjigsaw.__file__).resolve().parent
    git = ["git", "-C", str(package)]
    words = ["rev-parse", "--show-toplevel", "--short=12", "HEAD"]
    try:
        answer = subprocess.run([*git, *words], capture_output=True, text=True, check=True)
        changed = subprocess.run(
            [*git, "diff", "--quiet", "HEAD", "--", "."], check=False
        ).returncode
    except (OSError, subprocess.CalledProcessError):  # an installed package has no history
        return None
    top, head = answer.stdout.splitlines()
    if package != Path(top) / "src" / "fedjigsaw":  # installed inside somebody else's checkout
        return None
    return head + "+" * bool(changed)


def over_seeds(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of every measured number over rows that differ by seed."""
    measured = [name for name in MEASURED if all(name in row for row in rows)]
    columns = {name: [row[name] for row in rows] for name in measured}
    return {name: (float(np.mean(v)), float(np.std(v))) for name, v in columns.items()}
