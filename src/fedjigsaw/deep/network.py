"""The networks, and their weights as one flat vector.

A network computes two things for each image: *features* from its backbone, for later use, and a
*projection* of them by a small head, which is what is clustered and trained.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Model
from fedjigsaw.parameters import one_of

NETWORKS = ("resnet18", "resnet18-half", "small")
STATISTICS = ("running_mean", "running_var")  # how the names of batch-norm statistics end
_DRAWING = Lock()  # torch has one random stream for all threads
LARGE = 40**2  # from this number of pixels on, the first convolution halves the image


def _convolution(inside: int, outside: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)


class Block(nn.Module):
    """Residual block: two convolutions and a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(inside, outside, 3, stride)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = _convolution(outside, outside, 3, 1)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                _convolution(inside, outside, 1, stride), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y)) + self.shortcut(x)
        return F.relu(y, inplace=True)


class Network(nn.Module):
    """A residual backbone for small images, and a projection head of two layers.

    Parameters
    ----------
    widths : tuple of int
        Channels of each stage. All stages but the first halve the image.
    depth : int
        Blocks per stage.
    hidden, out : int
        Units of the projection head's two layers.
    stride : int
        Stride of the first convolution.
    """

    def __init__(
        self, widths: tuple[int, ...], depth: int, hidden: int, out: int, stride: int
    ) -> None:
        super().__init__()
        self.stem = _convolution(3, widths[0], 3, stride)
        self.stem_norm = nn.BatchNorm2d(widths[0])
        blocks, inside = [], widths[0]
        for stage, width in enumerate(widths):
            for place in range(depth):
                blocks.append(Block(inside, width, 2 if stage and not place else 1))
                inside = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.Linear(inside, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, out),
        )
        self.n_features, self.n_projections = inside, out
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """Compute the backbone's features, shape (n, n_features)."""
        x = F.relu(self.stem_norm(self.stem(x)), inplace=True)
        pooled: Tensor = self.blocks(x).mean((2, 3))
        return pooled

    def forward(self, x: Tensor) -> Tensor:
        """Compute projections, shape (n, n_projections), not yet normalized."""
        projected: Tensor = self.head(self.features(x))
        return projected


def build(name: str, size: Sequence[int], *, seed: int = 0) -> Network:
    """Build a network for images of one height and width, with weights drawn from `seed`.

    Examples
    --------
    >>> build("small", (8, 8)).n_features
    64
    """
    one_of(*NETWORKS).check("network", "DeepFeCA", name)
    stride = 2 if math.prod(size) >= LARGE else 1
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "small":
            return Network((16, 32, 64), 1, 128, 32, stride)
        width = 64 if name == "resnet18" else 32
        widths = tuple(width * factor for factor in (1, 2, 4, 8))
        return Network(widths, 2, 32 * width, 128, stride)


@lru_cache(maxsize=1)
def initial_model(network: str, seed: int) -> Model:
    """Return the model before any training. It depends on the seed alone, so it is never sent."""
    made = build(network, (32, 32), seed=seed % 2**63)  # weights are of any size
    state = {n: t for n, t in made.state_dict().items() if t.is_floating_point()}
    tensors = {f"weights.{name}": tensor.numpy() for name, tensor in state.items()}
    return Model(np.zeros((0, made.n_projections)), tensors=tensors)


class FlatWeights:
    """All weights and batch-norm statistics of a network as one vector on the device.

    The network's own tensors become views of the vector. So loading, averaging and a step of SGD
    are single operations, and the addresses in a captured CUDA graph stay valid.

    Attributes
    ----------
    vector : Tensor
        Parameters first, then statistics; every tensor starts at a multiple of 64 floats.
    n_parameters : int
        Length of the first part.
    views : dict
        Each tensor inside the vector, by name.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        network.to(device)
        parameters = dict(network.named_parameters())
        statistics = {n: b for n, b in network.named_buffers() if b.is_floating_point()}
        tensors: dict[str, Tensor] = {**parameters, **statistics}
        self.parameters = list(parameters.values())
        self.statistics = tuple(statistics)
        self.n_parameters = sum(_padded(p) for p in parameters.values())
        self.vector = torch.zeros(sum(map(_padded, tensors.values())), device=device)
        self.views = _views(self.vector, tensors)
        self.gradient = torch.zeros(self.n_parameters, device=device)
        self.gradients = list(_views(self.gradient, parameters).values())
        with torch.no_grad():
            for name, view in self.views.items():
                view.copy_(tensors[name])
                if name in parameters:
                    parameters[name].data = view
                else:
                    owner, _, own_name = name.rpartition(".")
                    network.get_submodule(owner)._buffers[own_name] = view

    def load(self, vector: Tensor) -> None:
        """Load weights of the same layout into the network."""
        self.vector.copy_(vector)

    def save(self) -> dict[str, np.ndarray]:
        """Copy every tensor to a read-only array, by name."""
        arrays = {}
        for name, view in self.views.items():
            array = np.empty(view.shape, dtype=np.float32)
            torch.from_numpy(array).copy_(view.contiguous())
            array.setflags(write=False)
            arrays[name] = array
        return arrays

    def flatten(self, arrays: Mapping[str, np.ndarray]) -> Tensor:
        """Join named arrays, which must be those of this network, into a vector."""
        shapes = {name: tuple(view.shape) for name, view in self.views.items()}
        got = {name: array.shape for name, array in arrays.items()}
        if got != shapes:
            wrong = sorted(set(got.items()) ^ set(shapes.items()), key=str)
            raise MessageError(
                f"The model's weights do not fit the network; the first difference is "
                f"{str(wrong[0])[:80]}."
            )
        vector = torch.zeros_like(self.vector)
        with torch.no_grad():
            for name, view in _views(vector, self.views).items():
                view.copy_(torch.from_numpy(arrays[name]))
        return vector


# Arrays in messages are read-only, of which torch warns once per process: let it do so now.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(bytes(8)))


def _padded(tensor: Tensor) -> int:
    return (tensor.numel() + 63) // 64 * 64


def _views(vector: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut a vector into views with the shapes of given tensors, in order."""
    start, views = 0, {}
    for name, tensor in tensors.items():
        part = vector[start : start + tensor.numel()]
        if tensor.dim() == 4:  # channels last, which is fast on a GPU
            o, i, h, w = tensor.shape
            views[name] = part.view(o, h, w, i).permute(0, 3, 1, 2)
        else:
            views[name] = part.view(tensor.shape)
        start += _padded(tensor)
    return views
