"""The objective by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from fedjigsaw.deep.deepcluster import (
    ABSENT,
    Prototypes,
    assign,
    balance,
    deepcluster_loss,
    mix,
    soft_loss,
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


# ------------------------------------------------------------------------------------ soft targets


def table(n, sizes, seed=0):
    """Random views and centers of length one."""
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
    """Logits 1 and 0, of which the first has a quarter of the target."""
    z, centers = torch.tensor([[1.0, 0.0]]), torch.eye(2)
    loss = soft_loss(z, centers, torch.zeros(2), torch.tensor([[0.25, 0.75]]), [2], 1.0)
    assert float(loss) == pytest.approx(math.log(1 + math.e) - 0.25)


def test_assignments_by_hand():
    """Cosines 1 and 0 have a spread of 1/2; so have 0 and 1."""
    z = torch.eye(2)
    found = assign(z, torch.eye(2), torch.zeros(2), [2], 0.5, None)
    sure = 1 / (1 + math.exp(-4))
    torch.testing.assert_close(found, torch.tensor([[sure, 1 - sure], [1 - sure, sure]]))


@pytest.mark.parametrize("sizes", [[4, 4], [3, 5]])
def test_assignments_are_as_sharp_where_all_centers_are_close(sizes):
    z, centers = table(6, sizes)
    far = assign(z, centers, torch.zeros(8), sizes, 0.3, None)
    close = assign(z, 0.01 * centers + 0.5, torch.zeros(8), sizes, 0.3, None)
    torch.testing.assert_close(far, close, atol=1e-3, rtol=1e-3)
    for part in far.split(sizes, dim=1):
        torch.testing.assert_close(part.sum(dim=1), torch.ones(6))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 5]])
def test_absent_centers_are_never_a_target(sizes, balanced):
    """Nor do they count for the spread, whatever is left in their places."""
    z, centers = table(6, sizes)
    bias = torch.zeros(8)
    bias[[1, 7]] = ABSENT
    shares = (bias == 0).float()
    found = []
    for rest in (0.0, 50.0):
        centers[[1, 7]] = rest
        balance = (shares, shares.clone()) if balanced else None
        found.append(assign(z, centers, bias, sizes, 0.3, balance))
        assert torch.equal(found[-1][:, [1, 7]], torch.zeros(6, 2))
        assert bool(found[-1].isfinite().all())
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("goal", ["even", "skewed"])
def test_balanced_assignments_have_the_shares_that_are_asked_for(goal):
    """Views of ten kinds, the first rare, the last frequent, in small batches: after some of
    those the running mean is right, and the mean assignment much nearer to what was asked for."""
    draw = torch.Generator().manual_seed(0)
    kinds = F.normalize(torch.randn(10, 32, generator=draw), dim=1)
    shares = torch.full((10,), 0.1) if goal == "even" else torch.arange(10.0, 0, -1) / 55
    usual, gaps = shares.clone(), []
    for both in (None, (shares, usual)):
        mean = torch.zeros(10)
        for step in range(200):
            own = torch.multinomial(torch.arange(1.0, 11), 16, replacement=True, generator=draw)
            views = kinds[own] + 0.4 * torch.randn(16, 32, generator=draw)
            z = F.normalize(views, dim=1)
            found = assign(z, kinds, torch.zeros(10), [10], 0.5, both)
            mean += found.mean(dim=0) / 100 * (step >= 100)
        gaps.append(float((mean - shares).abs().sum()))
    assert gaps[1] < 0.75 * gaps[0]


def test_mixed_targets_are_distributions_of_both():
    targets = torch.tensor([[0.5, 0.5, 0.2, 0.3, 0.5]] * 4)  # two views of two images
    labels = torch.tensor([[0, 1], [2, 0]])
    mixed = mix(targets, labels, [2, 3], torch.tensor(0.5))
    first, second = [0.75, 0.25, 0.1, 0.15, 0.75], [0.25, 0.75, 0.6, 0.15, 0.25]
    torch.testing.assert_close(mixed, torch.tensor([first, second] * 2))
    assert torch.equal(mix(targets, labels, [2, 3], torch.tensor(0.0)), targets)
    only = mix(targets, labels, [2, 3], torch.tensor(1.0))
    assert only[0].tolist() == [1, 0, 0, 0, 1]
