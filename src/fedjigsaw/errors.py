"""Every error of fedjigsaw, in one tree.

::

    FedJigsawError           exit code
    ├── ParameterError       2   a parameter has a value that is not allowed
    │   └── UnavailableError 2   an attribute is not there after this fit, or not without pandas
    ├── DataError            3   a file cannot be read, or data or client ids cannot be used
    │   ├── DataTypeError    3   ... because of their type
    │   └── BudgetError      3   ... because their privacy budget is spent
    ├── MessageError         4   a summary or model is invalid or inconsistent with others
    ├── QuorumError          5   too few clients answered
    ├── DatasetError         6   a named data set is missing, or is not what it should be
    ├── ExtraError           7   an optional part of fedjigsaw is not installed
    ├── FederationError      8   a server or site is unreachable or refuses the connection
    ├── DivergedError        9   training diverged: the loss or the weights are NaN or infinite
    └── StrangeSiteError     11  a site is unlike all others, and nothing is published (--strict)

An alarm is no error: ``fedjigsaw diff --alarm`` ends with 10. Nor is a strange site: without
--strict, ``aggregate`` and ``federation run`` publish the model, and end with 11.

Each class is also the built-in exception that scikit-learn's users expect (``ValueError`` for a bad
parameter, and so on). Values of parameters have one template: *what* of *whom* must be *allowed*;
got *value*. All other errors are plain sentences: what happened, where, and what to do.
"""

import difflib
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import Any

SCIKIT_LEARN = ("sklearn", "sklearnex", "imblearn")  # packages whose tools call estimators
MAX_VALUE, MAX_TEXT = 300, 3000  # characters of a value in an error, and of an error


class FedJigsawError(Exception):
    """Base class of all errors that fedjigsaw raises on purpose. Their texts are never long.

    Attributes
    ----------
    parameter, file, column : str
        Names of what the error is about, the first of several; empty where there is none.
    row : int or None
        The first row that it is about, as its text counts them; a line, where that counts lines.
    """

    exit_code = 1

    def __init__(
        self,
        *args: object,
        parameter: str = "",
        file: object = "",
        column: str = "",
        row: int | None = None,
    ) -> None:
        super().__init__(*(shorten(a, MAX_TEXT) if isinstance(a, str) else a for a in args))
        self.parameter, self.file, self.column, self.row = parameter, str(file), column, row

    @property
    def subject(self) -> dict[str, Any]:
        """What the error is about, as keywords of another error; only what is known.

        Examples
        --------
        >>> DataError("a.csv, row 3, is too long.", file="a.csv", row=3).subject
        {'file': 'a.csv', 'row': 3}
        """
        named = {name: getattr(self, name) for name in ("parameter", "file", "column", "row")}
        return {name: value for name, value in named.items() if value not in ("", None)}


class ParameterError(FedJigsawError, ValueError):
    """A parameter has a value that is not allowed."""

    exit_code = 2


class UnavailableError(ParameterError, AttributeError):
    """An attribute of a fitted estimator is not there after this fit, or not without pandas."""


class DataError(FedJigsawError, ValueError):
    """A file cannot be read, or data or client ids cannot be used."""

    exit_code = 3


class DataTypeError(DataError, TypeError):
    """Data cannot be used because of their type."""


class BudgetError(DataError):
    """A release would pass the limit of privacy that a site has set for its data."""


class MessageError(FedJigsawError, ValueError):
    """A summary or model is invalid or inconsistent with others."""

    exit_code = 4


class QuorumError(FedJigsawError, RuntimeError):
    """Too few clients answered."""

    exit_code = 5


class DatasetError(FedJigsawError, LookupError):
    """A named data set is missing, or is not what it should be."""

    exit_code = 6


class ExtraError(FedJigsawError, ImportError):
    """An optional part of fedjigsaw is not installed."""

    exit_code = 7


class FederationError(FedJigsawError, RuntimeError):
    """A server or site is unreachable or refuses the connection."""

    exit_code = 8


class DivergedError(FedJigsawError, ArithmeticError):
    """Training diverged: the loss or the weights are NaN or infinite."""

    exit_code = 9


class StrangeSiteError(FedJigsawError, RuntimeError):
    """A site is unlike all others, and nothing is published because of it."""

    exit_code = 11


class FewerClustersWarning(UserWarning):
    """Fewer clusters were found than requested."""


class CountsWarning(UserWarning):
    """Some clients did not say how many rows their centers stand for."""


class UncertainNumberWarning(UserWarning):
    """The number of clusters that was found may well be another one."""


class FailedRunsWarning(UserWarning):
    """Some runs of a comparison failed; the others go on."""


class DataWarning(UserWarning):
    """Something in the data of one site is perhaps not meant as it is used, or is not used."""


class SiteWarning(UserWarning):
    """The file of a site is left out, or does not fit those of other sites, or its own rows."""


class ConspicuousSiteWarning(UserWarning):
    """A site is unlike all others."""


class PrivacyWarning(UserWarning):
    """Summaries tell more about single rows than is promised, or would; `clients` names whose."""

    clients: tuple[str, ...] = ()


class NoiseWarning(PrivacyWarning):
    """Bounds or noise of differential privacy change the data of clients, or drown them."""


def warn(
    message: str | Warning, category: type[Warning] = UserWarning, *, parameter: str = ""
) -> None:
    """Warn, and point at the line that called the package, be it through scikit-learn's tools.

    As an error does, the warning carries the name of the parameter that helps, if there is one.
    How many calls of functions lie between depends on the method, the engine and the entry point,
    so no fixed `stacklevel` is right.
    """
    _, level = calling_package("fedjigsaw", *SCIKIT_LEARN, "joblib", "contextlib")
    made = message if isinstance(message, Warning) else category(message)
    vars(made).setdefault("parameter", parameter)
    warnings.warn(made, stacklevel=level)


Told = dict[tuple[type[PrivacyWarning], str], dict[str, str]]  # (kind, advice) -> client -> what
_told: ContextVar[Told | None] = ContextVar("told", default=None)


def warn_of_client(client: str, what: str, advice: str, category: type[PrivacyWarning]) -> None:
    """Warn about a client, at once or, in `one_warning_of_each_kind`, together with the others."""
    with one_warning_of_each_kind() if _told.get() is None else nullcontext():
        _told.get({}).setdefault((category, advice), {})[client] = what  # type: ignore[union-attr]


@contextmanager
def one_warning_of_each_kind(most: int = 5) -> Iterator[None]:
    """Collect what is told of single clients in this thread; warn once, with all their names."""
    told: Told = {}
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)
        for (category, advice), clients in told.items():
            listed = [f"{name!r}: {what}" for name, what in clients.items()]
            more = f"; and {len(listed) - most:,} more" * (len(listed) > most)
            who = "Client" if len(listed) == 1 else f"{len(listed):,} clients:"
            made = category(f"{who} {'; '.join(listed[:most])}{more}. {advice}")
            made.clients = tuple(clients)
            warn(made)


def calling_package(*through: str) -> tuple[str, int]:
    """Return the package that called, looking through others, and its `stacklevel` for the asker.

    Examples
    --------
    >>> calling_package()
    ('fedjigsaw', 1)
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _package(frame) in through:
        frame, level = frame.f_back, level + 1
    return _package(frame), level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def invalid(what: str, whom: str, allowed: str, got: object, advice: str = "") -> str:
    """Say that a value is not allowed, what is, and what to do.

    For values alone. That a file cannot be read, or that something is missing, is a sentence of
    its own.

    Examples
    --------
    >>> from fedjigsaw.errors import invalid
    >>> invalid("n_clusters", "FeCA", "an integer >= 1", 0)
    'n_clusters of FeCA must be an integer >= 1; got 0.'
    """
    sentence = f"{what} of {whom} must be {allowed}; got {shorten(got, MAX_VALUE)}."
    return f"{sentence} {advice}" if advice else sentence


@contextmanager
def about(*, file: object = "", column: str = "") -> Iterator[None]:
    """Let errors of the block name the file and the column, unless they name others."""
    try:
        yield
    except FedJigsawError as error:
        error.file, error.column = error.file or str(file), error.column or column
        raise


def error_at(
    file: object, what: str, *, row: int | None = None, column: str = "", parameter: str = ""
) -> DataError:
    """Return an error about a place in a file, with which its text begins.

    Examples
    --------
    >>> error_at("a.csv", ": 'x' is no number.", row=3, column="age")
    DataError("a.csv, row 3, column 'age': 'x' is no number.")
    """
    places = (f"row {row}" if row else "", f"column {column!r}" if column else "")
    text = ", ".join(filter(None, (str(file), *places)))
    return DataError(f"{text}{what}", parameter=parameter, file=file, column=column, row=row)


def shorten(value: object, limit: int) -> str:
    """Return a text for a value, cut in the middle if it is long.

    Examples
    --------
    >>> from fedjigsaw.errors import shorten
    >>> shorten("a" * 20, 10)
    'aaa ... aa'
    """
    text = str(value)
    if len(text) <= limit:
        return text
    return f"{text[: (limit - 4) // 2]} ... {text[len(text) - (limit - 5) // 2 :]}"


def quote_names(names: Sequence[str], most: int = 20) -> str:
    """Return names in quotes, and how many more there are if they are too many to show.

    Examples
    --------
    >>> from fedjigsaw.errors import quote_names
    >>> quote_names(["age", "sex"]), quote_names(["age", "sex"], most=1)
    ("'age', 'sex'", "'age' and 1 more")
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask whether the most similar known name was meant; empty if none is similar.

    Examples
    --------
    >>> did_you_mean("Jigsww", ["feca", "jigsaw"]), did_you_mean("x", ["feca", "jigsaw"])
    ('Did you mean jigsaw?', '')
    """
    wanted = name.lower().replace("_", "-").removeprefix("--")
    similar = difflib.get_close_matches(wanted, sorted(known), 1)
    return f"Did you mean {similar[0]}?" if similar else ""


def counted(n: float, noun: str, plural: str = "") -> str:
    """Return a number and what it counts; the plural of a noun is the noun with an s by default.

    Examples
    --------
    >>> counted(1, "row"), counted(1204, "row"), counted(2, "value is", "values are")
    ('1 row', '1,204 rows', '2 values are')
    """
    return f"{n:,.0f} {noun if n == 1 else plural or noun + 's'}"


def unreadable(path: object, error: OSError) -> str:
    """Say that a file cannot be read, and why.

    Examples
    --------
    >>> from fedjigsaw.errors import unreadable
    >>> unreadable("site.csv", FileNotFoundError(2, "No such file or directory"))
    'Cannot read site.csv: no such file or directory.'
    """
    return f"Cannot read {path}: {_reason(error)}."


def unwritable(path: object, error: OSError) -> str:
    """Say that a file cannot be written, and why.

    Examples
    --------
    >>> from fedjigsaw.errors import unwritable
    >>> unwritable("out.csv", PermissionError(13, "Permission denied"))
    'Cannot write out.csv: permission denied.'
    """
    return f"Cannot write {path}: {_reason(error)}."


def unsupported(doing: str, kind: str, supported: Iterable[str]) -> str:
    """Say that a file cannot be read or written because of the ending of its name.

    Examples
    --------
    >>> unsupported("read site.doc", ".doc", [".csv", ".parquet"])
    "Cannot read site.doc: unsupported file type '.doc'. Supported: .csv, .parquet."
    """
    return f"Cannot {doing}: unsupported file type {kind!r}. Supported: {', '.join(supported)}."


def broken(path: object, ending: str, error: Exception) -> str:
    """Say that a file is not what the ending of its name says.

    Examples
    --------
    >>> from fedjigsaw.errors import broken
    >>> broken("site.npy", ".npy", ValueError("No data left in file"))
    'site.npy cannot be read as NPY: No data left in file'
    """
    reason = " ".join(str(error).split())[:200]
    return f"{path} cannot be read as {ending[1:].upper()}: {reason or type(error).__name__}"


def requires_extra(what: str, package: str, extra: str) -> str:
    """Say that an optional package is missing, and how to install it.

    Examples
    --------
    >>> from fedjigsaw.errors import requires_extra
    >>> requires_extra("fedjigsaw.deep", "torch", "deep")
    "fedjigsaw.deep requires torch: pip install 'fedjigsaw[deep]'."
    """
    return f"{what} requires {package}: pip install 'fedjigsaw[{extra}]'."


def _reason(error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return reason[:1].lower() + reason[1:]
