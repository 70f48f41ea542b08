"""Random views of images, a whole batch at once on the device.

A view is a random crop, resized and perhaps flipped, with color jitter or in gray. All randomness
comes from a table of uniform draws, one line per image. No operation waits for the host or creates
a constant, so everything can be part of a captured CUDA graph.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from fedjigsaw.parameters import Rule, fraction, integer, real

SMALL_CROP = (0.05, 0.2)  # share of the area that a small crop keeps
N_DRAWS = 11  # uniform numbers that one view needs
MEAN, DEVIATION = 0.5, 0.25  # fixed, so that clients need not agree on values from their data
LUMA = (0.299, 0.587, 0.114)
YIQ = (LUMA, (0.596, -0.274, -0.321), (0.211, -0.523, 0.311))


@dataclass(frozen=True)
class Strength:
    """How much a view may differ from its image.

    Parameters
    ----------
    crop : smallest and largest share of the image's area that is kept.
    flip, grayscale : probability that an image is mirrored, or loses its colors.
    color : strength of the color jitter; 1 is that of SwAV and DeepCluster-v2, 0 is none.
    """

    crop: tuple[float, float] = (0.2, 1.0)
    flip: float = 0.5
    color: float = 1.0
    grayscale: float = 0.2


@dataclass(frozen=True)
class Augmentation:
    """The random views of each image that a training step compares.

    Parameters
    ----------
    views : int, default 2
        Views of each image per step.
    small_crops : int, default 0
        Further views per step, of small parts of the image.
    crop : float, default 0.2
        Smallest share of the image's area that a view keeps.
    flip : float, default 0.5
        Probability that a view is mirrored.
    color : float, default 1.0
        Strength of the color jitter. 1 is that of SwAV and DeepCluster-v2, 0 is none.
    grayscale : float, default 0.2
        Probability that a view loses its colors.

    Examples
    --------
    >>> from fedjigsaw.deep import Augmentation
    >>> Augmentation(small_crops=4).n_views
    6
    """

    views: int = 2
    small_crops: int = 0
    crop: float = 0.2
    flip: float = 0.5
    color: float = 1.0
    grayscale: float = 0.2

    rules: ClassVar[Mapping[str, Rule]] = {
        "views": integer(1, 1000),
        "small_crops": integer(0, 1000),
        "crop": fraction(zero=False),
        "flip": fraction(),
        "color": real(0),
        "grayscale": fraction(),
    }

    @property
    def n_views(self) -> int:
        """Views of each image per step, of both kinds."""
        return self.views + self.small_crops

    @property
    def large(self) -> Strength:
        """Strength of the usual views."""
        return Strength((self.crop, 1.0), self.flip, self.color, self.grayscale)

    @property
    def small(self) -> Strength:
        """Strength of the small crops."""
        return Strength(SMALL_CROP, self.flip, self.color, self.grayscale)


def standardize(images: Tensor) -> Tensor:
    """Convert bytes to floats around zero, the input of the network."""
    return _for_network(images.float() / 255)


class Augment:
    """Make one view of every image of a batch.

    Parameters
    ----------
    strength : Strength
    size : tuple of int
        Height and width of the views.
    device : torch.device
    """

    def __init__(self, strength: Strength, size: tuple[int, int], device: torch.device) -> None:
        self.strength = strength
        self.size = size
        # positions of pixel centers, from -1 to 1
        self.rows, self.columns = (
            ((torch.arange(n, dtype=torch.float32, device=device) + 0.5) * 2 / n - 1) for n in size
        )
        self.luma = torch.tensor(LUMA, device=device).view(1, 3, 1, 1)
        # rotating the hue by an angle t is gray + cos(t) * flat + sin(t) * turned
        yiq = torch.tensor(YIQ, dtype=torch.float64)
        rgb = torch.linalg.inv(yiq)
        quarter = torch.tensor([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=torch.float64)
        parts = (rgb[:, :1] @ yiq[:1], rgb[:, 1:] @ yiq[1:], rgb @ quarter @ yiq)
        self.gray, self.flat, self.turned = (p.float().to(device)[None].contiguous() for p in parts)

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        """Return views of shape (n, 3, *size); `draws` has shape (n, N_DRAWS)."""
        x = self._crop(images.float() / 255, draws)
        if self.strength.color > 0:
            x = self._jitter_colors(x, draws)
        if self.strength.grayscale > 0:
            gray = (draws[:, 10] < self.strength.grayscale).view(-1, 1, 1, 1)
            x = torch.where(gray, (x * self.luma).sum(1, keepdim=True), x)
        return _for_network(x)

    def _crop(self, x: Tensor, draws: Tensor) -> Tensor:
        low, high = self.strength.crop
        area = low + (high - low) * draws[:, 0]
        ratio = torch.exp((2 * draws[:, 1] - 1) * math.log(4 / 3))
        width = (area * ratio).sqrt().clamp(max=1.0)
        height = (area / ratio).sqrt().clamp(max=1.0)
        middle_x = (2 * draws[:, 2] - 1) * (1 - width)
        middle_y = (2 * draws[:, 3] - 1) * (1 - height)
        width = torch.where(draws[:, 4] < self.strength.flip, -width, width)
        n, (rows, columns) = len(x), self.size
        grid_x = middle_x.view(n, 1, 1) + width.view(n, 1, 1) * self.columns.view(1, 1, columns)
        grid_y = middle_y.view(n, 1, 1) + height.view(n, 1, 1) * self.rows.view(1, rows, 1)
        grid = torch.stack([grid_x.expand(n, rows, columns), grid_y.expand(n, rows, columns)], -1)
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)

    def _jitter_colors(self, x: Tensor, draws: Tensor) -> Tensor:
        n = len(x)
        strength = self.strength.color * (draws[:, 5] < 0.8).float()
        shakes = 1 + 0.8 * strength[:, None] * (2 * draws[:, 6:9] - 1)
        brightness, contrast, saturation = (shakes[:, i].view(n, 1, 1, 1) for i in range(3))
        x = (x * brightness).clamp(0, 1)
        middle = (x * self.luma).sum(1, keepdim=True).mean((2, 3), keepdim=True)
        x = (middle + contrast * (x - middle)).clamp(0, 1)
        luma = (x * self.luma).sum(1, keepdim=True)
        x = (luma + saturation * (x - luma)).clamp(0, 1)
        angle = (2 * math.pi * 0.2 * strength * (2 * draws[:, 9] - 1)).view(n, 1, 1)
        turn = self.gray + angle.cos() * self.flat + angle.sin() * self.turned
        return torch.bmm(turn, x.flatten(2)).view_as(x).clamp(0, 1)


def _for_network(x: Tensor) -> Tensor:
    return ((x - MEAN) / DEVIATION).contiguous(memory_format=torch.channels_last)
