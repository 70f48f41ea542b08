"""A site's process: ``python -m fedjigsaw.flower.supernode FOLDER PORT``.

A plain SuperNode of Flower runs any app that the server sends, and sends back the text of any
error. This one runs only fedjigsaw's own app, by its fingerprint, and sends errors without their
text.

A plain SuperNode also waits forever for an answer that can no longer come. This one reports an app
that ended without an answer, and ends itself when any part of it has failed, so that the site
connects again.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any, NoReturn

from fedjigsaw.flower import node_patches as patches
from fedjigsaw.flower.app_patches import CLIENT_APP, Task
from fedjigsaw.flower.counts import noting_contact
from fedjigsaw.flower.doors import NOTICE_HEADER, PROCESS_HEADER, REVOKED, TWIN, PrivateDoor
from fedjigsaw.flower.folders import (
    CA,
    OWN_APP,
    SITE_KEY,
    SITE_LOG,
    SiteSettings,
)
from fedjigsaw.flower.gate import Gate
from fedjigsaw.flower.node_patches import Connection
from fedjigsaw.flower.patches import allow_slow_starts, is_task_token
from fedjigsaw.flower.processes import (
    NEVER_CONNECTED,
    WAS_REVOKED,
    end_with_parent,
    log_to,
)

POLL_SECONDS = 1.0
logger = logging.getLogger("fedjigsaw.flower.supernode")
connected = False
twin = False
silent = False


def main(folder: Path, port: int) -> None:
    """Serve until the parent process ends, a signal arrives, or the connection ends."""
    end_with_parent()
    log_to(folder / SITE_LOG)
    settings = SiteSettings.load(folder)
    command, loop = patches.supernode_command(), patches.supernode_loop()
    patches.run_one_app_only(command, loop, OWN_APP, refused=log_refusal)
    patches.send_errors_without_text(loop, failed=log_failure)
    patches.change_connection(loop, note_connection)
    patches.poll_every(loop, POLL_SECONDS)
    # nobody has the secret with which Flower would give a task to a process that asks for one
    patches.guard_local_port(token_bytes(32), partial(guarded, loop, port, AppStarter(port)))
    noted = noting_contact(folder, note_answer)
    patches.watch_requests({PROCESS_HEADER.decode(): token_hex(16)}, noted, note_silence)
    patches.answer_every_question(loop, crashed=log_crash)
    threading.excepthook = leave_after_failure
    try:
        patches.run_supernode(arguments(folder, settings, port))
    except RuntimeError:  # another process took the local port first; the next one may be free
        traceback.print_exc()
        logger.warning("could not start; flower.log has the details")
        leave(retry=True)
    finally:
        leave()


def arguments(folder: Path, settings: SiteSettings, port: int) -> list[str]:
    """Return the arguments of ``flower-supernode`` for a site's folder."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    words = ["--superlink", f"{host}:{settings.port}", "--host", "127.0.0.1", "--port", str(port)]
    words += ["--root-certificates", str(folder / CA)]
    words += ["--isolation", "process"]  # Flower starts no process that starts apps
    return [*words, "--auth-supernode-private-key", str(folder / SITE_KEY)]


class AppStarter:
    """The process that starts the apps (:mod:`fedjigsaw.flower.warm`); this one ends with it."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        words = [sys.executable, "-m", "fedjigsaw.flower.warm", str(os.getpid())]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self, number: int, token: str) -> None:
        """Start the app of a task."""
        task = Task(CLIENT_APP, self.address, None, token, quiet=False)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and so will this process
            self.process.stdin.write(json.dumps([number, asdict(task)]).encode() + b"\n")
            self.process.stdin.flush()

    def ended(self) -> Iterator[int]:
        """Yield the number of each task whose app has ended, as soon as it has."""
        assert self.process.stdout is not None
        yield from map(int, self.process.stdout)

    def _watch(self) -> None:
        self.process.wait()
        leave_without_starter()


def guarded(loop: Any, port: int, starter: AppStarter, app: Any, state: Any) -> Gate:
    """Return the app of the local port behind a gate that admits the processes of apps alone."""
    allow_slow_starts(state)
    patches.start_apps_ourselves(loop, state, starter.start, starter.ended)
    return Gate(app, {port: PrivateDoor(partial(is_task_token, state))})


def note_answer(status: int, headers: Mapping[str, str]) -> None:
    """Note what the server says about this site's key."""
    global twin, silent
    if silent:
        silent = False
        logger.info("the server answers again")
    if status == REVOKED:
        logger.error("the server no longer accepts this site's key")
        end(WAS_REVOKED)
    if headers.get(NOTICE_HEADER.decode()) == TWIN.decode() and not twin:
        twin = True
        logger.warning(
            "this site's key is used from two places at once; if this site does not run twice, "
            "somebody else has the key: tell the coordinator, who can revoke it"
        )


def note_silence() -> None:
    """Say that the server does not answer; once, until it does."""
    global silent
    if not silent:
        silent = True
        logger.warning("the server does not answer; this site goes on trying")


def note_connection(line: Connection) -> Connection:
    global connected
    connected = True
    logger.info("connected to the server")
    return line


def log_refusal() -> None:
    logger.error("refused an app that is not the one from `federation init`")


def log_crash() -> None:
    logger.error("the app ended without an answer; the server learns that and nothing else")


def log_failure() -> None:
    logger.error("the app failed before it could answer; flower.log has the details")


def leave_without_starter() -> None:
    logger.error("the process that starts the apps has ended")
    leave()


def leave_after_failure(failed: Any) -> None:
    """Leave when one of Flower's threads has failed, such as the one that sends heartbeats.

    That happens whenever a server was restarted, so the details are in ``flower.log`` alone.
    """
    if failed.exc_type is SystemExit:
        return
    traceback.print_exception(failed.exc_value)
    logger.warning("the connection to the server was lost; flower.log has the details")
    leave()


def leave(*, retry: bool = False) -> NoReturn:
    """End this process, and say by its exit code whether the server ever let it in."""
    end(0 if connected or retry else NEVER_CONNECTED)


def end(code: int) -> NoReturn:
    """End this process, whatever threads Flower has left behind."""
    logging.shutdown()
    os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
