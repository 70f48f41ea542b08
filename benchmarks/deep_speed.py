"""Where a round of DeepFeCA spends its time: `python benchmarks/deep_speed.py`, for a GPU.

One JSON line per variant: a step of training captured as it is, or compiled before. Each variant
runs in a process of its own, so that one that fails is a line with its error, and the other goes
on. The images are noise, and the projections that are clustered are drawn around random directions:
speed does not depend on what they show. With `--tiny` it runs on a CPU in a moment.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fedjigsaw._inputs import stream
from fedjigsaw.deep import DeepFeCA
from fedjigsaw.deep.deepcluster import Prototypes
from fedjigsaw.deep.parameters import Step
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.threads import one_thread

VARIANTS = {"captured": False, "captured, compiled": True}  # whether to compile
TINY = {"images": 200, "clients": 2, "clusters": 5, "network": "small", "height": 8, "batch": 20}
CLUSTER = Step(0, "cluster")
Row = dict[str, Any]


def measure(options: argparse.Namespace) -> Row:
    """The row of one variant."""
    deep = DeepFeCA(
        [options.clusters] * options.heads,
        clusterer="jigsaw",
        network=options.network,
        batch_size=options.batch,
        local_epochs=options.epochs,
        device=options.device,
        random_state=0,
        compile=VARIANTS[options.variant],
    )
    device = deep.torch_device
    generator = torch.Generator(device).manual_seed(0)
    shape = (options.images // options.clients, 3, options.height, options.height)
    images = torch.randint(256, shape, dtype=torch.uint8, device=device, generator=generator)
    row: Row = {
        "variant": options.variant,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "network": options.network,
        "n_images": options.images,
        "n_clients": options.clients,
        "sizes": deep.sizes,
    }
    row |= _clustering(deep, images, options.clients, generator)
    row |= _training(deep, images)
    n_views = deep._count_views([len(images)] * options.clients)
    row["round_seconds"] = row["cluster_seconds"] + n_views / row["views_per_second"]
    row["cluster_share"] = row["cluster_seconds"] / row["round_seconds"]
    if device.type == "cuda":
        row["peak_gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
    return row


def _clustering(deep: DeepFeCA, images: Tensor, n_clients: int, generator: torch.Generator) -> Row:
    """Seconds of each part of the clustering step, for all clients; the second of two turns."""
    trainer, model = deep._prepare(images.shape[1:]), deep._initial(0)
    broadcast = Broadcast(0, 0, model)
    width = trainer.network.n_projections
    kinds = torch.randn(150, width, device=generator.device, generator=generator)

    def projections() -> Tensor:
        some = torch.randint(len(kinds), (len(images),), device=kinds.device, generator=generator)
        noise = torch.randn(len(images), width, device=kinds.device, generator=generator)
        return normalize(kinds[some] + noise, dim=1)

    clients = [projections() for _ in range(n_clients)]
    summaries: list[Summary] = []

    def look() -> None:
        trainer.use(model, "weights")
        for m in range(n_clients):
            trainer.project(images, m)

    def summarize() -> None:
        summaries[:] = [
            deep._cluster(z, broadcast, CLUSTER, stream(0, 0, str(m)))
            for m, z in enumerate(clients)
        ]

    def aggregate() -> Model:
        return deep._new_centers(summaries, broadcast, model, CLUSTER, stream(0, 0))

    parts = {"features": look, "local": summarize, "aggregate": aggregate}
    for work in parts.values():
        work()
    row: Row = {f"{name}_seconds": _seconds(work) for name, work in parts.items()}
    return {**row, "cluster_seconds": sum(row.values())}


def _training(deep: DeepFeCA, images: Tensor) -> Row:
    """Seconds until the first step is done, and views per second from then on."""
    trainer = deep._prepare(images.shape[1:])
    trainer.use(deep._initial(0), "weights")
    z = trainer.project(images, 0)
    prototypes = [Prototypes.of(z[:k], centered=True) for k in deep.sizes]
    labels = torch.stack([p.label(z) for p in prototypes])

    def train(n_images: int) -> float:
        return trainer.train(
            images[:n_images],
            labels[:, :n_images],
            prototypes,
            epochs=deep.local_epochs,
            rate=0.01,
            rng=np.random.default_rng(0),
        )

    prepare = _seconds(lambda: train(deep.batch_size))
    loss = train(len(images))
    seconds = min(_seconds(lambda: train(len(images))) for _ in range(2))
    views = deep._count_views([len(images)]) / seconds
    return {"prepare_seconds": prepare, "views_per_second": views, "loss": loss}


def _seconds(work: Callable[[], object]) -> float:
    _wait()
    started = perf_counter()
    work()
    _wait()
    return perf_counter() - started


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def in_its_own_process(variant: str, words: list[str], limit: float) -> Row:
    """The row of a variant, or what went wrong."""
    command = [sys.executable, __file__, *words, "--variant", variant]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"variant": variant, "error": f"not done after {limit:.0f} s"}
    if done.returncode:
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"variant": variant, "error": " | ".join(reason[-3:])[-500:]}
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--clusters", type=int, default=300, help="of each head")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--height", type=int, default=32, help="and width of the images")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5, help="of a client in a round")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=float, default=75.0, help="seconds for each variant")
    parser.add_argument("--tiny", action="store_true", help="small enough for a CPU")
    parser.add_argument("--variant", choices=VARIANTS, help="only this one, in this process")
    if "--tiny" in words:
        parser.set_defaults(**TINY)
    options = parser.parse_args(words)
    if options.variant:
        with one_thread():  # as clients and servers do
            print(json.dumps(measure(options)))
        return
    for variant in VARIANTS:
        print(json.dumps(in_its_own_process(variant, words, options.limit)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
