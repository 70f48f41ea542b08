"""Images as the commands ``fedjigsaw deep`` take and read them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedjigsaw.cli._shared import err, escape

if TYPE_CHECKING:
    from fedjigsaw.deep.images import ImageSet

IMAGES = "Images"  # panel of the help
MAX_SIZE = 4096  # as in fedjigsaw.deep.image_size, which needs torch

Data = Annotated[
    str,
    typer.Option(
        help="Images to read: a folder in the layout of CIFAR-10, CIFAR-100 (binary) or "
        "Tiny-ImageNet, a folder of images (in one folder per class, if there are classes), "
        "an NPZ file, or `digits`.",
        rich_help_panel=IMAGES,
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        min=8,
        max=MAX_SIZE,
        help="Scale image files to this height and width. Default: the size of the first one. "
        "Example: --size 32",
        rich_help_panel=IMAGES,
    ),
]
SizeAsTrained = Annotated[
    int | None,
    typer.Option(
        min=8,
        max=MAX_SIZE,
        help="Scale image files to this height and width. Default: as in training. "
        "Example: --size 32",
        rich_help_panel=IMAGES,
    ),
]
Device = Annotated[
    str, typer.Option(help="Torch device; auto is a GPU if there is one. Example: --device cuda:0")
]


def load_for(checkpoint: Path | None, data: str, size: int | None) -> "ImageSet":
    """Read images for a network: image files as in training, unless a size is given."""
    from fedjigsaw.deep import checkpoint as checkpoints
    from fedjigsaw.deep import images

    trained = None if checkpoint is None else checkpoints.load(checkpoint).image_size
    side = trained[0] if trained is not None and trained[0] == trained[1] else None
    found = images.load(data, size=size, usual_size=side)
    height, width = found.train.shape[2:]
    if size is None and trained is not None and (height, width) != trained:
        err.print(
            f"[yellow]Warning:[/] the network was trained on images of {trained[0]} x "
            f"{trained[1]} pixels; those of {escape(data)} have {height} x {width}."
        )
    print_left_out(data, found)
    return found


def print_left_out(data: str, found: "ImageSet") -> None:
    """Print which image files were left out, if any."""
    from fedjigsaw.deep import images

    if text := images.left_out(data, found):
        err.print(f"[yellow]Warning:[/] {escape(text)}")
