"""What the server of DeepFeCA does with summaries, and how several heads share one message.

Weights travel as tensors named ``weights.*``; ``velocity.*`` and ``teacher.*`` are the server's own
momentum and slow average; ``head`` tells which head each center belongs to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from fedjigsaw._inputs import Floats
from fedjigsaw.deep.network import as_tensor, build
from fedjigsaw.errors import MessageError, complaint
from fedjigsaw.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary, Tensors

SAME = 1e-6  # centers of length one that are closer than this are one
OPTIONAL = ("radii", "counts", "sse")


@lru_cache(maxsize=1)
def initial(network: str, norm: str, seed: int) -> Model:
    """The model before any training; it follows from the seed alone, so nobody has to send it."""
    made = build(network, 32, norm=norm, seed=seed % 2**63)  # the weights are those of any height
    state = {n: t for n, t in made.state_dict().items() if t.is_floating_point()}
    tensors = {f"weights.{name}": tensor.numpy() for name, tensor in state.items()}
    return Model(np.zeros((1, made.n_projections)), tensors=tensors)


def named(tensors: Tensors, prefix: str) -> dict[str, np.ndarray]:
    """The tensors below a prefix, without it."""
    start = prefix + "."
    return {n.removeprefix(start): a for n, a in tensors.items() if n.startswith(start)}


# ------------------------------------------------------------------------------ heads in a message


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
        raise MessageError(complaint("heads", owner, allowed, f"shape {heads.shape}", advice))
    return heads


# ----------------------------------------------------------------------------------------- centers


def fill_up(model: Model, candidates: Floats, k: int) -> Model:
    """A model with k different centers: the missing ones from the clients', farthest first.

    Two centers of one direction are one. There may be fewer than k if the candidates hold no more.

    Examples
    --------
    >>> twice = Model([[1.0, 0.0], [2.0, 0.0]])
    >>> fill_up(twice, np.array([[1.0, 0.0], [0.0, 3.0], [0.6, 0.8]]), 2).centers.tolist()
    [[1.0, 0.0], [0.0, 3.0]]
    """
    unit = _unit(model.centers)
    gaps = pairwise_distances(unit, unit)
    gaps[np.triu_indices(len(unit))] = np.inf
    kept = np.flatnonzero(gaps.min(axis=1) > SAME)
    if len(kept) >= min(k, len(model.centers)) == k:
        return model
    centers, others = [model.centers[kept]], _unit(candidates)
    distances = pairwise_distances(others, unit[kept]).min(axis=1)
    for _ in range(k - len(kept)):
        i = int(distances.argmax())
        if distances[i] <= SAME:
            break
        centers.append(candidates[i : i + 1])
        distances = np.minimum(distances, pairwise_distances(others, others[i : i + 1])[:, 0])
    return replace(model, centers=np.concatenate(centers))


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


# ----------------------------------------------------------------------------------------- weights


def average(summaries: Sequence[Summary], device: torch.device) -> dict[str, np.ndarray]:
    """FedAvg: the mean of the clients' weights and statistics, weighted by their images."""
    total = sum(summary.n_samples for summary in summaries)
    sums: dict[str, torch.Tensor] = {}
    for summary in summaries:
        weights = _weights(summary, summaries[0])
        for name, array in weights.items():
            part = as_tensor(array).to(device).double() * (summary.n_samples / total)
            sums[name] = sums[name] + part if name in sums else part
    return {name: value.float().cpu().numpy() for name, value in sums.items()}


def pooled_statistics(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    r"""Mean and variance over all images from those of the clients: exact, not just averaged.

    :math:`\sigma^2 = \sum_m w_m (\sigma_m^2 + \mu_m^2) - \mu^2` with :math:`w_m` the share of the
    images that client m has.
    """
    total = sum(summary.n_samples for summary in summaries)
    pooled: dict[str, np.ndarray] = {}
    for name in (n for n in _weights(summaries[0], summaries[0]) if n.endswith("running_mean")):
        spread = name.replace("running_mean", "running_var")
        mean, square = np.zeros(1), np.zeros(1)
        for summary in summaries:
            weights = _weights(summary, summaries[0])
            m, v = (weights[n].astype(np.float64) for n in (name, spread))
            mean = mean + m * (summary.n_samples / total)
            square = square + (v + m**2) * (summary.n_samples / total)
        pooled[name] = mean.astype(np.float32)
        pooled[spread] = np.maximum(square - mean**2, 0).astype(np.float32)
    return pooled


def with_momentum(
    model: Model, averaged: Mapping[str, np.ndarray], momentum: float
) -> dict[str, np.ndarray]:
    """FedAvgM: a step towards the average, and some of the last step; statistics are averaged."""
    result = dict(averaged)
    for name, target in averaged.items() if momentum else ():
        if name.endswith(("running_mean", "running_var")):
            continue
        velocity = target - model.tensors[name]
        before = model.tensors.get(f"velocity.{name}")
        if before is not None:
            velocity = velocity + np.float32(momentum) * before
        result[f"velocity.{name}"] = velocity
        result[name] = model.tensors[name] + velocity
    return result


def slow_average(
    model: Model, found: Mapping[str, np.ndarray], keep: float
) -> dict[str, np.ndarray]:
    """The teacher: a part of what it was, the rest the new weights; none if `keep` is 0."""
    if not keep:
        return {}
    teacher = {}
    for name, new in named(found, "weights").items():
        old = model.tensors.get(f"teacher.{name}", model.tensors[f"weights.{name}"])
        mixed = np.float32(keep) * old + np.float32(1 - keep) * new
        teacher[f"teacher.{name}"] = mixed
    return teacher


def report(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    """Mean loss, images per center, and how far projections spread: 1 all over, 0 collapsed."""
    shares = np.array([summary.n_samples for summary in summaries], dtype=np.float64)
    shares /= shares.sum()
    try:
        losses = np.array([float(summary.tensors["report.loss"]) for summary in summaries])
        sizes = np.stack([summary.tensors["report.sizes"] for summary in summaries]).sum(axis=0)
    except (KeyError, TypeError, ValueError) as error:
        allowed = "a loss, and a size per center"
        raise MessageError(complaint("report", "a client", allowed, "others")) from error
    mean = shares @ np.concatenate([summary.centers for summary in summaries])
    return {
        "report.loss": np.array(shares @ losses),
        "report.sizes": sizes,
        "report.spread": np.array(np.sqrt(max(0.0, 1 - float(mean @ mean)))),
    }


def _weights(summary: Summary, first: Summary) -> dict[str, np.ndarray]:
    """The weights that a client sent; all must send the same ones, and finite numbers."""
    weights = {n: a for n, a in summary.tensors.items() if n.startswith("weights.")}
    shapes = {n: a.shape for n, a in first.tensors.items() if n.startswith("weights.")}
    owner = f"client {summary.client!r}"
    if {n: a.shape for n, a in weights.items()} != shapes or not weights:
        allowed = f"those of client {first.client!r}, by name and shape"
        raise MessageError(complaint("weights", owner, allowed, f"{len(weights)} tensors"))
    for name, array in weights.items():
        if not np.isfinite(array).all():
            advice = "Its training diverged: lower the learning rate."
            raise MessageError(complaint(name, owner, "finite", "NaN or infinity", advice))
    return weights
