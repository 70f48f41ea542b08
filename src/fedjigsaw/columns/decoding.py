"""Rows of features as values of columns again: the inverse of an encoding."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoder, Encoding, to_units
from fedjigsaw.columns.schema import ABSENT, BOOLEAN, CATEGORY, DATE, ORDERED


def decode(encoding: Encoding, rows: Floats) -> pa.Table:
    """Return the columns that rows of features stand for.

    A row has the category whose feature is largest, and no value where the indicator of missing
    values is above 0.5.
    """
    parts = encoding.by_column(rows)
    columns = {e.column.name: _decode(e, parts[e.column.name]) for e in encoding.encoders}
    return pa.table(columns)


def _decode(encoder: Encoder, block: Floats) -> pa.Array:
    column = encoder.column
    if column.kind == CATEGORY:
        levels = np.array([None if p == ABSENT else p for p in encoder.parts], dtype=object)
        return pa.array(levels[block.argmax(axis=1)], pa.string())
    missing = block[:, 1] > 0.5 if encoder.parts else np.zeros(len(block), dtype=bool)
    values = to_units(column, block[:, 0])
    return DECODERS.get(column.kind, _numbers)(encoder, values, missing)


def rank(encoder: Encoder, values: Floats) -> np.ndarray:
    """Return the place of each value of an ordered column among its categories."""
    return np.clip(np.rint(values), 0, len(encoder.column.categories) - 1).astype(np.int64)


def _numbers(encoder: Encoder, values: Floats, missing: np.ndarray) -> pa.Array:
    return pa.array(values, pa.float64(), mask=missing)


def _booleans(encoder: Encoder, values: Floats, missing: np.ndarray) -> pa.Array:
    return pa.array(values >= 0.5, mask=missing)


def _dates(encoder: Encoder, values: Floats, missing: np.ndarray) -> pa.Array:
    days = np.clip(np.rint(values), -(2**31), 2**31 - 1).astype(np.int32)
    return pa.array(days, pa.int32(), mask=missing).cast(pa.date32())


def _ranks(encoder: Encoder, values: Floats, missing: np.ndarray) -> pa.Array:
    levels = np.array(encoder.column.categories, dtype=object)
    return pa.array(levels[rank(encoder, values)], pa.string(), mask=missing)


DECODERS: dict[str, Callable[[Encoder, Floats, np.ndarray], pa.Array]] = {
    BOOLEAN: _booleans,
    DATE: _dates,
    ORDERED: _ranks,
}
