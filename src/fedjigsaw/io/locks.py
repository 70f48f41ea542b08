"""At most one at a time: a lock that goes with the process that holds it, however that ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; a BlockingIOError if somebody else does, an OSError if it cannot be made.

    Only systems of the Unix family have such locks; on others nothing is locked.
    """
    with path.open("w") as file:
        try:
            import fcntl
        except ImportError:
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
