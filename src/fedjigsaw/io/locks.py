"""Locks between processes; the system releases them when the process ends, however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file while the block runs.

    Raises a BlockingIOError if another process holds it, and an OSError if it cannot be created.
    Only Unix has such locks; on other systems nothing is locked.
    """
    with path.open("w") as file:
        try:
            import fcntl
        except ImportError:
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
