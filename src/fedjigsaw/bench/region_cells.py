"""The study "regions": 1,000 clients over ten regions against one server, and its table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import fedjigsaw
from fedjigsaw import partition
from fedjigsaw._regions import pack_merged
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.bench.generated import blobs
from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.study import PlainCell, Plan
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import NO_GUARD, Client, aggregate_round
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.report.provenance import provenance

N_REGIONS = 10
N_INIT = 1  # starts of k-means at a client: what is compared begins after that
AUTO_CENTERS = 50  # of a region whose clients have 100, where their number is to be found
DIRICHLET = {"iid": None, "dirichlet(0.3)": 0.3}
FACTORS = (1, 2, 4)  # centers of a region for each cluster
GROUPINGS = ("random", "alike")  # which clients are in a region: any, or those of like rows


def _grid(name: str, n_rows: int, width: float) -> Dataset:
    """Draw 15 clusters of one width around the places of a shaken grid in two dimensions."""
    rng = np.random.default_rng(7)
    places = np.stack(np.meshgrid(np.arange(4), np.arange(4)), axis=-1).reshape(-1, 2)[:15]
    centers = 10.0 * places + rng.uniform(-2, 2, (15, 2))
    y = rng.integers(15, size=n_rows)
    return Dataset(centers[y] + width * rng.normal(size=(n_rows, 2)), y, centers, name)


SETS: dict[
    str, tuple[Callable[[int], Dataset], int, str]
] = {  # name -> how to draw it, number of clusters, what it is
    "apart-2d": (partial(_grid, "apart-2d", width=1.0), 15, "clear clusters, like S1"),
    "overlap-2d": (partial(_grid, "overlap-2d", width=3.5), 15, "overlapping ones, like S4"),
    "blobs-16d": (
        lambda n_rows: blobs("blobs-16d", [n_rows // 20] * 20, 16, 12.0),
        20,
        "20 clusters in 16 dimensions",
    ),
}


@dataclass(frozen=True)
class RegionCell(PlainCell):
    """Jigsaw over clients of ten regions, with several numbers of centers of a region.

    Parameters
    ----------
    n_clusters : None is as many as the data have; "auto" finds them.
    rows_per_client : mean number of rows of a client.
    """

    dataset: str
    split: str
    n_clients: int = 1000
    rows_per_client: int = 30
    n_clusters: str | None = None
    seed: int = 0

    def compute(self) -> Row:
        draw, true_k, _ = SETS[self.dataset]
        data = draw(self.n_clients * self.rows_per_client)
        k: int | str = self.n_clusters or true_k
        run = _Run(
            fedjigsaw.Jigsaw(k, n_init=N_INIT, random_state=self.seed), data, self._clients(data)
        )
        with warnings.catch_warnings():  # the row says what came of it
            warnings.simplefilter("ignore")
            numbers = run.numbers() if self.n_clusters is None else run.numbers_of_auto()
        return {**self.as_row(), "true_k": true_k, **numbers, **provenance()}

    def _clients(self, data: Dataset) -> Ints:
        alpha = DIRICHLET[self.split]
        kind = "iid" if alpha is None else "dirichlet"
        return partition.split(
            kind, data.y, self.n_clients, rng=self.seed, alpha=alpha or 1.0, min_size=5
        )


class _Run:
    """The summaries of all clients, aggregated at once and by regions."""

    def __init__(self, method: fedjigsaw.Jigsaw, data: Dataset, clients: Ints) -> None:
        self.method, self.data, self.clients = method, data, clients
        self.broadcast = Broadcast(0, int(method.random_state))
        self.summaries = [
            Client(f"{i:04d}", data.X[clients == i], method, NO_GUARD).answer(self.broadcast)
            for i in range(clients.max() + 1)
        ]

    def numbers(self) -> dict[str, Any]:
        flat = self._objective(self._aggregate(self.summaries).centers)
        found: dict[str, Any] = {"bytes_flat": sum(s.nbytes for s in self.summaries)}
        for grouping in GROUPINGS:
            for factor in FACTORS:
                parts = self._regions(grouping, factor * int(self.method.n_clusters))
                high = self._objective(self._aggregate(parts).centers)
                found[f"loss_{grouping}_{factor}"] = round(100 * (high / flat - 1), 5)
                found[f"bytes_{factor}"] = sum(part.nbytes for part in parts)
        return found

    def numbers_of_auto(self) -> dict[str, Any]:
        parts = {grouping: self._regions(grouping, AUTO_CENTERS) for grouping in GROUPINGS}
        models = {"flat": self._aggregate(self.summaries)}
        models |= {grouping: self._aggregate(found) for grouping, found in parts.items()}
        return {f"found_{name}": len(model.centers) for name, model in models.items()}

    def _aggregate(self, summaries: Sequence[Summary]) -> Model:
        return aggregate_round(self.method, summaries, self.broadcast)

    def _objective(self, centers: Floats) -> float:
        distances = nearest_centers(self.data.X, centers)[1]
        return float(distances @ distances)

    def _regions(self, grouping: str, n_centers: int) -> list[Summary]:
        regions = np.arange(len(self.summaries)) % N_REGIONS
        if grouping == "alike":
            usual = [
                np.bincount(self.data.y[self.clients == i]).argmax() for i in range(len(regions))
            ]
            place = np.argsort(np.argsort(usual, kind="stable"), kind="stable")
            regions = place * N_REGIONS // len(regions)
        return [self._region(r, np.flatnonzero(regions == r), n_centers) for r in range(N_REGIONS)]

    def _region(self, number: int, members: Ints, n_centers: int) -> Summary:
        own = [self.summaries[i] for i in members]
        return pack_merged(f"region {number}", self.method.merge(own, n_centers), own, None, ())


def plans() -> tuple[Plan, ...]:
    """Return all plans: first those with a given number of clusters."""
    known = [
        Plan(f"{name}/{split}/k", RegionCell(name, split)) for name in SETS for split in DIRICHLET
    ]
    auto = [
        Plan(f"{name}/{split}/auto", RegionCell(name, split, 50, 100, "auto"))
        for name in SETS
        for split in DIRICHLET
    ]
    return (*known, *auto)


def regions_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the loss of objective for each data set and number of centers of a region."""
    lines = []
    for name, (_, _, about) in SETS.items():
        for split in DIRICHLET:
            runs = [r for r in rows if (r["dataset"], r["split"]) == (name, split)]
            known = [row for row in runs if row["n_clusters"] is None]
            auto = [row for row in runs if row["n_clusters"] == "auto"]
            cells = [_range(known, factor) for factor in FACTORS]
            lines.append([about, split, *cells, _same(auto)])
    head = ["data", "split", *(f"{f if f > 1 else ''}k centers" for f in FACTORS), "`auto`"]
    return markdown_table(head, lines)


def _range(rows: Sequence[Mapping[str, Any]], factor: int) -> str:
    losses = [row[f"loss_{grouping}_{factor}"] for row in rows for grouping in GROUPINGS]
    return f"{min(losses):.3f} to {max(losses):.3f} %" if losses else "–"


def _same(rows: Sequence[Mapping[str, Any]]) -> str:
    pairs = [
        (row["found_flat"], row[f"found_{grouping}"]) for row in rows for grouping in GROUPINGS
    ]
    return f"{sum(one == other for one, other in pairs)} of {len(pairs)}" if pairs else "–"
