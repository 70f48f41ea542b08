"""Simulated clients, and rows as text: what a notebook can call."""

from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import partition
from fedjigsaw.deep import simulation
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.deep.progress import progress_line
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


def test_the_description_changes_with_the_images_and_with_the_clients(data):
    ids = np.arange(60) % 3
    first = simulation.describe_data(data, ids, split="iid")
    assert (first["dataset"], first["n_images"], first["image_size"]) == ("toy", 60, [8, 8])
    others = [simulation.describe_data(data, other) for other in (None, ids[::-1].copy())]
    assert len({one["fingerprint"] for one in (first, *others)}) == 3


def test_a_round_and_its_data_in_one_line(data):
    row = {
        "rounds": 3, "loss": 1.5, "clusters_used": 9, "clusters": 10, "largest_share": 0.25,
        "spread": 0.8, "round_seconds": 10.0, "cluster_seconds": 2.0, "views_per_second": 1234.0,
    }  # fmt: skip
    assert "10 s left" in progress_line(row, 4)
    assert "left" not in progress_line(row, 4, first=True)  # it had to get ready, too
    said = simulation.in_words(data, np.arange(60) % 3)
    assert said.startswith("60 images")
    assert said.endswith("3 clients of 20 images")
