"""Internal: signals that ask a process to end, as one exception."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # the last one is not known to Windows
NUMBERS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


@contextmanager
def stopped_by_signals(*, in_background: bool = False) -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP, as on Ctrl-C.

    A signal that whoever started us made us ignore, as nohup does, stays ignored.

    Parameters
    ----------
    in_background : bool
        Heed Ctrl-C all the same: shells make their jobs in the background ignore it.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt(number)

    before = {}
    for number in NUMBERS:
        heeded = in_background and number == signal.SIGINT
        if heeded or signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ignoring_signals() -> Iterator[None]:
    """Ignore signals that ask a process to end, while it does the last thing before it ends."""
    if current_thread() is not main_thread():  # signals go to the main thread alone
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a process that was stopped, as shells know it.

    Examples
    --------
    >>> exit_code(KeyboardInterrupt(15)), exit_code(KeyboardInterrupt())
    (143, 130)
    """
    return 128 + int(stop.args[0] if stop.args else signal.SIGINT)
