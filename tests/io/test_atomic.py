import os
import stat

import pytest

from fedjigsaw import sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import DataError
from fedjigsaw.io.atomic import open_whole, remove_unfinished, write_whole
from fedjigsaw.io.formats import save
from fedjigsaw.io.tables import from_array
from raising import raises


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_mode_of_a_new_file_follows_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


@pytest.mark.parametrize("kind", ["labels", "score", "summary", "model", "copy"])
def test_what_tells_of_rows_is_for_its_owner_alone(tmp_path, kind):
    table = from_array([[1.0], [2.0], [30.0]] * 5, ["x"])
    summary = sites.summarize(table, 2, client="bern")
    model = sites.aggregate({"a": summary}, 2)
    path = tmp_path / f"{kind}.parquet"
    path.touch(0o644)
    write = {
        "labels": lambda: sites.write_labels(path, sites.assign(table, model)),
        "score": lambda: save(sites.score(table, model, client="bern"), path),
        "summary": lambda: save(summary, path),
        "model": lambda: save(model, path),
        "copy": lambda: sites.apply_schema(table, Schema((Column("x"),)), path, replace=True),
    }
    before = os.umask(0o022)
    try:
        write[kind]()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_umask_is_never_touched(tmp_path, monkeypatch):
    """It belongs to the process: another thread may be creating a file."""

    def refuse(_):
        raise AssertionError("os.umask was called")

    monkeypatch.setattr(os, "umask", refuse)
    write_whole(tmp_path / "new", b"")
    with open_whole(tmp_path / "other") as file:
        file.write(b"")


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, b"old")

    def full(_):
        raise OSError(28, "disk full")

    monkeypatch.setattr(os, "fsync", full)
    with raises(DataError, "disk full", file="a.txt"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, b"old")
    with pytest.raises(TypeError), open_whole(path) as file:
        file.writelines([b"half of it", None])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", [".", "no/folder/a.txt"])
def test_a_place_that_cannot_be_written(tmp_path, place):
    with raises(DataError, file=str(tmp_path / place)):
        write_whole(tmp_path / place, b"new")
    assert not list(tmp_path.iterdir())


def test_a_file_that_appeared_meanwhile_is_kept(tmp_path):
    path = tmp_path / "result"

    def write_late():
        with open_whole(path, replace=False) as file:
            file.write(b"late")
            write_whole(path, b"early")

    with raises(DataError, file="result", parameter="replace"):
        write_late()
    assert path.read_bytes() == b"early"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "a", b"one", replace=False)
    with raises(DataError, file="a", parameter="replace"):
        write_whole(tmp_path / "a", b"two", replace=False)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one"]


def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with raises(DataError, file="pipe"):
        write_whole(tmp_path / "pipe", b"new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_what_is_unfinished_can_be_removed(tmp_path):
    def write():
        with open_whole(tmp_path / "a"):
            assert len(list(tmp_path.iterdir())) == 1
            remove_unfinished()
            assert not list(tmp_path.iterdir())

    with pytest.raises(DataError, match="Cannot write"):
        write()
