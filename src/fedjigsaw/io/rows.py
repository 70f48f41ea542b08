"""Rows of results and events: files of JSON lines, one object per line.

A writer that is interrupted leaves at most one torn line, without its line end, at the end of the
file. Readers skip it.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedjigsaw.errors import DataError, unreadable, unwritable
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.regular import check_regular, read_regular

Row = dict[str, Any]


def read_rows(path: Path, *, allow_torn: bool = True) -> list[Row]:
    """Read the rows of a file; a file that does not exist has none.

    Parameters
    ----------
    allow_torn : whether to skip a last line without a line end; otherwise it is an error.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(unreadable(path, error), file=path) from error
    *lines, rest = content.split(b"\n")
    if rest and not allow_torn:
        raise _at_line(path, len(lines) + 1, "has no line end: it was cut off.")
    return [_parse(line, path, number) for number, line in enumerate(lines, start=1)]


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row to a file, in one write."""
    check_regular(path)
    try:
        with path.open("ab") as file:
            file.write(_line(row))
    except OSError as error:
        raise DataError(unwritable(path, error), file=path) from error


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], *, replace: bool = True) -> None:
    """Write these rows to a file; an interrupted write leaves the old file."""
    write_whole(path, b"".join(map(_line, rows)), replace=replace)


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _parse(line: bytes, path: Path, number: int) -> Row:
    try:
        row = json.loads(line.decode())
    except ValueError:
        row = None
    if not isinstance(row, dict):
        start = line.decode(errors="replace")[:40]
        raise _at_line(path, number, f"is not a JSON object: it begins with {start!r}.")
    return row


def _at_line(path: Path, number: int, what: str) -> DataError:
    return DataError(f"{path}, line {number}, {what}", file=path, row=number)
