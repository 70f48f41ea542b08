"""Make a clean copy of a site's file: names, units, categories and types of the common schema.

The copy stays at the site. All other commands read it like any file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw.columns.schema import IGNORE, Schema
from fedjigsaw.columns.text import is_text, whole
from fedjigsaw.columns.words import close_names
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io.atomic import open_whole
from fedjigsaw.io.tables import Table
from fedjigsaw.sites.preparation import Progress, quiet, raw_columns, with_all_columns
from fedjigsaw.sites.schema_changes import Changes, check_changes
from fedjigsaw.sites.schema_column import CopiedColumn


@dataclass(frozen=True)
class Applied:
    """What a clean copy has, and what was changed.

    Attributes
    ----------
    n_rows : rows of the copy.
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
    data: Path | str | Table,
    schema: Schema,
    output: Path | str,
    changes: Changes | None = None,
    *,
    replace: bool = True,
    progress: Progress = quiet,
) -> Applied:
    """Write a copy of a file with the names, units and types of the schema, as Parquet.

    Numbers are float64, categories texts, booleans and dates of their own types. Columns that the
    schema ignores or does not name are kept as texts. It is written whole or not at all, in bounded
    memory.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    schema : what the columns should be.
    output : path of the copy.
    changes : what is different in this file; None is nothing.
    replace : whether an existing copy is replaced; otherwise it is a DataError.
    progress : called with the number of rows of each batch that was written.

    Returns
    -------
    Applied

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column, has a value that the schema refuses, or if the
        copy cannot be written.
    ParameterError
        If a change does not fit the schema.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> from fedjigsaw.io.tables import from_array, open_table
    >>> from fedjigsaw.sites import Changes, apply_schema
    >>> output = Path(tempfile.mkdtemp(), "clean.parquet")
    >>> schema = Schema((Column("height", unit="cm"),))
    >>> done = apply_schema(
    ...     from_array([[1.8], [1.7]], ["height"]), schema, output, Changes(factors={"height": 100})
    ... )
    >>> done.said, open_table(output).columns
    (("'height': values x 100 (cm).",), ('height',))
    """
    from pyarrow.parquet import ParquetWriter

    changes = changes or Changes()
    wanted = [changes.names.get(column.name, column.name) for column in schema.columns]
    table = with_all_columns(data).called(wanted)
    plan = _plan(table, schema, changes)
    with open_whole(Path(output), replace=replace, private=True) as file:
        writer: Any = None
        try:
            for columns in raw_columns(table, [*filter(None, plan.sources), *plan.copied]):
                batch = plan.convert(columns)
                if writer is None:
                    writer = ParquetWriter(file, batch.schema)
                writer.write_batch(batch)
                progress(batch.num_rows)
        finally:
            if writer is not None:
                writer.close()
        if not plan.n_rows:
            raise table.no_rows()
        for column in plan.columns.values():
            column.check()
    return plan.result()


@dataclass
class _Plan:
    """How each column of the copy comes about."""

    columns: dict[str, CopiedColumn]
    sources: list[str | None]  # None for an empty column
    copied: list[str]
    n_rows: int = 0

    def convert(self, values: dict[str, pa.Array]) -> pa.RecordBatch:
        n_rows = len(next(iter(values.values())))
        found = [
            column.convert(pa.nulls(n_rows, pa.string()) if source is None else values[source])
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
    check_changes(used, changes)
    there = table.reader.names
    sources = [_source(table.path, name, there, changes) for name in used]
    columns = {}
    for column in used.values():
        absent = [*changes.missing, *changes.missing_in.get(column.name, ())]
        levels = changes.levels.get(column.name, {})
        text = table.reader.text.with_missing([*schema.missing, *absent])
        # a mark for missing values that is mapped has a meaning here
        marks = tuple(mark for mark in text.marks if whole(mark) not in map(whole, levels))
        text = with_changes(text, marks=marks).keeping([*levels, *column.categories])
        if column.name in changes.date_formats:
            column = with_changes(column, format=changes.date_formats[column.name])
        columns[column.name] = CopiedColumn(
            column,
            table.path,
            text,
            changes.factors.get(column.name, 1.0),
            levels,
            table.reader.text.with_missing(schema.missing).keeping(column.categories),
            absent,
            changes.missing_in.get(column.name, ()),
            has_time=False if column.name in changes.empty else None,
        )
    copied = [name for name in there if name not in sources]
    taken = sorted(set(copied) & set(columns))
    if taken:
        raise DataError(
            f"{table.path} has a column {taken[0]!r} besides {changes.names[taken[0]]!r}, which "
            "would get the same name. Leave one of them out of the file.",
            file=table.path,
            column=taken[0],
        )
    return _Plan(columns, sources, copied)


def _source(path: Path, name: str, there: Sequence[str], changes: Changes) -> str | None:
    """Return the name of a column in the file; None for one that shall be empty."""
    source = changes.names.get(name, name)
    if name in changes.empty and source in there:
        raise ParameterError(
            f"{path} has a column {source!r}, which would get lost.",
            parameter="empty",
            file=path,
            column=source,
        )
    if name in changes.empty:
        return None
    if source in there:
        return source
    close = close_names(source, there)
    guess = f" Is it {close[0]!r}?" if close else ""
    which = f"{source!r}" if source == name else f"{source!r}, which was named for {name!r}"
    advice = "" if source != name else " Say which one it is, or add an empty one."
    text = f"{path} has no column {which}.{guess}{advice}"
    raise DataError(text, parameter="names", file=path, column=source)
