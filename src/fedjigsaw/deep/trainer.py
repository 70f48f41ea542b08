"""The network on its device: computing projections and features, calibrating, training.

The loss is in :mod:`fedjigsaw.deep.losses`; weight decay is part of the step here. Everything is
arranged so that a GPU does not wait for the host.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import Lock, local
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep.augment import N_DRAWS, Augment, standardize
from fedjigsaw.deep.heads import named
from fedjigsaw.deep.losses import (
    ABSENT,
    Balance,
    Buffers,
    Recipe,
    autocast,
    batch_loss,
    deepcluster_loss,
    wanted_shares,
)
from fedjigsaw.deep.network import FlatWeights, Network, build
from fedjigsaw.messages import Model

FEATURE_BATCH = 1000  # images per forward pass without gradients
GPU_FEATURE_BATCH = 2500  # fewer launches: the host is slower than the GPU
CALIBRATION = (2, 1000)  # batches, images per batch
VALIDATED = 4  # views of each image to validate on
# torch captures one graph at a time; threads that wait find what the first one compiled
_PREPARING = Lock()


def batches(n_images: int, size: int, epochs: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the image indices of every step, shape (steps, size).

    Each epoch has a new order; an incomplete last batch is dropped. A client with fewer images than
    a batch repeats some of them.
    """
    tables = []
    for _ in range(epochs):
        order = rng.permutation(n_images)
        if n_images < size:
            order = np.concatenate([order, rng.integers(n_images, size=size - n_images)])
        tables.append(order[: len(order) // size * size].reshape(-1, size))
    return np.concatenate(tables)


class OnDevice:
    """What all lanes share: the weights of the last model as vectors on the device, and turns.

    Attributes
    ----------
    projecting : Lock
        Held by the lane that computes projections on a GPU. Each lane could fill it; if all did so
        at the same time, all would be done at the end, and none could cluster meanwhile.
    """

    def __init__(self) -> None:
        self.projecting = Lock()
        self._lock = Lock()
        self._arrays: dict[str, dict[str, np.ndarray]] = {}
        self._vectors: dict[str, Tensor] = {}

    def vector(self, weights: FlatWeights, model: Model, prefix: str) -> Tensor:
        """Return the weights of a model under a prefix; copied only if they are new."""
        arrays = named(model.tensors, prefix)
        with self._lock:
            known = self._arrays.get(prefix, {})
            same = len(known) == len(arrays) and all(known.get(n) is a for n, a in arrays.items())
            # a network of other settings needs a look at all shapes, which says what does not fit
            if not same or len(self._vectors[prefix]) != len(weights.vector):
                vector = weights.flatten(arrays)
                if vector.is_cuda:  # other lanes read it on their own streams
                    torch.cuda.current_stream(vector.device).synchronize()
                self._arrays[prefix], self._vectors[prefix] = arrays, vector
            return self._vectors[prefix]


class Trainer:
    """The network on its device, with all tensors that a training step reads or writes.

    The tensors have fixed addresses: on a GPU the step is captured once as a CUDA graph and
    replayed for every batch of every client; on a CPU the same function runs as it is.

    Parameters
    ----------
    recipe : Recipe
    sizes : sequence of int
        Number of centers of each head.
    shape : tuple of int
        (3, height, width) of the images.
    device : torch.device
    shared : OnDevice or None
        Weights on the device; one for all trainers of a run.
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
        full = recipe.execution.precision == "float32"
        self.half = self.on_gpu and not full
        torch.backends.cudnn.allow_tf32 = not full
        if self.on_gpu:
            torch.backends.cudnn.benchmark = True
        self.network = self._build(shape[1:])
        self.weights = FlatWeights(self.network, device)
        self._teacher: Network | None = None
        self._teacher_weights: FlatWeights | None = None
        if recipe.objective.targets == "teacher":
            self._teacher = self._build(shape[1:])
            self._teacher.train()  # its batch norm, too, is over the views of a batch
            self._teacher_weights = FlatWeights(self._teacher, device)
        self._augment = Augment(recipe.augmentation.large, (shape[1], shape[2]), device)
        size = (max(8, shape[1] * 5 // 8), max(8, shape[2] * 5 // 8))
        self._augment_small = Augment(recipe.augmentation.small, size, device)
        n, n_centers = recipe.schedule.batch_size, sum(sizes)
        n_views = recipe.augmentation.n_views
        self._images = torch.zeros(n, *shape, dtype=torch.uint8, device=device)
        self._labels = torch.zeros(len(sizes), n, dtype=torch.long, device=device)
        self._draws = torch.zeros(n * n_views, N_DRAWS, device=device)
        self._centers = torch.zeros(n_centers, self.network.n_projections, device=device)
        self._bias = torch.zeros(n_centers, device=device)
        self._stored_share = torch.zeros((), device=device)
        self._balance = Balance(*(torch.zeros(n_centers, device=device) for _ in range(2)))
        self._rate = torch.zeros((), device=device)
        self._loss = torch.zeros((), device=device)
        self._velocity = torch.zeros(self.weights.n_parameters, device=device)
        self._batch_loss: Callable[..., Tensor] = batch_loss
        if recipe.execution.compile:  # without graphs of its own: the whole step is captured
            self._batch_loss = torch.compile(batch_loss, dynamic=False)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._is_ready = False
        self._shared = shared or OnDevice()
        self._cache: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        self._cache_weights: Tensor | None = None

    def _build(self, size: Sequence[int]) -> Network:
        network = build(self.recipe.objective.network, size)
        return network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def use(self, model: Model, prefix: str) -> None:
        """Load the weights of a model under a prefix into the network."""
        self.weights.load(self._shared.vector(self.weights, model, prefix))

    # ------------------------------------------------------------------------------- projections

    def cached_projections(self, images: Tensor, seed: int) -> Tensor:
        """Return `project(images, seed)`, cached while the weights stay the same.

        The steps of a round that cluster and train need the same projections.
        """
        if self._cache_weights is None or not torch.equal(self._cache_weights, self.weights.vector):
            self._cache, self._cache_weights = {}, self.weights.vector.clone()
        key = (images.data_ptr(), tuple(images.shape), seed)
        if key not in self._cache:  # keeps the images alive, so that no others get their address
            with self._shared.projecting if self.on_gpu else nullcontext():
                self._cache[key] = images, self.project(images, seed)
                if self.on_gpu:
                    torch.cuda.current_stream(self.device).synchronize()
        return self._cache[key][1]

    @torch.no_grad()
    def project(self, images: Tensor, seed: int | None) -> Tensor:
        """Compute unit projections of a random view of each image; None: of the image itself."""
        generator = torch.Generator(self.device).manual_seed(seed or 0)

        def view(part: Tensor) -> Tensor:
            if seed is None:
                return standardize(part)
            draws = torch.rand(len(part), N_DRAWS, device=self.device, generator=generator)
            return self._augment(part, draws)

        self.network.eval()
        z = self._in_batches(images, lambda x: self.network(view(x)), half=self.half)
        return F.normalize(z, dim=1)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Compute the backbone's features of the plain images, in float32."""
        self.network.eval()
        return self._in_batches(images, lambda x: self.network.features(standardize(x)), half=False)

    def _in_batches(
        self, images: Tensor, forward: Callable[[Tensor], Tensor], *, half: bool
    ) -> Tensor:
        parts = []
        size = GPU_FEATURE_BATCH if self.on_gpu else FEATURE_BATCH
        for start in range(0, len(images), size):
            part = images[start : start + size].to(self.device)
            n = len(part)
            if n < size and self.on_gpu:  # pad: cuDNN plans again for every new shape
                part = torch.cat([part, part[:1].expand(size - n, -1, -1, -1)])
            with autocast(self.device.type, half):
                result = forward(part)
            parts.append(result[:n].float())
        return torch.cat(parts)

    @torch.no_grad()
    def calibrate(self, images: Tensor, seed: int) -> None:
        """Set the batch-norm statistics to their mean over a few batches of random views."""
        generator = torch.Generator(self.device).manual_seed(seed)
        norms = [
            m for m in self.network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
        ]
        usual = [m.momentum for m in norms]
        n_batches, size = CALIBRATION
        size = max(2, min(size, len(images)))  # one view alone has no variance
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
        centers: Sequence[Tensor],
        *,
        epochs: int,
        rate: float,
        rng: np.random.Generator,
        stored_share: float = 0.0,
    ) -> float:
        """Train from the current weights on, and return the mean loss of all steps.

        Parameters
        ----------
        labels : Tensor of shape (heads, n)
            Center of each image.
        centers : sequence of Tensor of shape (k, d)
            Unit centers of each head.
        stored_share : float
            Fraction of a target that is this label, if targets are soft.
        """
        table = batches(len(images), self.recipe.schedule.batch_size, epochs, rng)
        steps = torch.from_numpy(table).to(self.device)
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**63)))
        self._set_centers(centers)
        if self.recipe.objective.targets != "stored":
            self._start_soft_targets(labels, stored_share)
        self.network.train()
        if not self._is_ready:
            with _PREPARING:
                self._prepare()
        self._balance.running.copy_(self._balance.wanted)  # after a capture, which changes it
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

    @torch.no_grad()
    def validate(self, images: Tensor, labels: Tensor, seed: int) -> float:
        """Compute the loss of new views of images after training, with their labels as targets."""
        z = self.project(images.repeat(VALIDATED, 1, 1, 1), seed)
        targets, temperature = labels.repeat(1, VALIDATED), self.recipe.objective.temperature
        bias, sizes = self._bias, self.sizes
        return float(deepcluster_loss(z, self._centers, bias, targets, sizes, temperature))

    def _set_centers(self, centers: Sequence[Tensor]) -> None:
        """Set the centers of all heads, in order; missing centers get no probability."""
        self._bias.fill_(ABSENT)
        start = 0
        for size, some in zip(self.sizes, centers, strict=True):
            self._centers[start : start + len(some)].copy_(some)
            self._bias[start : start + len(some)].zero_()
            start += size

    def _start_soft_targets(self, labels: Tensor, stored_share: float) -> None:
        """Set what soft targets depend on, for a new round."""
        self._stored_share.fill_(stored_share)
        self._balance.wanted.copy_(wanted_shares(labels, self._bias, self.sizes))
        if self._teacher_weights is not None:
            self._teacher_weights.load(self.weights.vector)

    def _step(self) -> None:
        """Do one step of SGD on the batch in the buffers."""
        loss = self.loss()
        gradients = torch.autograd.grad(loss, self.weights.parameters)
        weights, momentum = self.weights, self.recipe.schedule.momentum
        with torch.no_grad():
            torch._foreach_copy_(weights.gradients, list(gradients))
            parameters = weights.vector[: weights.n_parameters]
            torch._fused_sgd_(
                [parameters],
                [weights.gradient],
                [self._velocity] if momentum else [],
                lr=self._rate,
                momentum=momentum,
                weight_decay=self.recipe.schedule.weight_decay,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
            )
            self._loss.add_(loss.detach())
            if self._teacher_weights is not None:
                slow = self._teacher_weights.vector[: weights.n_parameters]
                slow.lerp_(parameters, 1 - self.recipe.objective.teacher_momentum)

    def loss(self) -> Tensor:
        """Compute the loss of the batch in the buffers."""
        return self._batch_loss(
            self.network,
            self._teacher,
            (self._augment, self._augment_small),
            self.recipe,
            self.sizes,
            Buffers(
                self._images,
                self._labels,
                self._draws,
                self._centers,
                self._bias,
                self._stored_share,
                self._balance,
            ),
            self.half,
        )

    def _prepare(self) -> None:
        """Compile or capture a step; weights and statistics are restored afterwards."""
        execution, before = self.recipe.execution, self.weights.vector.clone()
        self._rate.zero_()
        if self.on_gpu and execution.capture:  # pragma: no cover - tests run without a GPU
            self._capture()
        elif execution.compile:
            self._step()
        self.weights.load(before)
        self._is_ready = True

    def _capture(self) -> None:  # pragma: no cover - tests run without a GPU
        """Capture one step as a CUDA graph."""
        usual = torch.cuda.current_stream(self.device)
        stream = usual  # a lane's own stream; the default stream cannot be captured
        if usual == torch.cuda.default_stream(self.device):
            stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(usual)
        with torch.cuda.stream(stream):
            for _ in range(4):  # warm up: the libraries choose their kernels
                self._step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        # thread_local: work of other threads is neither captured nor an error
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._step()
        self._graph = graph


class Trainers(local):
    """One trainer per thread; all of them share the weights on the device."""

    def __init__(self, shared: OnDevice) -> None:  # called in every thread, with the same argument
        self.shared = shared
        self.own: Trainer | None = None
