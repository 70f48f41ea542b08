"""Check a site's file against the common schema. What it finds is for the site alone."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedjigsaw.columns.in_words import unit_of
from fedjigsaw.columns.schema import IGNORE, NUMBER, Column, Schema
from fedjigsaw.columns.words import close_names, unlike_ends
from fedjigsaw.io.tables import Table
from fedjigsaw.sites.preparation import Progress, quiet, raw_columns, with_all_columns
from fedjigsaw.sites.schema_count import ColumnCount
from fedjigsaw.sites.schema_verdict import Verdict


@dataclass(frozen=True)
class ColumnCheck:
    """How one column of a file fits the schema.

    Attributes
    ----------
    name, kind : name of the column, and its kind in the schema.
    n_rows, n_missing : rows of the file, and those without a value.
    n_unreadable : values that are not of the column's kind.
    n_outside : values outside of its range, or none of its categories.
    unknown : values that are no category -> number of rows.
    problems : why the file cannot be used as it is.
    remarks : what a person should know besides.
    options : of ``fedjigsaw schema apply`` that may help, as pairs of option and value.

    Examples
    --------
    >>> from fedjigsaw.sites import ColumnCheck
    >>> ColumnCheck("age", "number", n_rows=10, n_missing=2).share_missing
    0.2
    """

    name: str
    kind: str
    n_rows: int = 0
    n_missing: int = 0
    n_unreadable: int = 0
    n_outside: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def share_missing(self) -> float:
        """Share of rows without a value."""
        return self.n_missing / self.n_rows if self.n_rows else 0.0


@dataclass(frozen=True)
class FileCheck:
    """How a file fits the schema: one entry for each column of the schema.

    Attributes
    ----------
    path : the file.
    n_rows : number of its rows.
    columns : how each column of the schema fits, in the order of the schema.
    others : columns of the file that the schema does not name.

    See Also
    --------
    check_file : makes one, and has an example.
    """

    path: Path
    n_rows: int
    columns: tuple[ColumnCheck, ...]
    others: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the file can be used as it is."""
        return not any(column.problems for column in self.columns)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of ``fedjigsaw schema apply`` that may help."""
        return tuple(option for column in self.columns for option in column.options)


def check_file(
    data: Path | str | Table, schema: Schema, *, min_rows: int = 5, progress: Progress = quiet
) -> FileCheck:
    """Check a file against the schema, in bounded memory.

    Parameters
    ----------
    data : the path of a file, or a table that is already open.
    schema : what the columns should be.
    min_rows : categories that fewer rows have are not proposed for the schema.
    progress : called with the number of rows of each batch that was read.

    Returns
    -------
    FileCheck
        Its `fits` says whether the file can be used as it is.

    Raises
    ------
    DataError
        If the file cannot be read, or has no rows.

    Examples
    --------
    >>> from fedjigsaw.columns.schema import Column, Schema
    >>> from fedjigsaw.io.tables import from_array
    >>> from fedjigsaw.sites import check_file
    >>> schema = Schema((Column("age", range=(0, 120)),))
    >>> found = check_file(from_array([[30.0], [400.0]], ["age"]), schema)
    >>> found.fits, found.columns[0].n_outside
    (False, 1)
    """
    table = with_all_columns(data).called([column.name for column in schema.columns])
    names = table.reader.names
    used = [column for column in schema.columns if column.kind != IGNORE]
    found = {column.name: ColumnCount(column) for column in used if column.name in set(names)}
    text, n_rows = table.reader.text.with_missing(schema.missing), 0
    for columns in raw_columns(table, list(found) or names[:1]):
        for name, count in found.items():
            count.add(columns[name], text)
        n = len(next(iter(columns.values())))
        n_rows += n
        progress(n)
    if not n_rows:
        raise table.no_rows()
    known = {column.name for column in schema.columns}
    others = [name for name in names if name not in known]
    checks = []
    for column in schema.columns:
        if column.name in found:
            checks.append(_result(found[column.name], min_rows))
        elif column.kind == IGNORE:
            checks.append(ColumnCheck(column.name, IGNORE, n_rows))
        else:
            checks.append(_absent(column, others, n_rows, table.reader.hint))
    return FileCheck(table.path, n_rows, tuple(checks), tuple(others))


def _absent(column: Column, others: Sequence[str], n_rows: int, hint: str) -> ColumnCheck:
    close = close_names(column.name, others)
    guess = f" Is it {close[0]!r}?" if close else ""
    problem = f"The file has no such column.{guess}"
    if not close and hint:
        problem = f"The file has no such column. {hint}"
    elif not close:
        empty = shlex.quote(column.name)
        problem = (
            "The file has no such column: add an empty one with `fedjigsaw schema apply FILE "
            f"--empty {empty} ...`, or ignore it in the schema of all sites."
        )
        if others:  # an empty column would lose the values of one that has another name
            rename = shlex.quote(f"...={column.name}")
            problem += f" If it has another name in the file, give that: `--rename {rename}`."
    options = [("--rename", f"{close[0]}={column.name}")] if close else []
    with_unit = f"{column.name} ({unit_of(column)})" if unit_of(column) else column.name
    ends = unlike_ends(with_unit, close[0]) if close and column.kind == NUMBER else ()
    if ends:
        factor = f"{column.name}=NUMBER"
        options.append(("--factor", factor))
        problem += (
            f" Its name ends in {ends[1]!r}; the schema has {ends[0]!r}. If these are units, say "
            f"how many {ends[0]} one {ends[1]} is: `--factor {shlex.quote(factor)}`. Otherwise "
            "leave this option out."
        )
    return ColumnCheck(
        column.name, column.kind, n_rows, problems=(problem,), options=tuple(options)
    )


def _result(count: ColumnCount, min_rows: int) -> ColumnCheck:
    verdict = Verdict(count)
    verdict.judge(min_rows)
    return ColumnCheck(
        count.column.name,
        count.column.kind,
        count.n_rows,
        count.n_missing,
        count.n_unreadable,
        count.n_outside,
        dict(count.unknown.most_common()),
        tuple(verdict.problems),
        tuple(verdict.remarks),
        tuple(verdict.options),
    )
