"""JSON lines: whole rows, one torn line at most, errors that name the file and the line."""

import json
from pathlib import Path

import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io.rows import append_row, read_rows, write_rows
from raising import raises

ROWS = [{"cell": "s1", "nmi": 0.1 + 0.2}, {"cell": "Zürich\n", "nmi": None}]


def test_rows_come_back_as_they_were_written(tmp_path: Path):
    write_rows(tmp_path / "written.jsonl", ROWS)
    for row in ROWS:
        append_row(tmp_path / "appended.jsonl", row)
    for name in ("written.jsonl", "appended.jsonl"):
        assert read_rows(tmp_path / name) == ROWS
    assert (tmp_path / "written.jsonl").read_bytes() == (tmp_path / "appended.jsonl").read_bytes()


def test_a_missing_or_empty_file_has_no_rows(tmp_path: Path):
    assert read_rows(tmp_path / "none.jsonl") == []
    write_rows(tmp_path / "empty.jsonl", [])
    assert read_rows(tmp_path / "empty.jsonl") == []


@pytest.mark.parametrize("rest", ['{"cell": "s2"', '{"cell": "s2"}'])
def test_a_torn_last_line_is_skipped_or_an_error(tmp_path: Path, rest: str):
    """Without its line end even a line that parses may be the beginning of a longer one."""
    path = tmp_path / "rows.jsonl"
    write_rows(path, ROWS)
    with path.open("a") as file:
        file.write(rest)
    assert read_rows(path) == ROWS
    with raises(DataError, file="rows.jsonl", row=3):
        read_rows(path, allow_torn=False)


@pytest.mark.parametrize("line", [b'{"cell": ', b"[1, 2]", b"", b'{"cell": "\xff"}'])
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: bytes):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(json.dumps(ROWS[0]).encode() + b"\n" + line + b"\n")
    with raises(DataError, file="rows.jsonl", row=2):
        read_rows(path)


def test_a_folder_can_be_neither_read_nor_written(tmp_path: Path):
    with raises(DataError, file=str(tmp_path)):
        read_rows(tmp_path)
    with raises(DataError, file=str(tmp_path)):
        append_row(tmp_path, ROWS[0])
