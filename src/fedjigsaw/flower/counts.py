"""Numbers about a site and about a server, read from the files that they write anyway."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, time
from typing import Any, BinaryIO

from fedjigsaw.errors import DataError
from fedjigsaw.flower.folders import CONTACT
from fedjigsaw.io.regular import open_regular
from fedjigsaw.records.journal import JOURNAL

CONTACT_SECONDS = 30.0  # a site without an answer of its server for so long is not connected
Answered = Callable[[int, Mapping[str, str]], object]
DAY = timedelta(hours=24).total_seconds()


def noting_contact(home: Path, answered: Answered) -> Answered:
    """Return `answered`, a function of status and headers, that also notes when it was called."""
    noted = float("-inf")

    def note(status: int, headers: Mapping[str, str]) -> object:
        nonlocal noted
        if status < 400 and monotonic() - noted > CONTACT_SECONDS / 6:
            noted = monotonic()
            with suppress(OSError):  # a full disk does not end a connection
                (home / CONTACT).touch()
        return answered(status, headers)

    return note


def seconds_since_contact(home: Path) -> float:
    """Return how long ago the server last answered this site; infinite if it never did."""
    try:
        return time() - (home / CONTACT).stat().st_mtime
    except OSError:
        return float("inf")


def is_connected(home: Path) -> bool:
    """Return whether the server answered this site lately; not in a future that a clock had."""
    return abs(seconds_since_contact(home)) < CONTACT_SECONDS


# ----------------------------------------------------------------------------------------- a site


@dataclass
class JournalCounts:
    """What a site's journal tells in numbers; each line is read once.

    Attributes
    ----------
    kinds : number of questions, answers, refusals and failures.
    first : time and data set of the first answer to each different question, or of its failure.
    latest : time and data set of the last answer.
    """

    home: Path
    kinds: dict[str, int] = field(default_factory=dict)
    first: dict[str, tuple[float, str]] = field(default_factory=dict)
    latest: tuple[float, str] = (0.0, "")
    _position: int = 0
    _file: int = 0

    def refresh(self) -> None:
        """Read what was added; begin anew if the journal was replaced."""
        try:
            file = open_regular(self.home / JOURNAL)
        except (OSError, DataError):
            return
        with file:
            size, number = file.seek(0, 2), (self.home / JOURNAL).stat().st_ino
            if number != self._file or size < self._position:
                self.__init__(self.home)  # type: ignore[misc]
                self._file = number
            file.seek(self._position)
            for record in self._records(file):
                self._count(record)

    def _records(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        for line in file:
            if not line.endswith(b"\n"):  # it is being written
                return
            self._position += len(line)
            try:
                record = json.loads(line)["record"]
                record["time"] = datetime.fromisoformat(record["time"]).timestamp()
                yield record
            except (ValueError, TypeError, KeyError):  # the desk tells; this only counts
                continue

    def _count(self, record: dict[str, Any]) -> None:
        kind, when = str(record.get("kind")), record["time"]
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind == "answer":
            self.latest = (when, str(record.get("data_set")))
            self.first.setdefault(str(record.get("key")), self.latest)
        elif kind == "failure" and "key" in record:
            self.first.setdefault(str(record["key"]), (when, str(record.get("data_set"))))

    def within_a_day(self) -> int:
        """Count the different questions that were first answered within 24 hours."""
        start = datetime.now(UTC).timestamp() - DAY
        return sum(when > start for when, _ in self.first.values())

    def about_the_data(self) -> int:
        """Count the different questions about the data set of the last answer."""
        return sum(data_set == self.latest[1] for _, data_set in self.first.values())


# --------------------------------------------------------------------------------------- a server


@dataclass
class RunCounts:
    """What the folders of a server's runs tell in numbers; each finished run is read once.

    Attributes
    ----------
    results : number of runs that ended with a model, and with an error.
    answers, failures : by site, over all runs; kept summaries are no answers.
    latest : when the last model was made.
    strange : what the last run told of sites that are unlike all others, in numbers.
    """

    home: Path
    started: float = field(default_factory=time)
    results: dict[str, int] = field(default_factory=lambda: {"model": 0, "error": 0})
    answers: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    latest: float = 0.0
    strange: int = 0
    active: int = 0
    _seen: set[str] = field(default_factory=set)

    def refresh(self) -> None:
        """Read the runs that ended since the last call, and count those that did not."""
        self.active = 0
        for folder in sorted((self.home / "runs").glob("*-*-*")):
            if folder.name in self._seen:
                continue
            try:
                text = (folder / "result.json").read_text()
                ended = (folder / "result.json").stat().st_mtime
            except OSError:  # not ended, unless the server did before it
                self.active += folder.stat().st_mtime > self.started - 1  # files have coarse times
                continue
            self._seen.add(folder.name)
            try:
                self._count_events(folder / "events.jsonl")
                self._count(json.loads(text), ended)
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                self.results["error"] += 1

    def _count_events(self, events: Path) -> None:
        """Count answers and failures of a run."""
        counted = {"answered": self.answers, "failed": self.failures}
        for line in events.read_text().splitlines() if events.exists() else ():
            event = json.loads(line)
            if event["event"] in counted:
                counts, site = counted[event["event"]], event["site"]
                counts[site] = counts.get(site, 0) + 1

    def _count(self, result: dict[str, Any], ended: float) -> None:
        self.strange = len(result.get("strange", ()))
        self.results["error" if "error" in result else "model"] += 1
        if "error" not in result:
            self.latest = max(self.latest, ended)
