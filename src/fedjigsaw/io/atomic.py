"""Files are written whole or not at all; rows are added line by line."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from fedjigsaw.errors import DataError, invalid


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there in one step.

    A reader sees the old file or the new one, never a part; an interrupted write leaves the old.
    """
    temporary: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # as if it had been opened in the usual way
        temporary.replace(path)
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def add_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line of JSON to a file; one that was cut off is for its reader to pass over."""
    try:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> DataError:
    reason = error.strerror or type(error).__name__
    return DataError(invalid("file", str(path), "one that can be written", reason))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
