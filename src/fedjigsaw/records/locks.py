"""Locks between processes; the system releases them when the process ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file while the block runs.

    If another process or thread holds it, wait for it, or raise a BlockingIOError. An OSError says
    that it cannot be created. Only Unix has such locks; on other systems nothing is locked.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        _lock(file.fileno(), wait=wait)
        yield


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Hold a lock file and the folder around it while the block runs, as :func:`locked` does.

    A lock file that somebody deletes locks no more, and the folder does. It alone would not do:
    network file systems lock no folders.
    """
    with locked(path), ExitStack() as stack:
        try:
            folder = os.open(path.parent, os.O_RDONLY)
            stack.callback(os.close, folder)
            _lock(folder, wait=False)
        except BlockingIOError:
            raise
        except OSError:  # it cannot be locked here, or not be listed
            pass
        yield


def _lock(file: int, *, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
