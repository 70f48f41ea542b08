"""Fingerprints of data: equal ones mean equal data."""

from hashlib import sha256
from pathlib import Path

import numpy as np

from fedjigsaw.errors import DataError, unreadable


def fingerprint(*parts: object) -> str:
    """Return a name for exactly these values; files and folders count by their content.

    Of a folder, names, sizes and times of its files count: it may hold very many.
    """
    digest = sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape} ".encode())
            # not copied: they may be gigabytes
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        elif isinstance(part, Path) and part.is_dir():
            for path in sorted(part.rglob("*")):
                found = path.stat()
                digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
        elif isinstance(part, Path):
            try:
                with part.open("rb") as file:
                    while block := file.read(2**20):
                        digest.update(block)
            except OSError as error:
                raise DataError(unreadable(part, error), file=part) from error
        else:
            digest.update(f"{part!r}\n".encode())
    return digest.hexdigest()
