"""Bounds of columns, as a file or as two numbers: the public input of differential privacy.

A file is a JSON object, ``{"age": [0, 120], "dose": [0, 10]}``, written by people who know the
field. It may have more columns than are clustered, so that one file serves all commands and sites.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedjigsaw.errors import ParameterError, about, quote_names
from fedjigsaw.io._codec import read_bounded
from fedjigsaw.validation import MAX_MAGNITUDE

MAX_BOUNDS = 2**20  # bytes of a file
EXAMPLE = '{"age": [0, 120], "dose": [0, 10]}'
Pair = tuple[float, float]


@dataclass(frozen=True)
class Bounds:
    """Least and greatest value of each column.

    Attributes
    ----------
    source : where they are from, for errors.
    columns : name -> least and greatest value; None if all columns have the same.
    common : the bounds of all columns, if they are the same.
    """

    source: str
    columns: Mapping[str, Pair] | None
    common: Pair | None = None

    def of(self, columns: Sequence[str]) -> tuple[list[float], list[float]]:
        """Return the least and the greatest values of these columns.

        Examples
        --------
        >>> Bounds("columns.json", {"dose": (0, 10), "age": (0, 120)}).of(["age", "dose"])
        ([0, 0], [120, 10])
        """
        if self.columns is None:
            assert self.common is not None
            return [self.common[0]] * len(columns), [self.common[1]] * len(columns)
        missing = [name for name in columns if name not in self.columns]
        if missing:
            known = sorted(set(self.columns).difference(columns))
            others = f" (it has bounds for {quote_names(known, 5)})" if known else ""
            raise ParameterError(
                f"{self.source} has no bounds for column{'s' * (len(missing) > 1)} "
                f"{quote_names(missing, 5)}{others}. "
                f"Add the least and the greatest value, like {EXAMPLE}, or leave "
                f"{'these columns' if len(missing) > 1 else 'the column'} out.",
                parameter="columns",
                file=self.source,
                column=missing[0],
            )
        pairs = [self.columns[name] for name in columns]
        return [low for low, _ in pairs], [high for _, high in pairs]


def read_bounds(text: str) -> Bounds:
    """Read bounds from a file, or from two numbers such as "0,1" for all columns."""
    numbers = _numbers(text)
    if numbers is not None:
        return Bounds("--bounds", None, _pair(numbers, "--bounds"))
    path = Path(text)
    with about(file=path):
        return Bounds(str(path), _decode(read_bounded(path, MAX_BOUNDS), path))


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return None


def _decode(content: bytes, path: Path) -> dict[str, Pair]:
    try:
        values = json.loads(content, object_pairs_hook=lambda pairs: _once(pairs, path))
    except ParameterError:
        raise
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path} is not JSON ({error}). Write {EXAMPLE}.") from error
    if not isinstance(values, dict) or not values:
        raise ParameterError(f"{path} names no columns. Write {EXAMPLE}.")
    return {name: _pair(pair, f"{path}, column {name!r}", name) for name, pair in values.items()}


def _once(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            text = f"{path} has column {name!r} twice. Keep one of the two."
            raise ParameterError(text, column=name)
        found[name] = value
    return found


def _pair(value: object, where: str, column: str = "") -> Pair:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)):
        got = repr(value)[:80]
        raise ParameterError(
            f"{where}: bounds are two finite numbers of at most "
            f"{MAX_MAGNITUDE:g}, like [0, 120]; got {got}.",
            column=column,
        )
    low, high = map(float, value)
    if not low < high:
        raise ParameterError(
            f"{where}: the least value, {low:g}, is not below the greatest, {high:g}. "
            "Write the least value first.",
            column=column,
        )
    return low, high


def _is_number(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and abs(value) <= MAX_MAGNITUDE  # type: ignore[arg-type]
