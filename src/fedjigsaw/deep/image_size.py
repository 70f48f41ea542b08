"""The height and width of the images of all clients, which must be the same.

Networks for small and for large images have the same weights, but not the same strides: the mean of
both kinds would be of no use to anyone, and nothing else would show it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from fedjigsaw.errors import DataError, MessageError, invalid
from fedjigsaw.messages import IMAGE_SIZE, Model, Summary, Tensors

LEAST, MOST = 8, 2**12  # pixels; image files are scaled to what a checkpoint says


def with_size(summary: Summary, images: Tensor) -> Summary:
    """Return a summary that tells the height and width of a client's images."""
    size = np.array(images.shape[-2:], dtype=np.int64)
    return replace(summary, tensors={**summary.tensors, IMAGE_SIZE: size})


def check_size(tensors: Tensors, owner: str) -> tuple[int, int]:
    """Return height and width, which the model and the first summary of a client tell."""
    size = tensors.get(IMAGE_SIZE, np.zeros(0))
    whole = size.shape == (2,) and size.dtype.kind in "iu"
    if not whole or not LEAST <= size.min() <= size.max() <= MOST:
        allowed = f"two whole numbers from {LEAST} to {MOST}"
        got = str(size.tolist()) if size.size <= 2 else f"shape {size.shape}"
        raise MessageError(invalid(IMAGE_SIZE, owner, allowed, got))
    return int(size[0]), int(size[1])


def check_own_size(model: Model, images: Tensor) -> None:
    """Raise a DataError if a client's images are not of the size that the model learns from.

    The server compares sizes in the first step only, and a client may miss that one.
    """
    size, own = check_size(model.tensors, "the model"), tuple(images.shape[-2:])
    if size != own:
        raise DataError(
            f"The images here are {own[0]} x {own[1]} pixels, and the model learns from images of "
            f"{size[0]} x {size[1]}. Start all sites with the same --size, which scales image "
            "files."
        )


def common_size(summaries: Sequence[Summary]) -> dict[str, np.ndarray]:
    """Return the size of all clients' images, for the model; raise if it is not the same."""
    sizes = {check_size(s.tensors, f"client {s.client!r}"): s.client for s in summaries}
    if len(sizes) > 1:
        shown = [f"{h} x {w} pixels at {client!r}" for (h, w), client in sorted(sizes.items())]
        raise MessageError(
            f"Clients have images of different sizes: {', '.join(shown)}. Start all sites with the "
            "same --size, which scales image files."
        )
    return {IMAGE_SIZE: np.array(next(iter(sizes)))}
