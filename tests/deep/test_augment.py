"""Views: what no draw may change, and what each draw does."""

import pytest
import torch

from fedjigsaw.deep.augment import DEVIATION, MEAN, N_DRAWS, Augment, Strength, standardize

CPU = torch.device("cpu")
STILL = Strength(crop=(1.0, 1.0), flip=0.0, color=0.0, grayscale=0.0)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8, generator=generator)
    return images, torch.rand(6, N_DRAWS, generator=generator)


def test_standardize():
    black_and_white = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)
    expected = [(0 - MEAN) / DEVIATION, (1 - MEAN) / DEVIATION]
    assert standardize(black_and_white).flatten().tolist() == pytest.approx(expected)


def test_without_strength_a_view_is_the_image(batch):
    images, draws = batch
    draws[:, 1] = 0.5  # as wide as high
    views = Augment(STILL, (8, 8), CPU)(images, draws)
    torch.testing.assert_close(views, standardize(images), atol=1e-4, rtol=0)


def test_a_flip_mirrors(batch):
    images, draws = batch
    draws[:, 1] = 0.5
    views = Augment(Strength((1.0, 1.0), 1.0, 0.0, 0.0), (8, 8), CPU)(images, draws)
    torch.testing.assert_close(views, standardize(images.flip(3)), atol=1e-4, rtol=0)


def test_a_quarter_of_the_area_in_the_corner():
    images = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    images[:, :, :4, :4] = 200  # only the upper left quarter is bright
    draws = torch.zeros(1, N_DRAWS)
    draws[:, 1] = 0.5
    draws[:, 4] = 1.0  # no flip
    views = Augment(Strength((0.25, 0.25), 0.0, 0.0, 0.0), (4, 4), CPU)(images, draws)
    torch.testing.assert_close(views, standardize(images[:, :, :4, :4]), atol=1e-4, rtol=0)


def test_gray_has_equal_channels_and_keeps_brightness(batch):
    images, draws = batch
    draws[:, 1] = 0.5
    views = Augment(Strength((1.0, 1.0), 0.0, 0.0, 1.0), (8, 8), CPU)(images, draws)
    torch.testing.assert_close(views[:, 0], views[:, 2])
    luma = (images.float() / 255 * torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1)
    torch.testing.assert_close(views[:, 1] * DEVIATION + MEAN, luma, atol=1e-4, rtol=0)


def test_a_gray_image_has_no_hue_to_turn(batch):
    _, draws = batch
    images = torch.full((6, 3, 8, 8), 120, dtype=torch.uint8)
    views = Augment(Strength((1.0, 1.0), 0.0, 1.0, 0.0), (8, 8), CPU)(images, draws)
    torch.testing.assert_close(views[:, 0], views[:, 1], atol=5e-3, rtol=0)


@pytest.mark.parametrize("size", [(8, 8), (5, 5), (12, 10)])
def test_views_have_the_size_asked_for_and_stay_in_range(batch, size):
    images, draws = batch
    views = Augment(Strength(), size, CPU)(images, draws)
    assert views.shape == (6, 3, *size)
    assert float((views * DEVIATION + MEAN).min()) >= -1e-5
    assert float((views * DEVIATION + MEAN).max()) <= 1 + 1e-5


def test_equal_draws_give_equal_views(batch):
    images, draws = batch
    augment = Augment(Strength(), (8, 8), CPU)
    assert torch.equal(augment(images, draws), augment(images, draws))
    assert not torch.equal(augment(images, draws), augment(images, draws.flip(0)))
