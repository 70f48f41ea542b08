"""Decode image files into a part of an NPY file.

Also a program of its own, which imports neither torch nor the rest of the package, so that several
of them start at once and fast: ``python _decode.py TARGET START < names``.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BROKEN_IMAGE = 3  # exit code; the name of the file is the output
ORIENTATION = 0x0112  # in the notes of a camera (EXIF)
BITS = 258  # of each color, in a TIFF file


def decode(file: str | Path, size: int | None) -> npt.NDArray[np.uint8]:
    """Read an image as bytes of shape (3, height, width), scaled to a square unless size is None.

    Raises
    ------
    ValueError
        If the file is not an image, is cut off, or has pixels of more than 16 bits.
    """
    from PIL import Image

    try:
        with Image.open(file) as opened:
            # Pillow has one mode for 16 and for 32 bits, and small numbers of 32 would be black
            if max(getattr(opened, "tag_v2", {}).get(BITS, (0,))) > 16:
                raise ValueError("more than 16 bits")
            picture: Image.Image = _upright(opened)
            if picture.mode.startswith("I"):  # 16 bits of gray: Pillow would cut them off at 255
                high = np.asarray(picture) >> 8
                if high.min() < 0 or high.max() > 255:
                    raise ValueError("more than 16 bits")
                picture = Image.fromarray(high.astype(np.uint8))
            elif picture.mode == "F":  # of unknown range: all could become black or white
                raise ValueError("floating point")
            picture = picture.convert("RGB")
            if size is not None and picture.size != (size, size):
                picture = picture.resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(picture, dtype=np.uint8).transpose(2, 0, 1)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"Cannot decode {file}.") from error


def _upright(picture: Any) -> Any:
    """Turn a picture as viewers show it: cameras write down how they were held."""
    from PIL.Image import Transpose

    picture.load()  # TIFF files are turned by this, and have no note afterwards
    # not Pillow's own function, which also writes the notes anew, and fails if some are strange
    turned = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    how = turned.get(picture.getexif().get(ORIENTATION))
    return picture if how is None else picture.transpose(how)


def main(target: str, start: str) -> int:
    """Decode the files named on standard input, with zeros between them, and return an exit code.

    Parameters
    ----------
    target : NPY file of all images, which is changed in place.
    start : number of the first image in it.
    """
    images = np.load(target, mmap_mode="r+", allow_pickle=False)
    for i, name in enumerate(sys.stdin.buffer.read().split(b"\0"), int(start)):
        try:
            images[i] = decode(os.fsdecode(name), images.shape[2])
        except ValueError:
            sys.stdout.buffer.write(name)
            return BROKEN_IMAGE
    images.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
