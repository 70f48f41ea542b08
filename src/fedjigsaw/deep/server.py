"""What the server of DeepFeCA does with what clients send.

Weights travel as tensors named ``weights.*``; ``velocity.*`` and ``teacher.*`` are the server's own
momentum and slow average.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from fedjigsaw._typing import Floats
from fedjigsaw.deep.heads import named
from fedjigsaw.deep.network import build
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Model, Summary, Tensors

STATISTICS = ("running_mean", "running_var")  # how the names of batch-norm statistics end
SAME = 1e-6  # centers of length one that are closer than this are one


@lru_cache(maxsize=1)
def initial(network: str, norm: str, seed: int) -> Model:
    """The model before any training; it follows from the seed alone, so nobody has to send it."""
    made = build(network, 32, norm=norm, seed=seed % 2**63)  # the weights are those of any height
    state = {n: t for n, t in made.state_dict().items() if t.is_floating_point()}
    tensors = {f"weights.{name}": tensor.numpy() for name, tensor in state.items()}
    return Model(np.zeros((1, made.n_projections)), tensors=tensors)


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


def check_weights(summary: Summary, model: Model, *, statistics_only: bool) -> None:
    """A client must send those that the model has, by name and shape, and finite numbers."""
    owner = f"client {summary.client!r}"
    wanted = {n: a.shape for n, a in _weights(model.tensors).items()}
    if statistics_only:
        wanted = {n: shape for n, shape in wanted.items() if n.endswith(STATISTICS)}
    sent = _weights(summary.tensors)
    if {n: a.shape for n, a in sent.items()} != wanted:
        allowed = f"the {len(wanted)} of the model, by name and shape"
        raise MessageError(invalid("weights", owner, allowed, f"{len(sent)} tensors"))
    for name, array in sent.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            got = f"{array.dtype}, or no numbers"
            raise MessageError(invalid(name, owner, "finite numbers of float32", got))


def check_report(summary: Summary, n_centers: int) -> None:
    """A client must tell its loss, and the number of its images at each center."""
    loss = summary.tensors.get("report.loss", np.zeros(0))
    sizes = summary.tensors.get("report.sizes", np.zeros(0))
    good = loss.shape == () and np.isfinite(loss)
    if not good or sizes.shape != (n_centers,) or sizes.dtype.kind != "i" or (sizes < 0).any():
        allowed = f"a loss, and a size for each of {n_centers} centers"
        got = f"shapes {loss.shape} and {sizes.shape}"
        raise MessageError(invalid("report", f"client {summary.client!r}", allowed, got))


def average(summaries: Sequence[Summary], device: torch.device) -> dict[str, np.ndarray]:
    """FedAvg: the mean of the clients' weights and statistics, weighted by their images."""
    total = sum(summary.n_samples for summary in summaries)
    sums: dict[str, torch.Tensor] = {}
    for summary in summaries:
        for name, array in _weights(summary.tensors).items():
            part = torch.from_numpy(array).to(device).double() * (summary.n_samples / total)
            sums[name] = sums[name] + part if name in sums else part
    return {name: value.float().cpu().numpy() for name, value in sums.items()}


def pooled_statistics(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    r"""Mean and variance over all images from those of the clients: exact, not just averaged.

    :math:`\sigma^2 = \sum_m w_m (\sigma_m^2 + \mu_m^2) - \mu^2` with :math:`w_m` the share of the
    images that client m has.
    """
    total = sum(summary.n_samples for summary in summaries)
    pooled: dict[str, np.ndarray] = {}
    for name in (n for n in summaries[0].tensors if n.endswith("running_mean")):
        spread = name.replace("running_mean", "running_var")
        mean, square = np.zeros(1), np.zeros(1)
        for summary in summaries:
            m, v = (summary.tensors[n].astype(np.float64) for n in (name, spread))
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
        if name.endswith(STATISTICS):
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
    losses = np.array([float(summary.tensors["report.loss"]) for summary in summaries])
    sizes = np.stack([summary.tensors["report.sizes"] for summary in summaries]).sum(axis=0)
    mean = shares @ np.concatenate([summary.centers for summary in summaries])
    return {
        "report.loss": np.array(shares @ losses),
        "report.sizes": sizes,
        "report.spread": np.array(np.sqrt(max(0.0, 1 - float(mean @ mean)))),
    }


def _weights(tensors: Tensors) -> dict[str, np.ndarray]:
    return {name: array for name, array in tensors.items() if name.startswith("weights.")}
