"""Internal: the arrays of messages, which are checked once and are read-only from then on."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.validation import MAX_COUNT, MAX_MAGNITUDE


def _frozen(values: Any, dtype: Any = None) -> np.ndarray:
    """Return a read-only array; copy unless the input is already read-only."""
    if _is_frozen(values) and dtype in (None, values.dtype):
        return values  # type: ignore[no-any-return]
    array = np.array(values, dtype=dtype, order="C")
    array.setflags(write=False)
    return array


def _is_frozen(values: Any) -> bool:
    return (
        type(values) is np.ndarray
        and (values.base is None or _is_frozen(values.base))
        and values.flags.c_contiguous
        and not values.flags.writeable
    )


def join(name: str, parts: Sequence[Any], casting: Any = "same_kind") -> np.ndarray:
    """Put arrays together to a read-only one."""
    try:
        array = np.concatenate(parts, casting=casting)
    except (TypeError, ValueError) as error:
        raise MessageError(_not_numbers(name, "many clients", error)) from error
    array.setflags(write=False)
    return array


def part(array: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
    """Return the parts of an array that has so many rows of each client."""
    ends = accumulate(sizes, initial=0)
    return [array[start:end] for start, end in pairwise(ends)]


def checked_centers(values: Any, owner: str) -> Floats:
    """Return the centers of a message; raise a MessageError unless they are finite numbers."""
    try:
        complex_numbers = np.iscomplexobj(values)  # NumPy would drop a part of each number
        array: Floats = _frozen(np.real(values) if complex_numbers else values, np.float64)
    except (TypeError, ValueError) as error:
        raise MessageError(_not_numbers("centers", owner, error)) from error
    got = "complex numbers" if complex_numbers else ""
    if array.ndim != 2 or array.shape[1] == 0:
        got = f"shape {array.shape}"
    elif not _all_within(array, -MAX_MAGNITUDE, MAX_MAGNITUDE):
        got = f"NaN, infinity or a size above {MAX_MAGNITUDE:g}"
    if got:
        allowed = "finite numbers of shape (n_centers, n_features >= 1)"
        raise MessageError(invalid("centers", owner, allowed, got))
    return array


def checked_per_center(
    name: str, values: Any, n_centers: int, owner: str, dtype: type[Any]
) -> np.ndarray:
    """Return numbers of which each center has one; raise a MessageError if they are not such."""
    array = _array(name, values, owner)
    whole = dtype is np.int64
    most = MAX_COUNT if whole else sys.float_info.max
    got: object = None
    if array.shape != (n_centers,):
        got = f"shape {array.shape}"
    elif array.dtype.kind not in "iuf":
        got = array.dtype
    elif not _all_within(array, 0, most):
        got = array[~((array >= 0) & (array <= most))][0]
    elif whole and array.dtype.kind == "f" and (array != np.floor(array)).any():
        got = array[array != np.floor(array)][0]
    if got is not None:
        kind = f"whole numbers >= 0, <= {MAX_COUNT}" if whole else "finite numbers >= 0"
        allowed = f"{kind}, one per center, shape ({n_centers},)"
        raise MessageError(invalid(name, owner, allowed, got))
    return _frozen(array, dtype)


def checked_tensors(values: Mapping[str, np.ndarray], owner: str) -> Mapping[str, np.ndarray]:
    """Return the tensors of a message, frozen; raise a MessageError if one has no numbers."""
    if not isinstance(values, Mapping):
        allowed = "a mapping of names to arrays"
        raise MessageError(invalid("tensors", owner, allowed, type(values).__name__))
    tensors = {}
    for name, value in values.items():
        allowed = "an array of numbers"
        array = _array(f"tensor {name!r}", value, owner)
        if array.dtype.kind not in "biuf":
            raise MessageError(invalid(f"tensor {name!r}", owner, allowed, array.dtype))
        tensors[str(name)] = _frozen(array)
    return MappingProxyType(tensors)


def _array(name: str, values: Any, owner: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise MessageError(_not_numbers(name, owner, error)) from error


def _all_within(array: np.ndarray, low: float, high: float) -> bool:
    """Say whether all values are between two numbers; NaN never is."""
    return not array.size or bool(low <= array.min() and array.max() <= high)


def _not_numbers(name: str, owner: str, error: Exception) -> str:
    return f"Cannot convert the {name} of {owner} to an array of numbers: {error}"


def same(a: object, b: object) -> bool:
    """Say whether two values of messages are equal, arrays bit by bit."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b
