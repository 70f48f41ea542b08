"""Columns of identifiers and codes, whose numbers say nothing about clusters.

An identifier says who a row is about. A code, such as a postcode or an account number, is written
as a number, but its distance to another one means nothing.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.text import TextFormat, is_text, plain, to_numbers
from fedjigsaw.columns.words import (
    is_index_of_pandas,
    named_like_a_code,
    named_like_a_person,
    named_like_an_identifier,
)
from fedjigsaw.io.readers import Reader

MAX_ROWS = 10_000  # by which a column is judged
FEWEST, COUNTED = 3, 20  # values that differ; rows that tell, whatever the name
MANY, SHARE = 30, 0.1  # different values, and their share of all: fewer may be counts or groups
LONG = 8  # digits of codes, whatever the name
SPREAD = 1.2  # how many times the least one the greatest is: times and positions are closer


class NotMeasured(NamedTuple):
    """Names of columns that look like identifiers, and of others that look like codes."""

    identifiers: list[str]
    codes: list[str]


def find_not_measured(reader: Reader, names: Sequence[str]) -> NotMeasured:
    """Return the columns that look like identifiers or codes, by their names and first values.

    Identifiers are whole numbers that count up by one, or they are named so, and all values are
    different whole numbers or texts, or they are an index of pandas. If all columns are such, none
    is.

    Codes are whole numbers. They are named like codes; or like people or identifiers, and have many
    different values; or all values differ, have the same number of digits, eight or more, and are
    far apart. Those of fewer digits may well be prices, and those close together times in seconds.
    """
    batch = next(iter(reader.batches(names)), None) if names else None
    if batch is None:
        return NotMeasured([], [])
    columns = [(n, values[:MAX_ROWS]) for n, values in zip(names, batch, strict=True)]
    found = [name for name, values in columns if _identifies(name, values, reader.text)]
    codes = [n for n, values in columns if n not in found and _are_codes(n, values, reader.text)]
    return NotMeasured(found if len(found) < len(names) else [], codes)


def _identifies(name: str, values: Any, text: TextFormat) -> bool:
    if is_index_of_pandas(name):
        return True
    named = named_like_an_identifier(name)
    if not named and not _counts_up(_numbers(values[:COUNTED], text)):
        return False
    numbers = _numbers(values, text)
    if numbers is not None:
        present = numbers[np.isfinite(numbers)]
        return (named and _are_whole(present) and _all_differ(present)) or _counts_up(numbers)
    values = plain(values)
    return named and is_text(values.type) and _all_differ(values.filter(pc.not_equal(values, "")))


def _are_codes(name: str, values: Any, text: TextFormat) -> bool:
    coded, known = named_like_a_code(name), named_like_a_person(name)
    known = known or named_like_an_identifier(name)
    if not (coded or known) and _n_digits(_numbers(values[:COUNTED], text)) < LONG:
        return False
    numbers = _numbers(values, text)
    if numbers is None or not _are_whole(present := numbers[np.isfinite(numbers)]):
        return False
    n_different = len(np.unique(present))
    if coded or known:
        return n_different >= (FEWEST if coded else max(MANY, SHARE * len(present)))
    apart = _n_digits(present) >= LONG and present.max() >= SPREAD * present.min()
    return COUNTED <= n_different == len(present) and bool(apart)


def _numbers(values: Any, text: TextFormat) -> Floats | None:
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    return to_numbers(values, text)


def _n_digits(numbers: Floats | None) -> int:
    """Return how many digits whole numbers have, or 0 if they are none or differ in that."""
    present = np.empty(0) if numbers is None else numbers[np.isfinite(numbers)]
    if not len(present) or present.min() < 1 or not _are_whole(present):
        return 0
    least, most = (len(f"{number:.0f}") for number in (present.min(), present.max()))
    return least if least == most else 0


def _are_whole(numbers: Floats) -> bool:
    return bool(np.all(numbers == np.floor(numbers)))


def _counts_up(numbers: Floats | None) -> bool:
    """Tell whether numbers are rows that were counted: halves, such as 0.5 and 1.5, are a scale."""
    if numbers is None or len(numbers) < COUNTED or not _are_whole(numbers[:1]):
        return False
    return bool(np.all(np.diff(numbers) == 1))


def _all_differ(values: Floats | pa.Array) -> bool:
    unique = np.unique(values) if isinstance(values, np.ndarray) else values.unique()
    return FEWEST <= len(values) == len(unique)
