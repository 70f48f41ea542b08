"""Cells of the study "auto-hard": the number of clusters that Jigsaw finds on generated sets."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from time import process_time

import numpy as np

import fedjigsaw
from fedjigsaw import metrics, partition
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.bench.hard_peers import PEERS, PooledCell
from fedjigsaw.bench.hard_sets import FIRST_SEED, HARD_SETS, classes_of
from fedjigsaw.bench.hard_shapes import BACKGROUND
from fedjigsaw.bench.measures import k_doubt
from fedjigsaw.bench.study import PlainCell, Plan
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import NO_GUARD
from fedjigsaw.io.rows import Row
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.provenance import provenance

N_CLIENTS, FEWEST_ROWS = 10, 25  # of the splits without small clients
MOST_ROWS = 3000  # of all small clients together
MIXED = 0.25  # deviation of the noise by which rows are ordered for small clients, in all classes


@dataclass(frozen=True)
class Split:
    """How rows are split over clients.

    Parameters
    ----------
    title : in tables.
    alpha : of the Dirichlet distribution of classes over ten clients; None is an even split.
    rows : smallest and largest number of rows of small clients; None is ten clients.
    by_class : whether a small client's rows are of similar classes.
    guarded : whether summaries pass the default guard.
    """

    title: str
    alpha: float | None = None
    rows: tuple[int, int] | None = None
    by_class: bool = False
    guarded: bool = False


SPLITS = {
    "iid": Split("IID"),
    "dirichlet(0.3)": Split("Dirichlet(0.3)", alpha=0.3),
    "dirichlet(0.1)": Split("Dirichlet(0.1)", alpha=0.1),
    "12 rows": Split("12 rows, IID", rows=(12, 12)),
    "12 rows by class": Split("12 rows, by class", rows=(12, 12), by_class=True),
    "5-25 rows": Split("5 to 25 rows, guard, IID", rows=(5, 25), guarded=True),
    "5-25 rows by class": Split(
        "5 to 25 rows, guard, by class", rows=(5, 25), by_class=True, guarded=True
    ),
}
TEN_CLIENTS = tuple(name for name, split in SPLITS.items() if split.rows is None)
SMALL_CLIENTS = tuple(name for name, split in SPLITS.items() if split.rows is not None)
SMALL_SETS = (
    "eq8-5d", "over3-2d", "b45-2d", "two-3d", "line4-1d", "elong5-2d", "b7-50d", "b10-128d",
    "unif-2d", "normal-5d", "noise5-2d",
)  # fmt: skip


@dataclass(frozen=True)
class HardCell(PlainCell):
    """Jigsaw with ``n_clusters="auto"`` on one set, of :data:`HARD_SETS`.

    Parameters
    ----------
    split : a key of :data:`SPLITS`.
    """

    dataset: str
    split: str
    seed: int = 0

    def compute(self) -> Row:
        chosen, split, seed = HARD_SETS[self.dataset], SPLITS[self.split], FIRST_SEED + self.seed
        data, clients = dealt(chosen.draw(seed), split, seed)
        guard = Guard() if split.guarded else NO_GUARD
        auto, seconds = _timed(fedjigsaw.Jigsaw("auto", random_state=seed), data.X, clients, guard)
        inside = data.y != BACKGROUND
        numbers = {
            "n_found": auto.n_clusters_,
            "ari": round(metrics.ari(data.y[inside], auto.labels_[inside]), 4),
            "bytes_per_client": round(auto.transcript_.bytes_up / len(np.unique(clients))),
            "seconds": round(seconds, 3),
        }
        if split.rows is None:  # small clients, which have hardly more rows than k, tell nothing
            given = fedjigsaw.Jigsaw(chosen.n_clusters, random_state=seed)
            numbers["seconds_given"] = round(_timed(given, data.X, clients, guard)[1], 3)
        known = {"kind": chosen.kind, "true_k": chosen.n_clusters}
        doubt = k_doubt(auto, data, clients)
        return {**self.as_row(), **known, **numbers, **doubt, **provenance()}


def dealt(data: Dataset, split: Split, seed: int) -> tuple[Dataset, Ints]:
    """Return the rows that take part, and the client of each."""
    rng = np.random.default_rng([seed, 2])
    if split.rows is None:
        if split.alpha is None:
            return data, partition.iid(len(data.X), N_CLIENTS, rng=rng)
        classes = classes_of(data, seed)
        return data, partition.dirichlet(
            classes, N_CLIENTS, alpha=split.alpha, rng=rng, min_size=FEWEST_ROWS
        )
    if len(data.X) > MOST_ROWS:
        kept = np.sort(rng.permutation(len(data.X))[:MOST_ROWS])
        data = Dataset(data.X[kept], data.y[kept], None, data.name)
    order = rng.permutation(len(data.X))
    if split.by_class:
        classes = classes_of(data, seed)
        blur = MIXED * (classes.max() + 1)
        order = np.argsort(classes + rng.normal(scale=blur, size=len(classes)))
    clients = np.empty(len(order), dtype=np.int64)
    clients[order] = _consecutive(len(order), *split.rows, rng)
    return data, clients


def _consecutive(n_rows: int, fewest: int, most: int, rng: np.random.Generator) -> Ints:
    """Return client ids 0, 0, ..., 1, 1, ...; the last client takes a rest that is too small."""
    sizes = rng.integers(fewest, most + 1, size=n_rows // fewest)
    ends = np.cumsum(sizes)
    ends = ends[ends <= n_rows - fewest]
    return np.searchsorted(ends, np.arange(n_rows), side="right")


def _timed(
    method: fedjigsaw.Jigsaw, X: Floats, clients: Ints, guard: Guard
) -> tuple[fedjigsaw.Jigsaw, float]:
    """Fit a method; return it and the processor's seconds."""
    started = process_time()
    with warnings.catch_warnings():  # the row says what came of it
        warnings.simplefilter("ignore")
        method.fit(X, clients=clients, guard=guard)
    return method, process_time() - started


def plans() -> tuple[Plan, ...]:
    """Return all plans, those on the same set together."""
    found = []
    for name in HARD_SETS:
        splits = (*TEN_CLIENTS, *(SMALL_CLIENTS if name in SMALL_SETS else ()))
        found += [Plan(f"{name}/{split}", HardCell(name, split)) for split in splits]
        found += [Plan(f"{name}/{method}", PooledCell(name, method)) for method in PEERS]
    return tuple(found)
