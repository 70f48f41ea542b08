"""Logs of the processes of a federation: text for people, or one JSON object per line.

A line of JSON never has a value of a cell or the text of an exception. Its message is the constant
text in the source, and values are filled in only where the source calls :func:`told`, which names
the event and says that the values are no data.
"""

import json
import logging
import logging.handlers
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from fedjigsaw.errors import FedJigsawError

LOG = "FEDJIGSAW_LOG"  # the variable that tells the processes of a part how to write their logs
TEXT, JSON = FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
MAX_VALUE = 500  # characters of a text in a line of JSON
MAX_LINE, MAX_LINES = 10_000, 1_000  # characters of a line of text, and lines of a traceback
OWN = logging.getLogger("fedjigsaw")
bound: dict[str, str] = {}  # what every line of this process has, such as the run


@dataclass(frozen=True)
class Style:
    """How a part of the federation writes its logs.

    Parameters
    ----------
    format : "text" or "json".
    level : the least level that is written.
    site : name of the site; empty at the server.
    """

    format: str = TEXT
    level: str = "info"
    site: str = ""

    @classmethod
    def of_process(cls) -> Self:
        """Return the style that the part was started with; the default one outside of a part."""
        return cls.of_words(os.environ[LOG]) if LOG in os.environ else cls()

    def variable(self) -> dict[str, str]:
        """Return the variable that gives this style to other processes."""
        return {LOG: self.words()}

    def words(self) -> str:
        """Return this style as one text."""
        return f"{self.format} {self.level} {self.site}"

    @classmethod
    def of_words(cls, words: str) -> Self:
        """Return the style that :meth:`words` gave."""
        return cls(*words.split(" ", 2))

    def shows(self, level: str) -> bool:
        """Return whether lines of a level are written."""
        return LEVELS.index(level) >= LEVELS.index(self.level)

    def line(self, level: str, event: str, message: str, **more: Any) -> str:
        """Return a line about an event, as text or as JSON."""
        if self.format != JSON:
            return message
        return _as_json({"level": level, **self._who(), "event": event, "message": message, **more})

    def formatter(self) -> logging.Formatter:
        """Return what makes lines of log records."""
        if self.format == JSON:
            return _JsonFormatter(self._who())
        return _TextFormatter("%(asctime)s %(levelname)s %(message)s")

    def _who(self) -> dict[str, str]:
        return {"site": self.site} if self.site else {"part": "server"}


def log_to(path: Path) -> None:
    """Write the log of fedjigsaw itself to a file, which may be moved away at any time."""
    if not _logs_to(path):
        OWN.addHandler(_handler(path, style := Style.of_process()))
        OWN.setLevel(style.level.upper())
        OWN.propagate = False


@contextmanager
def log_of_server(path: Path, running: Path) -> Iterator[None]:
    """Write to the log of the server on this machine, if it runs, from a process that is no part.

    Parameters
    ----------
    path : its log; one that cannot be written gets nothing.
    running : a file that is there while the server runs, with the style of its log under `log`.
    """
    handler, level = None, OWN.level
    with suppress(OSError, ValueError, TypeError, AttributeError):
        style = Style.of_words(json.loads(running.read_text()).get("log", Style().words()))
        if not _logs_to(path):
            handler = _handler(path, style)
            OWN.addHandler(handler)
            OWN.setLevel(style.level.upper())
    try:
        yield
    finally:
        if handler is not None:
            OWN.removeHandler(handler)
            OWN.setLevel(level)
            handler.close()


def _logs_to(path: Path) -> bool:
    """Return whether this process writes to a log already."""
    files = [getattr(handler, "baseFilename", "") for handler in OWN.handlers]
    return os.path.abspath(path) in files


def _handler(path: Path, style: Style) -> logging.Handler:
    handler = _PrivateFile(path)
    handler.setFormatter(style.formatter())
    return handler


def for_owner(path: str, flags: int) -> int:
    """Open a file that others than its owner cannot read if it is new: an `opener` for open.

    A log as text may quote a cell, and the folder may be one that others can look into.
    """
    return os.open(path, flags, 0o600)


class _PrivateFile(logging.handlers.WatchedFileHandler):
    """Adds lines to a log that only its owner can read, also after it was moved away."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, opener=for_owner)


def told(event: str, **values: Any) -> dict[str, Any]:
    """Return `extra` for a log call: the name of an event, with values that are no data.

    Examples
    --------
    >>> logging.getLogger("x").info("sending %d bytes", 12, extra=told("answer", bytes=12))
    """
    return {"told": {"event": event, **values}}


def bind(**values: object) -> None:
    """Add names, such as that of the run, to every further line of this process."""
    bound.update({key: re.sub(r"[^\w.-]", "", str(value))[:64] for key, value in values.items()})


class _TextFormatter(logging.Formatter):
    """Makes lines for people. What a server sent can add no line to them and no control character.

    An error of fedjigsaw says by itself what is wrong, and is part of the line. All others have
    their traceback, whose lines are indented, since the text of an error may have several.
    """

    def format(self, record: logging.LogRecord) -> str:
        own = copy(record)
        own.exc_text = None  # another handler may have kept the traceback here, as it is
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, FedJigsawError):
            own.exc_info = None
            own.msg, own.args = f"{record.getMessage()}: {error}", ()
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = _visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  {_visible(line)}" for line in lines[:MAX_LINES])


def _visible(text: str) -> str:
    """Return a text without control characters, and not too long.

    Examples
    --------
    >>> _visible("a\\nb")
    'a\\\\nb'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:MAX_LINE])


class _JsonFormatter(logging.Formatter):
    """Makes a JSON object of a log record."""

    def __init__(self, who: Mapping[str, str]) -> None:
        super().__init__()
        self.who = who

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = dict(getattr(record, "told", {}))
        # only a text that was told has no data in it; otherwise the constant in the source
        message = record.getMessage() if values else str(record.msg)
        place = f"{record.module}:{record.lineno}"
        values = values or {"event": _event(str(record.msg))}
        line = {"level": record.levelname.lower(), **self.who, **bound, **values}
        failure = _describe(record.exc_info[1]) if record.exc_info else {}
        return _as_json({**line, "message": message, "source": place, **failure})


def _event(text: str) -> str:
    """Return a name for an event from the constant text in the source.

    Examples
    --------
    >>> _event("site %s is revoked: its key is no longer accepted")
    'site_is_revoked'
    """
    start = re.split(r"[:;,(]", re.sub(r"%\S", " ", text).strip(" :"))[0]
    return "_".join(re.findall(r"\w+", start.lower())) or "other"


def _describe(error: BaseException | None) -> dict[str, str]:
    """Return the kind of an exception and where it was raised, and nothing of its text."""
    if error is None:
        return {}
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = (
        "" if last is None else f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    )
    return {"exception": type(error).__name__, "raised": place}


def _as_json(values: Mapping[str, Any]) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    short = {n: v[:MAX_VALUE] if isinstance(v, str) else v for n, v in values.items()}
    return json.dumps({"time": now, **short})
