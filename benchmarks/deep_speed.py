"""Measure how fast DeepFeCA trains, and which share of a round is clustering.

Prints one JSON line per variant, to be kept in results/deep-speed.jsonl. A variant is the batch
size x clients at a time, perhaps compiled: `128x1`, `32x10+compile`. Each variant runs in its own
process, so that a failure becomes a line with its error and the others go on. The images are noisy
patterns; speed does not depend on them. The first round warms up; of the others, the one of
median time is the result. With `--tiny` it runs on a CPU in a moment.
"""

import argparse
import json
import re
import subprocess
import sys
from typing import Any

import numpy as np

VARIANTS = ("128x1", "128x1+compile", "128x10", "32x1", "32x10", "32x10+compile")
TINY = {"images": 200, "clients": 2, "clusters": 5, "network": "small", "height": 8}
SHAPE = re.compile(r"(\d+)x(\d+)(\+compile)?")
KINDS = 150
Row = dict[str, Any]


def measure(variant: str, options: argparse.Namespace) -> Row:
    """Measure one variant, and return its row."""
    found = SHAPE.fullmatch(variant)
    if found is None:
        raise SystemExit(f"A variant is written like 128x1 or 32x10+compile; got {variant!r}.")
    import torch  # after the options are checked: it takes seconds

    from fedjigsaw.deep import DeepFeCA, Execution, Objective, Schedule
    from fedjigsaw.report.provenance import provenance

    deep = DeepFeCA(
        [options.clusters] * options.heads,
        clusterer="jigsaw",
        objective=Objective(network=options.network),
        schedule=Schedule(
            n_rounds=options.rounds, local_epochs=options.epochs, batch_size=int(found[1])
        ),
        execution=Execution(
            device=options.device, lanes=int(found[2]), compile=found[3] is not None
        ),
        random_state=0,
    )
    images = patterns(options.images, options.height)
    first, *others = (
        s.numbers for s in deep.train(images, clients=np.arange(len(images)) % options.clients)
    )
    names = ("views_per_second", "cluster_seconds", "train_seconds", "round_seconds")
    by_time = sorted(others, key=lambda numbers: numbers["round_seconds"])
    median = by_time[(len(others) - 1) // 2]
    row: Row = {
        "variant": variant,
        "device": "cpu",
        "torch": torch.__version__,
        "network": options.network,
        "n_images": options.images,
        "height": options.height,
        "n_clients": options.clients,
        "sizes": deep.sizes,
        "local_epochs": options.epochs,
        "rounds_measured": len(others),
        **{name: median[name] for name in names},
        "loss": others[-1]["loss"],
        "cluster_share": median["cluster_seconds"] / median["round_seconds"],
        "prepare_seconds": first["round_seconds"] - median["round_seconds"],
        **provenance(),
    }
    if deep.execution.torch_device.type == "cuda":
        row |= {"device": torch.cuda.get_device_name(), "backend": "torch"}
        row["peak_gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
    return row


def patterns(n_images: int, height: int) -> np.ndarray:
    """Make images of bytes: a few patterns, with noise."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(192, size=(KINDS, 3, 4, 4), dtype=np.uint8)
    size = -(-height // 4)
    kinds = kinds.repeat(size, axis=2).repeat(size, axis=3)[:, :, :height, :height]
    noise = rng.integers(64, size=(n_images, *kinds.shape[1:]), dtype=np.uint8)
    return kinds[rng.integers(KINDS, size=n_images)] + noise


def in_its_own_process(variant: str, words: list[str], limit: float) -> Row:
    """Measure a variant in its own process; return its row, or one with the error."""
    command = [sys.executable, __file__, *words, "--here", variant]
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
    parser.add_argument("variants", nargs="*", default=VARIANTS, help="such as 32x10+compile")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--clusters", type=int, default=300, help="of each head")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--height", type=int, default=32, help="and width of the images")
    parser.add_argument("--epochs", type=int, default=5, help="of a client in a round")
    parser.add_argument("--rounds", type=int, default=2, help="at least 2, all but the first count")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each variant")
    parser.add_argument("--tiny", action="store_true", help="small enough for a CPU")
    parser.add_argument("--here", metavar="VARIANT", help="only this one, in this process")
    if "--tiny" in words:
        parser.set_defaults(**TINY)
    options = parser.parse_args(words)
    if options.rounds < 2:
        parser.error("--rounds must be at least 2: the first one is not measured")
    if options.here:
        print(json.dumps(measure(options.here, options)))
        return
    for variant in options.variants:
        print(json.dumps(in_its_own_process(variant, words, options.limit)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
