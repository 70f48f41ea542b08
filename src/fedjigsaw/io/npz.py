"""NPZ files: what an array is, and how much memory it needs, is known before it is read."""

import math
import zipfile
from pathlib import Path
from typing import IO, Self

import numpy as np

# Arrays that need more bytes than this, and more than so many times their size in the file, are
# refused. Zeros are packed to a thousandth; an image with one other value in a hundred is not.
MAX_BYTES, MAX_RATIO = 2**28, 300
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy; others may need gigabytes at once


class PackedArrays:
    """The arrays of an NPZ file, by name.

    Broken files raise errors of any kind: neither NumPy nor zipfile promise one.
    """

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        self.file = zipfile.ZipFile(path)
        self.parts = {part.filename.removesuffix(".npy"): part for part in self.file.infolist()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def _about(self, name: str) -> tuple[np.dtype, tuple[int, ...]]:
        """Return type and shape of an array, of which only the first bytes are read."""
        part = self.parts[name]
        if part.compress_type not in METHODS:
            raise ValueError(f"{name!r} is packed as NumPy does not pack arrays")
        with self.file.open(part) as file:
            return _kind(file)

    def read(self, name: str) -> np.ndarray:
        """Read an array; raise a ValueError if it would need far more memory than its file."""
        part = self.parts[name]
        dtype, shape = self._about(name)
        if dtype.hasobject:
            raise ValueError(f"{name!r} has Python objects; save it as numbers or texts")
        needed = math.prod(shape) * dtype.itemsize
        if needed > part.file_size:
            raise ValueError(f"{name!r} is cut off")
        # what a part says of itself may be wrong; it is no larger than the file
        if needed > max(MAX_BYTES, MAX_RATIO * min(part.compress_size, self.size)):
            raise ValueError(
                f"{name!r} needs {needed:,} bytes, over {MAX_RATIO} times what it has in the file. "
                "If you trust it, save it without compression"
            )
        with self.file.open(part) as file:
            array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _kind(file: IO[bytes]) -> tuple[np.dtype, tuple[int, ...]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError("arrays with named fields are not read")
    return dtype, shape
