r"""The losses of a batch: views of an image must be close to the center of its cluster.

Image n has pseudo-labels :math:`y_n^h`, one per head h with fixed unit centers :math:`c_j^h`. With
unit projections :math:`z` of V random views of each image, DeepCluster-v2 minimizes over the
weights of the network

.. math:: \frac1{HV} \sum_{h, v} -\log \frac{\exp(z_{nv} \cdot c^h_{y_n^h} / \tau)}
          {\sum_j \exp(z_{nv} \cdot c^h_j / \tau)}

(Caron et al. 2020). Labels that stay fixed for a round can be memorized. So the target of a view
can also be soft, a distribution over the centers: the assignment of the *other* views of the same
image, computed in the same step (swapped prediction, as in SwAV). Targets carry no gradient.

A table has one row per view, and one column per center of all heads, in order. A missing center has
a `bias` other than 0.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep.augment import Augment, Augmentation
from fedjigsaw.deep.execution import Execution
from fedjigsaw.deep.objective import Objective
from fedjigsaw.deep.schedule import Schedule

ABSENT = -1e4  # logit of a missing center
KEPT = 0.95  # fraction of the running mean that is kept per step
MAX_BOOST = 10.0  # balancing makes a rare center at most this many times likelier


@dataclass(frozen=True)
class Recipe:
    """All settings that a trainer depends on."""

    objective: Objective
    augmentation: Augmentation
    schedule: Schedule
    execution: Execution


class Balance(NamedTuple):
    """How views should spread over the centers, and how they did.

    Attributes
    ----------
    wanted : Tensor of shape (centers,)
        Share of the views that each center should get.
    running : Tensor of shape (centers,)
        Running mean of the share that it got before balancing. :func:`assign` updates it.
    """

    wanted: Tensor
    running: Tensor


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
    objective, losses = recipe.objective, []
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
        if objective.targets == "stored":
            labels = torch.cat([batch.labels] * n_views, dim=1)
            loss = deepcluster_loss(
                z, batch.centers, batch.bias, labels, sizes, objective.temperature
            )
        else:
            with torch.no_grad():
                if assigned is None:
                    seen = z if teacher is None else project(teacher, x, half)
                    given = (seen, batch.centers, batch.bias, sizes)
                    table = assign(*given, objective.target_softness, batch.balance)
                    assigned = table.view(views, -1, table.shape[1])
                    targets = of_others(assigned)
                else:  # a small crop predicts all large views
                    targets = assigned.mean(0).expand(n_views, -1, -1)
                targets = mix(targets.flatten(0, 1), batch.labels, sizes, batch.stored_share)
            loss = soft_loss(z, batch.centers, batch.bias, targets, sizes, objective.temperature)
        losses.append(n_views * loss)
    return torch.stack(losses).sum() / (views + small_crops)


def deepcluster_loss(
    z: Tensor, centers: Tensor, bias: Tensor, labels: Tensor, sizes: Sequence[int], tau: float
) -> Tensor:
    """Compute the cross-entropy of unit projections `z` and their labels, averaged over heads."""
    logits = torch.addmm(bias, z, centers.T, alpha=1 / tau)
    if len(set(sizes)) == 1:  # all heads in one table
        return F.cross_entropy(logits.view(-1, sizes[0]), labels.T.flatten())
    parts = torch.split(logits, list(sizes), dim=1)
    losses = [F.cross_entropy(part, labels[h]) for h, part in enumerate(parts)]
    return torch.stack(losses).mean()


def soft_loss(
    z: Tensor, centers: Tensor, bias: Tensor, targets: Tensor, sizes: Sequence[int], tau: float
) -> Tensor:
    """Compute the cross-entropy of unit projections `z` and a table of targets, over all heads."""
    logits = torch.addmm(bias, z, centers.T, alpha=1 / tau)
    return -(targets * by_head(torch.log_softmax, logits, sizes)).sum() / (len(z) * len(sizes))


# ------------------------------------------------------------------------------------ soft targets


@torch.no_grad()
def assign(
    z: Tensor,
    centers: Tensor,
    bias: Tensor,
    sizes: Sequence[int],
    softness: float,
    balance: Balance,
) -> Tensor:
    """Assign views softly to the centers of each head, by a softmax of their cosines.

    Without balance, all views can end up at few centers. Sinkhorn's iterations over a batch would
    prevent that, but a batch has fewer images than there are centers. So this does the first of
    these iterations only, with column sums from a running mean over the last steps.

    Parameters
    ----------
    softness : float
        Temperature of the softmax, in units of the spread of a view's cosines: early in training
        all cosines are nearly the same, and assignments must be sharp all the same.

    Examples
    --------
    Both views prefer the first center; it was seen too often, so one goes to the other:

    >>> z = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.9]]), dim=1)
    >>> balance = Balance(torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1]))
    >>> assign(z, torch.eye(2), torch.zeros(2), [2], 0.2, balance).argmax(1).tolist()
    [0, 1]
    """
    cosines = z @ centers.T
    present = (bias == 0).float()[None]
    weights = present / by_head(_total, present, sizes)
    means = by_head(_total, cosines * weights, sizes)
    variances = ((cosines - means).square() * weights).sum(dim=1) / len(sizes)
    spread = variances.mean().sqrt().clamp(min=1e-4)
    scores = bias + cosines / (softness * spread)
    table = by_head(torch.softmax, scores, sizes)
    wanted, running = balance
    running.lerp_(table.mean(dim=0), 1 - KEPT)
    factors = wanted / torch.maximum(running, wanted / MAX_BOOST).clamp(min=1e-12)
    return by_head(torch.softmax, scores + factors.clamp(min=1e-12).log(), sizes)


def of_others(assigned: Tensor) -> Tensor:
    """Return for each view the mean assignment of the other views of its image.

    Parameters
    ----------
    assigned : Tensor of shape (views, images, centers)
    """
    return (assigned.sum(0) - assigned) / (len(assigned) - 1)


def mix(table: Tensor, labels: Tensor, sizes: Sequence[int], share: Tensor) -> Tensor:
    """Mix targets with stored labels, which get a share of each distribution.

    Parameters
    ----------
    labels : Tensor of shape (heads, n)
        Labels, counted from 0 in each head. Row i of the table is a view of image i modulo n.
    """
    mixed = table * (1 - share)
    for own, part in zip(labels, torch.split(mixed, list(sizes), dim=1), strict=True):
        columns = own.repeat(len(table) // len(own))[:, None]
        part.scatter_add_(1, columns, share.expand(columns.shape))
    return mixed


def wanted_shares(labels: Tensor, bias: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the share of the views that each center should get at a client.

    It is that of the client's images with that label, where every center counts as one image more,
    so that none is ruled out.
    """
    heads = zip(labels, sizes, strict=True)
    counts = torch.ones_like(bias)
    counts += torch.cat([torch.bincount(own, minlength=k) for own, k in heads])
    counts *= bias == 0
    return torch.cat([part / part.sum() for part in torch.split(counts, list(sizes))])


def by_head(
    function: Callable[[Tensor, int], Tensor], table: Tensor, sizes: Sequence[int]
) -> Tensor:
    """Apply a function of a table and a dimension to the columns of each head."""
    if len(set(sizes)) == 1:  # all heads in one call
        return function(table.view(len(table), -1, sizes[0]), 2).reshape(table.shape)
    return torch.cat([function(part, 1) for part in torch.split(table, list(sizes), dim=1)], dim=1)


def _total(table: Tensor, dim: int) -> Tensor:
    return table.sum(dim, keepdim=True).expand_as(table)
