"""Soft targets: views of an image predict each other's clusters.

Labels that stay fixed for a round can be memorized. Here the target of a view is a distribution
over the centers: the soft assignment of the *other* views of the same image, computed in the same
step (swapped prediction, as in SwAV of Caron et al. 2020). Targets carry no gradient.

A table has one row per view, and one column per center of all heads, in order. A missing center has
a `bias` other than 0.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

KEPT = 0.95  # fraction of the running mean that is kept per step
MAX_BOOST = 10.0  # balancing makes a rare center at most this many times likelier


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


def soft_loss(
    z: Tensor, centers: Tensor, bias: Tensor, targets: Tensor, sizes: Sequence[int], tau: float
) -> Tensor:
    """Compute the cross-entropy of unit projections `z` and a table of targets, over all heads."""
    logits = torch.addmm(bias, z, centers.T, alpha=1 / tau)
    return -(targets * by_head(torch.log_softmax, logits, sizes)).sum() / (len(z) * len(sizes))


@torch.no_grad()
def assign(
    z: Tensor,
    centers: Tensor,
    bias: Tensor,
    sizes: Sequence[int],
    softness: float,
    balance: Balance | None,
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
    balance : Balance or None
        None leaves the assignments as they are.

    Examples
    --------
    Both views prefer the first center; balanced, one of them goes to the second:

    >>> z = torch.nn.functional.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.9]]), dim=1)
    >>> assign(z, torch.eye(2), torch.zeros(2), [2], 0.2, None).argmax(1).tolist()
    [0, 0]
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
    if balance is None:
        return table
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


def wanted_shares(kind: str, labels: Tensor, bias: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the share of the views that each center should get at a client.

    Parameters
    ----------
    kind : {"own", "even", "none"}
        "own": the share of the client's images with that label, where every center counts as one
        image more, so that none is ruled out. Otherwise the same share for all centers.
    """
    counts = torch.ones_like(bias)
    if kind == "own":
        heads = zip(labels, sizes, strict=True)
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
