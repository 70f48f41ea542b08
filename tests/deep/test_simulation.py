"""Simulated clients, and rows as text: what a notebook can call."""

from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import partition
from fedjigsaw.deep import simulation
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.errors import DataError


@pytest.fixture
def data():
    images = np.arange(60 * 192, dtype=np.uint64).astype(np.uint8).reshape(60, 3, 8, 8)
    files = tuple(Path(f"{i}.png") for i in range(60))
    return ImageSet("toy", images, np.arange(60) % 3, images[:0], None, files)


def test_a_subset_keeps_images_labels_and_files_together(data):
    some = simulation.subset(data, 20, seed=1)
    assert len(some.train) == len(some.train_labels) == len(some.train_files) == 20
    for image, *rest in zip(some.train, some.train_labels, some.train_files, strict=True):
        assert any(
            (image == x).all() and rest == others
            for x, *others in zip(data.train, data.train_labels, data.train_files, strict=True)
        )
    assert simulation.subset(data, None, seed=1) is simulation.subset(data, 99, seed=1) is data


@pytest.mark.parametrize(
    ("split", "options"),
    [
        ("iid", {"n_clients": 3}),
        ("dirichlet", {"n_clients": 3, "alpha": 0.5, "min_size": 2}),
        ("shards", {"n_clients": 3, "shards": 4}),
    ],
)
def test_a_split_is_that_of_partition_and_names_its_options(data, split, options):
    ids, used = simulation.split_images(data, split, 3, seed=7, alpha=0.5, shards=4)
    assert used == options
    expected = partition.split(
        split, data.train_labels, 3, rng=7, alpha=0.5, min_size=2, shards_per_client=4
    )
    np.testing.assert_array_equal(ids, expected)


def test_central_images_have_no_clients(data):
    assert simulation.split_images(data, "central", 3, seed=0) == (None, {})


def test_without_labels_images_can_only_be_dealt_evenly(data):
    bare = ImageSet("bare", data.train, None, data.test, None)
    assert np.bincount(simulation.split_images(bare, "iid", 3, seed=0)[0]).tolist() == [20] * 3
    with pytest.raises(DataError, match="bare has no labels, which the split 'shards' needs"):
        simulation.split_images(bare, "shards", 3, seed=0)
