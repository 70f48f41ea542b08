"""The processes of a federation: start them, wait for them, follow their logs, end them.

Each process starts in a process group of its own, and the whole group is ended.
"""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

from fedjigsaw.errors import FederationError, unreadable
from fedjigsaw.flower.certificates import HAS_EXPIRED, NOT_YET_VALID
from fedjigsaw.flower.folders import FLOWER, FLOWER_LOG, PART_LOCK
from fedjigsaw.flower.logs import for_owner
from fedjigsaw.flower.logs import log_to as log_to
from fedjigsaw.records.locks import locked_folder

GRACE_SECONDS = 6.0
# exit codes of a site's process that the server refused
NEVER_CONNECTED, WAS_REVOKED = 3, 4
# Flower starts the processes of the apps, which read from here which folder and which data to use
FOLDER = "FEDJIGSAW_FOLDER"
OPTIONS = "FEDJIGSAW_SITE"
SECRET = "FEDJIGSAW_SECRET"  # only the server's process gets this one, and takes it out

# nothing is sent to or fetched from any machine outside the federation
QUIET_FLOWER = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
    "PYTHONSAFEPATH": "1",  # no module from the folder in which the command was started
    # these libraries start threads when they are loaded; with them, nobody may fork
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow for x86-64
}


class ExpiredError(FederationError):
    """A server's certificate is not valid at this time; it may be renewed, or the clock set."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the variables for Flower's processes, which keep their files in `folder`."""
    inherited = dict(os.environ)
    commands = str(Path(sys.executable).parent)  # the virtual environment may not be active
    local = ",".join(filter(None, [inherited.get("NO_PROXY"), "127.0.0.1", "localhost"]))
    return {
        **inherited,
        **QUIET_FLOWER,
        "FLWR_HOME": str(folder / FLOWER),
        "PATH": commands + os.pathsep + inherited.get("PATH", os.defpath),
        "NO_PROXY": local,
        "PYTHONUNBUFFERED": "1",
        FOLDER: str(folder),
        **more,
    }


@contextmanager
def running(
    module: str, *args: str, folder: Path, **more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a module as a process that writes to ``flower.log``; end it with all its children."""
    with open(folder / FLOWER_LOG, "ab", opener=for_owner) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *args],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(folder, **more),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: "subprocess.Popen[bytes]", grace: float = GRACE_SECONDS) -> None:
    """Ask a process to end, then kill what is left of its group after `grace` seconds."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_with_parent() -> None:
    """Watch the parent process, and kill this process group when the parent is gone.

    To be called in a process that `running` started.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(0.5)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


@contextmanager
def alone(folder: Path, what: str) -> Iterator[None]:
    """Allow one process at a time in a folder. The lock ends with the process."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(folder / PART_LOCK))
        except BlockingIOError as error:
            raise FederationError(f"{what} of {folder} is already running.") from error
        yield


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_listen(address: str, port: int = 0) -> bool:
    """Return whether this machine can listen on an IP address and a port; 0 is any port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
    except OSError:
        return False
    return True


def answers(host: str, port: int, authority: Path) -> bool:
    """Return whether a server of this federation answers.

    Raise a FederationError if its certificate is not valid.
    """
    return greet(host, port, authority) is not None


def greet(host: str, port: int, authority: Path) -> Mapping[str, Any] | None:
    """Return the certificate of a server of this federation, or None if it does not answer."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except ssl.SSLError as error:
        raise FederationError(f"{authority} is not a certificate.") from error
    except OSError as error:
        raise FederationError(unreadable(authority, error)) from error
    try:
        with (
            socket.create_connection((host, port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=host) as line,
        ):
            return line.getpeercert()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == HAS_EXPIRED:
            raise ExpiredError(
                f"The certificate of the server at {host}:{port} has ended, or this machine's "
                "clock is wrong. The coordinator renews it with `fedjigsaw federation renew`."
            ) from error
        if error.verify_code == NOT_YET_VALID:  # some clocks are wrong after a boot
            raise ExpiredError(
                f"The certificate of the server at {host}:{port} is not valid yet: the clock of "
                "this machine is behind, or that of the coordinator was ahead."
            ) from error
        raise FederationError(
            f"The server at {host}:{port} is not the server of this federation: its certificate "
            f"is not valid here ({error.verify_message})."
        ) from error
    except OSError:
        return None


def wait_until_answers(
    host: str,
    port: int,
    authority: Path,
    *,
    seconds: float,
    process: "subprocess.Popen[bytes] | None" = None,
) -> bool:
    """Wait until a server answers. Return False after `seconds`, or when its process has ended."""
    deadline = monotonic() + seconds
    while not answers(host, port, authority):
        if monotonic() >= deadline or (process is not None and process.poll() is not None):
            return False
        sleep(0.3)
    return True


class Follower:
    """Reads what is added to a file, also after it was moved away, emptied or made anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(0o600)
        self.file = path.open(errors="replace")
        self.file.seek(0, os.SEEK_END)

    def lines(self) -> Iterator[str]:
        """Yield the lines since the last call."""
        for line in self.file:
            yield line.rstrip("\n")
        if self._is_another():
            with suppress(FileNotFoundError):  # not made anew yet
                again = self.path.open(errors="replace")
                self.file.close()
                self.file = again
                yield from self.lines()

    def _is_another(self) -> bool:
        mine = os.fstat(self.file.fileno())
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return True
        return mine.st_ino != there.st_ino or there.st_size < self.file.tell()


@contextmanager
def following(path: Path, show: Callable[[str], object]) -> Iterator[None]:
    """Call `show` with each line that is added to a file while the block runs."""
    follower = Follower(path)
    ended = Event()

    def follow() -> None:
        while True:
            last = ended.is_set()
            for line in follower.lines():
                show(line)
            if last:
                return
            ended.wait(0.3)

    thread = Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        follower.file.close()
