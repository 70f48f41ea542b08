"""Write files whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from fedjigsaw.errors import DataError, unwritable
from fedjigsaw.io.regular import check_regular

_unfinished: set[Path] = set()


def write_whole(path: Path, content: bytes, *, replace: bool = True, private: bool = False) -> None:
    """Write bytes to a file, or leave the old file as it was."""
    with open_whole(path, replace=replace, private=private) as file:
        file.write(content)


def write_json(path: Path, values: Any, *, replace: bool = True) -> None:
    """Write values as JSON that people can read, or leave the old file as it was."""
    write_whole(path, (json.dumps(values, indent=1) + "\n").encode(), replace=replace)


def version_of(path: Path) -> tuple[int, int, int]:
    """Return what tells a file from the one that was at its place before; for files read again."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def open_whole(path: Path, *, replace: bool = True, private: bool = False) -> Iterator[BinaryIO]:
    """Open a hidden file beside `path` for writing, and move it to `path` at the end of the block.

    A reader sees the old file or the new one, never a part. If the block raises, the old file
    stays. The mode of the new file follows the umask, as with any new file, unless it is private.

    Parameters
    ----------
    replace : whether an existing file is replaced; otherwise it is an error, also if the file
        appeared while the block ran.
    private : whether nobody else may read the file: what is in it can tell of single rows.
    """
    check_regular(path)
    temporary = path.parent / f".{path.name}.{token_hex(4)}"
    _unfinished.add(temporary)
    try:
        opener = partial(os.open, mode=0o600 if private else 0o666)  # less the umask
        with open(temporary, "xb", opener=opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            _move_to_new(temporary, path)
    except OSError as error:
        raise DataError(unwritable(path, error), file=path) from error
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


def remove_unfinished() -> None:
    """Remove what this process has begun to write: for a handler of a signal that ends it."""
    for temporary in tuple(_unfinished):
        temporary.unlink(missing_ok=True)


def _move_to_new(temporary: Path, path: Path) -> None:
    """Give the file its name, unless that name is taken: unlike a move, a link never replaces."""
    taken = DataError(
        f"{path} already exists: replace it, or choose another name.",
        parameter="replace",
        file=path,
    )
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise taken from error
    except (OSError, NotImplementedError):  # a file system without links
        if os.path.lexists(path):
            raise taken from None
        temporary.replace(path)
