"""Make a clean copy of a site's file: names, units, categories and types of the common schema.

The copy stays at the site. All other commands read it like any file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedjigsaw._typing import Floats
from fedjigsaw.columns.lenient import Reading, best_format, is_ambiguous, read_leniently
from fedjigsaw.columns.schema import (
    BOOLEAN,
    CATEGORY,
    DATE,
    IGNORE,
    NUMBER,
    ORDERED,
    TEXT_KINDS,
    Column,
    Schema,
)
from fedjigsaw.columns.text import TextFormat, is_text, to_numbers
from fedjigsaw.columns.units import Conversion, conversion
from fedjigsaw.columns.values import (
    DAY_FIRST,
    FALSE,
    MONTH_FIRST,
    MUST_BE,
    SECONDS_PER_DAY,
    TRUE,
    read_levels,
    show_value,
)
from fedjigsaw.errors import DataError, ParameterError, invalid
from fedjigsaw.io.atomic import open_whole
from fedjigsaw.io.tables import Table
from fedjigsaw.sites.preparation import Progress, quiet, raw_columns, with_all_columns
from fedjigsaw.sites.schema_check import LONGEST, close_names

MAPPED = (CATEGORY, ORDERED, BOOLEAN)


@dataclass(frozen=True)
class Changes:
    """What is different in one site's file. Columns have the names of the schema.

    Attributes
    ----------
    names : column of the schema -> its name in the file.
    units : column -> unit in the file, such as ``"mmol/l"``.
    factors : column -> number by which the values are multiplied.
    levels : column -> {value in the file: category of the schema}.
    date_formats : column -> how dates are written, such as ``"%d.%m.%Y"``.
    missing : texts or numbers that stand for a missing value, in all columns.
    missing_in : column -> the same for this column alone.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    date_formats: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    missing_in: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Applied:
    """What a clean copy has, and what was changed.

    Attributes
    ----------
    n_missing : column -> rows without a value.
    n_outside : column -> values outside of its range, or none of its categories.
    said : what was changed, in words.
    copied : columns that the schema does not use, kept as texts.
    """

    n_rows: int
    n_missing: dict[str, int]
    n_outside: dict[str, int]
    said: tuple[str, ...]
    copied: tuple[str, ...]


def apply_schema(
    data: Path | Table,
    schema: Schema,
    output: Path,
    changes: Changes | None = None,
    *,
    replace: bool = True,
    progress: Progress = quiet,
) -> Applied:
    """Write a copy of a file with the names, units and types of the schema, as Parquet.

    Numbers are float64, categories texts, booleans and dates of their own types. Columns that the
    schema ignores or does not name are kept as texts. It is written whole or not at all, in bounded
    memory.
    """
    table = with_all_columns(data)
    plan = _plan(table, schema, changes or Changes())
    with open_whole(output, replace=replace) as file:
        writer: Any = None
        try:
            for columns in raw_columns(table, [*plan.sources, *plan.copied]):
                batch = plan.convert(columns)
                if writer is None:
                    writer = pa.parquet.ParquetWriter(file, batch.schema)
                writer.write_batch(batch)
                progress(batch.num_rows)
        finally:
            if writer is not None:
                writer.close()
        if not plan.n_rows:
            raise DataError(f"{table.path} has no rows.")
    return plan.result()


# ------------------------------------------------------------------------------------- one column


@dataclass
class _Column:
    """Converts one column, and counts."""

    column: Column
    path: Path
    text: TextFormat
    way: Conversion | None
    levels: Mapping[str, str]
    absent: Sequence[str]
    n_rows: int = 0
    n_missing: int = 0
    n_outside: int = 0
    n_marked: int = 0
    n_mapped: Counter[str] = field(default_factory=Counter)
    has_time: bool | None = None
    pattern: str = ""

    def convert(self, values: pa.Array) -> pa.Array:
        if self.levels:
            values = self._map(read_levels(values, self.text))
        if self.column.kind == DATE and not self.pattern:
            self._find_format(values)
        reading = read_leniently(self.column, values, self.text, self.pattern)
        if reading.unreadable.any():
            raise DataError(self._unreadable(values, int(np.argmax(reading.unreadable))))
        found = self._build(values, reading)
        self.n_rows += len(found)
        self.n_missing += found.null_count
        return found

    def _map(self, levels: pa.Array) -> pa.Array:
        old = pa.array(list(self.levels), pa.string())
        places = pc.index_in(levels, value_set=old)
        for entry in pc.value_counts(places.drop_null()).to_pylist():
            self.n_mapped[old[entry["values"]].as_py()] += entry["counts"]
        new = pa.array(list(self.levels.values()), pa.string()).take(places)
        return pc.coalesce(new, levels)

    def _build(self, values: pa.Array, reading: Reading) -> pa.Array:
        if self.column.kind in TEXT_KINDS:
            self.n_outside += int(reading.outside.sum())
            return read_levels(values, self.text)
        if self.column.kind == NUMBER:
            return _array(self._numbers(reading.numbers), pa.float64())
        if self.column.kind == BOOLEAN:
            return _array(reading.numbers, pa.bool_())
        self._count_outside(reading.numbers)
        if self.has_time is None:
            self.has_time = "%H" in self.pattern or pa.types.is_timestamp(values.type)
        if self.has_time:
            return _array(reading.numbers * SECONDS_PER_DAY, pa.timestamp("s"))
        return _array(reading.numbers, pa.date32())

    def _numbers(self, numbers: Floats) -> Floats:
        marked = np.isin(numbers, [float(m) for m in self.absent if _is_number(m)])
        self.n_marked += int(marked.sum())
        numbers = np.where(marked, np.nan, numbers)
        if self.way is not None:
            numbers = self.way.factor * numbers + self.way.offset
        self._count_outside(numbers)
        return numbers

    def _count_outside(self, numbers: Floats) -> None:
        if self.column.range is not None:
            low, high = self.column.range
            self.n_outside += int(((numbers < low) | (numbers > high)).sum())

    def _find_format(self, values: pa.Array) -> None:
        if is_ambiguous(self.column, values, self.text):
            name = self.column.name
            raise DataError(
                f"{self.path}, column {name!r}: dates can be read with the day or with the month "
                f"first. Say which: --date-format '{name}={DAY_FIRST}' or '{name}={MONTH_FIRST}'."
            )
        self.pattern = best_format(self.column, values, self.text)

    def _unreadable(self, values: pa.Array, place: int) -> str:
        column, value = self.column, show_value(values, place, LONGEST)
        advice = f"Correct it, or count it as missing (--missing {value})."
        if column.kind == DATE:
            advice = f"Correct it, or give the format (--date-format '{column.name}=...')."
        if column.kind == BOOLEAN:
            advice = f"Correct it, or say what it means (--map {column.name + ':...=true'!r})."
        where = f"{self.path}, row {self.n_rows + place + 1}, column {column.name!r}"
        reason = MUST_BE[column.kind]
        if self.pattern and column.kind == DATE:
            reason += f" as in {self.pattern}"
        return f"{where}: {value} is not {reason}. {advice}"

    def say(self, source: str) -> list[str]:
        """Return what was changed, in words."""
        name, found = self.column.name, []
        if source != name:
            found.append(f"{source!r} is now {name!r}.")
        if self.way is not None:
            offset = f" + {self.way.offset:.6g}" if self.way.offset else ""
            unit = f" ({self.column.unit})" if self.column.unit else ""
            found.append(f"{name!r}: values x {self.way.factor:.6g}{offset}{unit}.")
        found += [
            f"{name!r}: {old!r} is now {new!r} in {self.n_mapped[old]:,} rows."
            for old, new in self.levels.items()
        ]
        if self.n_marked:
            found.append(f"{name!r}: {self.n_marked:,} numbers count as missing.")
        return found


def _array(numbers: Floats, kind: pa.DataType) -> pa.Array:
    missing = np.isnan(numbers)
    filled = np.where(missing, 0.0, numbers)
    if kind == pa.float64():
        return pa.array(filled, mask=missing)
    if kind == pa.bool_():
        return pa.array(filled > 0, mask=missing)
    whole = filled.astype(np.int32 if kind == pa.date32() else np.int64)
    return pa.array(whole, mask=missing).cast(kind)


def _is_number(text: str) -> bool:
    return to_numbers(pa.array([text]), TextFormat(missing=())) is not None


# ----------------------------------------------------------------------------------------- a plan


@dataclass
class _Plan:
    """How each column of the copy comes about."""

    columns: dict[str, _Column]
    sources: list[str]
    copied: list[str]
    n_rows: int = 0

    def convert(self, values: dict[str, pa.Array]) -> pa.RecordBatch:
        found = [
            column.convert(values[source])
            for source, column in zip(self.sources, self.columns.values(), strict=True)
        ]
        others = [_as_text(values[name]) for name in self.copied]
        batch = pa.RecordBatch.from_arrays([*found, *others], [*self.columns, *self.copied])
        self.n_rows += batch.num_rows
        return batch

    def result(self) -> Applied:
        pairs = zip(self.sources, self.columns.values(), strict=True)
        return Applied(
            self.n_rows,
            {name: column.n_missing for name, column in self.columns.items()},
            {name: column.n_outside for name, column in self.columns.items()},
            tuple(line for source, column in pairs for line in column.say(source)),
            tuple(self.copied),
        )


def _as_text(values: pa.Array) -> pa.Array:
    try:
        return values if is_text(values.type) else pc.cast(values, pa.string())
    except pa.ArrowException:  # lists and the like stay as they are
        return values


def _plan(table: Table, schema: Schema, changes: Changes) -> _Plan:
    used = {column.name: column for column in schema.columns if column.kind != IGNORE}
    _check_changes(used, changes)
    there = table.reader.names
    sources = [_source(table.path, name, there, changes.names) for name in used]
    columns = {}
    for column in used.values():
        absent = [*changes.missing, *changes.missing_in.get(column.name, ())]
        levels = changes.levels.get(column.name, {})
        text = table.reader.text.with_missing([*schema.missing, *absent])
        # a mark for missing values that is mapped has a meaning here
        text = with_changes(text, missing=tuple(m for m in text.missing if m not in levels))
        if column.name in changes.date_formats:
            column = with_changes(column, format=changes.date_formats[column.name])
        way = _way(column, changes)
        columns[column.name] = _Column(column, table.path, text, way, levels, absent)
    copied = [name for name in there if name not in sources]
    taken = sorted(set(copied) & set(columns))
    if taken:
        raise DataError(
            f"{table.path} has a column {taken[0]!r} besides {changes.names[taken[0]]!r}, which "
            "would get the same name. Leave one of them out of the file."
        )
    return _Plan(columns, sources, copied)


def _source(path: Path, name: str, there: Sequence[str], names: Mapping[str, str]) -> str:
    source = names.get(name, name)
    if source in there:
        return source
    close = close_names(source, there)
    guess = f" Is it {close[0]!r}?" if close else ""
    which = f"{source!r}" if source == name else f"{source!r}, which --rename names"
    advice = "" if source != name else f" Say which one it is (--rename '...={name}')."
    raise DataError(f"{path} has no column {which}.{guess}{advice}")


def _way(column: Column, changes: Changes) -> Conversion | None:
    name = column.name
    if name in changes.units:
        if not column.unit:
            raise ParameterError(
                f"Column {name!r} has no unit in the schema, so nothing can be converted to it. "
                f"Give the factor instead (--factor '{name}=...')."
            )
        return conversion(name, changes.units[name], column.unit)
    return Conversion(changes.factors[name]) if name in changes.factors else None


def _check_changes(used: Mapping[str, Column], changes: Changes) -> None:
    numbers, words = (NUMBER,), MAPPED
    for option, names, kinds in (
        ("--rename", changes.names, (*MAPPED, NUMBER, DATE)),
        ("--unit", changes.units, numbers),
        ("--factor", changes.factors, numbers),
        ("--map", changes.levels, words),
        ("--date-format", changes.date_formats, (DATE,)),
        ("--missing", changes.missing_in, (*MAPPED, NUMBER, DATE)),
    ):
        for name in names:
            _check_column(option, name, used, kinds)
    both = sorted(set(changes.units) & set(changes.factors))
    if both:
        raise ParameterError(f"Give --unit or --factor for column {both[0]!r}, not both.")
    for name, factor in changes.factors.items():
        if not isfinite(factor) or factor == 0:
            allowed = "a finite number other than 0"
            raise ParameterError(invalid("--factor", f"column {name!r}", allowed, factor))
    for name, levels in changes.levels.items():
        _check_levels(used[name], levels)
    sources = Counter(changes.names.values())
    for source, n in sources.items():
        if n > 1:
            raise ParameterError(f"--rename: column {source!r} of the file is given two names.")


def _check_column(option: str, name: str, used: Mapping[str, Column], kinds: Sequence[str]) -> None:
    if name not in used:
        close = close_names(name, list(used))
        guess = f" Is it {close[0]!r}?" if close else f" It has {', '.join(used)}."
        raise ParameterError(f"{option}: the schema uses no column {name!r}.{guess}")
    if used[name].kind not in kinds:
        raise ParameterError(
            f"{option}: column {name!r} is of kind {used[name].kind}; this option is for "
            f"{' and '.join(kinds)}."
        )


def _check_levels(column: Column, levels: Mapping[str, str]) -> None:
    for new in levels.values():
        known = (*TRUE, *FALSE) if column.kind == BOOLEAN else column.categories
        if (new.lower() if column.kind == BOOLEAN else new) not in known:
            shown = "true, false" if column.kind == BOOLEAN else ", ".join(column.categories)
            raise ParameterError(
                f"--map: {new!r} is no category of column {column.name!r}. It has {shown}."
            )
