"""A scaler as a JSON file, which people can read too."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.io._codec import (
    FORMAT,
    Header,
    check_format,
    check_readable,
    errors_in,
    read_bounded,
    read_start,
    take,
    take_names,
)
from fedjigsaw.io._kinds import encoding_from
from fedjigsaw.io.atomic import write_whole

MAX_JSON = 4 * 2**20  # small files of nested JSON grow a hundredfold in memory


def save_scaler(scaler: Scaler, path: Path | str, *, replace: bool = True) -> None:
    """Write a scaler as JSON, with every digit. It is read back in memory first.

    Parameters
    ----------
    scaler : from :func:`~fedjigsaw.sites.common_scaler`.
    path : the file to write; its folder must exist.
    replace : whether an existing file is replaced; otherwise it is a DataError.

    Raises
    ------
    DataError
        If the file cannot be written, or exists and is not to be replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from fedjigsaw.io.formats import load_scaler, save_scaler
    >>> from fedjigsaw.columns.scaling import Scaler
    >>> path = Path(tempfile.mkdtemp(), "scaler.json")
    >>> save_scaler(Scaler(("age",), np.array([40.0]), np.array([10.0])), path)
    >>> load_scaler(path).scale(np.array([[60.0]])).tolist()
    [[2.0]]
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "kind": "scaler",
        "fingerprint": scaler.fingerprint,
        "columns": list(scaler.columns),
        "mean": scaler.mean.tolist(),
        "deviation": scaler.deviation.tolist(),
    }
    if scaler.encoding is not None:
        content["encoding"] = scaler.encoding.to_dict()
    encoded = (json.dumps(content, indent=1) + "\n").encode()
    path = Path(path)
    check_readable(encoded, _decode, path, MAX_JSON)
    write_whole(path, encoded, replace=replace)


def load_scaler(path: Path | str) -> Scaler:
    """Read a scaler, within a limit on its size.

    Parameters
    ----------
    path : a file that :func:`save_scaler` or ``fedjigsaw scaler`` wrote.

    Returns
    -------
    Scaler
        Its `scale` standardizes rows, `unscale` gives centers in the units of the columns.

    Raises
    ------
    DataError
        If the file cannot be read.
    MessageError
        If it is not a scaler, or was changed.

    Examples
    --------
    >>> from fedjigsaw.io.formats import load_scaler
    >>> load_scaler("nofile.json")
    Traceback (most recent call last):
    fedjigsaw.errors.DataError: Cannot read nofile.json: no such file or directory.
    """
    path = Path(path)
    content = read_bounded(path, MAX_JSON)
    with errors_in(path):
        return _decode(content)


def is_scaler(path: Path) -> bool:
    """Whether a file starts like a scaler."""
    return read_start(path, 1) == b"{"


def _decode(content: bytes) -> Scaler:
    try:
        header = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MessageError(
            "The file is not a scaler (not JSON). Give the file that `fedjigsaw scaler` wrote."
        ) from error
    if isinstance(header, dict) and header.get("kind") == "lineage":  # MODEL.json
        raise MessageError("The file tells where a model is from. Give the model beside it.")
    if not isinstance(header, dict) or header.get("kind") != "scaler":
        raise MessageError("The file is not a scaler. Give the file that `fedjigsaw scaler` wrote.")
    check_format(header)
    columns = take_names(header, "columns")
    mean, deviation = _numbers(header, "mean"), _numbers(header, "deviation")
    scaler = Scaler(columns, mean, deviation, encoding_from(header))
    if scaler.fingerprint != header.get("fingerprint"):
        raise MessageError("The fingerprint does not match the numbers: the file was changed.")
    return scaler


def _numbers(header: Header, name: str) -> Floats:
    values = take(header, name, list)
    strange = [value for value in values if not isinstance(value, (int, float))]
    if strange:
        got = repr(strange[0])[:80]
        raise MessageError(invalid(f"header field {name!r}", "the file", "a list of numbers", got))
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise MessageError(invalid(name, "the file", "finite", "too large a number")) from error
