"""Clients over ten regions against one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fedjigsaw import Client, Jigsaw, partition
from fedjigsaw.datasets import Dataset
from fedjigsaw.engine import NO_GUARD, aggregate_round
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import Broadcast, Model, Summary
from reproduction.experiments.cells import blobs
from reproduction.studies import Floats, Ints, Row

N_REGIONS = 10
N_INIT = 1  # starts of k-means at a client: what is compared begins after that
AUTO_CENTERS = 50  # of a region whose clients have 100, where their number is to be found
FACTORS = (1, 2, 4)  # centers of a region for each cluster
GROUPINGS = ("random", "alike")  # which clients are in a region: any, or those of like rows


def _grid(name: str, n_rows: int, width: float) -> Dataset:
    """Draw 15 clusters of one width around the places of a shaken grid in two dimensions."""
    rng = np.random.default_rng(7)
    places = np.stack(np.meshgrid(np.arange(4), np.arange(4)), axis=-1).reshape(-1, 2)[:15]
    centers = 10.0 * places + rng.uniform(-2, 2, (15, 2))
    y = rng.integers(15, size=n_rows)
    return Dataset(centers[y] + width * rng.normal(size=(n_rows, 2)), y, centers, name)


def _blobs(n_rows: int) -> Dataset:
    return blobs("blobs-16d", [n_rows // 20] * 20, 16, 12.0)


SETS: dict[str, tuple[Callable[[int], Dataset], int]] = {  # how to draw it, number of clusters
    "apart-2d": (partial(_grid, "apart-2d", width=1.0), 15),
    "overlap-2d": (partial(_grid, "overlap-2d", width=3.5), 15),
    "blobs-16d": (_blobs, 20),
}


def compared(
    dataset: str,
    split: str,
    seed: int,
    n_clients: int = 1000,
    rows_per_client: int = 30,
    n_clusters: str | None = None,
) -> Row:
    """Return what regions lose with several numbers of centers, or which numbers they find.

    Parameters
    ----------
    n_clusters : None is as many as the data have; "auto" finds them.
    """
    draw, true_k = SETS[dataset]
    data, (kind, _, alpha) = draw(n_clients * rows_per_client), split.rstrip(")").partition("(")
    clients = partition.split(
        kind, data.y, n_clients, rng=seed, alpha=float(alpha or 1), min_size=5
    )
    run = _Run(Jigsaw(n_clusters or true_k, n_init=N_INIT, random_state=seed), data, clients)
    return run.found() if n_clusters else run.losses(true_k)


class _Run:
    """The summaries of all clients, aggregated at once and by regions."""

    def __init__(self, method: Jigsaw, data: Dataset, clients: Ints) -> None:
        self.method, self.data, self.clients = method, data, clients
        self.broadcast = Broadcast(0, int(method.random_state))
        self.summaries = [
            Client(f"{i:04d}", data.X[clients == i], method, NO_GUARD).answer(self.broadcast)
            for i in range(clients.max() + 1)
        ]

    def losses(self, k: int) -> Row:
        flat = self._objective(self._aggregate(self.summaries).centers)
        found = {}
        for grouping in GROUPINGS:
            for factor in FACTORS:
                parts = self._regions(grouping, factor * k)
                high = self._objective(self._aggregate(parts).centers)
                found[f"loss_{grouping}_{factor}"] = round(100 * (high / flat - 1), 5)
        return found

    def found(self) -> Row:
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
        merged = sum(summary.merged for summary in own)
        made = self.method.merge(own, n_centers)
        return replace(made, client=f"region {number}", merged=merged)
