"""The objective by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from fedjigsaw.deep.deepcluster import ABSENT, Prototypes, balance, deepcluster_loss


def test_loss_by_hand():
    z = torch.tensor([[1.0, 0.0]])
    centers = torch.eye(2)
    # logits 1/tau and 0
    for tau in (1.0, 0.5):
        loss = deepcluster_loss(z, centers, torch.zeros(2), torch.tensor([[0]]), [2], tau)
        assert float(loss) == pytest.approx(math.log(1 + math.exp(-1 / tau)))
        wrong = deepcluster_loss(z, centers, torch.zeros(2), torch.tensor([[1]]), [2], tau)
        assert float(wrong) == pytest.approx(float(loss) + 1 / tau)


def test_loss_is_the_mean_over_heads_and_views():
    z = F.normalize(torch.tensor([[1.0, 0.2], [0.3, 1.0]]), dim=1)
    centers = torch.cat([torch.eye(2), -torch.eye(2), torch.eye(2)])
    labels = torch.tensor([[0, 1], [1, 3]])
    both = deepcluster_loss(z, centers, torch.zeros(6), labels, [2, 4], 0.1)
    heads = [
        F.cross_entropy(z @ centers[part].T / 0.1, labels[h])
        for h, part in enumerate((slice(0, 2), slice(2, 6)))
    ]
    assert float(both) == pytest.approx(float(heads[0] + heads[1]) / 2)


def test_loss_of_heads_of_one_size():
    z = F.normalize(torch.tensor([[1.0, 0.2], [0.3, 1.0], [1.0, -1.0]]), dim=1)
    centers = torch.cat([torch.eye(2), -torch.eye(2)])
    labels = torch.tensor([[0, 1, 1], [1, 1, 0]])
    both = deepcluster_loss(z, centers, torch.zeros(4), labels, [2, 2], 0.1)
    first = F.cross_entropy(z @ torch.eye(2) / 0.1, labels[0])
    second = F.cross_entropy(-z @ torch.eye(2) / 0.1, labels[1])
    assert float(both) == pytest.approx(float(first + second) / 2)


def test_an_absent_center_takes_no_part():
    z = torch.tensor([[1.0, 0.0]])
    centers = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    bias = torch.tensor([0.0, 0.0, ABSENT])
    loss = deepcluster_loss(z, centers, bias, torch.tensor([[0]]), [3], 1.0)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-1)))


@pytest.mark.parametrize("spread", [0.05, 1.0, 5.0])
def test_balanced_labels_fill_all_clusters_evenly(spread):
    """Twenty centers for 500 images of ten kinds, of which the first is rare, the last frequent."""
    draw = torch.Generator().manual_seed(0)
    kinds = torch.multinomial(torch.arange(1.0, 11), 500, replacement=True, generator=draw)
    apart = torch.randn(10, 32, generator=draw)[kinds] + 0.5 * torch.randn(500, 32, generator=draw)
    z = F.normalize(torch.randn(1, 32, generator=draw) + spread * apart, dim=1)
    centers = z[torch.randperm(500, generator=draw)[:20]]
    shares = [torch.bincount(find(z, centers), minlength=20) / 500 for find in (closest, balance)]
    assert shares[0].max() > 0.15
    assert shares[1].max() < 0.075
    assert shares[1].min() > 0.025


def closest(z, centers):
    return (z @ centers.T).argmax(dim=1)


def test_prototypes_are_what_sets_centers_apart():
    """Three centers close together: their directions from the middle are far apart."""
    centers = torch.tensor([[0.5, 0.0625, 0.0], [0.5, -0.0625, 0.0], [0.5, 0.0, 0.0]])
    z = F.normalize(torch.tensor([[1.0, 0.02, 0.0], [1.0, -0.3, 0.0]]), dim=1)
    plain = Prototypes.of(centers[:2], centered=False)
    assert plain.directions[0] @ plain.directions[1] > 0.96
    assert plain.label(z).tolist() == [0, 1]
    centered = Prototypes.of(centers[:2], centered=True)
    assert centered.middle.tolist() == [0.5, 0, 0]
    assert centered.directions[0] @ centered.directions[1] == -1
    assert centered.label(z).tolist() == [0, 1]
    assert Prototypes.of(centers, centered=True).directions[2].norm() == 0  # in the very middle
    one_side = F.normalize(torch.tensor([[1.0, y, 0.0] for y in (0.01, 0.02, 0.3, 0.4)]), dim=1)
    assert centered.label(one_side).tolist() == [0, 0, 0, 0]
    assert centered.label(one_side, balanced=True).tolist() == [1, 1, 0, 0]
