"""What leaves a site is first written down in the ledger of its data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Protocol, Self

from fedjigsaw.io.regular import stem
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.records.budget import Account, in_words, round_down
from fedjigsaw.records.fingerprints import fingerprint
from fedjigsaw.records.ledger import Ledger, default_path


class Spend(Protocol):
    """Anything that writes down, or refuses, what a function is about to release.

    Functions call it once, right before noise is drawn or exact numbers are made, so that nothing
    is released that is not written down. An error that it raises ends the function; what it returns
    is ignored. :func:`free` and the method `spend` of a :class:`Charge` are such functions.

    Examples
    --------
    >>> from fedjigsaw import sites
    >>> from fedjigsaw.io.tables import from_array
    >>> def only_private(privacy, multiplier):
    ...     if privacy is None:
    ...         raise PermissionError("exact numbers do not leave this site")
    >>> sites.measure(from_array([[30.0], [40.0]]), client="bern", spend=only_private)
    Traceback (most recent call last):
    PermissionError: exact numbers do not leave this site
    """

    def __call__(self, privacy: Privacy | None, multiplier: float | None, /) -> object:
        """Take the promise, and the noise relative to what one row can change.

        Both are None for exact numbers.
        """


def free(privacy: Privacy | None, multiplier: float | None) -> None:
    """Write nothing down: the default of functions, whose caller keeps the ledger.

    Parameters
    ----------
    privacy, multiplier : ignored.
    """


@dataclass
class Charge:
    """The release of one result, in the ledger of the data that it is about.

    A ledger is a file of a site that adds up what all releases about its data have spent of their
    privacy. Pass `spend` to the function that makes the result, and call `confirm` when it is
    written.

    Parameters
    ----------
    ledger, data_set : where it is written down, and the name of the data.
    fingerprint : returns a hash of the data.
    what : what is released, such as "summary".

    Attributes
    ----------
    number : number of the entry in the ledger; None before `spend`, or if nothing was written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedjigsaw import Privacy, sites
    >>> from fedjigsaw.sites import Charge
    >>> data = Path(tempfile.mkdtemp(), "bern.csv")
    >>> _ = data.write_text("age\\n" + "30\\n40\\n50\\n" * 100)
    >>> charge = Charge.for_file(data, "statistics")
    >>> stats = sites.measure(data, privacy=Privacy(1.0, bounds=(0, 120)), spend=charge.spend)
    >>> charge.confirm()
    >>> round(charge.account().spent(), 3)
    1.0
    """

    ledger: Ledger
    data_set: str
    fingerprint: Callable[[], str]
    what: str
    number: int | None = field(default=None, init=False)

    @classmethod
    def for_file(
        cls, data: Path, what: str, *, ledger: Path | None = None, data_set: str | None = None
    ) -> Self:
        """Charge a release about the rows of a file.

        The ledger is beside the file, and the data have the name of the file without its ending,
        unless others are given.
        """
        book = Ledger(default_path(data) if ledger is None else ledger)
        name = stem(data) if data_set is None else data_set
        return cls(book, name, cache(lambda: fingerprint(data)), what)  # a file may be large

    def check(self, privacy: Privacy | None, multiplier: float | None) -> None:
        """Raise a BudgetError if a limit does not allow the release."""
        privacy, multiplier = _kept(privacy, multiplier)
        if self.ledger.exists():
            delta = None if privacy is None else privacy.delta
            self.account().check(multiplier, delta, self.ledger.path)

    def account(self) -> Account:
        """Return what the ledger has about the data."""
        return self.ledger.account(self.data_set, self.fingerprint())

    def spend(self, privacy: Privacy | None, multiplier: float | None) -> None:
        """Write the release down; a BudgetError if a limit does not allow it.

        A release without privacy needs no ledger. If there is one, it is written down there, and
        refused if there is a limit. So it is with a release whose noise is seeded.
        """
        privacy, multiplier = _kept(privacy, multiplier)
        if privacy is None and not self.ledger.exists():
            return
        self.number = self.ledger.spend(
            self.data_set,
            self.fingerprint(),
            self.what,
            multiplier,
            None if privacy is None else privacy.delta,
            unit=None if privacy is None else privacy.unit,
        )

    def confirm(self) -> None:
        """Note that the result was written."""
        self.ledger.confirm(self.number)

    def describe(self) -> str:
        """Say in one line what all releases of the data have spent, and what is left."""
        return in_short(self.account(), self.ledger.path)


@dataclass(frozen=True)
class Charges:
    """The release of one result, in every ledger about its data; each has to allow it.

    Parameters
    ----------
    each : the first is to the ledger that gets a limit if none has one.
    """

    each: tuple[Charge, ...]

    def limit(self, privacy: Privacy) -> str:
        """Set the epsilon of one run as the limit if there is none; return the limit in words."""
        found = [
            f"epsilon {limit.epsilon:g} at delta {limit.delta:g} ({charge.ledger.path})"
            for charge in self.each
            for limit in charge.account().limits
        ]
        if found:  # told as well: the ledger may have come with the folder, from the coordinator
            return f"Limit, set before: all answers together have at most {' and '.join(found)}."
        ledger = self.each[0].ledger
        ledger.set_limit(privacy.epsilon, privacy.delta)
        more = f"fedjigsaw privacy set-limit {quote(str(ledger.path))}"
        return (
            f"Limit set: all answers together have at most epsilon {privacy.epsilon:g} at delta "
            f"{privacy.delta:g}. To allow more: {more}"
        )

    def spend(self, privacy: Privacy | None, multiplier: float | None) -> None:
        """Write the release down in all ledgers, or in none if one does not allow it."""
        if privacy is not None:
            self.limit(privacy)
        for charge in self.each:
            charge.check(privacy, multiplier)
        for charge in self.each:
            charge.spend(privacy, multiplier)

    def confirm(self) -> None:
        """Note that the result was written."""
        for charge in self.each:
            charge.confirm()

    def describe(self) -> Iterator[str]:
        """Say for each ledger that was charged what is spent and left."""
        return (charge.describe() for charge in self.each if charge.number is not None)


def _kept(privacy: Privacy | None, multiplier: float | None) -> tuple[Privacy | None, float | None]:
    """Return a promise and its noise; none if a seed voids it, since who has it can remove both."""
    seeded = privacy is not None and privacy.insecure_seed is not None
    return (None, None) if seeded else (privacy, multiplier)


def in_short(account: Account, ledger: Path) -> str:
    """Say what an account has spent, and what is left, in one line."""
    name = " = ".join(map(repr, account.names[:3]))
    spent = f"epsilon {in_words(account.spent())} at delta {account.delta:g}"
    text = f"Spent on {name} so far: {spent}"
    if account.limits:
        return f"{text}; left: epsilon {in_words(round_down(account.left()))} ({ledger})."
    return f"{text}, without a limit (fedjigsaw privacy set-limit {quote(str(ledger))})."
