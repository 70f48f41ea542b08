"""Measure what centers of projections are worth under differential privacy.

Prints one JSON line per run, to be kept in results/private-projections.jsonl. Features of the
50,000 training images of CIFAR-10 under a public network (128 numbers each) stand for projections:
they are scaled to length 1, split evenly over ten clients, and clustered once by private Jigsaw. A
run of DeepFeCA releases centers in every round and for every head, so each release has its share of
the budget. It takes some minutes on a CPU; `--tiny` takes digits instead, and a moment.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np

from fedjigsaw import Jigsaw, Privacy, datasets, metrics, partition
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.privacy.accounting import epsilon_of, multiplier_for
from fedjigsaw.report.provenance import provenance

DELTA, N_CLIENTS = 1e-6, 10
# number of clusters, and releases: one clustering, ten rounds, and the recipes "paper" and "best"
RUNS = ((10, 1), (10, 10), (10, 150), (300, 180))
QUICK: dict[str, Any] = {
    "n_init": 1,
    "max_iter": 20,
    "patience": 0,
    "assign": "nearest",
}  # as DeepFeCA clusters


def share(epsilon: float, releases: int) -> float:
    """Return the epsilon of one of several equal releases that have `epsilon` together."""
    return epsilon_of(multiplier_for(epsilon, DELTA) * releases**0.5, DELTA)


def load(tiny: bool) -> tuple[Floats, Ints, Ints]:
    """Return rows of length 1, their classes, and their clients."""
    data = datasets.load("digits" if tiny else "cifar10-features")
    rows = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    return rows, data.y, partition.split("iid", data.y, N_CLIENTS, rng=0)


def measure(k: int, releases: int, seed: int, tiny: bool) -> list[dict[str, Any]]:
    """Cluster without privacy, and under two budgets; return the rows."""
    X, y, clients = load(tiny)
    plain, rows = None, []
    for epsilon in (None, 8.0, 1.0):
        privacy = None
        if epsilon is not None:
            bounds = (-1, 1)
            privacy = Privacy(
                share(epsilon, releases), DELTA, bounds, cells="own", insecure_seed=seed
            )
        found = Jigsaw(k, random_state=seed, **QUICK).fit(X, clients=clients, privacy=privacy)
        plain = plain or found
        rows.append(
            {
                "k": k, "releases": releases, "epsilon": epsilon, "seed": seed,
                "n_images": len(X), "n_clients": N_CLIENTS, "n_found": found.n_clusters_,
                "ratio": found.inertia_ / plain.inertia_,
                "agreement": metrics.ari(found.labels_, plain.labels_),
                "nmi": metrics.nmi(y, found.labels_),
                "purity": metrics.purity(labels_true=y, labels_pred=found.labels_),
            }
            | provenance()
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of fewer clusters and noisy sites: the rows tell
    for seed in range(options.seeds):
        for k, releases in RUNS[:1] if options.tiny else RUNS:
            for row in measure(k, releases, seed, options.tiny):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
