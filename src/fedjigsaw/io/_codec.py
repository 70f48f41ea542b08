"""Encode files as a JSON header and plain arrays; decode them with limits and checks."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from fedjigsaw._typing import Floats
from fedjigsaw.errors import (
    DataError,
    FedJigsawError,
    MessageError,
    ParameterError,
    invalid,
    unreadable,
)
from fedjigsaw.io.regular import open_regular
from fedjigsaw.validation import MAX_COUNT

FORMAT = 1
MAX_BYTES = 64 * 2**20
MAX_HEADER = 2**20
MAX_DEPTH = 30  # of a header: deeper ones can be read, and not be written as JSON
DTYPES = {"F64", "I64"}
TENSOR_DTYPES = {*DTYPES, "F32", "U16"}  # U16: bfloat16, for weights
T = TypeVar("T")
Header = Mapping[str, Any]
Arrays = dict[str, np.ndarray]


def read_bounded(path: Path, limit: int | None = None) -> bytes:
    """Read a regular file, if it is not too large."""
    limit = limit or MAX_BYTES
    content = read_start(path, limit + 1)
    if len(content) > limit:
        text = f"{path} is larger than {limit} bytes, the most that is read."
        raise MessageError(text, file=path)
    return content


def read_start(path: Path, n_bytes: int) -> bytes:
    """Read the first bytes of a regular file."""
    try:
        with open_regular(path) as file:
            return file.read(n_bytes)
    except OSError as error:
        raise DataError(unreadable(path, error), file=path) from error


def check_readable(
    content: bytes, decode: Callable[[bytes], object], path: Path, limit: int = MAX_BYTES
) -> None:
    """Raise a MessageError if what is about to be written could not be read again."""
    try:
        if len(content) > limit:
            raise MessageError(f"It would be larger than {limit} bytes, the most that is read.")
        decode(content)
    except FedJigsawError as error:
        raise MessageError(
            f"Nothing was written to {path}: the result could not be read again. {error}",
            **error.subject | {"file": path},
        ) from error


@contextmanager
def errors_in(path: Path) -> Iterator[None]:
    """Let errors about the content of a file name the file."""
    try:
        yield
    except (DataError, MessageError, ParameterError) as error:
        text = str(error)
        start = "" if text.startswith("The file ") else "cannot be used: "
        text = f"{path} {start}{text.removeprefix('The file ')}"
        raise MessageError(text, **error.subject | {"file": path}) from error


def pack(header: Header, arrays: Arrays) -> bytes:
    """Make the bytes of a safetensors file; the same content gives the same bytes."""
    # one single key of metadata: safetensors keeps no order among several
    return safetensors.numpy.save(
        {name: np.asarray(array, order="C") for name, array in arrays.items()},
        metadata={"fedjigsaw": json.dumps({"format": FORMAT, **header}, sort_keys=True)},
    )


def unpack(content: bytes) -> tuple[Header, Arrays]:
    """Split the bytes of a file into header and arrays, of the format that we read."""
    header = _header(content)
    check_format(header)
    try:
        arrays = safetensors.numpy.load(content)
    except (SafetensorError, ValueError, TypeError, OverflowError, MemoryError) as error:
        reason = str(error)[:200]
        raise MessageError(
            "The arrays of the file do not match its header; it was changed or was cut off: "
            f"{reason}."
        ) from error
    # rows without columns need no byte, and there could be any number of them
    empty = [array.shape for array in arrays.values() if not array.size]
    if any(math.prod(filter(None, shape)) > MAX_HEADER for shape in empty):
        raise MessageError("The file has an array of more rows or columns than a file can hold.")
    return header, arrays


def digest(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Compute the SHA-256 of a header and of arrays with their names, types and shapes."""
    found = sha256(header.encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _header(content: bytes) -> Header:
    """Read our header from a safetensors file, before any array is read."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(MAX_HEADER, len(content) - 8):
        raise MessageError("The file is not a fedjigsaw file, or it is truncated.")
    try:
        outer = json.loads(content[8 : 8 + length])
        described = {name: entry for name, entry in outer.items() if name != "__metadata__"}
        header = json.loads(outer["__metadata__"]["fedjigsaw"])
        known = all(
            entry["dtype"] in (TENSOR_DTYPES if name.startswith("tensor.") else DTYPES)
            for name, entry in described.items()
        )
        plain = all(map(_is_plain, described))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MessageError("The file is a safetensors file of another program.") from error
    if not isinstance(header, dict) or not known:
        allowed = "F64 and I64 (tensors: F32 and U16)"
        raise MessageError(f"The file has arrays of types other than {allowed}.")
    if _is_deep(header):
        raise MessageError("The file has values in its header that are nested too deeply.")
    if not plain:
        raise MessageError("The file has arrays whose names are not short and printable.")
    return header


def _is_deep(value: object) -> bool:
    """Whether lists and dicts are nested deeper than in any header that we write."""
    layer = [value]
    for _ in range(MAX_DEPTH):
        dicts = [item for part in layer if isinstance(part, dict) for item in part.values()]
        layer = dicts + [item for part in layer if isinstance(part, list) for item in part]
    return bool(layer)


def check_format(header: Header) -> None:
    """Check the version of the file format."""
    version = take(header, "format", int)
    if version != FORMAT:
        raise MessageError(f"The file has format {version}; fedjigsaw reads only {FORMAT}.")


def take(header: Header, name: str, kind: type[T]) -> T:
    """Take a field of the header, of one JSON type; integers, strings and keys within bounds."""
    value: Any = header.get(name)
    good = isinstance(value, kind)
    if kind is int:
        good = good and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    if kind is str:
        good = good and _is_plain(value)
    if kind is dict:
        good = good and all(map(_is_plain, value))
    if not good:
        words = {
            "int": f"an integer from 0 to {MAX_COUNT}",
            "str": "a short printable string",
            "dict": "a JSON dict with short printable keys",
        }
        allowed = words.get(kind.__name__, f"a JSON {kind.__name__}")
        raise MessageError(invalid(f"header field {name!r}", "the file", allowed, repr(value)[:80]))
    result: T = value
    return result


def take_names(header: Header, name: str) -> tuple[str, ...]:
    """Take a list of names from the header."""
    values = take(header, name, list)
    if not all(isinstance(value, str) and _is_plain(value) for value in values):
        allowed = "a list of short printable strings"
        raise MessageError(
            invalid(f"header field {name!r}", "the file", allowed, repr(values)[:80])
        )
    return tuple(values)


def _is_plain(text: str) -> bool:
    """Whether a text is short and printable, so that it cannot garble a terminal."""
    return len(text) <= 1000 and text.isprintable()


def take_array(arrays: Arrays, name: str) -> np.ndarray:
    """Take an array that the file must have."""
    if name not in arrays:
        raise MessageError(f"The file has no array {name!r}; it has {', '.join(sorted(arrays))}.")
    return arrays[name]


def take_floats(arrays: Arrays, name: str) -> Floats:
    """Take an array of float64 that the file must have."""
    array = take_array(arrays, name)
    if array.dtype != np.float64:
        raise MessageError(invalid(name, "the file", "float64", array.dtype))
    return array
