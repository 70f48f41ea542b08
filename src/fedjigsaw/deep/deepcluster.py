r"""DeepCluster-v2 at one client: views of images must land on the center of their cluster.

The problem: image n has pseudo-labels :math:`y_n^h`, one per head h; head h has centers
:math:`c_j^h` of length one, which stay fixed (:class:`Prototypes`). With projections :math:`z` of
length one, of V random views of each image, minimize over the weights of the network

.. math:: \frac1{HV} \sum_{h, v} -\log \frac{\exp(z_{nv} \cdot c^h_{y_n^h} / \tau)}
          {\sum_j \exp(z_{nv} \cdot c^h_j / \tau)}
          + \frac\mu2 \|\theta - \bar\theta\|^2

(Caron et al. 2020; the last term, off by default, is FedProx's of Li et al. 2020).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep.augment import Augment, Augmentation
from fedjigsaw.deep.device_kmeans import nearest
from fedjigsaw.deep.execution import Execution
from fedjigsaw.deep.objective import Objective
from fedjigsaw.deep.schedule import Schedule

ABSENT = -1e4  # the logit of a center that is not there


@dataclass(frozen=True)
class Recipe:
    """All settings that a trainer depends on."""

    objective: Objective
    augmentation: Augmentation
    schedule: Schedule
    execution: Execution


class Prototypes(NamedTuple):
    """What the images of one head are held against: directions from a middle.

    Attributes
    ----------
    middle : shape (d,)
    directions : shape (k, d), of length one.

    Examples
    --------
    >>> close = torch.tensor([[0.9, 0.1], [0.9, -0.1]])
    >>> Prototypes.of(close, centered=True).directions.tolist()
    [[0.0, 1.0], [0.0, -1.0]]
    """

    middle: Tensor
    directions: Tensor

    @classmethod
    def of(cls, centers: Tensor, *, centered: bool) -> Self:
        """Prototypes around the mean of the centers, or around zero."""
        middle = centers.mean(dim=0) * centered
        return cls(middle, F.normalize(centers - middle, dim=1))

    def label(self, z: Tensor, *, balanced: bool = False) -> Tensor:
        """The nearest prototype of each projection; balanced: each gets as many of them."""
        seen = F.normalize(z - self.middle, dim=1)
        return balance(seen, self.directions) if balanced else nearest(seen, self.directions)[0]


def deepcluster_loss(
    z: Tensor, centers: Tensor, bias: Tensor, labels: Tensor, sizes: Sequence[int], tau: float
) -> Tensor:
    """Mean over heads of the cross-entropy of views `z` (length one) against their labels.

    Parameters
    ----------
    centers : shape (sum of sizes, d), those of all heads one after the other.
    bias : shape (sum of sizes,), 0, or `ABSENT` for a center that is not there.
    labels : shape (heads, n), counted from 0 in each head.
    """
    logits = torch.addmm(bias, z, centers.T, alpha=1 / tau)
    if len(set(sizes)) == 1:  # all heads in one table
        return F.cross_entropy(logits.view(-1, sizes[0]), labels.T.flatten())
    parts = torch.split(logits, list(sizes), dim=1)
    losses = [F.cross_entropy(part, labels[h]) for h, part in enumerate(parts)]
    return torch.stack(losses).mean()


def autocast(kind: str, half: bool) -> AbstractContextManager[None]:
    """Compute in bfloat16, if that is wanted, on a kind of device."""
    # no cache: a cast made while a graph is captured must not be used outside of it
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=half, cache_enabled=False)


def batch_loss(
    network: nn.Module,
    augments: tuple[Augment, Augment],
    recipe: Recipe,
    sizes: tuple[int, ...],
    buffers: tuple[Tensor, ...],
    half: bool,
) -> Tensor:
    """The loss of the batch in the buffers of a trainer, over all views of its images.

    No method: so what is compiled for one trainer serves all others.
    """
    images, labels, draws, centers, bias = buffers
    views, small_crops = recipe.augmentation.views, recipe.augmentation.small_crops
    n_large = views * recipe.schedule.batch_size
    temperature, losses = recipe.objective.temperature, []
    for augment, n_views, own in (
        (augments[0], views, draws[:n_large]),
        (augments[1], small_crops, draws[n_large:]),
    ):
        if not n_views:
            continue
        with torch.no_grad():  # all views of a kind in one pass, batch norm over all of them
            x = augment(torch.cat([images] * n_views), own)
            repeated = torch.cat([labels] * n_views, dim=1)
        with autocast(images.device.type, half):
            z = network(x)
        z = F.normalize(z.float(), dim=1)
        loss = deepcluster_loss(z, centers, bias, repeated, sizes, temperature)
        losses.append(n_views * loss)
    return torch.stack(losses).sum() / (views + small_crops)


def balance(z: Tensor, centers: Tensor, *, rounds: int = 100, softness: float = 0.1) -> Tensor:
    """Labels that spread the images evenly over the centers, by Sinkhorn's iterations.

    Parameters
    ----------
    softness : how much images are shared out among centers on the way, in units of the spread of
        an image's cosines: all projections may lie close together.

    Examples
    --------
    >>> z = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2], [1.0, 0.3]]))
    >>> nearest(z, torch.eye(2))[0].tolist(), balance(z, torch.eye(2)).tolist()
    ([0, 0, 0, 0], [0, 0, 1, 1])
    """
    cosines = z @ centers.T
    spread = cosines.std(dim=1, unbiased=False).mean().clamp(min=1e-12)
    table = torch.log_softmax(cosines / (softness * spread), dim=1)
    for _ in range(rounds):
        table = table - torch.logsumexp(table, dim=0, keepdim=True)
        table = table - torch.logsumexp(table, dim=1, keepdim=True)
    return table.argmax(dim=1)
