"""Images in NPZ files, whole and broken."""

import tracemalloc
import zipfile

import numpy as np
import pytest

from fedjigsaw.deep.images import load
from fedjigsaw.errors import DataError
from fedjigsaw.io import npz


@pytest.fixture
def pictures(rng):
    return rng.integers(256, size=(12, 3, 32, 32), dtype=np.uint8)


def test_npz(tmp_path, pictures):
    path = tmp_path / "some.npz"
    labels = np.array(["b", "a"] * 6)
    np.savez(path, x_train=pictures.transpose(0, 2, 3, 1), y_train=labels, x_test=pictures[:3])
    found = load(path)
    np.testing.assert_array_equal(found.train, pictures)
    assert found.train_labels.tolist() == [1, 0] * 6
    assert len(found.test) == 3
    assert found.test_labels is None


@pytest.mark.parametrize("kind", [str, int])
def test_test_images_of_an_npz_have_the_classes_of_the_others(tmp_path, pictures, kind):
    known, shown = (np.array(labels).astype(kind) for labels in ([3, 5, 7, 9], [9, 5, 8]))
    path = tmp_path / "some.npz"
    np.savez(path, x_train=pictures[:4], y_train=known, x_test=pictures[:3], y_test=shown)
    found = load(path)
    assert found.train_labels.tolist() == [0, 1, 2, 4]
    assert found.test_labels.tolist() == [4, 1, 3]  # one class is in no training image


def test_labels_of_an_npz_are_of_one_kind(tmp_path, pictures):
    path = tmp_path / "some.npz"
    arrays = {"x_train": pictures[:2], "x_test": pictures[:2], "y_train": np.array([0, 1])}
    np.savez(path, **arrays, y_test=np.array(["0", "1"]))
    with pytest.raises(DataError, match="y_test of .*some.npz"):
        load(path)


def test_images_of_an_npz_are_of_one_size(tmp_path, pictures):
    """A network sees things at another scale otherwise, and the accuracy means little."""
    path = tmp_path / "some.npz"
    np.savez(path, x_train=pictures, x_test=pictures[:, :, :24])
    said = r"some.npz has test images of 24 x 32 pixels \(x_test\) and training images of 32 x 32"
    with pytest.raises(DataError, match=said):
        load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "has no array x_train or images"),
        ({}, "has no array x_train or images"),
        ({"images": np.zeros((2, 3, 8, 8))}, "images of"),
        (
            {"images": np.zeros((2, 3, 8, 8), np.uint8), "labels": np.zeros(3, int)},
            "labels of .* one per image, 2",
        ),
        ({"images": np.zeros((2, 3, 8, 8), np.uint8), "labels": np.zeros(2)}, "labels of .* whole"),
        ({"images": np.zeros((2, 3, 8, 8), np.uint8), "x_train": np.zeros(3)}, "both x_train and"),
        ({"images": np.array([None, 1])}, "is not an NPZ file of plain arrays: 'images' has Pyth"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "bad.npz")


def test_an_npz_that_cannot_be_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "bad.npz", images=np.zeros((2, 3, 8, 8), np.uint8))
    content = bytearray((tmp_path / "bad.npz").read_bytes())
    content[60:80] = b"\xff" * 20
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(DataError, match="is not an NPZ file"):
        load(tmp_path / "bad.npz")


def test_an_npz_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_BYTES", 2**20)
    zeros = np.zeros((9000, 3, 32, 32), np.uint8)
    np.savez_compressed(tmp_path / "bad.npz", images=zeros)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="bad.npz .* 'images' needs 27,648,000 bytes"):
            load(tmp_path / "bad.npz")
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    np.savez_compressed(tmp_path / "some.npz", images=zeros[:9], other=zeros)
    assert len(load(tmp_path / "some.npz").train) == 9  # what is not needed is not read


def test_nor_if_it_lies_about_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_BYTES", 2**20)
    np.savez_compressed(tmp_path / "bad.npz", images=np.zeros((9000, 3, 32, 32), np.uint8))
    content = bytearray((tmp_path / "bad.npz").read_bytes())
    place = content.index(b"PK\1\2") + 20
    content[place : place + 4] = (2**31).to_bytes(4, "little")
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(DataError, match="is not an NPZ file"):
        load(tmp_path / "bad.npz")


def test_nor_by_another_compression(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((2, 3, 8, 8), np.uint8))
    with zipfile.ZipFile(tmp_path / "bad.npz", "w", zipfile.ZIP_LZMA) as file:
        file.write(tmp_path / "images.npy", "images.npy")
    with pytest.raises(DataError, match="'images' is packed as NumPy does not"):
        load(tmp_path / "bad.npz")


def test_a_shape_larger_than_its_array(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((9, 3, 8, 8), np.uint8))
    content = (tmp_path / "images.npy").read_bytes()
    larger = content.replace(b"(9, 3, 8, 8), }" + b" " * 5, b"(900000, 3, 8, 8), }")
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as file:
        file.writestr("images.npy", larger)
    with pytest.raises(DataError, match="'images' is cut off"):
        load(tmp_path / "bad.npz")


def test_no_npz_at_all(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(DataError, match="is not an NPZ file"):
        load(tmp_path / "bad.npz")
    with pytest.raises(DataError, match="There are no images at .*nowhere: name a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no images .* Of CIFAR, fetch the binary version"):
        load(tmp_path)
