"""Arrays that were packed to fill the memory are refused before they are read."""

import tracemalloc
import zipfile

import numpy as np
import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io import npz
from fedjigsaw.io.tables import open_table

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr(npz, "MAX_BYTES", MEGABYTE, raising=False)


def refused(path, message):
    """Check that a table is refused, without the memory that its array would need."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=message):
            open_table(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((8 * MEGABYTE, 2), np.int8), "'X' needs 16,777,216 bytes.* without compression"),
        (np.zeros(16 * MEGABYTE, np.int8), "2-D array of numbers is needed"),
        (np.zeros((2, 4 * MEGABYTE), np.int8), "it has 4,194,304 columns"),
        (np.zeros((MEGABYTE, 2), "U8"), "2-D array of numbers is needed"),
    ],
)
def test_a_small_file_does_not_fill_the_memory(tmp_path, array, message):
    np.savez_compressed(tmp_path / "t.npz", X=array)
    assert (tmp_path / "t.npz").stat().st_size < MEGABYTE / 4
    refused(tmp_path / "t.npz", message)


def test_nor_do_its_names(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((1, 1)), columns=np.zeros(MEGABYTE, "U4"))
    refused(tmp_path / "t.npz", "'columns' needs 16,777,216 bytes")


def test_nor_if_it_lies_about_its_size(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((8 * MEGABYTE, 2), np.int8))
    content = bytearray((tmp_path / "t.npz").read_bytes())
    place = content.index(b"PK\1\2") + 20
    content[place : place + 4] = (2**31).to_bytes(4, "little")
    (tmp_path / "t.npz").write_bytes(content)
    refused(tmp_path / "t.npz", "cannot be read as NPZ")


def test_nor_by_another_compression(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((9, 2)))
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_LZMA) as file:
        file.write(tmp_path / "X.npy", "X.npy")
    refused(tmp_path / "t.npz", "'X' is packed as NumPy does not")


def test_a_shape_larger_than_its_array(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((9, 2)))
    content = (tmp_path / "X.npy").read_bytes().replace(b"(9, 2), }" + b" " * 5, b"(900000, 2), }")
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as file:
        file.writestr("X.npy", content)
    refused(tmp_path / "t.npz", "'X' is cut off")


@pytest.mark.parametrize("order", ["C", "F"])
def test_honest_tables_are_read(tmp_path, order):
    rows = (np.random.default_rng(0).random((20_000, 50)) < 0.01).astype(float)
    np.savez_compressed(tmp_path / "sparse.npz", X=np.asarray(rows, order=order))
    np.savez(tmp_path / "zeros.npz", X=np.zeros((MEGABYTE, 1)))
    assert np.array_equal(open_table(tmp_path / "sparse.npz").reader.array, rows)
    assert open_table(tmp_path / "zeros.npz").n_rows == MEGABYTE
