"""Start processes by forking one that has loaded the libraries, and notice their end.

A process that loads them itself needs seconds before it can work. Forking is safe only while the
process has one thread: locks that another thread holds would never be released in the child. So
:func:`is_safe` looks before each fork, and callers start a fresh process where it is not.
"""

import ctypes
import os
import signal
import stat
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15  # <linux/prctl.h>
MAX_OPEN_FILES = 256  # far more than a process that only starts others has open


def is_safe() -> bool:
    """Return whether this process can be forked: on Linux, with one thread, of any library."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1


def fork(work: Callable[[], object], name: str, *, quiet: bool = False) -> int:
    """Call `work` in a copy of this process, and return the number of the new process.

    Parameters
    ----------
    name : what tools such as ``top`` call the process; at most 15 characters are shown.
    quiet : whether to discard what it prints.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    number = os.fork()
    if number == 0:
        _do(work, name, quiet)
    return number


def _do(work: Callable[[], object], name: str, quiet: bool) -> NoReturn:
    """Work in the new process, and end it without going back to what the old one was doing."""
    code = 1
    try:
        _prepare(name, quiet)
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _prepare(name: str, quiet: bool) -> None:
    """Give up what belongs to the old process: signal handlers, connections, random numbers."""
    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    # the numbers stay taken: objects of the old process that still have them may close them
    taken = [0, *_connections(), *((1, 2) if quiet else ())]
    for place in taken:
        os.dup2(nothing, place, inheritable=place < 3)
    if "numpy.random" in sys.modules:  # two children must not draw the same numbers
        sys.modules["numpy.random"].seed()


def _connections() -> list[int]:
    """Return the open sockets and pipes, except for standard ones."""
    found = []
    for place in range(3, MAX_OPEN_FILES):
        with suppress(OSError):
            mode = os.fstat(place).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                found.append(place)
    return found


def ended(numbers: Collection[int]) -> list[int]:
    """Return which of these children have ended, without waiting for the others."""
    return [number for number in numbers if os.waitpid(number, os.WNOHANG) != (0, 0)]


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; end at once if it already has.

    Unlike :func:`fedjigsaw.flower.processes.end_with_parent` this needs no thread.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
