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
from fedjigsaw.columns.words import is_index_of_pandas, named_like_a_code, named_like_an_identifier
from fedjigsaw.io.readers import Reader

MAX_ROWS = 10_000  # by which a column is judged
FEWEST, COUNTED = 3, 20  # values that differ; rows that tell, whatever the name
MANY, SHARE = 30, 0.1  # different values, and their share of all: fewer may be counts or groups


class NotMeasured(NamedTuple):
    """Names of columns that look like identifiers, and of others that look like codes."""

    identifiers: list[str]
    codes: list[str]


def find_not_measured(reader: Reader, names: Sequence[str]) -> NotMeasured:
    """Return the columns that look like identifiers or codes, by their names and first values.

    Identifiers are whole numbers that count up by one, or they are named so, and all values are
    different whole numbers or texts, or they are an index of pandas. If all columns are such, none
    is.

    Codes are whole numbers. They are named like codes; or like identifiers, and have many different
    values; or they are written with as many digits each, and zeros in front. Otherwise values alone
    do not tell codes from counts, amounts of money and times.
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
    if _are_padded(values):
        return True
    coded = named_like_a_code(name)
    if not coded and not named_like_an_identifier(name):
        return False
    numbers = _numbers(values, text)
    if numbers is None or not _are_whole(present := numbers[np.isfinite(numbers)]):
        return False
    return len(np.unique(present)) >= (FEWEST if coded else max(MANY, SHARE * len(present)))


def _are_padded(values: Any) -> bool:
    """Tell whether texts are digits, as many in each, and some begin with 0, as in 01067."""
    if isinstance(values, np.ndarray) or not is_text((values := plain(values)).type):
        return False
    present = values.filter(pc.not_equal(values, ""))
    if len(present) < COUNTED or len(pc.utf8_length(present).unique()) > 1:
        return False
    digits = pc.match_substring_regex(present, "^[0-9]{2,}$")
    return bool(pc.all(digits).as_py() and pc.any(pc.starts_with(present, "0")).as_py())


def _numbers(values: Any, text: TextFormat) -> Floats | None:
    if isinstance(values, np.ndarray):
        return values.astype(np.float64)
    return to_numbers(values, text)


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
