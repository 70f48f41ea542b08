"""Images in memory: bytes of shape (n, 3, height, width)."""

from typing import Any

import numpy as np

from fedjigsaw.deep.image_size import LEAST, MOST
from fedjigsaw.deep.pictures import Bytes
from fedjigsaw.errors import DataError, invalid


def check_images(X: Any, *, owner: str) -> Bytes:
    """Check that images are bytes of shape (n, 3, height, width), of 8 to 4096 pixels a side."""
    allowed = f"bytes (uint8) of shape (n, 3, height, width) with {LEAST} to {MOST} pixels a side"
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise DataError(invalid("images", owner, allowed, "images of several shapes")) from error
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[1] != 3:
        raise DataError(invalid("images", owner, allowed, f"{array.dtype} {array.shape}"))
    if not len(array) or not LEAST <= min(array.shape[2:]) <= max(array.shape[2:]) <= MOST:
        raise DataError(invalid("images", owner, allowed, f"shape {array.shape}"))
    return np.ascontiguousarray(array)


def with_channels(array: Any, owner: str) -> Bytes:
    """Bring gray images and images with channels last to shape (n, 3, height, width)."""
    array = np.asarray(array)
    if array.ndim == 3:
        array = np.repeat(array[:, None], 3, axis=1)
    elif array.ndim == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    if array.ndim == 4 and array.shape[1] == 1:
        array = np.repeat(array, 3, axis=1)
    return check_images(array, owner=owner)
