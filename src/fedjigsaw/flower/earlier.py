"""What a site answered before: the journal, as its desk reads it."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw.errors import BudgetError, DataError, MessageError, unwritable
from fedjigsaw.flower.folders import GROUPS, JOURNAL_LOCK
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile
from fedjigsaw.messages import CELL_NOISE, CELLS, LEFT_OUT, NOISE, QUANTIZATION
from fedjigsaw.records.journal import JOURNAL, FullError, Journal, Record
from fedjigsaw.records.ledger import LEDGER, Ledger
from fedjigsaw.records.locks import locked
from fedjigsaw.records.policy import ChangedDataError, Policy, RefusedError
from fedjigsaw.sites.compatibility import reorder

HAS_GROUPS = "has_groups"  # in an answer of the journal: there are groups of its data set
DAY = timedelta(hours=24)
# Refusals and answers that are given again count for no rule of the policy, and a coordinator could
# fill the journal with them. So many of them a day are written down, a few megabytes at most.
MAX_BEYOND = 300
TOO_MANY = "too_many"  # in a note of the journal: questions were refused that it does not have


class Earlier:
    """The answers in a journal.

    Attributes
    ----------
    answers : the first answer to each different question, by its key.
    counted : these, and the questions about the data that failed: that they did may tell something.
    asked : time of every question.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._all: list[Record] = []
        self.answers: dict[str, Record] = {}
        self.counted: dict[str, Record] = {}
        self.asked: list[str] = []
        self._too_many: list[str] = []
        for record in records:
            if record["kind"] == "question":
                self.asked.append(record["time"])
            if record.get(TOO_MANY):
                self._too_many.append(record["time"])
            if record["kind"] == "answer":
                self._all.append(record)
                self.answers.setdefault(record["key"], record)
            if record["kind"] in ("answer", "failure") and "key" in record:
                self.counted.setdefault(record["key"], record)

    def chain(self, topic: str) -> list[Record]:
        """Return every answer of any round about the same data, method and parameters."""
        return [record for record in self._all if record["topic"] == topic]

    def check_same_data(self, asked: Mapping[str, Any], data_set: str) -> None:
        """Raise a ChangedDataError if earlier rounds of a run were answered about other data.

        A run has no name here: the last answer to a question like it is of the same run, unless
        that was for a later round.

        Parameters
        ----------
        asked : the question, as the journal has it.
        """
        alike = ("method", "params", "seed")
        run = [record for record in self._all if all(record.get(n) == asked[n] for n in alike)]
        last = run[-1] if asked["round"] and run else None
        if last and last["round"] <= asked["round"] and last["data_set"] != data_set:
            raise ChangedDataError(
                f"round {last['round']} of this run was answered about other data, on "
                f"{last['time']}"
            )

    def within(self, time: timedelta, but: str = "") -> int:
        """Count the different questions of this time, except for one: it is asked again."""
        return _since(time, (r["time"] for key, r in self.counted.items() if key != but))

    def check_number(self, journal: Journal, most: int) -> None:
        """Refuse a question, without a record of its own, if a day has too many of any kind.

        The journal has a note about it, once a day. No answer leaves, so it has all that did.
        """
        if (n := _since(DAY, self.asked)) < most:
            return
        text = f"{n} questions came within 24 hours: further ones are refused, and not written down"
        if not _since(DAY, self._too_many):
            journal.add("note", text=text, **{TOO_MANY: True})
        raise RefusedError(text)

    def check_ledger(self, folder: Path) -> None:
        """Raise a RefusedError if noisy answers were given that the ledger does not have."""
        noisy = sum(bool(r.get("privacy")) and not r.get("repeated") for r in self._all)
        if noisy and noisy > len(Ledger(folder / LEDGER).read().releases):
            raise RefusedError(
                f"{folder / LEDGER} is missing or lacks releases, but the journal has answers that "
                "it counted. Restore it from a backup. To start anew, move the journal away, too."
            )

    def scalers(self, data_set: str) -> set[str]:
        """Return the scalers of the server to which answers about a data set are tied."""
        tied = [record for record in self._all if record.get("tied")]
        return {record["scaler"] for record in tied if record["data_set"] == data_set}

    def has_groups(self, data_set: str) -> bool:
        """Return whether there were groups of a data set after an answer."""
        return any(r.get(HAS_GROUPS) and r["data_set"] == data_set for r in self._all)

    def about(self, data_set: str, but: str = "") -> int:
        """Count the different questions about a data set, except for one: it is asked again."""
        found = (record["data_set"] for key, record in self.counted.items() if key != but)
        return sum(name == data_set for name in found)


def _since(time: timedelta, times: Iterable[str]) -> int:
    """Count the times that are not older; a clock that was set back makes none of them older."""
    start = datetime.now(UTC) - time
    return sum(datetime.fromisoformat(one) > start for one in times)


def read_earlier(folder: Path) -> Earlier:
    """Read the answers of a site; a journal that was changed or is gone allows no further one."""
    journal = Journal(folder / JOURNAL)
    present = journal.path.exists() and journal.path.stat().st_size
    if not present and any((folder / GROUPS).glob("*.npy")):
        raise RefusedError(
            f"{journal.path} is missing or empty, but {folder / GROUPS} shows that questions were "
            "answered. Restore it from a backup. To start anew, move that folder away, too."
        )
    try:
        earlier = Earlier(journal.records())
    except (DataError, MessageError) as error:
        raise RefusedError(str(error)) from error
    earlier.check_ledger(folder)
    return earlier


@dataclass
class Entry:
    """A question that the journal has.

    Attributes
    ----------
    journal : where it is written down.
    earlier : the answers of before.
    number : number of its record.
    names : `data_set` and `key`, once they are known. From then on a failure counts as a question:
        whether it fails may depend on the data.
    """

    journal: Journal
    earlier: Earlier
    number: int = -1
    names: Mapping[str, str] = field(default_factory=dict)

    def add(self, kind: str, **values: Any) -> int:
        """Add a record about the question, and return its number."""
        try:
            return int(self.journal.add(kind, **values)["n"])
        except OSError as error:
            raise FullError(unwritable(self.journal.path, error)) from error


@contextmanager
def journaled(folder: Path, policy: Policy, **asked: Any) -> Iterator[Entry]:
    """Write a question down, and whatever error comes of it; one question at a time."""
    with locked(folder / JOURNAL_LOCK, wait=True):
        earlier, journal = read_earlier(folder), Journal(folder / JOURNAL)
        earlier.check_number(journal, policy.questions_per_day + MAX_BEYOND)
        entry = Entry(journal, earlier)
        entry.number = entry.add("question", **asked)
        try:
            yield entry
        except BaseException as error:
            refused = isinstance(error, RefusedError | BudgetError)
            reason = f"{type(error).__name__}: {error}"[:500]
            counted = {n: entry.names[n] for n in ("data_set", "key") if n in entry.names}
            kind, more = ("refusal", {}) if refused else ("failure", counted)
            entry.add(kind, to=entry.number, reason=reason, **more)
            raise


def repeated(record: Record, columns: tuple[str, ...] | None) -> SummaryFile | None:
    """Return an earlier answer, with the columns in the order asked for.

    None if it was not kept, or cannot be put in that order.
    """
    if "content" not in record:
        return None
    file = formats.decode(base64.b64decode(record["content"]))
    if not isinstance(file, SummaryFile):
        raise MessageError(f"Record {record['n']} of the journal contains no summary.")
    if columns is None or columns == file.columns:
        return file
    tensors = dict(file.summary.tensors)
    if set(tensors) - {NOISE, CELLS, CELL_NOISE, QUANTIZATION, LEFT_OUT} or file.scaler:
        return None
    if sorted(columns) != sorted(file.columns):
        return None
    if CELLS in tensors:  # a count and a sum of squares, then one sum for each column
        where = [file.columns.index(name) for name in columns]
        cells = tensors[CELLS]
        tensors[CELLS] = np.column_stack([cells[:, :2], cells[:, 2:][:, where]])
        file = replace(file, summary=replace(file.summary, tensors=tensors))
    return reorder(file, columns)
