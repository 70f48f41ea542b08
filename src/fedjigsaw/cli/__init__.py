"""Internal: the command line. Each command parses its options, calls a function, prints.

Results go to standard output, everything else (progress, errors) to standard error, so that
``fedjigsaw compare --json | jq`` works. Exit codes are those of :mod:`fedjigsaw.errors`.

This module imports nothing heavy, so that `main` is there before anything can be interrupted.
"""

import atexit
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

started = False  # whether this process was started as the command
running: Any = None  # the command that runs


def main() -> None:
    """Run a command; print an error of fedjigsaw as one line and exit with its code."""
    global started
    started = True
    atexit.register(gc.freeze)  # the process ends: do not look for garbage in all that is loaded
    with importing():
        from fedjigsaw.cli import _app
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            _on(getattr(signal, name), _end)
    _app.run()


@contextmanager
def importing() -> Iterator[None]:
    """Import faster and, if this process was started as the command, end at once on Ctrl-C.

    What is imported stays: looking for garbage among it would take a tenth of the time.
    """
    before, collects = signal.getsignal(signal.SIGINT), gc.isenabled()
    gc.disable()
    if started:
        _on(signal.SIGINT, _quit)
    try:
        yield
    finally:
        if started:
            gc.freeze()
            _on(signal.SIGINT, before)
        if collects:
            gc.enable()


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fedjigsaw.cli._app import app

    return app


def _on(number: int, handler: Any) -> None:
    """Handle a signal, unless whoever started us (such as nohup) made us ignore it."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, handler)


def _quit(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"Aborted.\n")
    os._exit(128 + number)


def _end(number: int, frame: FrameType | None) -> None:
    """Remove half-written files, then end as the signal would have ended us."""
    from fedjigsaw.io.atomic import remove_unfinished

    remove_unfinished()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
