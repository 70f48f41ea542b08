"""Read images from disk as bytes of shape (n, 3, height, width), with labels if there are any.

The layout is recognized by its files: CIFAR-10 and CIFAR-100 in their official binary form,
Tiny-ImageNet, a folder with one folder of images per class (perhaps below ``train`` and ``test`` or
``val``), or an NPZ file. Labels are for evaluation only; training does not read them.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.deep import packed
from fedjigsaw.deep.image_size import LEAST, MOST
from fedjigsaw.deep.pictures import Bytes, read_pictures
from fedjigsaw.deep.pixels import check_images, with_channels
from fedjigsaw.errors import DataError, ParameterError, counted, invalid, unreadable
from fedjigsaw.parameters import integer

ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
CIFARS = {  # training files, test files, label bytes, height and width
    "cifar10": ([f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"], 1, 32),
    "cifar100": (["train.bin"], ["test.bin"], 2, 32),
}
TINY_SIZE = 64


@dataclass(frozen=True)
class ImageSet:
    """Images to train on and, if the layout has them, images to test on.

    Attributes
    ----------
    name : str
    train, test : array of uint8 of shape (n, 3, height, width)
        Images; `test` may be empty.
    train_labels, test_labels : array of shape (n,) or None
        Class of each image, if known.
    train_files, test_files : tuple of Path or None
        File of each image, if images are files of their own.

    Examples
    --------
    >>> from fedjigsaw.deep.images import load
    >>> found = load("digits")
    >>> found.test.shape, found.has_test
    ((359, 3, 8, 8), True)
    """

    name: str
    train: Bytes
    train_labels: Ints | None
    test: Bytes
    test_labels: Ints | None
    train_files: tuple[Path, ...] | None = None
    test_files: tuple[Path, ...] | None = None

    @property
    def has_test(self) -> bool:
        """Tell whether there are labeled images to test on."""
        return self.test_labels is not None and len(self.test) > 0


def load(source: str | Path, *, size: int | None = None, usual_size: int | None = None) -> ImageSet:
    """Read images from a folder or an NPZ file; ``digits`` are those of scikit-learn.

    Parameters
    ----------
    source : str or Path
        A folder of image files (with a folder for each class, if classes are known), of CIFAR-10,
        CIFAR-100 or Tiny-ImageNet, an NPZ file, or "digits".
    size : int or None
        Height and width to scale image files to, at most 4096. None is `usual_size`.
    usual_size : int or None
        Height and width that image files get unless `size` is given; other images keep theirs. None
        is the size of the first one.

    Returns
    -------
    ImageSet

    Raises
    ------
    ParameterError
        If the images are not files of their own and have another size than `size`.
    DataError
        If there are no images, or two sets of them, or a file or folder cannot be read.

    Examples
    --------
    >>> from fedjigsaw.deep.images import load
    >>> load("digits").train.shape
    (1438, 3, 8, 8)
    """
    if size is not None:
        integer(LEAST, MOST).check("size", "images", size)
    try:
        found = _load(source, size or usual_size)
    except OSError as error:
        raise DataError(unreadable(error.filename or source, error)) from error
    height, width = found.train.shape[2:]
    if size is not None and (height, width) != (size, size):
        raise ParameterError(
            f"Cannot scale {source} to {size} x {size} pixels: only image files are scaled, and "
            f"its images are bytes of {height} x {width}. Leave the size out."
        )
    return found


def _load(source: str | Path, size: int | None) -> ImageSet:
    if str(source) == "digits":
        return _digits()
    path = Path(source)
    if path.suffix.lower() == ".npz" and path.exists():
        return ImageSet(path.stem, *packed.read(path))
    if not path.is_dir():
        raise DataError(f"There are no images at {path}: name a folder, an NPZ file, or 'digits'.")
    cifars = list(_find_cifars(path))
    if len(cifars) > 1:
        found = " and ".join(f"{name} in {folder}" for folder, name in cifars)
        raise DataError(f"{path} has two image sets: {found}. Name the folder of one of them.")
    for folder, name in cifars:
        return _cifar(folder, name, *CIFARS[name])
    if _is_tiny_imagenet(path):
        return _tiny_imagenet(path, size or TINY_SIZE)
    return _folder(path, size)


def _find_cifars(path: Path) -> Iterator[tuple[Path, str]]:
    """Find CIFAR-10 and CIFAR-100 in a folder, or in their usual folders below it."""
    for name, (train, test, _, _) in CIFARS.items():
        for folder in (path, path / f"cifar-{name[5:]}-batches-bin", path / "cifar-100-binary"):
            here = [(folder / file).is_file() for file in (train[0], test[0])]
            # train.bin alone is too common a name
            if all(here) or (any(here) and (folder != path or name == "cifar10")):
                yield folder, name
                break


def left_out(source: str | Path, found: ImageSet) -> str | None:
    """Say which files of a folder were not read; None if all were.

    Parameters
    ----------
    found : ImageSet
        What :func:`load` has read from there.
    """
    if found.train_files is None or _is_tiny_imagenet(Path(source)):  # which has known other files
        return None
    read = {*found.train_files, *(found.test_files or ())}
    rest = [file for file in _shown(Path(source), strict=False) if file not in read]
    if not rest:
        return None
    kinds = Counter(file.suffix.lower() or "no ending" for file in rest).most_common()
    shown = ", ".join(f"{n:,} {ending}" for ending, n in kinds[:9]) + ", ..." * (len(kinds) > 9)
    return f"Left out {counted(len(rest), 'file')}: {shown}."


def _shown(folder: Path, *, strict: bool = True) -> Iterator[Path]:
    """Yield the files in a folder at any depth, but for hidden ones and those in hidden folders.

    Parameters
    ----------
    strict : bool
        Raise an OSError if a folder cannot be read, or else its images would be left out silently.
    """
    for path, folders, files in os.walk(folder, onerror=_raise_unless_missing if strict else None):
        folders[:] = [name for name in folders if not _is_hidden(Path(name))]
        yield from (Path(path, name) for name in files if not _is_hidden(Path(name)))


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # test images need not have all classes
        raise error


def names_in(folder: str | Path, files: Sequence[Path]) -> list[str]:
    """Return the paths of files as seen from a folder, as texts that every table can hold.

    Examples
    --------
    >>> names_in("photos", [Path("photos/cats/1.png")])
    ['cats/1.png']
    """
    inside = (os.fsencode(Path(os.path.relpath(file, folder)).as_posix()) for file in files)
    return [name.decode(errors="backslashreplace") for name in inside]


# ----------------------------------------------------------------------------------------- layouts


def _digits() -> ImageSet:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = with_channels((digits.images * 15.9375).astype(np.uint8), "digits")
    labels = digits.target.astype(np.int64)
    test = np.arange(len(labels)) % 5 == 4
    return ImageSet("digits", images[~test], labels[~test], images[test], labels[test])


def _cifar(
    folder: Path, name: str, train: list[str], test: list[str], n_labels: int, size: int
) -> ImageSet:
    """Read records of one or two label bytes (the last is the finer) and the planes of an image."""
    length = n_labels + 3 * size * size

    def read(files: list[str]) -> tuple[Bytes, Ints]:
        tables = []
        for file in files:
            content = _bytes(folder / file)
            if not len(content) or len(content) % length:
                allowed = f"records of {length} bytes each"
                got = f"{len(content)} bytes"
                raise DataError(invalid("size", str(folder / file), allowed, got))
            tables.append(content.reshape(-1, length))
        table = np.concatenate(tables)
        labels = table[:, n_labels - 1].astype(np.int64)
        n_classes = int(name.removeprefix("cifar"))
        if labels.max() >= n_classes:
            raise DataError(
                f"{folder} has an image of class {labels.max()}, where {name} has classes 0 to "
                f"{n_classes - 1}: a file is damaged, or of another kind. Fetch them again."
            )
        return np.ascontiguousarray(table[:, n_labels:]).reshape(-1, 3, size, size), labels

    return ImageSet(name, *read(train), *read(test))


def _bytes(path: Path) -> Bytes:
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(unreadable(path, error)) from error


def _is_tiny_imagenet(path: Path) -> bool:
    return (path / "val" / "val_annotations.txt").is_file()


def _tiny_imagenet(path: Path, size: int) -> ImageSet:
    classes = _classes(path / "train")
    numbers = {name: i for i, name in enumerate(classes)}
    train = [(f, numbers[c]) for c in classes for f in _pictures(path / "train" / c)]
    notes = path / "val" / "val_annotations.txt"
    test = []
    for line in notes.read_text(encoding="utf-8", errors="replace").splitlines():
        file, name = ([*line.split("\t"), ""])[:2]
        if name not in numbers:
            raise DataError(f"{notes} has a line without a class of train: {line[:80]!r}.")
        test.append((path / "val" / "images" / file, numbers[name]))
    for images, source in ((train, path / "train"), (test, notes)):
        if not images:
            raise DataError(f"{source} has no images. Unpack Tiny-ImageNet again.")
    return ImageSet(
        "tiny-imagenet",
        *_read_all(train, size),
        *_read_all(test, size),
        train_files=_files(train),
        test_files=_files(test),
    )


def _folder(path: Path, size: int | None) -> ImageSet:
    """Read one folder per class, perhaps below train and test; or just images, without labels."""
    parts = [path / name for name in ("train", "test", "val") if (path / name).is_dir()][:2]
    train, *rest = parts if (path / "train").is_dir() else [path]
    classes = _classes(train)
    files = [(f, i) for i, c in enumerate(classes) for f in _pictures(train / c)]
    labeled = bool(files)
    files = files or [(f, 0) for f in _pictures(train)]
    if not files:
        endings = ", ".join(sorted(ENDINGS))
        raise DataError(
            f"{path} has no images ({endings}). Of CIFAR, fetch the binary version (.bin)."
        )
    images, labels = _read_all(files, size)
    shown = [
        (f, i) for folder in rest for i, c in enumerate(classes) for f in _pictures(folder / c)
    ]
    has_classes = bool(shown)
    if not shown:  # images that are in no folder inside it
        shown = [(f, 0) for folder in rest for f in sorted(folder.iterdir()) if _is_picture(f)]
    test, test_labels = images[:0], None
    if shown:
        test, found = _read_all(shown, images.shape[2])
        test_labels = found if has_classes else None
    known = labels if labeled else None
    return ImageSet(
        path.resolve().name, images, known, test, test_labels, _files(files), _files(shown)
    )


def _classes(path: Path) -> list[str]:
    found = (folder.name for folder in path.iterdir() if folder.is_dir() and not _is_hidden(folder))
    return sorted(found)


def _is_picture(file: Path) -> bool:
    wanted = file.suffix.lower() in ENDINGS and not _is_hidden(file)
    return wanted and (file.is_file() or file.is_symlink())  # a link that leads nowhere is told


def _is_hidden(file: Path) -> bool:
    """Tell whether a file or folder is not for people.

    macOS writes such files beside each image, and Jupyter keeps copies in such folders.
    """
    return file.name.startswith(".")


def _pictures(folder: Path) -> list[Path]:
    """List all images below a folder, in a fixed order."""
    return sorted(filter(_is_picture, _shown(folder)))


def _read_all(files: list[tuple[Path, int]], size: int | None) -> tuple[Bytes, Ints]:
    images = read_pictures([file for file, _ in files], size)
    labels = np.array([label for _, label in files], dtype=np.int64)
    return check_images(images, owner="a folder"), labels


def _files(labeled: list[tuple[Path, int]]) -> tuple[Path, ...]:
    return tuple(file for file, _ in labeled)
