"""Read and replace regular files only: a pipe or a device may never end."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from fedjigsaw.errors import DataError


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device is a DataError, at once."""
    # without O_NONBLOCK, opening a named pipe waits until somebody writes to it
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check(path, os.fstat(handle).st_mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file; a pipe or a device is a DataError, at once."""
    with open_regular(path) as file:
        return file.read()


def ending(path: Path) -> str:
    """Return the ending of a file's name in small letters, with what is compressed.

    Examples
    --------
    >>> ending(Path("Bern.CSV")), ending(Path("v1.bern.csv.gz"))
    ('.csv', '.csv.gz')
    """
    name = path.name.lower()
    packed = ".gz" if name.endswith(".gz") else ""
    return Path(name.removesuffix(packed)).suffix + packed


def stem(path: Path) -> str:
    """Return the name of a file without its ending.

    Examples
    --------
    >>> stem(Path("bern.csv.gz"))
    'bern'
    """
    return path.name[: len(path.name) - len(ending(path))]


def check_regular(path: Path) -> None:
    """Raise a DataError if `path` is there, and is a folder, a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever opens it says why it cannot be opened
    _check(path, mode)


def _check(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder; give a file.", file=path)
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is a pipe or a device; give a regular file.", file=path)
