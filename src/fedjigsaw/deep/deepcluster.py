r"""DeepCluster-v2 at one client: views of images must land on the center of their cluster.

The problem: image n has pseudo-labels :math:`y_n^h`, one per head h; head h has centers
:math:`c_j^h` of length one, which stay fixed (:class:`Prototypes`). With projections :math:`z` of
length one, of V random views of each image, minimize over the weights of the network

.. math:: \frac1{HV} \sum_{h, v} -\log \frac{\exp(z_{nv} \cdot c^h_{y_n^h} / \tau)}
          {\sum_j \exp(z_{nv} \cdot c^h_j / \tau)}
          + \frac\mu2 \|\theta - \bar\theta\|^2

(Caron et al. 2020; the last term, off by default, is FedProx's of Li et al. 2020).

Labels that stay fixed for a round can be memorized. With other `targets`, the target of a view is
a distribution: the soft assignment of the *other* views of the same image in the same step
(:func:`assign`; swapped prediction as in SwAV), made by the network itself or by a slow average of
its weights.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedjigsaw.deep.augment import Augment, Strength
from fedjigsaw.deep.lloyd import nearest

ABSENT = -1e4  # the logit of a center that is not there
TARGETS = ("stored", "swapped", "teacher")
BALANCES = ("own", "even", "none")
KEEP_USUAL = 0.95  # share of the running mean of assignments that a step keeps
MOST_HELP = 10.0  # balancing makes a center that is rarely chosen at most so many times likelier


@dataclass(frozen=True)
class Recipe:
    """How a client trains; the parameters are those of :class:`~fedjigsaw.deep.DeepFeCA`."""

    network: str
    norm: str
    batch_size: int
    views: int
    small_crops: int
    temperature: float
    targets: str
    target_softness: float
    target_balance: str
    teacher_momentum: float
    momentum: float
    weight_decay: float
    proximal: float
    crop: float
    flip: float
    color: float
    grayscale: float
    precision: str
    capture: bool
    compile: bool

    @property
    def strength(self) -> Strength:
        return Strength((self.crop, 1.0), self.flip, self.color, self.grayscale)


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


def soft_loss(
    z: Tensor, centers: Tensor, bias: Tensor, targets: Tensor, sizes: Sequence[int], tau: float
) -> Tensor:
    """As :func:`deepcluster_loss`, against distributions in place of labels.

    Parameters
    ----------
    targets : shape (n, sum of sizes), a distribution over the centers of each head.
    """
    logits = torch.addmm(bias, z, centers.T, alpha=1 / tau)
    table = by_head(torch.log_softmax, logits, sizes)
    return -(targets * table).sum() / (len(z) * len(sizes))


def by_head(
    function: Callable[[Tensor, int], Tensor], table: Tensor, sizes: Sequence[int]
) -> Tensor:
    """Apply a function of table and dimension to the columns of each head, side by side again."""
    if len(set(sizes)) == 1:
        return function(table.view(len(table), -1, sizes[0]), 2).reshape(table.shape)
    return torch.cat([function(part, 1) for part in torch.split(table, list(sizes), dim=1)], dim=1)


def _total(table: Tensor, dim: int) -> Tensor:
    return table.sum(dim, keepdim=True).expand_as(table)


@torch.no_grad()
def assign(
    z: Tensor,
    centers: Tensor,
    bias: Tensor,
    sizes: Sequence[int],
    softness: float,
    balance: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """Soft assignment of views to the centers of each head: a softmax of their cosines.

    Without balance, all views can end up at few centers. Sinkhorn's iterations over a batch would
    prevent that, but a batch has fewer images than there are centers. So this takes the first of
    those iterations, with the sums of its columns from a running mean over the last steps.

    Parameters
    ----------
    softness : temperature of the softmax in units of the spread of a view's cosines: early in
        training all of them are nearly the same, and assignments must be sharp even so.
    balance : the share of the views that each center should have, and the running mean of the share
        that it had before balancing, which this call updates; None leaves assignments as they are.

    Examples
    --------
    Each of two views prefers the first center; balanced, one of them goes to the second:

    >>> z, centers = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.9]]), dim=1), torch.eye(2)
    >>> assign(z, centers, torch.zeros(2), [2], 0.2, None).argmax(1).tolist()
    [0, 0]
    >>> shares, usual = torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])
    >>> assign(z, centers, torch.zeros(2), [2], 0.2, (shares, usual)).argmax(1).tolist()
    [0, 1]
    """
    cosines = z @ centers.T
    present = (bias == 0).float()[None]
    weights = present / by_head(_total, present, sizes)
    middles = by_head(_total, cosines * weights, sizes)
    variances = ((cosines - middles).square() * weights).sum(dim=1) / len(sizes)
    spread = variances.mean().sqrt().clamp(min=1e-4)
    scores = bias + cosines / (softness * spread)
    table = by_head(torch.softmax, scores, sizes)
    if balance is None:
        return table
    shares, usual = balance
    usual.lerp_(table.mean(dim=0), 1 - KEEP_USUAL)
    factors = shares / torch.maximum(usual, shares / MOST_HELP).clamp(min=1e-12)
    return by_head(torch.softmax, scores + factors.clamp(min=1e-12).log(), sizes)


def mix(table: Tensor, labels: Tensor, sizes: Sequence[int], share: Tensor) -> Tensor:
    """Distributions of which a share is a label: that of row i is `labels[:, i % n]`."""
    mixed = table * (1 - share)
    for own, part in zip(labels, torch.split(mixed, list(sizes), dim=1), strict=True):
        columns = own.repeat(len(table) // len(own))[:, None]
        part.scatter_add_(1, columns, share.expand(columns.shape))
    return mixed


def autocast(kind: str, half: bool) -> AbstractContextManager[None]:
    """Compute in bfloat16, if that is wanted, on a kind of device."""
    # no cache: a cast made while a graph is captured must not be used outside of it
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=half, cache_enabled=False)


def batch_loss(
    network: nn.Module,
    teacher: nn.Module | None,
    augments: tuple[Augment, Augment],
    recipe: Recipe,
    sizes: tuple[int, ...],
    buffers: tuple[Tensor, ...],
    half: bool,
) -> Tensor:
    """The loss of the batch in the buffers of a trainer, over all views of its images.

    No method: so what is compiled for one trainer serves all others.

    Parameters
    ----------
    teacher : the network that makes the targets; None is `network` itself.
    """
    images, labels, draws, centers, bias, stored_share, shares, usual = buffers
    n, n_large = len(images), recipe.views * recipe.batch_size
    swapped = recipe.targets != "stored"
    losses, targets = [], bias  # of the large views, once they are there
    for augment, n_views, own in (
        (augments[0], recipe.views, draws[:n_large]),
        (augments[1], recipe.small_crops, draws[n_large:]),
    ):
        if not n_views:
            continue
        with torch.no_grad():  # all views of a kind in one pass, batch norm over all of them
            x = augment(torch.cat([images] * n_views), own)
        z = project(network, x, half)
        if swapped:
            with torch.no_grad():
                if augment is augments[0]:
                    seen = z.detach() if teacher is None else project(teacher, x, half)
                    balance = None if recipe.target_balance == "none" else (shares, usual)
                    softness = recipe.target_softness
                    found = assign(seen, centers, bias, sizes, softness, balance)
                    targets = found.view(n_views, n, -1)
                    others = (targets.sum(0) - targets) / (n_views - 1)
                else:
                    others = targets.mean(0, keepdim=True).expand(n_views, -1, -1)
                wanted = mix(others.reshape(n_views * n, -1), labels, sizes, stored_share)
            loss = soft_loss(z, centers, bias, wanted, sizes, recipe.temperature)
        else:
            repeated = torch.cat([labels] * n_views, dim=1)
            loss = deepcluster_loss(z, centers, bias, repeated, sizes, recipe.temperature)
        losses.append(n_views * loss)
    return torch.stack(losses).sum() / (recipe.views + recipe.small_crops)


def project(network: nn.Module, x: Tensor, half: bool) -> Tensor:
    """Projections of length one."""
    with autocast(x.device.type, half):
        z = network(x)
    return F.normalize(z.float(), dim=1)


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
