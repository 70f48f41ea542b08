r"""The loss of DeepCluster-v2: views of an image must be close to the center of its cluster.

Image n has pseudo-labels :math:`y_n^h`, one per head h. Head h has unit centers :math:`c_j^h`,
which stay fixed (:class:`Prototypes`). With unit projections :math:`z` of V random views of each
image, minimize over the weights of the network

.. math:: \frac1{HV} \sum_{h, v} -\log \frac{\exp(z_{nv} \cdot c^h_{y_n^h} / \tau)}
          {\sum_j \exp(z_{nv} \cdot c^h_j / \tau)}
          + \frac\mu2 \|\theta - \bar\theta\|^2

(Caron et al. 2020; the last term, off by default, is FedProx's of Li et al. 2020). Instead of its
label, a view can also predict the clusters of other views (:mod:`fedjigsaw.deep.soft_targets`).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep.augment import Augment, Augmentation
from fedjigsaw.deep.execution import Execution
from fedjigsaw.deep.objective import Objective
from fedjigsaw.deep.schedule import Schedule
from fedjigsaw.deep.soft_targets import Balance, assign, mix, of_others, soft_loss
from fedjigsaw.kernels.device.lloyd import nearest

ABSENT = -1e4  # logit of a missing center


@dataclass(frozen=True)
class Recipe:
    """All settings that a trainer depends on."""

    objective: Objective
    augmentation: Augmentation
    schedule: Schedule
    execution: Execution


class Buffers(NamedTuple):
    """What the loss of a batch reads: tensors with fixed addresses.

    Attributes
    ----------
    images : Tensor of shape (n, 3, height, width)
    labels : Tensor of shape (heads, n)
        Labels, counted from 0 in each head.
    draws : Tensor of shape (n * views, N_DRAWS)
        Uniform random numbers for the views.
    centers : Tensor of shape (centers, d)
        Centers of all heads, in order.
    bias : Tensor of shape (centers,)
        0, or `ABSENT` for a missing center.
    stored_share : Tensor of shape ()
        Fraction of a soft target that is the label.
    balance : Balance
        How soft assignments should spread over the centers.
    """

    images: Tensor
    labels: Tensor
    draws: Tensor
    centers: Tensor
    bias: Tensor
    stored_share: Tensor
    balance: Balance


class Prototypes(NamedTuple):
    """Prototypes of one head: unit directions from a middle.

    Attributes
    ----------
    middle : Tensor of shape (d,)
    directions : Tensor of shape (k, d)

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
        """Make prototypes around the mean of the centers, or around zero."""
        middle = centers.mean(dim=0) * centered
        return cls(middle, F.normalize(centers - middle, dim=1))

    def label(self, z: Tensor, *, balanced: bool = False) -> Tensor:
        """Return the nearest prototype of each projection; balanced: equally many for each."""
        unit = F.normalize(z - self.middle, dim=1)
        return balance(unit, self.directions) if balanced else nearest(unit, self.directions)[0]


def deepcluster_loss(
    z: Tensor, centers: Tensor, bias: Tensor, labels: Tensor, sizes: Sequence[int], tau: float
) -> Tensor:
    """Compute the cross-entropy of unit projections `z` and their labels, averaged over heads.

    Parameters
    ----------
    centers : Tensor of shape (sum of sizes, d)
        Centers of all heads, in order.
    bias : Tensor of shape (sum of sizes,)
        0, or `ABSENT` for a missing center.
    labels : Tensor of shape (heads, n)
        Labels, counted from 0 in each head.
    """
    logits = torch.addmm(bias, z, centers.T, alpha=1 / tau)
    if len(set(sizes)) == 1:  # all heads in one table
        return F.cross_entropy(logits.view(-1, sizes[0]), labels.T.flatten())
    parts = torch.split(logits, list(sizes), dim=1)
    losses = [F.cross_entropy(part, labels[h]) for h, part in enumerate(parts)]
    return torch.stack(losses).mean()


def autocast(kind: str, half: bool) -> AbstractContextManager[None]:
    """Return a context that computes in bfloat16 if `half`, on a kind of device."""
    # no cache: a cast made while a graph is captured must not be used outside of the graph
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=half, cache_enabled=False)


def project(network: nn.Module, x: Tensor, half: bool) -> Tensor:
    """Compute unit projections."""
    with autocast(x.device.type, half):
        z = network(x)
    return F.normalize(z.float(), dim=1)


def batch_loss(
    network: nn.Module,
    teacher: nn.Module | None,
    augments: tuple[Augment, Augment],
    recipe: Recipe,
    sizes: tuple[int, ...],
    batch: Buffers,
    half: bool,
) -> Tensor:
    """Compute the loss of the batch in a trainer's buffers, over all views of its images.

    A function, not a method, so that what is compiled for one trainer serves all others.

    Parameters
    ----------
    teacher : Module or None
        The network that makes soft targets; None is `network` itself.
    """
    views, small_crops = recipe.augmentation.views, recipe.augmentation.small_crops
    n_large = views * recipe.schedule.batch_size
    temperature, losses = recipe.objective.temperature, []
    assigned: Tensor | None = None  # soft assignments of the large views
    for augment, n_views, own in (
        (augments[0], views, batch.draws[:n_large]),
        (augments[1], small_crops, batch.draws[n_large:]),
    ):
        if not n_views:
            continue
        with torch.no_grad():  # one pass for all views of a kind, so batch norm sees them all
            x = augment(torch.cat([batch.images] * n_views), own)
        z = project(network, x, half)
        if recipe.objective.targets == "stored":
            labels = torch.cat([batch.labels] * n_views, dim=1)
            loss = deepcluster_loss(z, batch.centers, batch.bias, labels, sizes, temperature)
        else:
            with torch.no_grad():
                if assigned is None:
                    seen = z if teacher is None else project(teacher, x, half)
                    assigned = _assign_views(seen, recipe.objective, sizes, batch)
                    targets = of_others(assigned)
                else:  # a small crop predicts all large views
                    targets = assigned.mean(0).expand(n_views, -1, -1)
                targets = mix(targets.flatten(0, 1), batch.labels, sizes, batch.stored_share)
            loss = soft_loss(z, batch.centers, batch.bias, targets, sizes, temperature)
        losses.append(n_views * loss)
    return torch.stack(losses).sum() / (views + small_crops)


def _assign_views(
    z: Tensor, objective: Objective, sizes: tuple[int, ...], batch: Buffers
) -> Tensor:
    """Assign the large views softly, shape (views, images, centers)."""
    balance = None if objective.target_balance == "none" else batch.balance
    table = assign(z, batch.centers, batch.bias, sizes, objective.target_softness, balance)
    return table.view(-1, len(batch.images), table.shape[1])


def balance(z: Tensor, centers: Tensor, *, rounds: int = 100, softness: float = 0.1) -> Tensor:
    """Label images so that they spread evenly over the centers, by Sinkhorn's iterations.

    Parameters
    ----------
    softness : float
        Temperature of the assignments, in units of the spread of an image's cosines: all
        projections may be close together.

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
