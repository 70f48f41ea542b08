"""Cells of the study "privacy": what differential privacy costs, ours and that of others."""

import warnings
from dataclasses import asdict, dataclass
from itertools import product
from time import perf_counter

import numpy as np

import fedjigsaw
from fedjigsaw import datasets
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.bench.privacy_peers import PEERS
from fedjigsaw.bench.private_problem import (
    BOUNDS,
    N_CLUSTERS,
    WIDTHS,
    Mixture,
    Problem,
    mixture,
    site_of_rows,
)
from fedjigsaw.bench.study import Plan
from fedjigsaw.errors import FewerClustersWarning, NoisySummaryWarning
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.messages import OWN, SHARED
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.report.provenance import provenance

Bounds = tuple[float, float]
OURS = "jigsaw"
S1 = "s1"
S1_BOUNDS = (0.0, 1e6)
COLUMNS = (2, 8, 16)
SPLITS = {"iid": "IID", "dirichlet": "Dirichlet(0.3)"}
EPSILONS = (0.5, 1.0, 2.0, 4.0)
S1_EPSILONS = (1.0, 4.0)
PEER_EPSILON = 1.0
PER_SITE = ("gaussian", "laplace")  # peers for which the split matters
FIRST_SEED = 100  # smaller ones were used to choose the mechanism


@dataclass(frozen=True)
class PrivacyCell:
    """One method on one data set.

    Parameters
    ----------
    method : "jigsaw", or a name of :data:`fedjigsaw.bench.privacy_peers.PEERS`.
    width : of the clusters, of :data:`fedjigsaw.bench.private_problem.WIDTHS`; "s1" is the data set
        S1 instead.
    cells : Jigsaw's, of :class:`fedjigsaw.Privacy`.
    """

    method: str
    n_columns: int
    width: str
    split: str
    epsilon: float
    cells: str = OWN
    delta: float = 1e-6
    seed: int = 0

    def as_row(self) -> Row:
        return asdict(self)

    def lacks(self) -> str:
        return "" if self.method == OURS else PEERS[self.method].lacks()

    def compute(self) -> Row:
        seed = FIRST_SEED + self.seed
        data, bounds = self._data(seed)
        sites = site_of_rows(data.y, self.split, seed)
        fit = self._ours if self.method == OURS else self._theirs
        started = perf_counter()
        with warnings.catch_warnings():  # the row says what came of it
            warnings.simplefilter("ignore", FewerClustersWarning)
            warnings.simplefilter("ignore", NoisySummaryWarning)
            centers = fit(data, sites, bounds, seed)
        seconds = perf_counter() - started
        numbers = {"ratio": data.ratio(centers), "n_found": len(centers), "seconds": seconds}
        return {**self.as_row(), **numbers, **provenance()}

    def _ours(self, data: Mixture, sites: Ints, bounds: Bounds, seed: int) -> Floats:
        promise = (self.epsilon, self.delta, bounds)
        privacy = Privacy(*promise, cells=self.cells, insecure_seed=seed)
        model = fedjigsaw.Jigsaw(N_CLUSTERS, random_state=seed)
        return model.fit(data.X, clients=sites, privacy=privacy).cluster_centers_

    def _theirs(self, data: Mixture, sites: Ints, bounds: Bounds, seed: int) -> Floats:
        parts = tuple(data.X[sites == site] for site in np.unique(sites))
        promise = (self.epsilon, self.delta, seed, *bounds)
        problem = Problem(parts, N_CLUSTERS, *promise, server_rows=data.server_rows)
        return PEERS[self.method].fit(problem)

    def _data(self, seed: int) -> tuple[Mixture, Bounds]:
        if self.width != S1:
            return mixture(self.n_columns, self.width, seed), BOUNDS
        rows = datasets.load(S1)
        best = kmeans(rows.X, N_CLUSTERS, rng=np.random.default_rng(0), n_init=20).inertia
        return Mixture(rows.X, rows.y, best, np.empty((0, 2))), S1_BOUNDS


def cost_plans() -> list[Plan]:
    """Jigsaw on all data, with all epsilons."""
    plans = [
        _plan(PrivacyCell(OURS, n_columns, width, split, epsilon))
        for n_columns, width, split, epsilon in product(COLUMNS, WIDTHS, SPLITS, EPSILONS)
    ]
    s1 = [
        _plan(PrivacyCell(OURS, 2, S1, split, epsilon, cells))
        for split, epsilon, cells in product(SPLITS, S1_EPSILONS, (OWN, SHARED))
    ]
    return [*plans, *s1]


def peer_plans() -> list[Plan]:
    """Other methods on the same data; those that pool rows do not depend on the split."""
    return [
        _plan(PrivacyCell(method, n_columns, width, split, PEER_EPSILON))
        for n_columns, width in product(COLUMNS, WIDTHS)
        for method in PEERS
        for split in (SPLITS if method in PER_SITE else ["iid"])
    ]


def plans() -> tuple[Plan, ...]:
    """All plans, those on the same rows together: a worker keeps the rows that it used last."""
    found = [*cost_plans(), *peer_plans()]
    return tuple(sorted(found, key=_rows_of))


def _rows_of(plan: Plan) -> tuple[int, int]:
    cell = plan.cell
    assert isinstance(cell, PrivacyCell)
    return cell.n_columns, [*WIDTHS, S1].index(cell.width)


def _plan(cell: PrivacyCell) -> Plan:
    """Name a cell by table, column and line."""
    label = "Jigsaw" if cell.method == OURS else PEERS[cell.method].label
    label += f", {cell.cells} cells" * (cell.width == S1)
    data = "S1" if cell.width == S1 else f"{cell.n_columns} columns, {cell.width}"
    return Plan(f"epsilon {cell.epsilon:g}, {SPLITS[cell.split]}/{label}/{data}", cell)
