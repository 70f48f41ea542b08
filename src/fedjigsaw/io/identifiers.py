"""Columns that look like identifiers: they say who a row is about, and nothing about clusters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.text import TextFormat, is_text, plain, to_numbers
from fedjigsaw.columns.words import is_index_of_pandas, named_like_an_identifier
from fedjigsaw.io.readers import Reader

MAX_ROWS = 10_000  # by which a column is judged
FEWEST, COUNTED = 3, 20  # values that differ; rows that count up by one, whatever the name


def find_identifiers(reader: Reader, names: Sequence[str]) -> list[str]:
    """Return the columns that look like identifiers, judged by their names and first values.

    They are whole numbers that count up by one, or they are named like identifiers, and all values
    are different whole numbers or texts, or they are an index of pandas. If all columns are such,
    none is.
    """
    batch = next(iter(reader.batches(names)), None) if names else None
    if batch is None:
        return []
    found = [
        name
        for name, values in zip(names, batch, strict=True)
        if is_index_of_pandas(name)
        or _identifies(named_like_an_identifier(name), values[:MAX_ROWS], reader.text)
    ]
    return found if len(found) < len(names) else []


def _identifies(named: bool, values: Any, text: TextFormat) -> bool:
    if not named and not _counts_up(_numbers(values[:COUNTED], text)):
        return False
    numbers = _numbers(values, text)
    if numbers is not None:
        present = numbers[np.isfinite(numbers)]
        whole = bool(np.all(present == np.floor(present)))
        return (named and whole and _all_differ(present)) or _counts_up(numbers)
    values = plain(values)
    return named and is_text(values.type) and _all_differ(values.filter(pc.not_equal(values, "")))


def _numbers(values: Any, text: TextFormat) -> Floats | None:
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    return to_numbers(values, text)


def _counts_up(numbers: Floats | None) -> bool:
    return numbers is not None and len(numbers) >= COUNTED and bool(np.all(np.diff(numbers) == 1))


def _all_differ(values: Floats | pa.Array) -> bool:
    unique = np.unique(values) if isinstance(values, np.ndarray) else values.unique()
    return FEWEST <= len(values) == len(unique)
