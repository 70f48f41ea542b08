"""The journal of a site: every question and every answer, in one file that is only added to.

A line is a JSON object with a record and its SHA-256 hash. A record names its number and the hash
of the record before it. So a record that was changed, removed, inserted or moved by accident or
without care is noticed. There is no secret in it: whoever can write the file can remove its last
records, or write all of it anew with hashes that match. Against that, `inspect` shows the number
and the hash of the last record, to be noted elsewhere.

A record is on the disk before an answer leaves. A process that is killed while it writes leaves a
line without an end; nothing left the site for such a line, and the next record removes it.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from fedjigsaw.errors import DataError, MessageError, unreadable

JOURNAL = "journal.jsonl"
MAX_LINE = 8 * 2**20
MAX_JOURNAL = 2**28
NO_HASH = "0" * 64
HEAD = b'{"journal":1,"hash":"%s","record":'
START = HEAD[: HEAD.index(b"%s")]

Record = dict[str, Any]


class FullError(MessageError):
    """A journal that has no room for a record, or cannot be written."""


@dataclass(frozen=True)
class Journal:
    """The journal in one file. Only one process at a time may add to it.

    Parameters
    ----------
    path : the file.
    archive : what to do when it is full.
    """

    path: Path
    archive: str = (
        "Move it and the folder groups to an archive; the site then counts questions from zero."
    )

    def add(self, kind: str, **values: Any) -> Record:
        """Add a record and return it; it is on the disk when this returns."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            number, previous, end, torn = _last(file, self.path)
            lines = b""
            if torn:
                file.truncate(end)
                note = _record(number, previous, "note", {"text": f"removed {torn} torn bytes"})
                line, previous = _line(note)
                lines, number = lines + line, number + 1
            record = _record(number, previous, kind, values)
            lines += _line(record)[0]
            if end + len(lines) > MAX_JOURNAL:
                raise FullError(f"{self.path} is full: it has {end} bytes. {self.archive}")
            _write(file, lines)
        if not end:
            _sync_folder(self.path)
        return record

    def records(self) -> Iterator[Record]:
        """Yield all records; raise a MessageError at the first problem, but for a torn last line.

        A file that does not exist has no records.
        """
        for record, problem in read(self.path) if self.path.exists() else ():
            if problem is not None and record is not None:
                raise MessageError(
                    f"{self.path}: {problem} Restore it from a backup; until then nothing leaves."
                )
            if record is not None:
                yield record


def read(path: Path) -> Iterator[tuple[Record | None, str | None]]:
    """Yield each record of a journal, and what is wrong with it.

    A torn last line is no record: it comes as None, with its problem.
    """
    expected, previous = 0, NO_HASH
    try:
        with _open(path) as file:
            while line := file.readline(MAX_LINE + 1):
                if not line.endswith(b"\n"):
                    what = "is torn: writing it was interrupted" if len(line) <= MAX_LINE else ""
                    what = what or f"has more than {MAX_LINE} bytes"
                    yield None, f"The line after {_number(expected - 1)} {what}."
                    return
                record, found, problem = _check(line, expected, previous)
                yield record, problem
                expected, previous = record["n"] + 1, found
    except OSError as error:
        raise DataError(unreadable(path, error), file=path) from error


def last_hash(path: Path) -> str:
    """Return the hash of the last record of a journal that :func:`read` finds in order."""
    try:
        with _open(path) as file:
            return _last(file, path)[1]
    except OSError as error:
        raise DataError(unreadable(path, error), file=path) from error


def is_journal(path: Path) -> bool:
    """Return whether a file begins as a journal does."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(START)) == START
    except OSError as error:
        raise DataError(unreadable(path, error), file=path) from error


def _open(path: Path) -> BinaryIO:
    if path.exists() and not path.is_file():  # opening a pipe waits until somebody writes to it
        raise MessageError(f"{path} is a folder, a pipe or a device; give a file.")
    return path.open("rb")


def _number(n: int) -> str:
    return f"record {n}" if n >= 0 else "the beginning"


def _check(line: bytes, expected: int, previous: str) -> tuple[Record, str, str | None]:
    """Return a record, its hash, and what is wrong with it, if anything."""
    found = line[len(START) : len(START) + 64].decode(errors="replace")
    head = HEAD % found.encode()
    body = line[len(head) : -2]
    try:
        record = json.loads(body)
        good = isinstance(record, dict) and type(record.get("n")) is int
    except (ValueError, RecursionError):
        good = False
    if not good or not line.startswith(head) or not line.endswith(b"}\n"):
        return {"n": expected}, found, f"Record {expected} is not readable: it was changed."
    if sha256(body).hexdigest() != found:
        return record, found, f"Record {expected} was changed: its hash does not match."
    if record["n"] != expected or record.get("previous") != previous:
        place = f"Record {record['n']} does not follow {_number(expected - 1)}"
        return record, found, f"{place}: records were removed, added or moved."
    return record, found, None


def _last(file: BinaryIO, path: Path) -> tuple[int, str, int, int]:
    """Return number and previous hash for the next record, its place, and bytes of a torn line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2 * MAX_LINE))
    tail = file.read()
    torn = len(tail) - (tail.rfind(b"\n") + 1)
    whole = tail[: len(tail) - torn]
    rest = tail[len(whole) :].rstrip(b"\0")  # a machine that lost its power may leave zeros
    if not (rest.startswith(START) or START.startswith(rest)):
        raise MessageError(f"{path} does not end as a journal does. Nothing was written to it.")
    if not whole:
        return 0, NO_HASH, size - torn, torn
    line = whole[whole.rfind(b"\n", 0, -1) + 1 :]
    record, found, _ = _check(line, 0, NO_HASH)
    return record["n"] + 1, found, size - torn, torn


def _record(number: int, previous: str, kind: str, values: Mapping[str, Any]) -> Record:
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return {"n": number, "time": time, "kind": kind, **values, "previous": previous}


def _line(record: Record) -> tuple[bytes, str]:
    """Return the line of a record, and its hash."""
    body = json.dumps(record, separators=(",", ":")).encode()
    found = sha256(body).hexdigest()
    return HEAD % found.encode() + body + b"}\n", found


def _write(file: BinaryIO, lines: bytes) -> None:
    """Write all bytes and wait until they are on the disk."""
    left = memoryview(lines)
    while left:
        left = left[file.write(left) or 0 :]
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Wait until the name of a new file is on the disk, too."""
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
