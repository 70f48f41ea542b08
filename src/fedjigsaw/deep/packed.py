"""Images in an NPZ file, with labels if there are any."""

from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.deep.pictures import Bytes
from fedjigsaw.deep.pixels import with_channels
from fedjigsaw.errors import DataError, invalid, unreadable
from fedjigsaw.io.npz import PackedArrays
from fedjigsaw.io.regular import check_regular

ARRAYS = {"x_train", "y_train", "x_test", "y_test", "images", "labels"}


def read(path: Path) -> tuple[Bytes, Ints | None, Bytes, Ints | None]:
    """Read the arrays x_train, y_train, x_test and y_test, or images and labels."""
    check_regular(path)
    try:
        with PackedArrays(path) as file:
            names = sorted(file.parts)
            arrays = {name: file.read(name) for name in names if name in ARRAYS}
    except OSError as error:
        raise DataError(unreadable(path, error)) from error
    except Exception as error:  # neither NumPy nor zipfile promise a kind for broken files
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} is not an NPZ file of plain arrays: {reason}.") from error
    images = arrays.get("x_train", arrays.get("images"))
    if images is None:
        has = ", ".join(names[:9]) or "none"
        raise DataError(f"{path} has no array x_train or images; it has {has}.")
    if "images" in arrays and "x_train" in arrays:
        raise DataError(f"{path} has both x_train and images: keep those to train on.")
    train = with_channels(images, str(path))
    test = np.zeros((0, *train.shape[1:]), dtype=np.uint8)
    if len(arrays.get("x_test", ())):
        test = with_channels(arrays["x_test"], str(path))
        own, usual = (f"{height} x {width}" for *_, height, width in (test.shape, train.shape))
        if own != usual:  # image files all get one size; a network sees another scale otherwise
            raise DataError(
                f"{path} has test images of {own} pixels (x_test) and training images of {usual}. "
                "Scale all to one size, or put the test images into a file of their own, as images."
            )
    labels = _labels(arrays.get("y_train", arrays.get("labels")), len(train), path)
    shown = _labels(arrays.get("y_test"), len(test), path) if len(test) else None
    if labels is not None and shown is not None:
        # together: test images need not have all classes
        if len({table.dtype.kind.replace("u", "i") for table in (labels, shown)}) > 1:
            got = f"{shown.dtype}, not {labels.dtype}"
            raise DataError(invalid("y_test", str(path), "labels of the same kind as y_train", got))
        both = _numbered(np.concatenate([labels, shown]))
        return train, both[: len(train)], test, both[len(train) :]
    return train, None if labels is None else _numbered(labels), test, None


def _numbered(labels: np.ndarray) -> Ints:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _labels(labels: Any, n_images: int, path: Path) -> np.ndarray | None:
    if labels is None:
        return None
    found: np.ndarray = np.asarray(labels).reshape(-1)
    if len(found) != n_images or found.dtype.kind not in "iuUS":
        allowed = f"whole numbers or words, one per image, {n_images}"
        raise DataError(invalid("labels", str(path), allowed, f"{found.dtype} {found.shape}"))
    return found
