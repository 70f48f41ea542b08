"""Image files as one array of bytes.

Many files are slow to read one by one. So several processes decode them into one NPY file in the
user's cache (:func:`fedjigsaw.datasets.cache_folder`), which is mapped into memory, and found again
the next time. Its name changes if any of the files does.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile

import numpy as np
import numpy.typing as npt

from fedjigsaw.datasets import cache_folder
from fedjigsaw.deep import _decode
from fedjigsaw.deep.image_size import LEAST, MOST
from fedjigsaw.errors import DataError, ExtraError, counted, requires_extra, unreadable

Bytes = npt.NDArray[np.uint8]
CACHED_FROM = 5000  # files; fewer are read in a second or two
MAX_PROCESSES = 16
MAX_UNSCALED = 2**34  # bytes of all images, where nobody chose their size
DECODER = 5  # another number whenever files are decoded differently: arrays in the cache are stale


def read_pictures(files: Sequence[Path], size: int | None) -> Bytes:
    """Read image files as bytes of shape (n, 3, size, size).

    Parameters
    ----------
    size : int or None
        Height and width to scale to. None is the shorter side of the first image.

    Raises
    ------
    DataError
        If a file is not an image, and nothing is cached then; or if the first image is so large
        that all of its size would fill the memory.
    """
    if find_spec("PIL") is None:
        raise ExtraError(requires_extra("Reading images", "pillow", "deep"))
    size = size or _size_of_first(files)
    if len(files) < CACHED_FROM:
        return _read_here(files, size)
    path = cache_folder() / "images" / f"{_key(files, size)}.npy"
    found = _load(path)
    if found is None and _fill_cache(path, files, size):
        found = _load(path)
    return _read_here(files, size) if found is None else found


def _size_of_first(files: Sequence[Path]) -> int:
    """Return the shorter side of the first image, unless all images of that size are too many."""
    side = int(min(_read(files[0], None).shape[1:]))
    if side < LEAST:
        raise DataError(
            f"{files[0]} has {side} pixels on its shorter side, fewer than {LEAST}. All images get "
            f"the size of this one: give another one, such as --size 32."
        )
    if side > MOST or 3 * len(files) * side**2 > MAX_UNSCALED:
        raise DataError(
            f"{files[0]} has {side} pixels on its shorter side. With this size, all images need "
            f"{_gigabytes(files, side)}: give a smaller one, such as --size 32."
        )
    return side


def _gigabytes(files: Sequence[Path], size: int) -> str:
    return f"{3 * len(files) * size**2 / 2**30:.1f} GB"


def _read_here(files: Sequence[Path], size: int) -> Bytes:
    try:
        images = np.empty((len(files), 3, size, size), dtype=np.uint8)
    except MemoryError as error:
        raise DataError(
            f"{counted(len(files), 'image')} of {size} x {size} pixels need "
            f"{_gigabytes(files, size)}, more than there is memory. Give a smaller --size."
        ) from error
    for i, file in enumerate(files):
        images[i] = _read(file, size)
    return images


def _read(file: Path, size: int | None) -> Bytes:
    try:
        return _decode.decode(file, size)
    except ValueError as error:
        raise DataError(_broken(file)) from error


def _broken(file: str | Path) -> str:
    """Say why an image cannot be read: its file, where that is missing or forbidden, or itself."""
    try:
        with Path(file).open("rb") as opened:
            empty = not opened.read(1)
    except OSError as error:
        return unreadable(file, error)
    if empty:
        return f"Cannot read {file}: the file is empty."
    return (
        f"Cannot read {file}: the image is broken or cut off, has far too many pixels, or its "
        "pixels have more than 16 bits."
    )


# ------------------------------------------------------------------------------------------- cache


def _key(files: Sequence[Path], size: int) -> str:
    """Return a name for these files as they are now: another one if any of them changes."""
    digest = sha256(f"{DECODER} {size}".encode())
    for file in files:
        try:
            found = os.stat(file)
        except OSError as error:
            raise DataError(_broken(file)) from error
        text = f"\0{os.path.abspath(file)} {found.st_size} {found.st_mtime_ns}"
        digest.update(os.fsencode(text))
    return digest.hexdigest()[:16]


def _load(path: Path) -> Bytes | None:
    """Map a cached array into memory; None if there is none, or it is broken."""
    try:
        # "c": changes, which nobody should make, stay in memory
        found: Bytes = np.load(path, mmap_mode="c", allow_pickle=False).view(np.ndarray)
    except (OSError, ValueError, EOFError):
        return None
    return found


def _fill_cache(path: Path, files: Sequence[Path], size: int) -> bool:
    """Decode all files into a new file of the cache; False if that is not possible here."""
    temporary = path.parent / f".{path.name}.{token_hex(4)}"
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)  # images may be confidential
        shape = (len(files), 3, size, size)
        np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        done = _decode_in_processes(temporary, files)
        if done:
            temporary.replace(path)
        return done
    except OSError:  # no room, or not allowed
        return False
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _decode_in_processes(target: Path, files: Sequence[Path]) -> bool:
    """Decode files into an NPY file, each process a part; False if a process failed.

    Raises
    ------
    DataError
        If a file is not an image.
    """
    n_parts = min(MAX_PROCESSES, os.cpu_count() or 1, len(files))
    bounds = [len(files) * i // n_parts for i in range(n_parts + 1)]
    running = [_start(target, start, files[start:end]) for start, end in pairwise(bounds)]
    ended = [(process.communicate()[0], process.returncode) for process in running]
    for output, code in ended:
        if code == _decode.BROKEN_IMAGE:
            raise DataError(_broken(os.fsdecode(output)))
    return all(code == 0 for _, code in ended)


def _start(target: Path, start: int, files: Sequence[Path]) -> subprocess.Popen[bytes]:
    command = [sys.executable, _decode.__file__, str(target), str(start)]
    with TemporaryFile() as names:  # a pipe could be full before the program reads it
        names.write(b"\0".join(map(os.fsencode, files)))
        names.seek(0)
        return subprocess.Popen(
            command, stdin=names, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
