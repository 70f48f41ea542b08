"""A schema: what the columns of a table mean, the same for all sites.

It holds no values of rows, only what people wrote: names, kinds, units, ranges, categories.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, Self
from unicodedata import normalize

from fedjigsaw.errors import ParameterError, about, invalid
from fedjigsaw.validation import MAX_MAGNITUDE, MAX_NAME_LENGTH, repeated

NUMBER, CATEGORY, ORDERED, BOOLEAN, DATE, IGNORE = KINDS = (
    "number",
    "category",
    "ordered",
    "boolean",
    "date",
    "ignore",
)
SCALES = ("standard", "robust", "range", "log")
OUTSIDE = ("refuse", "missing", "clip")
MEAN, MEDIAN, OWN, REFUSE = "mean", "median", "category", "refuse"
TEXT_KINDS = (CATEGORY, ORDERED)
# which ways to treat a missing value each kind has; the first is the default
MISSING_BY_KIND = {
    NUMBER: (MEAN, MEDIAN, REFUSE),
    DATE: (MEAN, MEDIAN, REFUSE),
    ORDERED: (MEAN, MEDIAN, REFUSE),
    BOOLEAN: (MEAN, REFUSE),
    CATEGORY: (OWN, REFUSE),
    IGNORE: ("",),
}
SCALES_BY_KIND = {
    NUMBER: SCALES,
    DATE: ("standard", "robust", "range"),
    ORDERED: ("standard", "robust", "range"),
}
EPOCH = date(1970, 1, 1)
DATE_FORMAT = re.compile(r"(?=.*%d)(?=.*%[mbB])(?=.*%Y)([-./ T:Z,]|%[dmbBYHMSIp])+")
FORMAT_CODES = (
    "%d day, %m month, %b name of the month, %Y year, %H hour, %M minute, %S second, "
    "%I hour and %p AM or PM"
)
MAX_COLUMNS, MAX_CATEGORIES, MAX_MISSING = 10_000, 1_000, 1_000
OTHER, ABSENT = "(other)", "(missing)"  # features besides the categories


def to_days(day: date) -> float:
    """Return the days from 1970-01-01 to a date."""
    return float((day - EPOCH).days)


def from_days(days: float) -> date:
    """Return the date of a number of days since 1970-01-01."""
    return EPOCH + timedelta(days=round(days))


@dataclass(frozen=True)
class Column:
    """One column of a schema.

    Attributes
    ----------
    kind : number, category, ordered (a category with an order), boolean, date or ignore.
    unit : for people; files of other units are converted by `fedjigsaw schema apply`.
    range : least and greatest plausible value, of dates in days since 1970-01-01
        Required for ``scale="range"`` and under differential privacy.
    outside : what happens to values outside the range: they are an error (refuse), count as missing
        values, or are clipped to it. For ordered columns: values that are no category.
    missing : what happens to missing values
        The common mean or median takes their place, and an indicator column says where; in a
        category column, they are a category of their own; or they are an error (refuse).
    scale : by mean and standard deviation, robustly (median and quartiles), by the range, or the
        logarithm of 1 + value by mean and standard deviation.
    weight : the scaled column is multiplied by it; 0 leaves it out of the clustering, though
        profiles show it.
    categories : all categories that are told apart, in order for an ordered column.
    format : of dates, as in ``%d.%m.%Y``; empty if each site's is recognized.

    Raises
    ------
    ParameterError
        If a setting is not allowed for the column's kind.

    Examples
    --------
    >>> from fedjigsaw.columns.schema import Column
    >>> age = Column("age", unit="years", range=(0, 120))
    >>> age.kind, age.missing, age.outside
    ('number', 'mean', 'refuse')
    """

    name: str
    kind: str = NUMBER
    unit: str = ""
    range: tuple[float, float] | None = None
    outside: str = REFUSE
    missing: str = ""
    scale: str = "standard"
    weight: float = 1.0
    categories: tuple[str, ...] = ()
    format: str = ""

    def __post_init__(self) -> None:
        self._check("kind", KINDS)
        object.__setattr__(self, "weight", float(self.weight))
        if self.range is not None:
            low, high = self.range
            object.__setattr__(self, "range", (float(low), float(high)))
        if not self.missing:
            object.__setattr__(self, "missing", MISSING_BY_KIND[self.kind][0])
        self._check("missing", MISSING_BY_KIND[self.kind])
        self._check("scale", SCALES_BY_KIND.get(self.kind, ("standard",)))
        self._check("outside", OUTSIDE if self.kind != ORDERED else OUTSIDE[:2])
        if not (math.isfinite(self.weight) and 0 <= self.weight <= 1e6):
            self._refuse("weight", "a number from 0 to 1,000,000")
        self._check_range()
        self._check_categories()
        if self.format and (self.kind != DATE or not DATE_FORMAT.fullmatch(self.format)):
            allowed = f"such as '%d.%m.%Y', for a column of dates ({FORMAT_CODES})"
            self._refuse("format", allowed)

    def _check(self, name: str, allowed: Sequence[str]) -> None:
        if getattr(self, name) not in allowed:
            self._refuse(name, "one of " + ", ".join(filter(None, allowed)))

    def _refuse(self, name: str, allowed: str) -> None:
        got = repr(getattr(self, name))
        text = invalid(name, f"column {self.name!r}", allowed, got)
        raise ParameterError(text, column=self.name)

    def _check_range(self) -> None:
        if self.range is None:
            if self.scale == "range":
                self._refuse("range", "given, since the scale is 'range'")
            return
        if self.kind not in (NUMBER, DATE):
            self._refuse("range", "left out: only numbers and dates have one")
        low, high = self.range
        if not -MAX_MAGNITUDE <= low < high <= MAX_MAGNITUDE:
            self._refuse("range", "two finite numbers, the smaller one first")
        if self.scale == "log" and low <= -1:
            self._refuse("range", "above -1, since the scale is 'log' (of 1 + value)")

    def _check_categories(self) -> None:
        if self.kind not in TEXT_KINDS:
            if self.categories:
                self._refuse("categories", "left out: only category and ordered have them")
            return
        if not self.categories:
            self._refuse("categories", "given: the categories to tell apart")
        if self.kind == ORDERED and len(self.categories) < 2:
            self._refuse("categories", "at least two, since they have an order")
        for name in repeated(normalize("NFC", category) for category in self.categories):
            raise ParameterError(
                f"The categories of column {self.name!r} have {name!r} several times, perhaps "
                "with letters composed in other ways. Delete all but one.",
                column=self.name,
            )
        strange = [c for c in self.categories if not is_name(c) or c in (OTHER, ABSENT)]
        if strange or len(self.categories) > MAX_CATEGORIES:
            allowed = f"at most {MAX_CATEGORIES} different printable texts, each without blanks "
            self._refuse("categories", allowed + f"at its ends, none of them {OTHER} or {ABSENT}")

    @property
    def is_clustered(self) -> bool:
        """Whether the column has a say in the clustering."""
        return self.kind != IGNORE and self.weight > 0

    def to_dict(self) -> dict[str, Any]:
        """Return all that differs from the defaults."""
        found: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            default = MISSING_BY_KIND[self.kind][0] if field.name == "missing" else field.default
            if field.name not in ("name", "kind") and value != default:
                found[field.name] = list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def from_dict(cls, name: str, settings: Mapping[str, Any]) -> Self:
        """Check settings from a file and return the column."""
        owner = f"column {name!r}"
        if not is_name(name):
            allowed = "printable, without blanks at its ends"
            raise ParameterError(invalid("name", "a column", allowed, repr(name)))
        values: dict[str, Any] = {}
        with about(column=name):
            for key, value in settings.items():
                if key not in TYPES:
                    allowed = "one of " + ", ".join(TYPES)
                    raise ParameterError(invalid("setting", owner, allowed, repr(key)))
                values[key] = TYPES[key](value, key, owner)
        return cls(name, **values)


def is_name(text: object) -> bool:
    """Whether a text can be the name of a column or category."""
    return (
        isinstance(text, str)
        and 1 <= len(text) <= MAX_NAME_LENGTH
        and text.isprintable()
        and text.strip() == text
    )


def _is_mark(text: str) -> bool:
    return len(text) <= MAX_NAME_LENGTH and text.isprintable()


def _text(value: Any, key: str, owner: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_NAME_LENGTH:
        raise ParameterError(invalid(key, owner, "a short printable text", repr(value)))
    return value


def _number(value: Any, key: str, owner: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(invalid(key, owner, "a number", repr(value)))
    try:
        return float(value)
    except OverflowError as error:
        raise ParameterError(invalid(key, owner, "a finite number", "a larger one")) from error


def _range(value: Any, key: str, owner: str) -> tuple[float, float]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        allowed = "two numbers or dates, [least, greatest]"
        raise ParameterError(invalid(key, owner, allowed, repr(value)))
    days = [v.date() if isinstance(v, datetime) else v for v in value]
    low, high = (to_days(v) if isinstance(v, date) else _number(v, key, owner) for v in days)
    return low, high


def _texts(value: Any, key: str, owner: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        raise ParameterError(invalid(key, owner, "a list of texts in quotes", repr(value)))
    return tuple(value)


TYPES = {
    "kind": _text,
    "unit": _text,
    "range": _range,
    "outside": _text,
    "missing": _text,
    "scale": _text,
    "weight": _number,
    "categories": _texts,
    "format": _text,
}


@dataclass(frozen=True)
class Schema:
    """The columns that all sites have in common.

    Attributes
    ----------
    columns : one or more, at least one of them with a say in the clustering.
    missing : texts that stand for a missing value, besides the usual ones such as NA.
    rare : categories with a smaller share of all rows than this are pooled.

    Examples
    --------
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> sex = Column("sex", "category", categories=("f", "m"))
    >>> schema = Schema((Column("age", unit="years"), sex))
    >>> schema["age"].missing, schema["sex"].missing
    ('mean', 'category')
    """

    columns: tuple[Column, ...]
    missing: tuple[str, ...] = ()
    rare: float = 0.01

    def __post_init__(self) -> None:
        for name in repeated(column.name for column in self.columns):
            raise ParameterError(f"The schema has several columns named {name!r}.", column=name)
        if not any(column.is_clustered for column in self.columns):
            raise ParameterError("The schema has no column to cluster: all are ignored.")
        if len(self.columns) > MAX_COLUMNS:
            allowed = f"at most {MAX_COLUMNS}"
            raise ParameterError(invalid("columns", "the schema", allowed, len(self.columns)))
        if len(self.missing) > MAX_MISSING or not all(map(_is_mark, self.missing)):
            allowed = f"at most {MAX_MISSING:,} printable texts of at most {MAX_NAME_LENGTH} signs"
            raise ParameterError(invalid("missing", "the schema", allowed, "others"))
        if not 0 <= self.rare < 0.5:
            raise ParameterError(invalid("rare", "the schema", "from 0 to 0.5", self.rare))

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def clustered(self) -> tuple[Column, ...]:
        """The columns that have a say in the clustering."""
        return tuple(column for column in self.columns if column.is_clustered)

    @property
    def described(self) -> tuple[Column, ...]:
        """The columns that profiles show."""
        return tuple(column for column in self.columns if column.kind != IGNORE)

    @property
    def fingerprint(self) -> str:
        """Short hash: sites with the same one have the same schema."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    def without(self, names: Iterable[str]) -> Self:
        """Return the schema with some columns ignored."""
        gone = set(names)
        columns = [Column(c.name, IGNORE) if c.name in gone else c for c in self.columns]
        return replace(self, columns=tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values, for JSON."""
        found: dict[str, Any] = {"format": 1, "rare": self.rare}
        if self.missing:
            found["missing"] = list(self.missing)
        # a list, since some writers of JSON sort what has names
        columns = [{"name": column.name, **column.to_dict()} for column in self.columns]
        return found | {"columns": columns}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Check plain values, as of a file, and return the schema."""
        unknown = sorted(set(content) - {"format", "missing", "rare", "columns"})
        if unknown:
            allowed = "one of format, missing, rare, columns"
            raise ParameterError(invalid("setting", "the schema", allowed, repr(unknown[0])))
        if content.get("format") != 1:
            raise ParameterError(invalid("format", "the schema", "1", repr(content.get("format"))))
        return cls(
            tuple(
                Column.from_dict(name, settings)
                for name, settings in _settings(content.get("columns"))
            ),
            _texts(content.get("missing", ()), "missing", "the schema"),
            _number(content.get("rare", 0.01), "rare", "the schema"),
        )


def _settings(columns: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return names and settings: of tables [columns.NAME], as in TOML, or of a list with names."""
    if isinstance(columns, list) and all(isinstance(entry, Mapping) for entry in columns):
        pairs: list[tuple[Any, Any]] = [
            (e.get("name"), {k: v for k, v in e.items() if k != "name"}) for e in columns
        ]
    else:
        pairs = list(columns.items()) if isinstance(columns, Mapping) else []
    if not pairs or not all(isinstance(n, str) and isinstance(s, Mapping) for n, s in pairs):
        allowed = "a table [columns.NAME] for each column"
        raise ParameterError(invalid("columns", "the schema", allowed, repr(columns)))
    return pairs
