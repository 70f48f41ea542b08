"""The server's half of DeepFeCA: aggregating what clients send in each communication step.

Weights are tensors named ``weights.*``. The server adds ``server.velocity.*`` (its momentum, which
is not sent to clients) and ``teacher.*`` (the moving average of the weights).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from fedjigsaw._typing import Floats
from fedjigsaw.deep import heads
from fedjigsaw.deep.heads import named
from fedjigsaw.deep.image_size import check_size, common_size
from fedjigsaw.deep.network import STATISTICS, initial_model
from fedjigsaw.deep.parameters import DeepParameters
from fedjigsaw.deep.schedule import Step
from fedjigsaw.errors import MessageError
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary, Tensors
from fedjigsaw.methods._fitted import site_tensors
from fedjigsaw.robust import support

LOSSES = ("report.loss", "report.validation_loss")
SAME = 1e-6  # unit centers that are closer than this are duplicates
LONGEST = 1.001  # of a mean of unit vectors, with room for rounding
LARGEST = 1e6  # weight that a network can train on; products of larger ones may be infinite
NEAR = 1e-9  # squared distance from which on rounding cannot hide that


# ------------------------------------------------------------------------------------------- steps


def aggregate(
    method: DeepParameters,
    summaries: Sequence[Summary],
    broadcast: Broadcast,
    rng: np.random.Generator,
) -> tuple[Floats, Tensors]:
    """Do one communication step at the server: centers and tensors of the next model."""
    model = _model_before(method, broadcast)
    step = method.plan()[broadcast.round]
    size = common_size(summaries) if broadcast.round == 0 else {}
    if step.kind == "cluster":
        return new_centers(method, summaries, broadcast, model, step, rng)
    if step.kind == "calibrate":
        found = pooled_statistics(summaries) | size
    else:
        found = average(summaries, method.execution.torch_device)
        found = with_momentum(model, found, method.schedule.server_momentum)
        found |= teacher(model, found, method.schedule.ema)
        found |= report(summaries)
        if broadcast.round == len(method.plan()) - 1:
            found |= site_reports(summaries)  # for people: no client receives this model
    return model.centers, {**model.tensors, **found}


def check_answer(method: DeepParameters, summary: Summary, broadcast: Broadcast) -> None:
    """Raise a MessageError if a client's summary is not what the step asked for."""
    step = method.plan()[broadcast.round]
    model = _model_before(method, broadcast)
    if broadcast.round == 0:
        check_size(summary.tensors, f"client {summary.client!r}")
    if step.kind == "cluster":
        parts = heads.unpack(summary, len(method.sizes))
        check_centers(summary, model.centers.shape[1])
        for head, part in enumerate(parts):
            inner = heads.inner_broadcast(broadcast, step.inner_round, head)
            method.make_clusterer(head).check_answer(part, inner)
        return
    check_weights(summary, model, statistics_only=step.kind == "calibrate")
    if step.kind == "train":
        check_report(summary, model, validates=bool(method.schedule.validation_share))


def new_centers(
    method: DeepParameters,
    summaries: Sequence[Summary],
    broadcast: Broadcast,
    model: Model,
    step: Step,
    rng: np.random.Generator,
) -> tuple[Floats, Tensors]:
    """Aggregate by the clusterer, for every head."""
    by_client = [heads.unpack(summary, len(method.sizes)) for summary in summaries]

    def aggregate_head(head: int, own: np.random.Generator) -> Model:
        parts = [one[head] for one in by_client]
        inner = heads.inner_broadcast(broadcast, step.inner_round, head)
        clusterer = method.make_clusterer(head)
        found = support.aggregate(clusterer, parts, inner, own)
        if not method.objective.reseed or step.inner_round < clusterer.total_rounds - 1:
            return found
        received = np.concatenate([part.centers for part in parts])
        return fill_up(found, received, method.sizes[head])

    models = heads.for_each(aggregate_head, len(method.sizes), rng)
    centers, tensors = heads.pack_models(models)
    kept = {n: a for n, a in model.tensors.items() if not n.startswith(("inner.", "report."))}
    return centers, {**kept, **tensors}


def check_centers(summary: Summary, width: int) -> None:
    """Raise a MessageError unless a client's centers can be means of unit projections."""
    with np.errstate(over="ignore"):
        longest = np.linalg.norm(summary.centers, axis=1).max(initial=0.0)
    if summary.centers.shape[1] != width or longest > LONGEST:
        raise MessageError(
            f"Client {summary.client!r} sent centers of shape {summary.centers.shape} and length "
            f"{longest:.3g}: means of unit vectors of {width} numbers are no longer than 1."
        )


def _model_before(method: DeepParameters, broadcast: Broadcast) -> Model:
    return broadcast.model or initial_model(method.objective.network, broadcast.seed)


# ----------------------------------------------------------------------------------------- centers


def fill_up(model: Model, candidates: Floats, k: int) -> Model:
    """Replace duplicate centers and add missing ones, up to k, by the candidates farthest away.

    Centers of the same direction are duplicates. There are fewer than k centers if there are not
    enough different candidates.

    Examples
    --------
    >>> twice = Model([[1.0, 0.0], [2.0, 0.0]])
    >>> fill_up(twice, np.array([[1.0, 0.0], [0.0, 3.0], [0.6, 0.8]]), 2).centers.tolist()
    [[1.0, 0.0], [0.0, 3.0]]
    """
    unit = _unit(model.centers)
    if len(unit) >= k and _are_apart(unit):
        return model
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


def _are_apart(unit: Floats) -> bool:
    """Tell whether no two centers are near duplicates, by a product of matrices: it is quick."""
    norms = np.einsum("ij,ij->i", unit, unit)
    squared = norms[:, None] + norms - 2 * (unit @ unit.T)
    np.fill_diagonal(squared, np.inf)
    return bool(squared.min() > NEAR)


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


# ----------------------------------------------------------------------------------------- weights


def check_weights(summary: Summary, model: Model, *, statistics_only: bool) -> None:
    """Raise unless a client sent the model's weights: same names and shapes, float32, not huge."""
    wanted = {n: a.shape for n, a in _weights(model.tensors).items()}
    if statistics_only:
        wanted = {n: shape for n, shape in wanted.items() if n.endswith(STATISTICS)}
    sent = _weights(summary.tensors)
    if {n: a.shape for n, a in sent.items()} != wanted:
        what = "batch-norm statistics" if statistics_only else "weights"
        raise MessageError(
            f"Client {summary.client!r} sent {len(sent)} tensors that do not match the model's "
            f"{len(wanted)} {what} by name and shape."
        )
    for name, array in sent.items():
        if array.dtype != np.float32:
            raise MessageError(
                f"Client {summary.client!r} sent {name} as {array.dtype}, not float32."
            )
        if not np.isfinite(array).all():
            raise MessageError(f"Client {summary.client!r} sent NaN or infinity in {name}.")
        most = LARGEST**2 if name.endswith("running_var") else LARGEST
        if (np.abs(array) > most).any():
            raise MessageError(f"Client {summary.client!r} sent numbers beyond {most:g} in {name}.")
        if name.endswith("running_var") and (array < 0).any():
            raise MessageError(f"Client {summary.client!r} sent a negative variance in {name}.")


def check_report(summary: Summary, model: Model, *, validates: bool = False) -> None:
    """Raise unless a client reported loss, images at each center and mean projection.

    Parameters
    ----------
    validates : bool
        Whether it must report its validation loss as well.
    """
    n_centers, width = model.centers.shape
    wanted: dict[str, tuple[tuple[int, ...], str]] = {
        "loss": ((), "f"), "sizes": ((n_centers,), "i"), "mean_projection": ((width,), "f")
    }  # fmt: skip
    wanted |= {"validation_loss": ((), "f")} if validates else {}
    for name, (shape, kind) in wanted.items():
        found = summary.tensors.get(f"report.{name}")
        if found is None or found.shape != shape or found.dtype.kind != kind:
            got = "nothing" if found is None else f"{found.dtype} of shape {found.shape}"
            raise MessageError(
                f"Client {summary.client!r} must report {name} of shape {shape}; got {got}."
            )
        if not np.isfinite(found).all() or (kind == "i" and (found < 0).any()):
            raise MessageError(
                f"Client {summary.client!r} reported {name} that is negative, NaN or infinite."
            )
        if kind == "i" and (found > summary.n_samples).any():
            raise MessageError(
                f"Client {summary.client!r} reported a cluster of more images than it has."
            )
    if np.linalg.norm(summary.tensors["report.mean_projection"].astype(np.float64)) > LONGEST:
        raise MessageError(f"Client {summary.client!r} reported a mean of projections beyond 1.")


def average(summaries: Sequence[Summary], device: torch.device) -> dict[str, np.ndarray]:
    """Average the clients' weights and statistics, weighted by their numbers of images (FedAvg)."""
    total = sum(summary.n_samples for summary in summaries)
    sums: dict[str, torch.Tensor] = {}
    for summary in summaries:
        for name, array in _weights(summary.tensors).items():
            part = torch.from_numpy(array).to(device).double() * (summary.n_samples / total)
            sums[name] = sums[name] + part if name in sums else part
    return {name: value.float().cpu().numpy() for name, value in sums.items()}


def pooled_statistics(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    r"""Compute mean and variance over all images from those of the clients, exactly.

    :math:`\sigma^2 = \sum_m w_m (\sigma_m^2 + \mu_m^2) - \mu^2`, where :math:`w_m` is client m's
    share of the images.
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
    """Add server momentum to the averaged weights (FedAvgM); statistics are only averaged."""
    result = dict(averaged)
    for name, target in averaged.items() if momentum else ():
        if name.endswith(STATISTICS):
            continue
        velocity = target - model.tensors[name]
        before = model.tensors.get(f"server.velocity.{name}")
        if before is not None:
            velocity = velocity + np.float32(momentum) * before
        result[f"server.velocity.{name}"] = velocity
        result[name] = model.tensors[name] + velocity
    return result


def teacher(model: Model, found: Mapping[str, np.ndarray], keep: float) -> dict[str, np.ndarray]:
    """Update the teacher weights, an exponential moving average; no teacher if `keep` is 0."""
    if not keep:
        return {}
    updated = {}
    for name, new in named(found, "weights").items():
        old = model.tensors.get(f"teacher.{name}", model.tensors[f"weights.{name}"])
        mixed = np.float32(keep) * old + np.float32(1 - keep) * new
        updated[f"teacher.{name}"] = mixed
    return updated


def report(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    """Compute mean losses, images per center, and the spread of projections (0 means collapsed)."""
    shares = np.array([summary.n_samples for summary in summaries], dtype=np.float64)
    shares /= shares.sum()
    names = [n for n in LOSSES if all(n in summary.tensors for summary in summaries)]
    losses = {n: np.array([float(s.tensors[n]) for s in summaries]) for n in names}
    sizes = np.stack([summary.tensors["report.sizes"] for summary in summaries]).sum(axis=0)
    mean = shares @ np.stack([summary.tensors["report.mean_projection"] for summary in summaries])
    return {
        **{name: np.array(shares @ values) for name, values in losses.items()},
        "report.sizes": sizes,
        "report.spread": np.array(np.sqrt(max(0.0, 1 - float(mean @ mean)))),
    }


def site_reports(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    """Return what a model keeps about each client: its images, and those at each center."""
    table = np.stack([summary.tensors["report.sizes"] for summary in summaries])
    return site_tensors([summary.n_samples for summary in summaries], table.astype(np.float64))


def _weights(tensors: Tensors) -> dict[str, np.ndarray]:
    return {name: array for name, array in tensors.items() if name.startswith("weights.")}
