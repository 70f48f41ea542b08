"""The network on its device, and what is done with it there: look at images, train.

The loss is in :mod:`fedjigsaw.deep.deepcluster`; the pull back to the global weights and the decay
of weights are parts of the step here. All of it is arranged so that a GPU need not wait.
"""

from collections.abc import Callable, Sequence
from threading import Lock, local
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep.augment import N_DRAWS, Augment, Strength, standardize
from fedjigsaw.deep.deepcluster import ABSENT, Prototypes, Recipe, autocast, batch_loss
from fedjigsaw.deep.heads import named
from fedjigsaw.deep.network import FlatWeights, build
from fedjigsaw.messages import Model

FEATURE_BATCH = 1000  # images that are looked at together
GPU_FEATURE_BATCH = 2500  # fewer orders from a host that is slower than the GPU
CALIBRATION = (2, 1000)  # batches, images in each
SMALL_CROP = (0.05, 0.2)
_CAPTURING = Lock()  # torch can record one graph at a time


def own_stream(device: torch.device) -> None:  # pragma: no cover - tests run without a GPU
    """Let the work of this thread on a GPU run beside that of others."""
    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]


def batches(n_images: int, size: int, epochs: int, rng: np.random.Generator) -> np.ndarray:
    """Image numbers of every step, shape (steps, size): each epoch a new order, its rest left out.

    A client with fewer images than a batch has room fills it up with repetitions.
    """
    tables = []
    for _ in range(epochs):
        order = rng.permutation(n_images)
        if n_images < size:
            order = np.concatenate([order, rng.integers(n_images, size=size - n_images)])
        tables.append(order[: len(order) // size * size].reshape(-1, size))
    return np.concatenate(tables)


class OnDevice:
    """The weights of the last model as vectors on the device: put there once, for all lanes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._arrays: dict[str, dict[str, np.ndarray]] = {}
        self._vectors: dict[str, Tensor] = {}

    def vector(self, weights: FlatWeights, model: Model, prefix: str) -> Tensor:
        """The weights that a model has under a name; models may share them."""
        arrays = named(model.tensors, prefix)
        with self._lock:
            known = self._arrays.get(prefix, {})
            if len(known) != len(arrays) or any(known.get(n) is not a for n, a in arrays.items()):
                vector = weights.flatten(arrays)
                if vector.is_cuda:  # other lanes will read it on streams of their own
                    torch.cuda.current_stream(vector.device).synchronize()
                self._arrays[prefix], self._vectors[prefix] = arrays, vector
            return self._vectors[prefix]


class Trainer:
    """The network on its device, with everything that a step of training reads or writes.

    All tensors of a step have fixed addresses: on a GPU the step is captured once as a CUDA graph
    and replayed for every batch of every client; on a CPU the same function just runs.

    Parameters
    ----------
    sizes : number of centers of each head.
    shape : (3, height, width) of the images.
    shared : where models are put on the device; one for all trainers of a run.
    """

    def __init__(
        self,
        recipe: Recipe,
        sizes: Sequence[int],
        shape: tuple[int, ...],
        device: torch.device,
        shared: OnDevice | None = None,
    ) -> None:
        self.made_for = (recipe, tuple(sizes), tuple(shape), device)
        self.recipe, self.sizes, self.device = recipe, tuple(sizes), device
        self.on_gpu = device.type == "cuda"
        self.half = self.on_gpu and recipe.precision != "float32"
        if self.on_gpu:
            torch.backends.cudnn.benchmark = True
        network = build(recipe.network, shape[1], norm=recipe.norm)
        self.network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.weights = FlatWeights(self.network, device)
        self.teacher: nn.Module | None = None
        if recipe.targets == "teacher":
            teacher = build(recipe.network, shape[1], norm=recipe.norm)
            self.teacher = teacher.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            self._teacher_weights = FlatWeights(self.teacher, device)
        self._augment = Augment(recipe.strength, (shape[1], shape[2]), device)
        small = Strength(SMALL_CROP, recipe.flip, recipe.color, recipe.grayscale)
        size = (max(8, shape[1] * 5 // 8), max(8, shape[2] * 5 // 8))
        self._augment_small = Augment(small, size, device)
        n, n_centers = recipe.batch_size, sum(sizes)
        n_views = recipe.views + recipe.small_crops
        self._images = torch.zeros(n, *shape, dtype=torch.uint8, device=device)
        self._labels = torch.zeros(len(sizes), n, dtype=torch.long, device=device)
        self._draws = torch.zeros(n * n_views, N_DRAWS, device=device)
        self._centers = torch.zeros(n_centers, self.network.n_projections, device=device)
        self._bias = torch.zeros(n_centers, device=device)
        self._stored_share = torch.zeros((), device=device)
        self._shares = torch.zeros(n_centers, device=device)
        self._usual = torch.zeros(n_centers, device=device)
        self._rate = torch.zeros((), device=device)
        self._loss = torch.zeros((), device=device)
        self._velocity = torch.zeros(self.weights.n_parameters, device=device)
        self._anchor = torch.zeros(self.weights.n_parameters if recipe.proximal else 0).to(device)
        self._batch_loss: Callable[..., Tensor] = batch_loss
        if recipe.compile:  # its own graphs stay off: the whole step is captured, or nothing
            self._batch_loss = torch.compile(batch_loss, dynamic=False)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._shared = shared or OnDevice()
        self._seen: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        self._seen_by: Tensor | None = None

    def use(self, model: Model, prefix: str) -> None:
        """Put the weights that a model has under a name into the network."""
        self.weights.load(self._shared.vector(self.weights, model, prefix))

    # ---------------------------------------------------------------------------------- looking

    def seen(self, images: Tensor, seed: int | None) -> Tensor:
        """As `project`, remembered for as long as the weights stay the same."""
        if self._seen_by is None or not torch.equal(self._seen_by, self.weights.vector):
            self._seen, self._seen_by = {}, self.weights.vector.clone()
        key = (images.data_ptr(), tuple(images.shape), seed)
        if key not in self._seen:  # with the images themselves: no others can take their place
            self._seen[key] = images, self.project(images, seed)
        return self._seen[key][1]

    @torch.no_grad()
    def project(self, images: Tensor, seed: int | None) -> Tensor:
        """Projections of length one; of one random view each, or of the plain images (None)."""
        generator = torch.Generator(self.device).manual_seed(seed or 0)

        def view(part: Tensor) -> Tensor:
            if seed is None:
                return standardize(part)
            draws = torch.rand(len(part), N_DRAWS, device=self.device, generator=generator)
            return self._augment(part, draws)

        self.network.eval()
        seen = self._in_batches(images, lambda x: self.network(view(x)), half=self.half)
        return F.normalize(seen, dim=1)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """What the backbone sees of the plain images; not in half precision: it is what remains."""
        self.network.eval()
        return self._in_batches(images, lambda x: self.network.features(standardize(x)), half=False)

    def _in_batches(self, images: Tensor, see: Callable[[Tensor], Tensor], *, half: bool) -> Tensor:
        parts = []
        size = GPU_FEATURE_BATCH if self.on_gpu else FEATURE_BATCH
        for start in range(0, len(images), size):
            part = images[start : start + size].to(self.device)
            n = len(part)
            if n < size and self.on_gpu:  # fill up: its libraries plan anew for every shape
                part = torch.cat([part, part[:1].expand(size - n, -1, -1, -1)])
            with autocast(self.device.type, half):
                seen = see(part)
            parts.append(seen[:n].float())
        return torch.cat(parts)

    @torch.no_grad()
    def calibrate(self, images: Tensor, seed: int) -> None:
        """Set the batch-norm statistics to their mean over batches of these images' views."""
        generator = torch.Generator(self.device).manual_seed(seed)
        norms = [
            m for m in self.network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
        ]
        usual = [m.momentum for m in norms]
        n_batches, size = CALIBRATION
        size = max(2, min(size, len(images)))  # of a single image, two views: one has no variance
        self.network.train()
        for i in range(max(1, min(n_batches, len(images) // size))):
            chosen = torch.randint(len(images), (size,), device=self.device, generator=generator)
            draws = torch.rand(size, N_DRAWS, device=self.device, generator=generator)
            for norm in norms:
                norm.momentum = 1 / (i + 1)
            with autocast(self.device.type, self.half):
                self.network(self._augment(images[chosen], draws))
        for norm, momentum in zip(norms, usual, strict=True):
            norm.momentum = momentum

    # --------------------------------------------------------------------------------- training

    def train(
        self,
        images: Tensor,
        labels: Tensor,
        prototypes: Sequence[Prototypes],
        *,
        epochs: int,
        rate: float,
        rng: np.random.Generator,
        stored_share: float = 0.0,
    ) -> float:
        """Train from the present weights on; the mean loss of all steps.

        Parameters
        ----------
        labels : shape (heads, n), the prototype of each image.
        stored_share : how much of a target is that label, where targets are not the labels alone.
        """
        table = batches(len(images), self.recipe.batch_size, epochs, rng)
        steps = torch.from_numpy(table).to(self.device)
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        self._set_centers([p.directions for p in prototypes])
        if len(self._anchor):
            self._anchor.copy_(self.weights.vector[: self.weights.n_parameters])
        self._set_shares(labels)
        self._stored_share.fill_(stored_share)
        self.network.train()
        if self.teacher is not None:
            self._teacher_weights.load(self.weights.vector)
            self.teacher.train()  # its batch norm, too, is over the views of a batch
        if self.on_gpu and self.recipe.capture and self._graph is None:
            with _CAPTURING:
                self._capture()
        self._usual.copy_(self._shares)
        self._velocity.zero_()
        self._loss.zero_()
        self._rate.fill_(rate)
        run = self._step if self._graph is None else self._graph.replay
        for chosen in steps:
            torch.index_select(images, 0, chosen, out=self._images)
            torch.index_select(labels, 1, chosen, out=self._labels)
            self._draws.uniform_(generator=generator)
            run()
        return float(self._loss) / len(steps)

    def _set_centers(self, centers: Sequence[Tensor]) -> None:
        """Centers of all heads, one after the other; places that stay empty get no probability."""
        self._bias.fill_(ABSENT)
        start = 0
        for size, some in zip(self.sizes, centers, strict=True):
            self._centers[start : start + len(some)].copy_(some)
            self._bias[start : start + len(some)].zero_()
            start += size

    def _set_shares(self, labels: Tensor) -> None:
        """Share of the views that each center should have, for `target_balance`.

        "own": that of this client's images at the start of the round, plus one for each center.
        """
        present = (self._bias == 0).float()
        counts = torch.zeros_like(present)
        if self.recipe.target_balance == "own":
            heads = [
                torch.bincount(own, minlength=k) for own, k in zip(labels, self.sizes, strict=True)
            ]
            counts = torch.cat(heads).float()
        counts = (counts + 1) * present
        parts = torch.split(counts, list(self.sizes))
        self._shares.copy_(torch.cat([part / part.sum() for part in parts]))

    def _step(self) -> None:
        """One step of SGD on the batch in the buffers."""
        loss = self.loss()
        gradients = torch.autograd.grad(loss, self.weights.parameters)
        recipe, weights = self.recipe, self.weights
        with torch.no_grad():
            torch._foreach_copy_(weights.gradients, list(gradients))
            parameters = weights.vector[: weights.n_parameters]
            if recipe.proximal:
                weights.gradient.add_(parameters - self._anchor, alpha=recipe.proximal)
            torch._fused_sgd_(
                [parameters],
                [weights.gradient],
                [self._velocity] if recipe.momentum else [],
                lr=self._rate,
                momentum=recipe.momentum,
                weight_decay=recipe.weight_decay,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
            )
            self._loss.add_(loss.detach())
            if self.teacher is not None:
                slow = self._teacher_weights.vector[: weights.n_parameters]
                slow.lerp_(parameters, 1 - recipe.teacher_momentum)

    def loss(self) -> Tensor:
        """That of the batch in the buffers."""
        return self._batch_loss(
            self.network,
            self.teacher,
            (self._augment, self._augment_small),
            self.recipe,
            self.sizes,
            (
                self._images,
                self._labels,
                self._draws,
                self._centers,
                self._bias,
                self._stored_share,
                self._shares,
                self._usual,
            ),
            self.half,
        )

    def _capture(self) -> None:  # pragma: no cover - tests run without a GPU
        """Record one step as a CUDA graph; weights and statistics are as before afterwards."""
        before = self.weights.vector.clone()
        self._rate.zero_()
        usual = torch.cuda.current_stream(self.device)
        stream = usual  # that of a lane; the default one cannot be captured
        if usual == torch.cuda.default_stream(self.device):
            stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(usual)
        with torch.cuda.stream(stream):
            for _ in range(4):  # lets the libraries pick their kernels first
                self._step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        # what other threads do meanwhile is no part of it, and no error
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._step()
        self._graph = graph
        self.weights.load(before)


class Trainers(local):
    """Each thread's own trainer; what they share is on the device once."""

    def __init__(self, shared: OnDevice) -> None:  # called anew, with the same, for every thread
        self.shared = shared
        self.own: Trainer | None = None
