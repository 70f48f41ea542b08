"""Write files whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from fedjigsaw.errors import DataError, unwritable


def write_whole(path: Path, content: bytes) -> None:
    """Write bytes to a file, or leave the old file as it was."""
    with open_whole(path) as file:
        file.write(content)


@contextmanager
def open_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a hidden file beside `path` for writing, and move it to `path` at the end of the block.

    A reader sees the old file or the new one, never a part. If the block raises, the old file
    stays. The mode of the new file follows the umask, as with any new file.
    """
    temporary = path.parent / f".{path.name}.{token_hex(4)}"
    try:
        with temporary.open("xb") as file:  # O_CREAT | O_EXCL with mode 0o666: needs no umask
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise DataError(unwritable(path, error)) from error
    finally:
        temporary.unlink(missing_ok=True)
