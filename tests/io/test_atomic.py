import json
import os
import stat

import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io.atomic import add_row, write_whole


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_it_as_usual(tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    write_whole(tmp_path / "ours", b"")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours")]
    assert modes[0] == modes[1]


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, b"old")

    def full(_):
        raise OSError(28, "disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"a.txt must be one that can be written; got"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", [".", "no/folder/a.txt"])
def test_a_place_that_cannot_be_written(tmp_path, place):
    with pytest.raises(DataError, match="one that can be written"):
        write_whole(tmp_path / place, b"new")
    assert not list(tmp_path.iterdir())


def test_rows_are_added_one_to_a_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"a": 1}, {"b": "line\nbreak"}]
    for row in rows:
        add_row(path, row)
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows
    with pytest.raises(DataError, match="file of .* must be one that can be written; got Is a dir"):
        add_row(tmp_path, rows[0])
