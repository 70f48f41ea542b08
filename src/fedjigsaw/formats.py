"""Files: what fedjigsaw writes, it writes whole or not at all."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there in one step.

    A reader sees the old file or the new one, never a part; an interrupted write leaves the old.
    """
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            temporary.chmod(0o666 & ~_umask())  # as if it had been opened in the usual way
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
