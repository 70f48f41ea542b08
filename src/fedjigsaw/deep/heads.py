"""Several heads in one message, and at work.

Centers of all heads follow one another; the tensor ``head`` tells whose each is, and tensors named
``inner.0.*`` are those of the clusterer of head 0.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from fedjigsaw._threads import one_thread, one_thread_inside
from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.messages import Broadcast, Model, Summary, Tensors

OPTIONAL = ("radii", "counts", "sse")
_ORDERING = Lock()  # held while heads are clustered on a GPU
T = TypeVar("T")


def for_each(
    work: Callable[[int, np.random.Generator], T],
    n_heads: int,
    rng: np.random.Generator,
    *,
    sequential: bool,
) -> list[T]:
    """Do the same for all heads, each with a random stream of its own.

    On a CPU, heads run in parallel. On a GPU, concurrent launches from several threads were slower:
    with `sequential`, heads run one after the other, and so do the lanes that call this function.
    """

    def alone(head: int, own: np.random.Generator) -> T:
        with one_thread_inside():
            return work(head, own)

    streams = list(enumerate(rng.spawn(n_heads)))
    if sequential:
        with _ORDERING, one_thread():
            return [work(head, own) for head, own in streams]
    with one_thread(), ThreadPoolExecutor(n_heads) as pool:
        running = [pool.submit(alone, head, own) for head, own in streams]
        return [result.result() for result in running]


def named(tensors: Tensors, prefix: str) -> dict[str, np.ndarray]:
    """The tensors below a prefix, without it."""
    start = prefix + "."
    return {n.removeprefix(start): a for n, a in tensors.items() if n.startswith(start)}


def pack(parts: Sequence[Summary]) -> Summary:
    """The summaries of all heads as one: centers one after the other, and whose each is."""
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
    """The summary of each head."""
    heads = _heads(summary.tensors, len(summary.centers), n_heads, f"client {summary.client!r}")
    parts = []
    for h in range(n_heads):
        own = heads == h
        fields = {n: getattr(summary, n) for n in OPTIONAL}
        fields = {n: None if v is None else v[own] for n, v in fields.items()}
        tensors = named(summary.tensors, f"inner.{h}")
        parts.append(replace(summary, centers=summary.centers[own], tensors=tensors, **fields))
    return parts


def pack_models(models: Sequence[Model]) -> tuple[Floats, dict[str, np.ndarray]]:
    """The models of all heads as one array of centers, and tensors."""
    tensors = {"head": np.repeat(np.arange(len(models)), [len(m.centers) for m in models])}
    tensors |= {f"inner.{h}.{n}": a for h, m in enumerate(models) for n, a in m.tensors.items()}
    return np.concatenate([model.centers for model in models]), tensors


def inner_broadcast(broadcast: Broadcast, turn: int, head: int) -> Broadcast:
    """What the clusterer of one head is told: its own round, and its own model so far."""
    if turn == 0 or broadcast.model is None:
        return Broadcast(turn, broadcast.seed)
    own = broadcast.model.tensors["head"] == head
    tensors = named(broadcast.model.tensors, f"inner.{head}")
    return Broadcast(turn, broadcast.seed, Model(broadcast.model.centers[own], tensors=tensors))


def _heads(tensors: Tensors, n_centers: int, n_heads: int, owner: str) -> np.ndarray:
    heads = tensors.get("head", np.zeros(0))
    if heads.shape != (n_centers,) or set(np.unique(heads)) != set(range(n_heads)):
        allowed = f"one number below {n_heads} per center, each in use"
        advice = "If a guard merged centers, use min_cluster_size of DeepFeCA instead."
        raise MessageError(invalid("heads", owner, allowed, f"shape {heads.shape}", advice))
    return heads
