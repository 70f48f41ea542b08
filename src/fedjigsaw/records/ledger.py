"""The ledger of a site: what was released about its data, in one file that is only added to.

A release is written down as spent, and is on the disk, before its noise is drawn. So a process that
ends between noise and result has spent it. Checking the limit and writing are one step, under a
lock, so that two processes cannot spend the same rest. The file is a
:class:`~fedjigsaw.records.journal.Journal`: one that was changed allows no further release.

Releases belong to the same data if they share a name or a fingerprint, directly or by way of other
releases, or of a limit that was set with a data file: neither a changed file nor a renamed copy
starts anew. Two files that share rows, but neither name nor content, are two data sets here; give
them one name.
"""

import math
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedjigsaw.errors import (
    DataError,
    MessageError,
    ParameterError,
    invalid,
    unreadable,
    unwritable,
)
from fedjigsaw.parameters import fraction, one_of, real
from fedjigsaw.privacy.dp import MAX_EPSILON, ROW, SITE, multiplier_for
from fedjigsaw.records.budget import DEFAULT_DELTA, Account, Limit, Release, total
from fedjigsaw.records.journal import Journal, Record
from fedjigsaw.records.locks import locked
from fedjigsaw.validation import MAX_NAME_LENGTH

LEDGER = "privacy-ledger.jsonl"
COORDINATOR = "the coordinator"
SPENT, RELEASED, LIMIT, NOTE = "spent", "released", "limit", "note"
POSITIVE, DELTA = real(0, inclusive=False), fraction(zero=False, one=False)
ARCHIVE = "Keep it, and give the data sets of new releases a ledger of their own."


def default_path(data: Path) -> Path:
    """Return where the ledger of a data file is: beside it, also if `data` is a link to it."""
    return (data.resolve() if data.is_symlink() else data).parent / LEDGER


@dataclass(frozen=True)
class History:
    """What a ledger says.

    Attributes
    ----------
    releases : in order.
    limits : the limit of each name; None is for all others.
    limited : names and fingerprints of data files that were given with a limit.
    """

    releases: tuple[Release, ...]
    limits: Mapping[str | None, Limit]
    limited: tuple[tuple[str, str], ...] = ()

    def account(self, data_set: str, fingerprint: str | None = None) -> Account:
        """Return the account of the data with this name or this fingerprint."""
        names, prints = {_composed(data_set): None}, {fingerprint}
        links = [(r.data_set, r.fingerprint) for r in self.releases] + list(self.limited)
        while new := [(n, p) for n, p in links if (n in names) != (p in prints)]:
            names.update(dict.fromkeys(name for name, _ in new))
            prints.update(content for _, content in new)
        found = tuple(release for release in self.releases if release.data_set in names)
        limits = [self.limits.get(name, self.limits.get(None)) for name in names]
        used = dict.fromkeys(limit for limit in limits if limit is not None)
        return Account(tuple(names), found, tuple(used))

    def accounts(self) -> list[Account]:
        """Return the accounts of all data sets that were released or have a limit."""
        found: list[Account] = []
        for name in [*(r.data_set for r in self.releases), *self.limits]:
            if name is not None and not any(name in account.names for account in found):
                found.append(self.account(name))
        return found


@dataclass(frozen=True)
class Ledger:
    """The ledger in one file. Any number of processes may use it at once.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedjigsaw.privacy.dp import multiplier_for
    >>> from fedjigsaw.records.ledger import LEDGER, Ledger
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger(Path(folder) / LEDGER)
    ...     ledger.set_limit(4.0)
    ...     noise = multiplier_for(1.0, 1e-6)
    ...     number = ledger.spend("bern", "sha256 of bern.csv", "summary", noise, 1e-6)
    ...     # draw the noise and write the result here
    ...     ledger.confirm(number)
    ...     round(ledger.account("bern").left(), 2)
    3.82
    """

    path: Path

    def read(self) -> History:
        """Return what the ledger says; a file that was changed is a MessageError."""
        if self.exists() and not self.path.is_file():
            raise DataError(f"{self.path} is a folder, a pipe or a device; give a file.")
        releases: dict[int, Release] = {}
        limits: dict[str | None, Limit] = {}
        limited: list[tuple[str, str]] = []
        for record in self._journal.records():
            try:
                _take(record, releases, limits, limited)
            except (KeyError, TypeError, ValueError) as error:
                text = f"{self.path}: record {record['n']} is not one of a privacy ledger."
                raise MessageError(text) from error
        return History(tuple(releases.values()), limits, tuple(limited))

    def exists(self) -> bool:
        """Return whether the ledger was begun; a DataError if nobody can tell.

        A link says that there is a ledger: it may be on a drive that is not connected. Without it,
        nothing would stop a release beyond its limit.
        """
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            if self.path.is_symlink():
                raise DataError(
                    f"{self.path} is a link to a ledger that is not there. Until it is back, "
                    "nothing leaves. To begin a new one, remove the link."
                ) from error
            return False
        except OSError as error:
            raise DataError(unreadable(self.path, error), file=self.path) from error
        return True

    def account(self, data_set: str, fingerprint: str | None = None) -> Account:
        """Return the account of the data with this name or this fingerprint."""
        return self.read().account(data_set, fingerprint)

    def spend(
        self,
        data_set: str,
        fingerprint: str,
        what: str,
        multiplier: float | None,
        delta: float | None,
        *,
        unit: str | None = ROW,
        to: str = COORDINATOR,
    ) -> int | None:
        """Write down a release, before its noise is drawn; return its number.

        Raises a BudgetError if the release would pass a limit, and a DataError if it cannot be
        written: then nothing may be released. A release without privacy is refused where there is
        a limit, and otherwise written down only if the ledger exists; else None is returned.

        Parameters
        ----------
        data_set, fingerprint : name of the data, and the SHA-256 hash of their file.
        what : what is released, such as "summary", "statistics" or "round 1".
        multiplier : noise over sensitivity, of all parts of the release together; None: no noise.
        delta : the delta of the promise, for the epsilon that is written down.
        unit : whose contribution is protected.
        to : who gets it.
        """
        texts = {"data_set": data_set, "fingerprint": fingerprint, "what": what, "to": to}
        for name, text in texts.items():
            _check_text(name, text)
        promise: dict[str, Any] = dict.fromkeys(("multiplier", "epsilon", "delta", "unit"))
        if multiplier is not None:
            POSITIVE.check("multiplier", "a release", multiplier)
            DELTA.check("delta", "a release", delta)
            one_of(ROW, SITE).check("unit", "a release", unit)
            promise = _promise(float(multiplier), float(delta or 0), str(unit))
        elif not self.exists():
            return None
        with self._locked():
            self.account(data_set, fingerprint).check(multiplier, delta, self.path)
            return int(self._journal.add(SPENT, **texts, **promise)["n"])

    def confirm(self, number: int | None) -> None:
        """Note that the result of a release was written.

        It counts without this note, too. So it is no error if the note cannot be written.
        """
        if number is None:
            return
        try:
            with self._locked():
                self._journal.add(RELEASED, of=number)
        except DataError:
            pass

    def set_limit(
        self,
        epsilon: float,
        delta: float = DEFAULT_DELTA,
        data_set: str | None = None,
        fingerprint: str | None = None,
    ) -> None:
        """Set the limit of one data set, or of every data set without a limit of its own.

        The limit of one data set also holds for data with this fingerprint, under any name.
        """
        POSITIVE.check("epsilon", "a limit", epsilon)
        DELTA.check("delta", "a limit", delta)
        if epsilon > MAX_EPSILON:
            allowed = f"at most {MAX_EPSILON:g}, since a larger one promises nothing"
            raise ParameterError(invalid("epsilon", "a limit", allowed, epsilon))
        whose = {"data_set": data_set}
        if data_set is not None and fingerprint is not None:
            whose["fingerprint"] = fingerprint
        for name, text in whose.items():
            if text is not None:
                _check_text(name, text)
        multiplier_for(float(epsilon), float(delta))  # an epsilon too small for any noise
        with self._locked():
            self.read()
            self._journal.add(LIMIT, **whose, epsilon=float(epsilon), delta=float(delta))

    @property
    def _journal(self) -> Journal:
        return Journal(self.path, ARCHIVE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.exists()  # the lock is where a link leads to
        place = self.path.resolve()
        try:
            with locked(place.with_name(f".{place.name}.lock"), wait=True):
                yield
        except OSError as error:
            advice = "Nothing was released. Make room or name another ledger."
            raise DataError(f"{unwritable(self.path, error)} {advice}") from error


def _take(
    record: Record,
    releases: dict[int, Release],
    limits: dict[str | None, Limit],
    limited: list[tuple[str, str]],
) -> None:
    """Take in one record; a KeyError, TypeError or ValueError if it is not one of a ledger."""
    kind = record["kind"]
    if kind == SPENT:
        releases[record["n"]] = _release(record)
    elif kind == RELEASED:
        if record["of"] in releases:
            releases[record["of"]] = replace(releases[record["of"]], confirmed=True)
    elif kind == LIMIT:
        name, content = record["data_set"], record.get("fingerprint")
        if name is not None:
            _check_text("data_set", name)
            name = _composed(name)
        if name is not None and content is not None:
            _check_text("fingerprint", content)
            limited.append((name, content))
        POSITIVE.check("epsilon", "a limit", record["epsilon"])
        DELTA.check("delta", "a limit", record["delta"])
        limits[name] = Limit(float(record["epsilon"]), float(record["delta"]))
    elif kind != NOTE:
        raise ValueError(kind)


def _release(record: Record) -> Release:
    texts = {name: record[name] for name in ("data_set", "fingerprint", "what", "to", "time")}
    for name, text in texts.items():
        _check_text(name, text)
    texts["data_set"] = _composed(texts["data_set"])
    multiplier, epsilon = record["multiplier"], record["epsilon"]
    if multiplier is not None:
        POSITIVE.check("multiplier", "a release", multiplier)
        DELTA.check("delta", "a release", record["delta"])
        one_of(ROW, SITE).check("unit", "a release", record["unit"])
    if epsilon is not None:
        real(0).check("epsilon", "a release", epsilon)
    return Release(
        number=record["n"],
        multiplier=multiplier,
        epsilon=math.inf if epsilon is None else epsilon,
        delta=record["delta"],
        unit=record["unit"],
        **texts,
    )


def _composed(name: str) -> str:
    """Return a name with each letter as one sign: a Mac writes "ü" into file names as u and dots.

    Examples
    --------
    >>> _composed("Zu\\u0308rich") == "Z\\u00fcrich"
    True
    """
    return unicodedata.normalize("NFC", name)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_NAME_LENGTH or not text.isprintable():
        allowed = f"printable and 1 to {MAX_NAME_LENGTH} characters long"
        raise DataError(invalid(name, "a release", allowed, repr(text)), parameter=name)


def _promise(multiplier: float, delta: float, unit: str) -> dict[str, Any]:
    epsilon = total([multiplier], delta)
    stated = epsilon if math.isfinite(epsilon) else None  # JSON has no infinity
    return {"multiplier": multiplier, "epsilon": stated, "delta": delta, "unit": unit}
