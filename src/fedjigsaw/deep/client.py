"""Client side of DeepFeCA: one function per communication step."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.deep import heads
from fedjigsaw.deep.image_size import check_own_size, with_size
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.parameters import DeepParameters
from fedjigsaw.deep.schedule import Step
from fedjigsaw.deep.trainer import Trainer
from fedjigsaw.engine import summarizes_many
from fedjigsaw.errors import DivergedError, MessageError
from fedjigsaw.kernels.torch import nearest
from fedjigsaw.messages import FIELDS, Broadcast, Model, Summary
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.threads import one_thread_inside


def answer(
    method: DeepParameters,
    trainer: Trainer,
    images: Tensor,
    broadcast: Broadcast,
    rng: np.random.Generator,
) -> Summary:
    """Do one communication step on a client's images, which are on the device.

    The first answer tells the size of the images, too.
    """
    step = method.plan()[broadcast.round]
    model = broadcast.model or initial_model(method.objective.network, broadcast.seed)
    if broadcast.model is not None:
        check_own_size(model, images)
    trained, held = _parts(method, images)
    if step.kind == "calibrate":
        found = calibrate(trainer, images[trained] if len(held) else images, model, rng)
    else:
        trainer.use(model, projecting_weights(model))
        z = trainer.cached_projections(images, view_seed(broadcast.seed, step.round))
        if not torch.isfinite(z).all():
            raise MessageError("The server's network gives NaN or infinity for images of the site.")
        if step.kind == "train" or step.inner_round:  # others need no centers
            heads.check_model(model, method.sizes, trainer.network.n_projections)
        if step.kind == "train":
            return train(method, trainer, images, z, model, step, rng)
        found = cluster(method, z[trained], broadcast, step, rng)
    return with_size(found, images) if broadcast.round == 0 else found


def calibrate(trainer: Trainer, images: Tensor, model: Model, rng: np.random.Generator) -> Summary:
    """Measure the batch-norm statistics of the images under the global weights."""
    trainer.use(model, "weights")
    trainer.calibrate(images, int(rng.integers(2**31)))
    arrays = trainer.weights.save()
    tensors = {f"weights.{name}": arrays[name] for name in trainer.weights.statistics}
    return _message(trainer.network.n_projections, len(images), tensors)


def cluster(
    method: DeepParameters,
    z: Tensor,
    broadcast: Broadcast,
    step: Step,
    rng: np.random.Generator,
) -> Summary:
    """Summarize the projections by the clusterer, for every head."""
    rows, n_heads = z.double().cpu().numpy(), len(method.sizes)

    def summarize(some: Sequence[int], streams: Sequence[np.random.Generator]) -> list[Summary]:
        """Summarize for one head, or in the first inner round for several of equal size."""
        clusterer, n = method.make_clusterer(some[0]), len(some)
        inner = heads.inner_broadcast(broadcast, step.inner_round, some[0])
        if summarizes_many(clusterer):
            found = clusterer.summarize_many([rows] * n, [inner] * n, streams)
        else:
            found = [clusterer.summarize(rows, inner, own) for own in streams]
        return [_leaving(part, method.guard, rows) for part in found]

    if method.execution.kmeans_backend is None:
        parts = heads.for_each(lambda head, own: summarize([head], [own])[0], n_heads, rng)
    else:
        streams = rng.spawn(n_heads)
        alike = [[head] for head in range(n_heads)]
        if step.inner_round == 0:  # later, each head has a model of its own
            alike = [list(some) for _, some in groupby(range(n_heads), method.sizes.__getitem__)]
        with one_thread_inside():
            parts = [s for some in alike for s in summarize(some, [streams[h] for h in some])]
    return heads.pack(parts)


def train(
    method: DeepParameters,
    trainer: Trainer,
    images: Tensor,
    z: Tensor,
    model: Model,
    step: Step,
    rng: np.random.Generator,
) -> Summary:
    """Train the global weights on the images, with the nearest centers as labels.

    If some images are to validate on, train without them, and then measure their loss.
    """
    trained, held = _parts(method, images)
    centers = unit_centers(method, model)
    labels = label(z, centers)
    trainer.use(model, "weights")
    warming_up = step.round < method.schedule.warmup_rounds
    loss = trainer.train(
        images[trained] if len(held) else images,
        labels[:, trained],
        centers,
        epochs=method.schedule.local_epochs,
        rate=method.schedule.learning_rate_at(step.round),
        rng=rng,
        stored_share=1.0 if warming_up else method.objective.stored_share,
    )
    if not math.isfinite(loss) or not bool(trainer.weights.vector.isfinite().all()):
        raise DivergedError(
            f"Training diverged in round {step.round + 1}: the loss or the weights are NaN or "
            f"infinite. Lower the learning rate."
        )
    own = zip(labels[:, trained], centers, strict=True)
    sizes = torch.cat([torch.bincount(found, minlength=len(c)) for found, c in own])
    tensors = {f"weights.{name}": array for name, array in trainer.weights.save().items()}
    tensors["report.loss"] = np.array(loss)
    tensors["report.sizes"] = _told(sizes.cpu().numpy(), len(trained), method.guard)
    # shows the server whether projections collapsed
    tensors["report.mean_projection"] = _mean(z[trained].double().cpu().numpy(), method.guard)
    if len(held):
        found = trainer.validate(images[held], labels[:, held], int(rng.integers(2**31)))
        tensors["report.validation_loss"] = np.array(found)
    return _message(trainer.network.n_projections, len(trained), tensors)


def _leaving(summary: Summary, guard: Guard, z: Floats) -> Summary:
    """Return what may leave of the clusters of one head.

    The client removes what the server does not need, and gives its name.
    """
    found = guard.apply(summary, client="head", needed=FIELDS, rows=z)
    # rounding may have made them longer than a mean of projections can be
    longer = np.maximum(1, np.linalg.norm(found.centers, axis=1, keepdims=True))
    return replace(found, centers=found.centers / longer)


def _told(sizes: Ints, n_images: int, guard: Guard) -> Ints:
    """Return numbers of images per center as they are told: too few are 0."""
    told = np.minimum(guard.told(sizes), n_images)
    return np.where(sizes >= guard.min_cluster_size, told, 0)


def _mean(z: Floats, guard: Guard) -> Floats:
    """Return the mean of all projections, with no more digits than a center has."""
    mean = z.mean(axis=0)
    sse = np.square(z - mean).sum()
    whole = Summary(len(z), mean[None], counts=np.array([len(z)]), sse=np.array([sse]))
    found: Floats = _leaving(whole, guard, z).centers[0]
    return found


def _parts(method: DeepParameters, images: Tensor) -> tuple[Ints, Ints]:
    """Return the images to train on and those to validate on; the guard holds for both."""
    return method.schedule.split_rows(len(images), method.objective.min_cluster_size)


def view_seed(seed: int, t: int) -> int:
    """Seed of the views that are clustered in round `t`.

    All steps of a round use the same views, so that labels belong to what was clustered.
    """
    return int(np.random.SeedSequence([seed, t]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def label(z: Tensor, centers: Sequence[Tensor]) -> Tensor:
    """Return the nearest center of each projection, for each head."""
    unit = F.normalize(z, dim=1)
    return torch.stack([nearest(unit, own)[0] for own in centers])


def unit_centers(method: DeepParameters, model: Model) -> list[Tensor]:
    """Return the directions of the centers of each head, on the device."""
    device = method.execution.torch_device
    centers = torch.from_numpy(model.centers).to(device, torch.float32)
    owners = torch.from_numpy(model.tensors["head"]).to(device)
    return [F.normalize(centers[owners == h], dim=1) for h in range(len(method.sizes))]


def projecting_weights(model: Model) -> str:
    """Name the weights that compute projections: "teacher" if the model has one, or "weights"."""
    has_teacher = any(name.startswith("teacher.") for name in model.tensors)
    return "teacher" if has_teacher else "weights"


def _message(width: int, n_samples: int, tensors: Mapping[str, np.ndarray]) -> Summary:
    """Make a summary of tensors, without centers."""
    return Summary(n_samples, np.zeros((0, width)), tensors=tensors)
