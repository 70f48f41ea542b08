"""Columns of a file as profiles show them: one number for each value, in the units of the file."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fedjigsaw._typing import Floats
from fedjigsaw.columns.encoding import Encoder, Encoding
from fedjigsaw.columns.schema import CATEGORY, OTHER, Column, Schema
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.columns.values import MISSING_CODE, OTHER_CODE, Outside, read_codes, read_values


@dataclass(frozen=True)
class Shown(Encoder):
    """One column beside the features that are made from it.

    Numbers are not filled, and categories are the places of their levels; both are NaN where there
    is no value. The name begins with a character that no name of a file has.
    """

    @property
    def features(self) -> tuple[str, ...]:
        """The one name under which the values are read."""
        return (f"\0{self.column.name}",)

    def encode(
        self,
        values: pa.Array,
        text: TextFormat,
        pattern: str = "",
        counted: Outside | None = None,
    ) -> Floats:
        """Return the values, shape (n, 1)."""
        if self.column.kind != CATEGORY:
            return read_values(self.column, values, text, pattern, counted)[:, None]
        codes = read_codes(self.column, values, text).astype(np.float64)
        codes[codes == OTHER_CODE] = len(self.column.categories)
        codes[codes == MISSING_CODE] = np.nan
        return codes[:, None]


def with_shown(encoding: Encoding) -> Encoding:
    """Return an encoding that reads, besides its features, every column that profiles show."""
    shown = tuple(Shown(column) for column in encoding.schema.described)
    return replace(encoding, encoders=(*encoding.encoders, *shown))


def shown_columns(schema: Schema) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Return the names of columns of numbers, and the levels of columns of categories."""
    described = schema.described
    numbers = tuple(column.name for column in described if column.kind != CATEGORY)
    levels = {c.name: (*c.categories, OTHER) for c in described if c.kind == CATEGORY}
    return numbers, levels


def shown_bounds(schema: Schema) -> tuple[list[float], list[float]]:
    """Return public bounds of the columns of numbers, from the schema alone."""
    pairs = [_bounds(column) for column in schema.described if column.kind != CATEGORY]
    return [low for low, _ in pairs] or [0.0], [high for _, high in pairs] or [1.0]


def _bounds(column: Column) -> tuple[float, float]:
    plain = Encoder(replace(column, scale="standard"))
    low, high = plain.bounds()
    return float(low[0]), float(high[0])
