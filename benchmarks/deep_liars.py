"""Measure what lying clients do to DeepFeCA, and what rules against them cost honest runs.

Prints one JSON line per run, to be kept in results/robust-average.jsonl: digits over ten clients by
Dirichlet(0.1) and a small network, each way to average, without liars and with three. Liars cluster
honestly, and lie about the weights that they trained. Measured are nearest neighbors on the test
images and the NMI of clusters and classes. It takes some minutes on a CPU; `--tiny` a moment.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedjigsaw import metrics
from fedjigsaw.deep import DeepFeCA, images
from fedjigsaw.deep.evaluate import neighbors
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.simulation import split_images, subset
from fedjigsaw.engine import Client, Reply, SerialEngine
from fedjigsaw.errors import ConspicuousSiteWarning
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.report.provenance import provenance

RULES = ("off", "mean", "trimmed", "median")
ALPHA, N_CLIENTS, N_LIARS = 0.1, 10, 3
Lie = Callable[[Summary, Model, np.random.Generator], Summary]


def changed(summary: Summary, change: Callable[[str, np.ndarray], np.ndarray]) -> Summary:
    """Change the weights of a summary, but not its batch-norm statistics."""
    tensors = {
        name: change(name, array).astype(np.float32)
        if name.startswith("weights.") and "running" not in name
        else array
        for name, array in summary.tensors.items()
    }
    return replace(summary, tensors=tensors)


def claims_all(summary: Summary, model: Model, rng: np.random.Generator) -> Summary:
    """Send random weights, and claim 2^40 images."""
    noise = changed(summary, lambda _, array: rng.normal(0, array.std() + 0.01, array.shape))
    return replace(noise, n_samples=2**40)


def moves_far(summary: Summary, model: Model, rng: np.random.Generator) -> Summary:
    """Send the update in the other direction, and 1000 times as long."""
    return changed(summary, lambda n, array: model.tensors[n] - 1000 * (array - model.tensors[n]))


def turns_back(summary: Summary, model: Model, rng: np.random.Generator) -> Summary:
    """Send the update in the other direction, and twice as long: within all limits."""
    return changed(summary, lambda n, array: model.tensors[n] - 2 * (array - model.tensors[n]))


LIES: dict[str, Lie | None] = {
    "honest": None,
    "random weights, 2^40 images": claims_all,
    "update x -1000": moves_far,
    "update x -2": turns_back,
}


class LyingEngine(SerialEngine):
    """Clients of this process, of which the first few lie about their weights."""

    def __init__(self, clients: Sequence[Client], lie: Lie, n_liars: int) -> None:
        super().__init__(clients)
        self.lie, self.liars = lie, {client.id for client in clients[:n_liars]}

    def gather(self, broadcast: Broadcast) -> list[Reply]:
        rng = np.random.default_rng(broadcast.round)
        return [self._told(reply, broadcast, rng) for reply in super().gather(broadcast)]

    def _told(self, reply: Reply, broadcast: Broadcast, rng: np.random.Generator) -> Reply:
        trained = isinstance(reply, Summary) and "report.loss" in reply.tensors
        if not trained or reply.client not in self.liars:
            return reply
        assert isinstance(reply, Summary)
        assert broadcast.model is not None
        return self.lie(reply, broadcast.model, rng)


def knn(deep: DeepFeCA, data: ImageSet) -> float:
    """Return the accuracy of nearest neighbors on the test images."""
    assert data.train_labels is not None
    assert data.test_labels is not None
    parts = (deep.transform(data.train), data.train_labels)
    cpu = torch.device("cpu")
    return neighbors(*parts, deep.transform(data.test), data.test_labels, device=cpu)


def measure(rule: str, name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train with one rule and one lie, and return the row."""
    data = subset(images.load("digits"), options.images, seed=seed)
    clients, _ = split_images(data, "dirichlet", N_CLIENTS, seed=seed, alpha=ALPHA)
    settings = {
        "n_clusters": 20, "clusterer": "jigsaw", "network": "small", "n_rounds": options.rounds,
        "local_epochs": 1, "batch_size": 16, "flip": 0.0, "crop": 0.5, "device": "cpu",
        "random_state": seed, "robust_average": rule,
    }  # fmt: skip
    deep = DeepFeCA.from_settings(settings)
    lie = LIES[name]
    row: dict[str, Any] = {
        "rule": rule, "lie": name, "seed": seed, "n_clients": N_CLIENTS, "alpha": ALPHA,
        "n_liars": 0 if lie is None else N_LIARS, "n_rounds": options.rounds,
        "n_images": len(data.train),
    }  # fmt: skip
    deep.load_model(initial_model("small", "batch", seed))
    row["untrained_knn"] = knn(deep, data)
    engine = None if lie is None else lambda found: LyingEngine(found, lie, N_LIARS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            deep.fit(data.train, clients=clients, engine=engine)
            row["knn_accuracy"] = knn(deep, data)
            row["nmi"] = metrics.nmi(deep.predict(data.train), data.train_labels)
        except Exception as error:  # without limits, a network may diverge
            row["error"] = f"{type(error).__name__}: {error}"[:200]
    told = {str(w.message) for w in caught if issubclass(w.category, ConspicuousSiteWarning)}
    row["conspicuous"] = sorted({text.split("'")[1] for text in told})
    return row | provenance()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if options.tiny:
        options.seeds, options.rounds, options.images = 1, 1, 200
    torch.set_num_threads(1)
    for seed in range(options.seeds):
        for name in LIES:
            for rule in RULES:
                print(json.dumps(measure(rule, name, seed, options)), flush=True)


if __name__ == "__main__":
    main()
