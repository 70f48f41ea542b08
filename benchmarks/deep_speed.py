"""How fast DeepFeCA trains on a GPU, and which share of a round is clustering."""

from collections.abc import Iterator

import numpy as np

from measuring import Row, in_new_process

# batch size, clients at a time, whether the step is compiled, clusters of each head, epochs a round
VARIANTS = (
    (128, 1, False, 300, 5),
    (128, 10, False, 300, 5),
    (128, 10, True, 300, 5),
    (128, 10, True, 1000, 5),
    (32, 10, False, 300, 2),
    (32, 10, True, 300, 2),
)
KINDS = 150


def deep_speed() -> Iterator[Row]:
    """Measure each variant in a process of its own, on a GPU; without one there are no rows."""
    import torch

    if torch.cuda.is_available():
        for variant in VARIANTS:
            yield in_new_process(train, *variant)


def train(
    batch_size: int,
    lanes: int,
    compiled: bool,
    n_clusters: int,
    n_epochs: int,
    n_images: int = 50_000,
    n_clients: int = 10,
    network: str = "resnet18",
    height: int = 32,
    n_rounds: int = 4,
) -> Row:
    """Train on noisy patterns, on which speed does not depend.

    The first round warms up; of the others, the one of median time is the result.
    """
    import torch

    from fedjigsaw.deep import DeepFeCA, Execution, Objective, Schedule

    deep = DeepFeCA(
        [n_clusters] * 3,
        clusterer="jigsaw",
        objective=Objective(network=network),
        schedule=Schedule(n_rounds=n_rounds, local_epochs=n_epochs, batch_size=batch_size),
        execution=Execution(device="auto", lanes=lanes, compile=compiled),
        random_state=0,
    )
    images = patterns(n_images, height)
    first, *others = (
        s.numbers for s in deep.train(images, clients=np.arange(n_images) % n_clients)
    )
    median = sorted(others, key=lambda numbers: numbers["round_seconds"])[(len(others) - 1) // 2]
    names = ("views_per_second", "cluster_seconds", "train_seconds", "round_seconds")
    row: Row = {
        "variant": f"{batch_size}x{lanes}" + "+compile" * compiled,
        "device": "cpu",
        "sizes": deep.sizes,
        "local_epochs": n_epochs,
        "rounds_measured": len(others),
        **{name: median[name] for name in names},
        "cluster_share": median["cluster_seconds"] / median["round_seconds"],
        "prepare_seconds": first["round_seconds"] - median["round_seconds"],
    }
    if deep.execution.torch_device.type == "cuda":
        row["device"] = torch.cuda.get_device_name()
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
