"""Summaries, models, statistics and scores as files that anyone can check and that hold no code.

A file is a safetensors file: a short JSON header, then plain arrays of float64 or int64 (weights of
networks: float32). No pickle, no code. The header says what it is, in which format version, made by
which method with which parameters from which columns, scaled by which scaler, under which guard.
The same content always gives the same bytes. Files of others are read with a limit on their size,
and each field is checked; an error names the file and the reason.
"""

from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.io._codec import (
    FORMAT,
    MAX_BYTES,
    check_readable,
    errors_in,
    pack,
    read_bounded,
    take,
    take_names,
    unpack,
)
from fedjigsaw.io._kinds import KINDS, kind_of
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.contents import ModelFile, NoisyStats, Score, SummaryFile
from fedjigsaw.io.scalers import is_scaler, load_scaler, save_scaler

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "Content",
    "ModelFile",
    "NoisyStats",
    "Profile",
    "Score",
    "SummaryFile",
    "decode",
    "encode",
    "errors_in",
    "fingerprint",
    "is_scaler",
    "load",
    "load_any",
    "load_scaler",
    "save",
    "save_scaler",
    "take",
    "take_names",
]

# what an error calls each kind of file, and the command that writes it
DESCRIPTIONS = {
    "summary": ("a summary", "summarize"),
    "model": ("a model", "aggregate"),
    "statistics": ("a file of statistics", "stats"),
    "score": ("a score", "score"),
}
T = TypeVar("T")
Content = SummaryFile | ModelFile | Stats | Score


def save(content: Content, path: Path | str, *, replace: bool = True) -> None:
    """Write a summary, model, statistics or score, whole or not at all.

    Nobody but you may read the file: some numbers in it may be those of few rows.

    It is read back in memory first, so an old file is replaced only by one that can be read. The
    same content gives the same bytes.

    Parameters
    ----------
    content : what a function of :mod:`fedjigsaw.sites` made.
    path : the file to write; its folder must exist. The ending of its name does not matter.
    replace : whether an existing file is replaced; otherwise it is a DataError.

    Raises
    ------
    DataError
        If the file cannot be written, or exists and is not to be replaced.
    MessageError
        If the content is too large for a file, or could not be read again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fedjigsaw.io.formats import Score, load, save
    >>> path = Path(tempfile.mkdtemp(), "bern.score")
    >>> save(Score("bern", "model 1", np.array([5, 3]), np.array([1.5, 0.5])), path)
    >>> load(path, Score).counts.tolist()
    [5, 3]
    """
    path, encoded = Path(path), encode(content)
    check_readable(encoded, decode, path)
    write_whole(path, encoded, replace=replace, private=True)


def load(path: Path | str, kind: type[T]) -> T:
    """Read a file that must be of one kind; every error names the file.

    No code of the file is run, and every field is checked.

    Parameters
    ----------
    path : the file to read.
    kind : what it must be: SummaryFile, ModelFile, Stats or Score.

    Returns
    -------
    An object of that class.

    Raises
    ------
    DataError
        If the file cannot be read.
    MessageError
        If it is of another kind or of another program, or if a field is wrong.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fedjigsaw.io.formats import ModelFile, Score, load, save
    >>> path = Path(tempfile.mkdtemp(), "bern.score")
    >>> save(Score("bern", "model 1", np.array([5, 3]), np.array([1.5, 0.5])), path)
    >>> load(path, Score).client
    'bern'
    >>> load(path, ModelFile)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fedjigsaw.errors.MessageError: ... is a score, not a model. Give the file that `fedjigsaw
    aggregate` wrote.
    """
    content = load_any(path)
    if not isinstance(content, kind):
        wanted, command = DESCRIPTIONS[kind_of(kind)]
        found, _ = DESCRIPTIONS[kind_of(type(content))]
        raise MessageError(
            f"{path} is {found}, not {wanted}. Give the file that `fedjigsaw {command}` wrote.",
            file=path,
        )
    return content


def load_any(path: Path | str) -> Content:
    """Read any file that fedjigsaw writes, but for scalers, within limits on its size.

    Parameters
    ----------
    path : the file to read.

    Returns
    -------
    SummaryFile, ModelFile, Stats or Score

    Raises
    ------
    DataError
        If the file cannot be read.
    MessageError
        If it is of another program, or if a field is wrong.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fedjigsaw.io.formats import Score, load_any, save
    >>> path = Path(tempfile.mkdtemp(), "bern.score")
    >>> save(Score("bern", "model 1", np.array([5, 3]), np.array([1.5, 0.5])), path)
    >>> type(load_any(path)).__name__
    'Score'
    """
    path = Path(path)
    content = read_bounded(path)
    with errors_in(path):
        return decode(content)


def encode(content: Content) -> bytes:
    """Return the bytes of a file: for a model that was read, those that it was read from.

    The same content gives the same bytes.
    """
    if isinstance(content, ModelFile) and content.content:
        return content.content
    kind = kind_of(type(content))
    header, arrays = KINDS[kind].parts(content)
    return pack({"kind": kind, **header}, arrays)


def decode(content: bytes) -> Content:
    """Return the content of a file, with every field checked, or raise a MessageError."""
    header, arrays = unpack(content)
    kind = take(header, "kind", str)
    if kind not in KINDS:
        raise MessageError(invalid("kind", "the file", "one of " + ", ".join(KINDS), repr(kind)))
    result: Content = KINDS[kind].build(header, arrays)
    if isinstance(result, ModelFile):
        object.__setattr__(result, "content", content)
    return result


def fingerprint(*content: bytes | memoryview) -> str:
    """Return a short name for exactly these bytes, which may come in several parts."""
    digest = sha256()
    for part in content:
        digest.update(part)
    return digest.hexdigest()[:16]
