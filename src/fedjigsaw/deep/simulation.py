"""Simulated clients: which images take part in a run, and which client holds each of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedjigsaw import partition
from fedjigsaw._typing import Ints
from fedjigsaw.deep.images import ImageSet
from fedjigsaw.errors import DataError, counted
from fedjigsaw.io.formats import fingerprint

CENTRAL = "central"  # the split that leaves all images in one place
SPLITS = (*(name for name in partition.SPLITS if name != "column"), CENTRAL)


def subset(data: ImageSet, n_images: int | None, *, seed: int) -> ImageSet:
    """Keep some training images, drawn at random; None keeps all."""
    if n_images is None or n_images >= len(data.train):
        return data
    chosen = np.sort(np.random.default_rng(seed).permutation(len(data.train))[:n_images])
    labels = None if data.train_labels is None else data.train_labels[chosen]
    files = None if data.train_files is None else tuple(data.train_files[i] for i in chosen)
    return replace(data, train=data.train[chosen], train_labels=labels, train_files=files)


def split_images(
    data: ImageSet,
    split: str,
    n_clients: int,
    *,
    seed: int,
    alpha: float = 0.3,
    min_size: int | None = None,
    shards: int = 2,
    batch_size: int = 128,
) -> tuple[Ints | None, dict[str, Any]]:
    """Split the training images among clients.

    Parameters
    ----------
    split : {"iid", "dirichlet", "shards", "quantity", "features", "central"}
        How to split: see :func:`fedjigsaw.partition.split`; "central" keeps all in one place.
        "features" sorts images by their mean color.
    min_size : int or None
        Smallest number of images of a client, for "dirichlet" and "quantity". None is a batch, or
        fewer if that would be hard to meet.

    Returns
    -------
    clients : array of shape (n_images,), or None if all images are in one place
    options : dict
        The options that the split used, for the rows of the run.
    """
    if split == CENTRAL:
        return None, {}
    labels = data.train_labels
    if labels is None and split not in partition.WITHOUT_CLASSES:
        raise DataError(
            f"{data.name} has no labels, which the split {split!r} needs. Use the split 'iid'.",
            parameter="split",
        )
    if labels is None:
        labels = np.zeros(len(data.train), dtype=np.int64)
    if min_size is None:
        min_size = max(1, min(batch_size, len(labels) // (10 * n_clients)))
    clients = partition.split(
        split,
        labels,
        n_clients,
        rng=seed,
        alpha=alpha,
        min_size=min_size,
        shards_per_client=shards,
        X=data.train.mean(axis=(2, 3)) if split == "features" else None,
    )
    used: Mapping[str, dict[str, Any]] = {
        "dirichlet": {"alpha": alpha, "min_size": min_size},
        "quantity": {"alpha": alpha, "min_size": min_size},
        "shards": {"shards": shards},
    }
    return clients, {"n_clients": n_clients, **used.get(split, {})}


def in_words(data: ImageSet, clients: Ints | None) -> str:
    """Say what a run has to learn from.

    Examples
    --------
    >>> images = np.zeros((6, 3, 8, 8), dtype=np.uint8)
    >>> some = ImageSet("x", images, np.array([0, 1, 2, 0, 1, 2]), images[:2], np.array([0, 1]))
    >>> in_words(some, np.array([0, 0, 0, 0, 1, 1]))
    '6 images of 8 x 8 pixels in 3 classes, and 2 to evaluate on; 2 clients of 2 to 4 images'
    """
    height, width = data.train.shape[2:]
    text = f"{counted(len(data.train), 'image')} of {height} x {width} pixels"
    if data.train_labels is not None:
        n_classes = len(np.unique(data.train_labels))
        text += f" in {counted(n_classes, 'class', 'classes')}"
    text += f", and {len(data.test):,} to evaluate on" if data.has_test else ""
    if clients is None:
        return f"{text}; in one place"
    sizes = np.unique(clients, return_counts=True)[1]
    least, most = int(sizes.min()), counted(int(sizes.max()), "image")
    each = most if sizes.min() == sizes.max() else f"{least:,} to {most}"
    return f"{text}; {counted(len(sizes), 'client')} of {each}"


def describe_data(data: ImageSet, clients: Ints | None, **more: Any) -> dict[str, Any]:
    """Describe the data of a run as JSON: the start of its rows, compared when it is resumed."""
    pixels = data.train.reshape(-1).data  # not copied: they may be gigabytes
    content = [pixels] if clients is None else [pixels, clients.tobytes()]
    return {
        "dataset": data.name,
        "n_images": len(data.train),
        "image_size": list(data.train.shape[2:]),
        **more,
        "fingerprint": fingerprint(*content),
    }
