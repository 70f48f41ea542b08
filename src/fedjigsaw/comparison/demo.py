"""The demo: the methods of the paper on one generated data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedjigsaw import datasets, partition
from fedjigsaw._typing import Ints
from fedjigsaw.comparison.comparing import Track
from fedjigsaw.comparison.measures import fit_and_measure
from fedjigsaw.io.rows import Row
from fedjigsaw.methods import make
from fedjigsaw.report.provenance import provenance

if TYPE_CHECKING:
    from fedjigsaw.estimator import FederatedClusterer

# those of the paper, so that table and picture stay small
SHOWN = ("feca", "jigsaw", "kfed", "match", "fuzzy", "central")


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
    """Run the methods of the paper on 15 Gaussians, 2000 rows split by Dirichlet(0.3)."""
    data = datasets.gaussian_grid(2000)
    k = data.n_clusters
    clients = partition.dirichlet(data.y, 10, alpha=0.3, rng=seed, min_size=k)
    about = {"dataset": data.name, "n_clusters": k, "seed": seed, "n_clients": 10}
    fitted = {name: make(name, k, seed) for name in SHOWN}
    rows = []
    for name in track(SHOWN):
        numbers = fit_and_measure(fitted[name], data, clients)
        rows.append({"method": name, **about, **numbers, **provenance()})
    return Demo(data, clients, fitted, rows)
