"""Processes of a federation: each starts in a group of its own, and the whole group is ended."""

import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

from fedjigsaw.errors import FederationError, invalid
from fedjigsaw.io.locks import locked

GRACE_SECONDS = 6.0
NEVER_CONNECTED = 3  # how a site's process ends that the server did not let in
FOLDER = "FEDJIGSAW_FOLDER"  # tells the apps, which Flower starts, where they are at home
OPTIONS = "FEDJIGSAW_SITE"

# nothing is sent to or fetched from anyone but the other parts of the federation
QUIET_FLOWER = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
}


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Variables for Flower's processes: quiet, at home in `folder`, with its own commands found."""
    inherited = dict(os.environ)
    commands = str(Path(sys.executable).parent)  # an environment need not be activated
    local = ",".join(filter(None, [inherited.get("NO_PROXY"), "127.0.0.1", "localhost"]))
    return {
        **inherited,
        **QUIET_FLOWER,
        "FLWR_HOME": str(folder / "flower"),
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
    """A module as a process, its output in ``flower.log``; ended with all its children."""
    with (folder / "flower.log").open("ab") as log:
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
    """Ask a process to end, then end what is left of its group."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_with_parent() -> None:
    """In a process that `running` started: end the whole group if the parent was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(0.5)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


@contextmanager
def alone(folder: Path, what: str) -> Iterator[None]:
    """At most one at a time in a folder; the lock goes with the process that holds it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / "lock"))
        except BlockingIOError as error:
            raise FederationError(f"{what} of {folder} is already running.") from error
        yield


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end a command in the same orderly way as Ctrl-C.

    Ctrl-C itself, too, where a shell had switched it off, as for a job in the background.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(name, interrupt) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def free_port() -> int:
    """A port of this machine's loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(host: str, port: int, authority: Path) -> bool:
    """Whether a server is there. One that another authority vouches for is a FederationError."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:  # of a file that is not there, or not a certificate
        allowed, reason = "the certificate of an authority", type(error).__name__
        raise FederationError(invalid("file", str(authority), allowed, reason)) from error
    try:
        with (
            socket.create_connection((host, port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLCertVerificationError as error:
        raise FederationError(
            f"The server at {host}:{port} is not the one that this folder was made for: its "
            f"certificate does not hold ({error.verify_message})."
        ) from error
    except OSError:
        return False


def wait_until_answers(
    host: str,
    port: int,
    authority: Path,
    *,
    seconds: float,
    process: "subprocess.Popen[bytes] | None" = None,
) -> bool:
    """Wait for a server; not longer than `seconds`, nor than the process behind it lives."""
    deadline = monotonic() + seconds
    while not answers(host, port, authority):
        if monotonic() >= deadline or (process is not None and process.poll() is not None):
            return False
        sleep(0.3)
    return True


def log_to(path: Path) -> None:
    """Write what fedjigsaw itself has to tell to a file, as well."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    own = logging.getLogger("fedjigsaw")
    own.addHandler(handler)
    own.setLevel(logging.INFO)
    own.propagate = False
