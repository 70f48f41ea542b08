"""Public bounds of columns, as differential privacy needs them: two numbers, or a JSON file.

Bounds come from a schema or from knowledge of the field, never from the rows. A file gives the
least and the greatest value of each column, and may name columns that are not used::

    {"age": [0, 120], "dose": [0, 50]}
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedjigsaw._validation import MAX_MAGNITUDE
from fedjigsaw.errors import MessageError, ParameterError, invalid
from fedjigsaw.io._codec import read_bounded
from fedjigsaw.parameters import real

MAX_BYTES = 2**22
NUMBER = real(-MAX_MAGNITUDE)
USAGE = 'Give LOW,HIGH for all columns, or a JSON file such as {"age": [0, 120], "dose": [0, 50]}.'
Limits = tuple[float, float]
Bounds = Limits | Mapping[str, Limits]  # the same for all columns, or by name


def read_bounds(text: str) -> Bounds:
    """Read the bounds that a text gives: ``LOW,HIGH``, or the path of a JSON file.

    Examples
    --------
    >>> read_bounds("-1,1")
    (-1.0, 1.0)
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return _read_file(Path(text))
    return _limits(numbers, "the bounds")


def bounds_of(bounds: Bounds, columns: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return the least and the greatest value of each column, for :class:`fedjigsaw.Privacy`.

    Examples
    --------
    >>> bounds_of({"age": (0.0, 120.0), "dose": (0.0, 50.0)}, ["dose", "age"])
    ([0.0, 0.0], [50.0, 120.0])
    """
    if not isinstance(bounds, Mapping):
        bounds = dict.fromkeys(columns, bounds)
    missing = [name for name in columns if name not in bounds]
    if missing:
        names = ", ".join(map(repr, missing[:20])) + ", ..." * (len(missing) > 20)
        raise ParameterError(f"The bounds have no column {names}. {USAGE}")
    return [bounds[name][0] for name in columns], [bounds[name][1] for name in columns]


def _read_file(path: Path) -> dict[str, Limits]:
    try:
        content = json.loads(read_bounded(path, MAX_BYTES), object_pairs_hook=_each_once)
    except MessageError as error:
        raise ParameterError(f"{error} {USAGE}") from error
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path} has no bounds: {error}. {USAGE}") from error
    if not isinstance(content, dict) or not content:
        raise ParameterError(f"{path} has no bounds: it is not a table of columns. {USAGE}")
    return {name: _limits(values, f"column {name!r} in {path}") for name, values in content.items()}


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a column is given twice")
    return found


def _limits(values: object, owner: str) -> Limits:
    if isinstance(values, list) and len(values) == 2 and all(map(NUMBER.accepts, values)):
        low, high = map(float, values)
        if low < high <= MAX_MAGNITUDE:
            return low, high
    allowed = "two finite numbers, the smaller one first"
    raise ParameterError(invalid("range", owner, allowed, values))
