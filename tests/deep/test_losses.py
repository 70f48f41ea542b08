"""The losses by hand: labels, soft targets, and their balance."""

import math

import pytest
import torch
from torch.nn import functional as F

from fedjigsaw.deep.losses import (
    ABSENT,
    Balance,
    assign,
    deepcluster_loss,
    mix,
    of_others,
    soft_loss,
    wanted_shares,
)


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


def test_an_absent_center_takes_no_part():
    z = torch.tensor([[1.0, 0.0]])
    centers = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    bias = torch.tensor([0.0, 0.0, ABSENT])
    loss = deepcluster_loss(z, centers, bias, torch.tensor([[0]]), [3], 1.0)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-1)))


def table(n, sizes, seed=0):
    """Draw unit projections of views, and unit centers."""
    draw = torch.Generator().manual_seed(seed)
    z, centers = (torch.randn(m, 8, generator=draw) for m in (n, sum(sizes)))
    return F.normalize(z, dim=1), F.normalize(centers, dim=1)


@pytest.mark.parametrize("sizes", [[3], [3, 3], [2, 4]])
def test_soft_loss_of_labels_is_the_loss_of_labels(sizes):
    z, centers = table(5, sizes)
    labels = torch.stack([torch.arange(5) % k for k in sizes])
    sure = torch.cat([F.one_hot(own, k) for own, k in zip(labels, sizes, strict=True)], dim=1)
    given = (z, centers, torch.zeros(sum(sizes)))
    soft = soft_loss(*given, sure.float(), sizes, 0.1)
    assert float(soft) == pytest.approx(float(deepcluster_loss(*given, labels, sizes, 0.1)))


def test_soft_loss_by_hand():
    """Logits 1 and 0; the first center has a quarter of the target."""
    z, centers = torch.tensor([[1.0, 0.0]]), torch.eye(2)
    loss = soft_loss(z, centers, torch.zeros(2), torch.tensor([[0.25, 0.75]]), [2], 1.0)
    assert float(loss) == pytest.approx(math.log(1 + math.e) - 0.25)


def test_assignments_by_hand():
    """Cosines 1 and 0 have a spread of 1/2, and so have 0 and 1; shares are as wanted already."""
    z, half = torch.eye(2), torch.full((2,), 0.5)
    found = assign(z, torch.eye(2), torch.zeros(2), [2], 0.5, Balance(half, half.clone()))
    sure = 1 / (1 + math.exp(-4))
    torch.testing.assert_close(found, torch.tensor([[sure, 1 - sure], [1 - sure, sure]]))


@pytest.mark.parametrize("sizes", [[4, 4], [3, 5]])
def test_assignments_stay_sharp_if_all_centers_are_close(sizes):
    z, centers = table(6, sizes)
    far, close = (
        assign(z, some, torch.zeros(8), sizes, 0.3, Balance(torch.ones(8), torch.ones(8)))
        for some in (centers, 0.01 * centers + 0.5)
    )
    torch.testing.assert_close(far, close, atol=1e-3, rtol=1e-3)
    for part in far.split(sizes, dim=1):
        torch.testing.assert_close(part.sum(dim=1), torch.ones(6))


@pytest.mark.parametrize("sizes", [[4, 4], [3, 5]])
def test_absent_centers_are_never_a_target(sizes):
    """Nor do they count for the spread, whatever values their rows still have."""
    z, centers = table(6, sizes)
    bias = torch.zeros(8)
    bias[[1, 7]] = ABSENT
    shares = (bias == 0).float()
    found = []
    for rest in (0.0, 50.0):
        centers[[1, 7]] = rest
        found.append(assign(z, centers, bias, sizes, 0.3, Balance(shares, shares.clone())))
        assert torch.equal(found[-1][:, [1, 7]], torch.zeros(6, 2))
        assert bool(found[-1].isfinite().all())
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("goal", ["even", "skewed"])
def test_balanced_assignments_approach_the_wanted_shares(goal):
    """Views of ten kinds in small batches; the first kind is rare, the last frequent.

    After some steps the mean assignment is much nearer to the wanted shares than before balance.
    """
    draw = torch.Generator().manual_seed(0)
    kinds = F.normalize(torch.randn(10, 32, generator=draw), dim=1)
    shares = torch.full((10,), 0.1) if goal == "even" else torch.arange(10.0, 0, -1) / 55
    balance, mean = Balance(shares, shares.clone()), torch.zeros(10)
    for step in range(200):
        own = torch.multinomial(torch.arange(1.0, 11), 16, replacement=True, generator=draw)
        z = F.normalize(kinds[own] + 0.4 * torch.randn(16, 32, generator=draw), dim=1)
        found = assign(z, kinds, torch.zeros(10), [10], 0.5, balance)
        mean += found.mean(dim=0) / 100 * (step >= 100)
    before = (balance.running - shares).abs().sum()
    assert (mean - shares).abs().sum() < 0.75 * before


def test_targets_mixed_with_labels():
    targets = torch.tensor([[0.5, 0.5, 0.2, 0.3, 0.5]] * 4)  # two views of two images
    labels = torch.tensor([[0, 1], [2, 0]])
    mixed = mix(targets, labels, [2, 3], torch.tensor(0.5))
    first, second = [0.75, 0.25, 0.1, 0.15, 0.75], [0.25, 0.75, 0.6, 0.15, 0.25]
    torch.testing.assert_close(mixed, torch.tensor([first, second] * 2))
    assert torch.equal(mix(targets, labels, [2, 3], torch.tensor(0.0)), targets)
    only = mix(targets, labels, [2, 3], torch.tensor(1.0))
    assert only[0].tolist() == [1, 0, 0, 0, 1]


def test_the_other_views_are_averaged():
    assigned = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]])  # three views of one image
    expected = torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]], [[0.5, 0.5]]])
    torch.testing.assert_close(of_others(assigned), expected)
    torch.testing.assert_close(of_others(assigned[:2]), assigned[:2].flip(0))


def test_wanted_shares():
    """Ten images; every center counts as one image more, and missing centers get nothing."""
    labels = torch.tensor([[0] * 6 + [1] * 4, [2] * 10])
    bias = torch.zeros(7)
    own = wanted_shares(labels, bias, (4, 3))
    expected = [7 / 14, 5 / 14, 1 / 14, 1 / 14, 1 / 13, 1 / 13, 11 / 13]
    torch.testing.assert_close(own, torch.tensor(expected))
    bias[[2, 3]] = ABSENT
    own = wanted_shares(labels, bias, (4, 3))
    expected = [7 / 12, 5 / 12, 0, 0, 1 / 13, 1 / 13, 11 / 13]
    torch.testing.assert_close(own, torch.tensor(expected))
