"""The journal of a site: it is only added to, and it notices what was done to it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from fedjigsaw.errors import MessageError
from fedjigsaw.records import journal as module
from fedjigsaw.records.journal import Journal, is_journal, read


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal.jsonl")
    for i in range(5):
        made.add("question", text=f"number {i} é \x1b")
    return made


def problems(path):
    return [problem for _, problem in read(path) if problem is not None]


def lines_of(journal):
    return journal.path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_is_no_journal_and_not_waited_for(tmp_path, make):
    path = tmp_path / "journal.jsonl"
    make(path)
    for look in (lambda path: list(read(path)), module.last_hash):
        with pytest.raises(MessageError, match=r"journal\.jsonl is a folder, a pipe or a device"):
            look(path)
    with pytest.raises(OSError, match="journal|llegal seek"):
        Journal(path).add("question")


def test_records_come_back_in_order(journal):
    records = list(journal.records())
    assert [record["n"] for record in records] == [0, 1, 2, 3, 4]
    assert records[3]["text"] == "number 3 é \x1b"
    assert not problems(journal.path)
    assert is_journal(journal.path)
    assert journal.path.stat().st_mode & 0o777 == 0o600


def test_a_journal_that_does_not_exist_is_empty(tmp_path):
    assert not list(Journal(tmp_path / "none").records())
    assert not is_journal(tmp_path / "none")
    assert not is_journal(tmp_path)


class TestTampering:
    def check(self, journal, lines, words):
        journal.path.write_bytes(b"".join(lines))
        assert any(words in problem for problem in problems(journal.path))
        with pytest.raises(MessageError, match=r"journal\.jsonl: Record"):
            list(journal.records())

    def test_an_edit(self, journal):
        lines = lines_of(journal)
        lines[2] = lines[2].replace(b"number 2", b"number 9")
        self.check(journal, lines, "Record 2 was changed")

    def test_an_edit_with_a_new_hash(self, journal):
        lines = lines_of(journal)
        record = json.loads(lines[2])["record"] | {"text": "forged"}
        lines[2] = module._line(record)[0]
        self.check(journal, lines, "Record 3 does not follow record 2")

    def test_a_deleted_record(self, journal):
        lines = lines_of(journal)
        self.check(journal, lines[:1] + lines[2:], "Record 2 does not follow record 0")

    def test_a_deleted_beginning(self, journal):
        self.check(journal, lines_of(journal)[1:], "Record 1 does not follow the beginning")

    def test_another_order(self, journal):
        a, b, c, *others = lines_of(journal)
        self.check(journal, [a, c, b, *others], "Record 2 does not follow record 0")

    def test_a_record_twice(self, journal):
        a, b, *others = lines_of(journal)
        self.check(journal, [a, b, b, *others], "Record 1 does not follow record 1")

    @pytest.mark.parametrize("line", [b"hello\n", b"{}\n", b'{"journal":1,"hash":"ab"}\n', b"\n"])
    def test_a_line_of_something_else(self, journal, line):
        a, b, c, *others = lines_of(journal)
        self.check(journal, [a, b, line, c, *others], "Record 2 is not readable")

    def test_the_last_records_may_vanish_unnoticed(self, journal):
        """The file alone cannot tell: whoever cares notes the number of the last one elsewhere."""
        journal.path.write_bytes(b"".join(lines_of(journal)[:3]))
        assert not problems(journal.path)


class TestTornLine:
    def tear(self, journal):
        content = journal.path.read_bytes()
        journal.path.write_bytes(content[:-20])
        return content

    def test_it_is_reported_and_is_no_record(self, journal):
        self.tear(journal)
        assert problems(journal.path) == [
            "The line after record 3 is torn: writing it was interrupted."
        ]
        assert len(list(journal.records())) == 4

    def test_the_next_record_removes_it_and_says_so(self, journal):
        self.tear(journal)
        journal.add("question", text="after")
        kinds = [record["kind"] for record in journal.records()]
        assert kinds == ["question"] * 4 + ["note", "question"]
        assert not problems(journal.path)

    def test_a_journal_of_one_torn_line(self, tmp_path):
        journal = Journal(tmp_path / "j")
        journal.path.write_bytes(b'{"journal":1,"ha')
        journal.add("question")
        assert [record["n"] for record in journal.records()] == [0, 1]


def test_a_line_without_an_end_is_not_read_into_memory(journal, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE", 100)
    assert "more than 100 bytes" in problems(journal.path)[0]


def test_a_full_journal_takes_no_more(journal, monkeypatch):
    size = journal.path.stat().st_size
    monkeypatch.setattr(module, "MAX_JOURNAL", size)
    with pytest.raises(MessageError, match="is full"):
        journal.add("question")
    assert journal.path.stat().st_size == size


WRITER = """
import sys
from pathlib import Path
from fedjigsaw.records.journal import Journal
journal = Journal(Path(sys.argv[1]))
while True:
    print(journal.add("question", text="x" * 5000)["n"], flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_no_record_that_it_reported(tmp_path):
    path = tmp_path / "journal.jsonl"
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        last = writer.stdout.readline()
        time.sleep(0.3)
        os.kill(writer.pid, signal.SIGKILL)
        last = int((last + writer.communicate()[0]).split("\n")[-2])
        found = [record["n"] for record in Journal(path).records()]
        assert found == list(range(len(found)))
        assert len(found) > last
