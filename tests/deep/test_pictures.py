"""Many image files: decoded in order, and cached until one of them changes."""

import os
import stat

import numpy as np
import pytest
from PIL import Image

from fedjigsaw.deep import _decode, pictures
from fedjigsaw.deep.pictures import read_pictures
from fedjigsaw.errors import DataError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of our own, for two files or more, filled by several processes."""
    monkeypatch.setenv("FEDJIGSAW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pictures, "CACHED_FROM", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return tmp_path / "cache" / "images"


@pytest.fixture
def files(tmp_path, rng):
    paths = [tmp_path / f"{i}.png" for i in range(9)]
    for path in paths:
        Image.fromarray(rng.integers(256, size=(12, 10, 3), dtype=np.uint8)).save(path)
    return paths


def decoded(files, size):
    opened = [Image.open(file).resize((size, size), Image.Resampling.BILINEAR) for file in files]
    return np.stack([np.asarray(one).transpose(2, 0, 1) for one in opened])


def test_they_come_in_order(cache, files):
    np.testing.assert_array_equal(read_pictures(files, None), decoded(files, 10))
    np.testing.assert_array_equal(read_pictures(files[::-1], 8), decoded(files[::-1], 8))


def test_the_second_time_they_come_from_the_cache(cache, files, monkeypatch):
    first = read_pictures(files, 8)
    monkeypatch.setattr(pictures, "_fill_cache", None)
    again = read_pictures(files, 8)
    np.testing.assert_array_equal(again, first)
    again[0] = 0  # changes stay in memory
    np.testing.assert_array_equal(read_pictures(files, 8), decoded(files, 8))
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_a_changed_file_is_read_again(cache, files):
    read_pictures(files, 8)
    before = files[3].stat()
    Image.new("RGB", (12, 10), (1, 2, 3)).save(files[3])
    os.utime(files[3], ns=(0, before.st_mtime_ns))
    assert read_pictures(files, 8)[3, :, 0, 0].tolist() == [1, 2, 3]


def test_a_broken_file_leaves_nothing_behind(cache, files):
    files[5].write_bytes(b"no image")
    with pytest.raises(DataError, match=r"Cannot read .*5.png: the image is broken"):
        read_pictures(files, 8)
    files[5].unlink()
    with pytest.raises(DataError, match=r"Cannot read .*5.png"):
        read_pictures(files, 8)
    assert not cache.exists() or not list(cache.iterdir())


def test_a_broken_cache_is_written_again(cache, files):
    read_pictures(files, 8)
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    for content in (b"", whole[:-1]):
        path.write_bytes(content)
        np.testing.assert_array_equal(read_pictures(files, 8), decoded(files, 8))
        assert path.read_bytes() == whole


def test_it_works_without_a_cache(cache, files):
    cache.parent.write_text("a file, not a folder")
    np.testing.assert_array_equal(read_pictures(files, 8), decoded(files, 8))


def test_it_works_if_a_process_fails(cache, files, monkeypatch, tmp_path):
    monkeypatch.setattr(_decode, "__file__", str(tmp_path / "nowhere.py"))
    np.testing.assert_array_equal(read_pictures(files, 8), decoded(files, 8))
    assert not list(cache.iterdir())


def test_names_may_have_any_characters(cache, files):
    odd = [file.rename(file.with_name(f"a\n{file.stem} \udcff.png")) for file in files]
    np.testing.assert_array_equal(read_pictures(odd, 8), decoded(odd, 8))
    assert len(list(cache.iterdir())) == 1


def test_few_files_are_not_cached(cache, files, monkeypatch):
    monkeypatch.setattr(pictures, "CACHED_FROM", 10)
    read_pictures(files, 8)
    assert not cache.exists()


def test_a_large_first_image_does_not_make_all_of_them_large(files, monkeypatch):
    monkeypatch.setattr(pictures, "MAX_UNSCALED", 3 * 9 * 10**2 - 1)
    with pytest.raises(DataError, match=r"0\.png has 10 pixels .* such as --size 32"):
        read_pictures(files, None)
    assert read_pictures(files, 10).shape == (9, 3, 10, 10)  # somebody chose it
    assert read_pictures(files[:8], None).shape == (8, 3, 10, 10)


def test_a_size_for_which_there_is_no_memory(files, monkeypatch):
    monkeypatch.setattr(pictures, "CACHED_FROM", 10)
    with pytest.raises(DataError, match="9 images of 100000000 x 100000000 pixels need .* GB,"):
        read_pictures(files, 10**8)


def test_an_empty_file_is_told(files):
    files[3].write_bytes(b"")
    with pytest.raises(DataError, match="3.png: the file is empty"):
        read_pictures(files, 8)


def test_an_image_of_far_too_many_pixels_is_not_decoded(files, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(DataError, match="0.png: .* has far too many pixels"):
        read_pictures(files, 8)
