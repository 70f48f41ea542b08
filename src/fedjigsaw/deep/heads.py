"""Several heads in one message, and computing for all of them.

Centers of all heads follow one another. The tensor ``head`` has the head of each center, and
tensors named ``inner.0.*`` belong to the clusterer of head 0.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Broadcast, Model, Summary, Tensors
from fedjigsaw.threads import one_thread, one_thread_inside

OPTIONAL = ("radii", "counts", "sse")
T = TypeVar("T")


def for_each(
    work: Callable[[int, np.random.Generator], T], n_heads: int, rng: np.random.Generator
) -> list[T]:
    """Call a function for every head, each with its own random stream, in parallel.

    On a GPU they take turns (:func:`fedjigsaw.kernels.torch.turn`).
    """

    def alone(head: int, own: np.random.Generator) -> T:
        with one_thread_inside():
            return work(head, own)

    with one_thread(), ThreadPoolExecutor(n_heads) as pool:
        running = [pool.submit(alone, head, own) for head, own in enumerate(rng.spawn(n_heads))]
        return [result.result() for result in running]


def named(tensors: Tensors, prefix: str) -> dict[str, np.ndarray]:
    """Return the tensors whose names begin with a prefix and a dot, without it."""
    start = prefix + "."
    return {n.removeprefix(start): a for n, a in tensors.items() if n.startswith(start)}


def pack(parts: Sequence[Summary]) -> Summary:
    """Join the summaries of all heads: their centers in order, and the head of each."""
    fields: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in OPTIONAL
        if all(getattr(part, name) is not None for part in parts)
    }
    tensors = {"head": np.repeat(np.arange(len(parts)), [len(p.centers) for p in parts])}
    tensors |= {f"inner.{h}.{n}": a for h, p in enumerate(parts) for n, a in p.tensors.items()}
    centers = np.concatenate([part.centers for part in parts])
    return Summary(parts[0].n_samples, centers, tensors=tensors, **fields)


def unpack(summary: Summary, n_heads: int) -> list[Summary]:
    """Split a summary into those of the heads."""
    check(summary, n_heads)
    parts = []
    for h in range(n_heads):
        own = summary.tensors["head"] == h
        fields = {n: getattr(summary, n) for n in OPTIONAL}
        fields = {n: None if v is None else v[own] for n, v in fields.items()}
        tensors = named(summary.tensors, f"inner.{h}")
        parts.append(replace(summary, centers=summary.centers[own], tensors=tensors, **fields))
    return parts


def check(summary: Summary, n_heads: int) -> None:
    """Raise a MessageError unless every center belongs to a head, and every head has one."""
    owners = summary.tensors.get("head", np.zeros(0))
    if owners.shape != (len(summary.centers),) or set(np.unique(owners)) != set(range(n_heads)):
        raise MessageError(
            f"Client {summary.client!r} must say for each of its {len(summary.centers)} centers to "
            f"which of {n_heads} heads it belongs; got an array of shape {owners.shape}. "
            f"If a guard merged centers, use min_cluster_size of DeepFeCA instead."
        )


def check_model(model: Model, sizes: Sequence[int], width: int) -> None:
    """Raise a MessageError unless a server's model has centers for every head, and not too many."""
    owners = model.tensors.get("head", np.zeros(0))
    shapes = owners.shape == (len(model.centers),) and model.centers.shape[1] == width
    known = owners.dtype.kind in "iu" and np.isin(owners, range(len(sizes))).all()
    found = np.bincount(owners, minlength=len(sizes)) if shapes and known else np.zeros(len(sizes))
    if (found < 1).any() or (found > sizes).any():
        raise MessageError(
            f"The model must have 1 to {max(sizes)} centers of {width} numbers for each of "
            f"{len(sizes)} heads, and say which are whose; got {model.centers.shape}."
        )


def pack_models(models: Sequence[Model]) -> tuple[Floats, dict[str, np.ndarray]]:
    """Join the models of all heads into one array of centers, and tensors."""
    tensors = {"head": np.repeat(np.arange(len(models)), [len(m.centers) for m in models])}
    tensors |= {f"inner.{h}.{n}": a for h, m in enumerate(models) for n, a in m.tensors.items()}
    return np.concatenate([model.centers for model in models]), tensors


def inner_broadcast(broadcast: Broadcast, inner_round: int, head: int) -> Broadcast:
    """Make the broadcast for the clusterer of one head: its own round, and its model so far."""
    if inner_round == 0 or broadcast.model is None:
        return replace(broadcast, round=inner_round, model=None)
    own = broadcast.model.tensors["head"] == head
    tensors = named(broadcast.model.tensors, f"inner.{head}")
    model = Model(broadcast.model.centers[own], tensors=tensors)
    return replace(broadcast, round=inner_round, model=model)
