"""One cell of a table (data set, split, method, seed), computed into one row.

A row is a plain dictionary, one line of JSON; tables and pages are made from rows only.
"""

import os
import subprocess
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import fedjigsaw
from fedjigsaw import datasets, metrics, partition
from fedjigsaw._random import stream
from fedjigsaw._typing import Ints
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.errors import FewerClustersWarning, ParameterError, invalid
from fedjigsaw.io.tables import open_table
from fedjigsaw.kernels.backends import default_backend
from fedjigsaw.kernels.kmeans import cluster_means, nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.methods import make
from fedjigsaw.methods._support import k_curve_of
from fedjigsaw.parameters import one_of
from fedjigsaw.sites import check_once

SPLITS = ("iid", "dirichlet", "shards")
MEASURED = (
    "n_found", "l2", "mse", "purity", "nmi", "ari", "inertia", "ratio", "bytes_per_client",
    "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What to compute. `alpha` and `min_size` are for dirichlet, `shards` for shards.

    `share` is the part of the rows, drawn at random, that clients hold; the others are seen only
    when purity and nmi are measured, which is on all rows.
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

    def __post_init__(self) -> None:
        one_of(*SPLITS).check("split", "a simulation", self.split)
        if not 0 < self.share <= 1:
            allowed = "above 0 and at most 1"
            raise ParameterError(invalid("share", "a simulation", allowed, self.share))

    def describe(self) -> dict[str, Any]:
        """The fields that matter for this cell's split."""
        unused = {"iid": ("alpha", "min_size", "shards"), "dirichlet": ("shards",)}
        skip = unused.get(self.split, ("alpha", "min_size"))
        skip += ("share",) if self.share == 1 else ()
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


def run(
    cell: Cell, data: datasets.Dataset, extra: Sequence[str] = ()
) -> tuple[FederatedClusterer, dict[str, Any]]:
    """Fit a cell's method on its data set and measure it: the fitted method and the row.

    Parameters
    ----------
    extra : names of further measures, of :data:`MEASURES`.
    """
    method = make(cell.method, cell.n_clusters, cell.seed, **cell.params)
    used = _used_rows(cell, len(data.X))
    clients = deal(data.y[used], cell)
    method, numbers = fit(method, data, clients, used)
    for name in extra:
        numbers |= MEASURES[name](method, data, clients)
    return method, {**cell.describe(), **numbers, **origin()}


def fit(
    method: FederatedClusterer,
    data: datasets.Dataset,
    clients: Ints,
    used: Ints | slice = slice(None),
) -> tuple[FederatedClusterer, dict[str, Any]]:
    """Fit a method on the rows that are used, which these clients hold; and what was measured."""
    started = perf_counter()
    with warnings.catch_warnings():
        # the row says how many were found; a warning per run would drown it
        warnings.simplefilter("ignore", FewerClustersWarning)
        method.fit(data.X[used], clients=clients)
    seconds = perf_counter() - started
    n_clients = len(np.unique(clients))
    return method, {**measure(method, data, n_clients), "seconds": seconds}


def own_files(
    files: Sequence[Path],
    columns: Sequence[str] | None,
    label: str | None,
    *,
    scale: bool,
    drop_missing: bool,
) -> tuple[datasets.Dataset, Ints]:
    """A user's files, pooled: the rows with their classes, where known, and whose they are."""
    names = _names(files)
    rows, classes, owners = [], [], []
    options: dict[str, Any] = {"id_column": label, "drop_missing": drop_missing}
    if columns is None:
        columns = [name for name in open_table(files[0], **options).columns if name != label]
    for owner, path in enumerate(files):
        for batch in open_table(path, columns=columns, **options).batches():
            rows.append(batch.rows)
            owners.append(np.full(len(batch.rows), owner))
            if batch.ids is not None:
                classes.append(np.asarray(batch.ids)[batch.kept].astype(str))
    X = np.concatenate(rows)
    if scale:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    y = np.unique(np.concatenate(classes), return_inverse=True)[1] if classes else np.zeros(len(X))
    name = ", ".join(names[:3]) + ", ..." * (len(files) > 3)
    return datasets.Dataset(X, y.astype(np.int64), None, name), np.concatenate(owners)


def _names(files: Sequence[Path]) -> list[str]:
    """What to call each file: its name, with as many folders before it as tell them apart."""
    check_once(files)
    paths = [path.resolve() for path in files]
    n_parts = 1
    while len({path.parts[-n_parts:] for path in paths}) < len(paths):
        n_parts += 1
    return [str(Path(*path.parts[-n_parts:])) for path in paths]


def _used_rows(cell: Cell, n_rows: int) -> Ints | slice:
    if cell.share == 1:
        return slice(None)
    rng = stream(cell.seed, 0, "the rows that take part")
    return np.sort(rng.permutation(n_rows)[: round(cell.share * n_rows)])


def measure(method: FederatedClusterer, data: datasets.Dataset, n_clients: int) -> dict[str, Any]:
    """All that a table can ask about a fitted method; centers only where the truth is known."""
    whole = len(method.labels_) == len(data.X)
    labels = method.labels_ if whole else method.predict(data.X)
    numbers: dict[str, Any] = {"n_found": method.n_clusters_}
    if data.centers is not None:
        numbers["l2"] = metrics.center_l2(method.cluster_centers_, data.centers)
        numbers["mse"] = metrics.center_mse(method.cluster_centers_, data.centers)
    numbers["purity"] = metrics.purity(labels, data.y)
    numbers["nmi"] = metrics.nmi(labels, data.y)
    numbers["ari"] = metrics.ari(labels, data.y)
    numbers["inertia"] = method.inertia_
    sent = data.X.nbytes if method.pools_data else method.transcript_.bytes_up
    numbers["bytes_per_client"] = sent / n_clients
    return numbers


# ------------------------------------------------------------------------------- further measures


def _label_rules(method: FederatedClusterer, data: datasets.Dataset, clients: Ints) -> Any:
    """Purity and nmi by the nearest center, and by each client's own centers."""
    if method.pools_data:
        return {}
    rules = {"nearest": method.predict(data.X), "local": method.predict(data.X, clients=clients)}
    return {
        f"{number.__name__}_{rule}": number(labels, data.y)
        for rule, labels in rules.items()
        for number in (metrics.purity, metrics.nmi)
    }


def _after_lloyd(method: FederatedClusterer, data: datasets.Dataset, clients: Ints) -> Any:
    """Purity and nmi after one step of Lloyd's algorithm on all rows."""
    means = cluster_means(data.X, method.predict(data.X))
    labels, _ = nearest_centers(data.X, means)
    return {
        "purity_lloyd": metrics.purity(labels, data.y),
        "nmi_lloyd": metrics.nmi(labels, data.y),
    }


def _sigma(method: FederatedClusterer, data: datasets.Dataset, clients: Ints) -> Any:
    r"""The paper's :math:`\sigma_i = \|c_i - \theta_s\| / r_s` of every received center.

    :math:`\theta_s` is the true center nearest to :math:`c_i`, and :math:`r_s` the largest radius
    among the received centers nearest to :math:`\theta_s`: the one that the server groups by.
    """
    centers = np.concatenate([summary.centers for summary in method.summaries_])
    radii = np.concatenate([summary.radii for summary in method.summaries_])
    assert data.centers is not None
    distances = pairwise_distances(centers, data.centers)
    nearest = distances.argmin(axis=1)
    largest = np.zeros(len(data.centers))
    np.maximum.at(largest, nearest, radii)
    sigma = distances.min(axis=1) / largest[nearest]
    return {"sigma": sigma.round(4).tolist(), "true_center": nearest.tolist()}


def _centers(method: FederatedClusterer, data: datasets.Dataset, clients: Ints) -> Any:
    """The recovered centers, for a picture."""
    return {"centers": method.cluster_centers_.round(0).tolist()}


def _truth(method: FederatedClusterer, data: datasets.Dataset, clients: Ints) -> Any:
    """True centers, and how many rows lie in each field of a 40 x 40 grid over the data."""
    assert data.centers is not None
    counts, *edges = np.histogram2d(data.X[:, 0], data.X[:, 1], bins=40)
    window = [[float(edge[0]), float(edge[-1])] for edge in edges]
    density = counts.astype(int).tolist()
    return {"true_centers": data.centers.tolist(), "window": window, "density": density}


def _k_curve(method: FederatedClusterer, data: datasets.Dataset, clients: Ints) -> Any:
    """Every k that was considered, its index (none for one cluster) and its objective."""
    curve = k_curve_of(method.model_)
    assert curve is not None
    index = [None if not np.isfinite(value) else float(value) for value in curve["index"]]
    return {"k": curve["k"].tolist(), "index": index, "objective": curve["objective"].tolist()}


MEASURES: dict[str, Callable[[FederatedClusterer, datasets.Dataset, Ints], dict[str, Any]]] = {
    "label_rules": _label_rules,
    "after_lloyd": _after_lloyd,
    "sigma": _sigma,
    "centers": _centers,
    "truth": _truth,
    "k_curve": _k_curve,
}


# ------------------------------------------------------------------------------------------- rows


@cache
def origin() -> dict[str, Any]:
    """Where a row comes from: version, commit (with a + if the code differs), k-means backend."""
    return {
        "version": fedjigsaw.__version__,
        "commit": _commit(),
        "backend": default_backend().name,
    }


def _commit() -> str | None:
    if "FEDJIGSAW_COMMIT" in os.environ:  # a copy without its history, on another machine
        return os.environ["FEDJIGSAW_COMMIT"]
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
