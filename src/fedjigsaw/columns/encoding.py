"""Columns of a file as columns of numbers ("features"), and back.

A number, date, boolean or ordered category is one feature, in which a common value takes the place
of missing ones, and an indicator that says where. A category is one feature of 0 and 1 for each of
its levels (one-hot).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.columns.schema import ABSENT, BOOLEAN, CATEGORY, OTHER, REFUSE, Column, Schema
from fedjigsaw.errors import ParameterError, about, invalid, shorten
from fedjigsaw.validation import MAX_MAGNITUDE, repeated

if TYPE_CHECKING:  # pyarrow takes long to load, and a federation's server and agents need none
    import pyarrow as pa

    from fedjigsaw.columns.text import TextFormat
    from fedjigsaw.columns.values import Outside


MAX_LOG = 500.0  # noise may have made a logarithm larger than any number has


def to_units(column: Column, values: Floats) -> Floats:
    """Return values of the feature of a number column in the column's own units.

    Examples
    --------
    >>> to_units(Column("dose", scale="log"), np.log1p([0.0, 9.0])).round(9).tolist()
    [0.0, 9.0]
    """
    return np.expm1(np.minimum(values, MAX_LOG)) if column.scale == "log" else values


def feature(column: str, part: str) -> str:
    """Return the name of a feature that is a part of a column.

    Examples
    --------
    >>> feature("sex", "female"), feature("age", ABSENT)
    ('sex: female', 'age: (missing)')
    """
    return f"{column}: {part}"


@dataclass(frozen=True)
class Encoder:
    """How one column of the file becomes features.

    Attributes
    ----------
    fill : what takes the place of a missing value, in the units of the feature.
    parts : features besides the column itself: levels of a category, then OTHER and ABSENT.
    """

    column: Column
    fill: float = math.nan
    parts: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        names = tuple(feature(self.column.name, part) for part in self.parts)
        return names if self.column.kind == CATEGORY else (self.column.name, *names)

    def encode(
        self,
        values: "pa.Array",
        text: "TextFormat",
        pattern: str = "",
        counted: "Outside | None" = None,
    ) -> Floats:
        """Return the features of values, shape (n, number of features)."""
        from fedjigsaw.columns.values import read_values

        if self.column.kind == CATEGORY:
            return self._one_hot(values, text, counted)
        numbers = read_values(self.column, values, text, pattern, counted)
        if self.column.scale == "log":
            numbers = np.log1p(np.where(numbers > -1, numbers, np.nan))
        missing = np.isnan(numbers)
        filled = np.where(missing, self.fill, numbers)
        return np.column_stack([filled, missing]) if self.parts else filled[:, None]

    def _one_hot(self, values: "pa.Array", text: "TextFormat", counted: "Outside | None") -> Floats:
        from fedjigsaw.columns.values import MISSING_CODE, OTHER_CODE, read_codes

        codes = read_codes(self.column, values, text)
        if counted is not None:
            counted.add(np.where(codes < 0, np.nan, codes), codes == OTHER_CODE)
        places = {part: j for j, part in enumerate(self.parts)}
        nowhere = places.get(OTHER, -1)
        where = np.array([places.get(level, nowhere) for level in self.column.categories])
        column = np.where(codes >= 0, where[np.maximum(codes, 0)], nowhere)
        column[codes == MISSING_CODE] = places.get(ABSENT, -1)
        rows = np.zeros((len(codes), len(self.parts)))
        known = column >= 0
        rows[np.flatnonzero(known), column[known]] = 1.0
        if self.column.missing == REFUSE:
            rows[codes == MISSING_CODE] = np.nan
        return rows

    def bounds(self) -> tuple[Floats, Floats]:
        """Return least and greatest values of the features, which are public."""
        if self.column.kind == CATEGORY:
            return np.zeros(len(self.parts)), np.ones(len(self.parts))
        low, high = self._range()
        n = len(self.parts)
        return np.array([low, *[0.0] * n]), np.array([high, *[1.0] * n])

    def _range(self) -> tuple[float, float]:
        if self.column.kind == BOOLEAN:
            return 0.0, 1.0
        if self.column.categories:
            return 0.0, len(self.column.categories) - 1.0
        if self.column.range is None:
            raise ParameterError(
                f"Column {self.column.name!r} has no range in the schema, which differential "
                "privacy needs: a least and a greatest value, taken from public knowledge.",
                column=self.column.name,
            )
        low, high = self.column.range
        return (math.log1p(low), math.log1p(high)) if self.column.scale == "log" else (low, high)

    def to_dict(self) -> dict[str, Any]:
        """Return what was fitted, as plain values."""
        found: dict[str, Any] = {"parts": list(self.parts)}
        return found if math.isnan(self.fill) else found | {"fill": self.fill}


@dataclass(frozen=True)
class Encoding:
    """How the columns of a file become features; a schema and what was fitted to it."""

    schema: Schema
    encoders: tuple[Encoder, ...]

    def __post_init__(self) -> None:
        for name in repeated(self.features):
            raise ParameterError(
                f"Two columns of the schema give the feature {name!r}. Rename one."
            )

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of all features."""
        return tuple(name for encoder in self.encoders for name in encoder.features)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the columns of the file that are needed."""
        return tuple(encoder.column.name for encoder in self.encoders)

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of the schema and what was fitted."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    def bounds(self) -> tuple[Floats, Floats]:
        """Return least and greatest values of all features, from the schema alone."""
        low, high = zip(*(encoder.bounds() for encoder in self.encoders), strict=True)
        return np.concatenate(low), np.concatenate(high)

    def by_column(self, rows: Floats) -> dict[str, Floats]:
        """Split rows of features by the column that they come from."""
        cuts = np.cumsum([len(encoder.features) for encoder in self.encoders])[:-1]
        return dict(zip(self.sources, np.split(rows, cuts, axis=-1), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the encoding as plain values, for JSON."""
        fitted = {encoder.column.name: encoder.to_dict() for encoder in self.encoders}
        return {"schema": self.schema.to_dict(), "fitted": fitted}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Check plain values, as of a file, and return the encoding."""
        schema, fitted = content.get("schema"), content.get("fitted")
        if not isinstance(schema, Mapping) or not isinstance(fitted, Mapping):
            raise ParameterError("The preparation has no schema, or no fitted values.")
        found = Schema.from_dict(schema)
        names = [column.name for column in found.clustered]
        if sorted(fitted) != sorted(names):
            raise ParameterError("The columns of the preparation are not those of its schema.")
        encoders = []
        for name in names:
            with about(column=name):
                encoders.append(_encoder(found[name], fitted[name]))
        return cls(found, tuple(encoders))


def _encoder(column: Column, fitted: Any) -> Encoder:
    owner = f"column {column.name!r}"
    parts = fitted.get("parts") if isinstance(fitted, Mapping) else None
    allowed = [*column.categories, OTHER, ABSENT] if column.kind == CATEGORY else [ABSENT]
    if (
        not isinstance(parts, (list, tuple))
        or len(parts) > len(allowed)  # that of a file may have a million parts: do not search it
        or [p for p in allowed if p in parts] != list(parts)
    ):
        raise ParameterError(invalid("parts", owner, f"some of {allowed[:20]}, in order", parts))
    fill = fitted.get("fill", math.nan)
    if isinstance(fill, bool) or not isinstance(fill, (int, float)) or abs(fill) > MAX_MAGNITUDE:
        raise ParameterError(invalid("fill", owner, "a finite number", shorten(fill, 80)))
    if column.missing != REFUSE and column.kind != CATEGORY and math.isnan(fill):
        raise ParameterError(invalid("fill", owner, "given, for missing values", "none"))
    return Encoder(column, float(fill), tuple(parts))


def provisional(schema: Schema) -> Encoding:
    """Return the encoding that asks for all that fitting needs to know.

    Missing values are filled by a value that is known before anything was measured; an indicator
    tells how many there are, so that it can be taken out again.

    Parameters
    ----------
    schema : what the columns mean.

    Examples
    --------
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> from fedjigsaw.sites import provisional
    >>> sex = Column("sex", kind="category", categories=("f", "m"), missing="refuse")
    >>> provisional(Schema((Column("age"), sex))).features
    ('age', 'age: (missing)', 'sex: f', 'sex: m', 'sex: (other)')
    """
    return Encoding(schema, tuple(map(_provisional, schema.clustered)))


def _provisional(column: Column) -> Encoder:
    if column.kind == CATEGORY:
        absent = (ABSENT,) if column.missing != REFUSE else ()
        return Encoder(column, parts=(*column.categories, OTHER, *absent))
    if column.missing == REFUSE:
        return Encoder(column)
    return Encoder(column, anchor(column), (ABSENT,))


def anchor(column: Column) -> float:
    """Return a value that stands for missing ones until the common mean is known."""
    if column.range is None:
        return 0.0
    low, high = column.range
    middle = low / 2 + high / 2
    return math.log1p(middle) if column.scale == "log" else middle
