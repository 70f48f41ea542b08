"""Every layout of images, whole and broken."""

import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from fedjigsaw.deep.images import left_out, load, names_in
from fedjigsaw.deep.pixels import check_images, with_channels
from fedjigsaw.errors import DataError, ParameterError


def record(labels, image):
    return bytes(labels) + image.astype(np.uint8).tobytes()


@pytest.fixture
def pictures(rng):
    return rng.integers(256, size=(12, 3, 32, 32), dtype=np.uint8)


@pytest.fixture
def cifar10(tmp_path, pictures):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i in range(5):
        content = b"".join(record([j], pictures[j]) for j in (2 * i, 2 * i + 1))
        (folder / f"data_batch_{i + 1}.bin").write_bytes(content)
    (folder / "test_batch.bin").write_bytes(record([3], pictures[10]) + record([4], pictures[11]))
    return tmp_path


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-bin"])
def test_cifar10(cifar10, pictures, inside):
    found = load(cifar10 / inside)
    assert found.name == "cifar10"
    np.testing.assert_array_equal(found.train, pictures[:10])
    assert found.train_labels.tolist() == list(range(10))
    np.testing.assert_array_equal(found.test, pictures[10:])
    assert found.test_labels.tolist() == [3, 4]


def test_cifar100_has_a_coarse_and_a_fine_label(tmp_path, pictures):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(record([1, 70], pictures[0]) + record([2, 99], pictures[1]))
    (folder / "test.bin").write_bytes(record([3, 5], pictures[2]))
    found = load(tmp_path)
    assert found.name == "cifar100"
    assert found.train_labels.tolist() == [70, 99]
    np.testing.assert_array_equal(found.train, pictures[:2])
    np.testing.assert_array_equal(found.test, pictures[2:3])


@pytest.mark.parametrize("content", [b"", b"x" * 3072, b"x" * 3074])
def test_a_truncated_batch(cifar10, content):
    (cifar10 / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(content)
    with pytest.raises(DataError, match="size of .*data_batch_3.bin"):
        load(cifar10)


def test_a_class_that_cifar_does_not_have(cifar10, pictures):
    folder = cifar10 / "cifar-10-batches-bin"
    (folder / "test_batch.bin").write_bytes(record([10], pictures[0]))
    with pytest.raises(DataError, match=f"{folder} has an image of class 10, .* classes 0 to 9"):
        load(cifar10)


@pytest.mark.parametrize("name", ["data_batch_1.bin", "data_batch_3.bin", "test_batch.bin"])
def test_a_missing_batch(cifar10, name):
    (cifar10 / "cifar-10-batches-bin" / name).unlink()
    with pytest.raises(DataError, match=f"Cannot read .*{name}: no such file"):
        load(cifar10)


@pytest.mark.parametrize("inside", ["", "cifar-100-binary"])
def test_two_cifars_in_one_folder_are_named(cifar10, pictures, inside):
    ten = cifar10 / "cifar-10-batches-bin"
    top, folder = (cifar10, cifar10 / inside) if inside else (ten, ten)
    folder.mkdir(exist_ok=True)
    for file in ("train.bin", "test.bin"):
        (folder / file).write_bytes(record([1, 70], pictures[0]))
    with pytest.raises(
        DataError, match=f"two image sets: cifar10 in {ten} and cifar100 in {folder}"
    ):
        load(top)


def test_a_file_of_another_kind_makes_no_cifar(tmp_path):
    for number in range(2):
        paint(tmp_path / "cat" / f"{number}.png", "red")
    (tmp_path / "test.bin").write_bytes(b"mine")
    assert load(tmp_path).train.shape == (2, 3, 10, 10)


def paint(path, color, size=(10, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def test_a_folder_of_classes_with_a_test_part(tmp_path):
    paint(tmp_path / "train" / "cat" / "1.png", (255, 0, 0))
    paint(tmp_path / "train" / "dog" / "1.png", (0, 255, 0))
    paint(tmp_path / "test" / "dog" / "9.png", (0, 0, 255), size=(20, 20))
    found = load(tmp_path)
    assert found.train.shape == (2, 3, 10, 10)
    assert found.train_labels.tolist() == [0, 1]
    assert found.train[0, :, 0, 0].tolist() == [255, 0, 0]
    assert found.test.shape == (1, 3, 10, 10)  # scaled like the others
    assert found.test_labels.tolist() == [1]
    assert load(tmp_path, size=16).train.shape == (2, 3, 16, 16)


def test_classes_may_have_folders_inside(tmp_path):
    for name in ("cat", "dog"):
        paint(tmp_path / name / "images" / "1.png", (1, 2, 3))
    assert load(tmp_path).train_labels.tolist() == [0, 1]
    paint(tmp_path / "only" / "cat" / "images" / "1.png", (1, 2, 3))
    assert load(tmp_path / "only").train_labels.tolist() == [0]


def test_a_folder_without_classes_has_no_labels(tmp_path):
    paint(tmp_path / "b.png", (9, 9, 9))
    paint(tmp_path / "a.jpg", (0, 0, 0))
    found = load(tmp_path)
    assert found.train_labels is None
    assert found.train[:, 0, 5, 5].tolist() == [0, 9]  # by name
    assert len(found.test) == 0


def test_tiny_imagenet(tmp_path):
    for name, color in (("n01", (10, 0, 0)), ("n02", (20, 0, 0))):
        paint(tmp_path / "train" / name / "images" / f"{name}_0.JPEG", color, size=(64, 64))
    paint(tmp_path / "val" / "images" / "val_0.JPEG", (30, 0, 0), size=(64, 64))
    notes = tmp_path / "val" / "val_annotations.txt"
    notes.write_text("val_0.JPEG\tn02\t0\t0\t63\t63\n")
    found = load(tmp_path)
    assert found.name == "tiny-imagenet"
    assert found.train.shape == (2, 3, 64, 64)
    assert found.train_labels.tolist() == [0, 1]
    assert found.test_labels.tolist() == [1]
    notes.write_text("val_0.JPEG\tn99\n")
    with pytest.raises(DataError, match="val_annotations.txt has a line without a class of train"):
        load(tmp_path)
    notes.write_bytes(b"\xff\xfe\0")
    with pytest.raises(DataError, match="val_annotations.txt has a line without a class of train"):
        load(tmp_path)
    notes.write_text("")
    with pytest.raises(DataError, match=r"val_annotations.txt has no images\. Unpack"):
        load(tmp_path)
    (tmp_path / "train").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"Cannot read .*train: no such file or directory\.$"):
        load(tmp_path)


@pytest.mark.parametrize("ending", ["png", "ppm"])
def test_images_of_16_bits_keep_their_high_byte(tmp_path, ending):
    ramp = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)  # from black to white
    Image.fromarray(ramp).save(tmp_path / f"deep.{ending}")
    Image.fromarray((ramp >> 8).astype(np.uint8)).save(tmp_path / "flat.png")
    deep, flat = load(tmp_path).train
    np.testing.assert_array_equal(deep, flat)


@pytest.mark.parametrize(
    ("ending", "mode"),
    [("gif", "P"), ("tif", "RGB"), ("tiff", "CMYK"), ("pgm", "L"), ("jpg", "CMYK"), ("png", "LA")],
)
def test_images_of_many_kinds_are_read(tmp_path, ending, mode):
    Image.new("RGB", (10, 10), "white").convert(mode).save(tmp_path / f"a.{ending}")
    (image,) = load(tmp_path).train
    assert image.min() == 255


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("ending", ["png", "tiff"])
def test_photos_are_turned_as_viewers_show_them(tmp_path, ending, orientation):
    """Pillow turns TIFF files itself when it reads their pixels, so they must not be turned again."""
    pixels = np.random.default_rng(0).integers(256, size=(10, 10, 3), dtype=np.uint8)
    note = Image.Exif()
    note[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / f"a.{ending}", exif=note)
    (image,) = load(tmp_path).train
    shown = ImageOps.exif_transpose(Image.open(tmp_path / f"a.{ending}"))
    assert (image.transpose(1, 2, 0) == np.asarray(shown)).all()


def test_broken_notes_of_a_camera_do_not_break_a_photo(tmp_path):
    note = b"Exif\0\0II*\0\xff\xff\xff\xff broken"
    Image.new("RGB", (10, 10), "white").save(tmp_path / "a.jpg", exif=note)
    assert load(tmp_path).train.min() == 255


@pytest.mark.parametrize("value", [70_000, 200])  # which would be black
@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_pixels_of_more_than_16_bits_are_told(tmp_path, kind, value):
    Image.fromarray(np.full((10, 10), value, dtype=kind)).save(tmp_path / "a.tiff")
    with pytest.raises(DataError, match=r"a.tiff: .* or its pixels have more than 16 bits"):
        load(tmp_path)


def test_a_first_image_that_is_too_small_is_named(tmp_path):
    for name, side in (("a.png", 4), ("b.png", 20)):
        Image.new("L", (side, side)).save(tmp_path / name)
    with pytest.raises(DataError, match=r"a\.png has 4 pixels .* such as --size 32"):
        load(tmp_path)
    assert load(tmp_path, size=16).train.shape == (2, 3, 16, 16)


def test_files_that_are_not_read_are_counted(tmp_path):
    for name in ("cat", "dog"):
        paint(tmp_path / name / "1.png", (1, 2, 3))
    assert left_out(tmp_path, load(tmp_path)) is None
    for name in ("._1.png", ".DS_Store"):  # as macOS leaves them
        (tmp_path / "cat" / name).write_bytes(b"hidden")
    assert left_out(tmp_path, load(tmp_path)) is None
    for name in ("a.heic", "b.HEIC", "notes"):
        (tmp_path / "cat" / name).write_bytes(b"other")
    paint(tmp_path / "2.png", (1, 2, 3))
    found = load(tmp_path)
    assert len(found.train) == 2
    assert left_out(tmp_path, found) == "Left out 4 files: 2 .heic, 1 .png, 1 no ending."
    assert left_out("digits", load("digits")) is None


def test_a_hidden_folder_is_no_class(tmp_path):
    paint(tmp_path / "cat" / "1.png", (1, 2, 3))
    paint(tmp_path / "cat" / ".thumbs" / "1.png", (1, 2, 3))
    paint(tmp_path / ".ipynb_checkpoints" / "1-checkpoint.png", (1, 2, 3))
    found = load(tmp_path)
    assert len(found.train) == 1
    assert list(found.train_labels) == [0]
    assert left_out(tmp_path, found) is None


def test_test_images_need_no_classes(tmp_path):
    for name in ("train/1.png", "train/2.png", "test/3.png", "4.png"):
        paint(tmp_path / name, (1, 2, 3))
    found = load(tmp_path)
    assert (len(found.train), len(found.test), found.has_test) == (2, 1, False)
    assert [file.name for file in found.test_files] == ["3.png"]
    assert left_out(tmp_path, found) == "Left out 1 file: 1 .png."


@pytest.mark.parametrize("size", [7, 4097])
def test_a_size_has_bounds(tmp_path, size):
    paint(tmp_path / "1.png", (1, 2, 3))
    with pytest.raises(ParameterError, match=f"size .* must be an integer .* 4096; got {size}"):
        load(tmp_path, size=size)
    with pytest.raises(DataError, match=rf"8 to 4096 pixels a side; got shape \(1, 3, 8, {size}\)"):
        check_images(np.zeros((1, 3, 8, size), np.uint8), owner="a test")


def test_a_broken_image_is_named(tmp_path):
    paint(tmp_path / "cat" / "1.png", (1, 2, 3), size=(64, 64))
    content = (tmp_path / "cat" / "1.png").read_bytes()
    (tmp_path / "cat" / "2.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"Cannot read .*2.png: the image is broken or cut off"):
        load(tmp_path)
    (tmp_path / "cat" / "2.png").write_bytes(b"no image at all")
    with pytest.raises(DataError, match=r"2.png: the image is broken"):
        load(tmp_path)


def test_a_file_that_is_not_there_is_no_broken_image(tmp_path):
    paint(tmp_path / "cat" / "1.png", (1, 2, 3))
    (tmp_path / "cat" / "2.png").symlink_to("nowhere.png")
    with pytest.raises(DataError, match=r"Cannot read .*2.png: no such file or directory\.$"):
        load(tmp_path)


def test_a_class_whose_folder_cannot_be_read_is_not_left_out(with_modes):
    folder, block = with_modes
    for name in ("cat", "dog", "fox"):
        paint(folder / "train" / name / "1.png", (1, 2, 3))
    (folder / "lost+found").mkdir(0o000)  # beside the images, it does no harm
    with block():
        assert left_out(folder, load(folder)) is None
    (folder / "train" / "dog").chmod(0o000)
    with block(), pytest.raises(DataError, match=r"Cannot read .*dog: permission denied\.$"):
        load(folder)


def test_only_image_files_are_scaled(tmp_path, cifar10, pictures):
    np.savez(tmp_path / "some.npz", images=pictures)
    for source, pixels in (("digits", 8), (cifar10, 32), (tmp_path / "some.npz", 32)):
        assert load(source, size=pixels).train.shape[2:] == (pixels, pixels)
        assert load(source, usual_size=16).train.shape[2:] == (pixels, pixels)
        with pytest.raises(ParameterError, match=f"to 16 x 16 .* its images are bytes of {pixels}"):
            load(source, size=16)
    paint(tmp_path / "photos" / "1.png", "red")
    assert load(tmp_path / "photos", usual_size=16).train.shape == (1, 3, 16, 16)
    assert load(tmp_path / "photos", size=8, usual_size=16).train.shape == (1, 3, 8, 8)


def test_gray_images_get_three_channels():
    gray = np.arange(128, dtype=np.uint8).reshape(2, 8, 8)
    for shape in ((2, 8, 8), (2, 8, 8, 1), (2, 1, 8, 8)):
        found = with_channels(gray.reshape(shape), "a test")
        assert found.shape == (2, 3, 8, 8)
        np.testing.assert_array_equal(found[:, 2], gray)


def test_images_of_several_shapes():
    ragged = [np.zeros((3, 8, 8), np.uint8), np.zeros((3, 9, 9), np.uint8)]
    with pytest.raises(DataError, match="images of a test"):
        check_images(ragged, owner="a test")


def test_digits(digits):
    assert digits.train.shape[1:] == (3, 8, 8)
    assert digits.train.max() == 255
    assert len(digits.train) + len(digits.test) == 1797
    assert check_images(digits.test, owner="a test") is not None


def test_names_of_files_are_texts_whatever_their_bytes(tmp_path):
    odd = tmp_path / "a" / os.fsdecode(b"\xff\xe9.png")
    assert names_in(tmp_path, [tmp_path / "b.png", odd]) == ["b.png", "a/\\xff\\xe9.png"]
