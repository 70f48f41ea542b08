"""What a server does for operators: it starts runs, tells how they go, and gives their results.

Each run is a process of its own that does what `federation run` does on the server's machine
(:mod:`fedjigsaw.flower.operator_run`). An operator sees the runs that were started with the same
key, and no others.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Any

from fedjigsaw.errors import FederationError, FedJigsawError, ParameterError
from fedjigsaw.flower.folders import OWNER
from fedjigsaw.flower.gate import Receive, Scope, Send
from fedjigsaw.flower.logs import told
from fedjigsaw.flower.operator_door import CALLER, Allowance, Caller
from fedjigsaw.flower.operator_protocol import (
    BAD,
    BROKEN,
    EVENTS,
    FILES,
    MISSING,
    PATH,
    STALE,
    START,
    STATUS,
    STOP,
)
from fedjigsaw.flower.operators import Operators
from fedjigsaw.io.atomic import write_json
from fedjigsaw.io.rows import read_rows

logger = logging.getLogger(__name__)

MAX_RUNS = 4  # unfinished runs of an operator
STARTS = (0.1, 10)  # runs a second that an operator may start in the long run, and at once
MAX_EVENTS = 1000  # in one answer
CHUNK = 2**20
MODULE = ("-m", "fedjigsaw.flower.operator_run")


@dataclass
class Run:
    """A run that an operator started, and its process."""

    key: str
    process: "subprocess.Popen[bytes]"


class OperatorDesk:
    """An ASGI app that answers operators, and passes everything else on.

    Parameters
    ----------
    app : the app for all other requests.
    home : the server's folder.
    operators : whom the server knows.
    """

    def __init__(self, app: Any, home: Path, operators: Operators) -> None:
        self.app = app
        self.home = home
        self.operators = operators
        self.word = token_hex(16)  # a request is for this start of the server
        self.runs: dict[str, Run] = {}
        self.starts = Allowance(*STARTS)
        self.lock = threading.Lock()
        self.threads = ThreadPoolExecutor(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = scope.get(CALLER)
        if caller is None:
            await self.app(scope, receive, send)
            return
        body = (await receive())["body"]  # the gate has read all of it
        loop = asyncio.get_running_loop()
        status, answer = await loop.run_in_executor(
            self.threads, self.answer, caller, scope["path"].removeprefix(PATH), body
        )
        if isinstance(answer, Path):
            await self._send_file(answer, send)
        else:
            await _send(send, status, json.dumps(answer).encode())

    async def _send_file(self, path: Path, send: Send) -> None:
        """Send a file piece by piece, as fast as it is received."""
        from fedjigsaw.flower import jobs  # needs what servers do not

        loop = asyncio.get_running_loop()
        with path.open("rb") as file:
            left = os.fstat(file.fileno()).st_size
            await _send_head(send, 200, left)
            while left:
                part = await loop.run_in_executor(self.threads, file.read, min(CHUNK, left))
                left -= len(part)
                if not part:
                    break
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        if path.name == jobs.MODEL:
            jobs.delivered(path.parent)

    # ------------------------------------------------------------------------ in threads, not async

    def answer(self, caller: Caller, verb: str, body: bytes) -> tuple[int, Any]:
        """Return status and answer. The text of an unexpected error stays here."""
        try:
            if not caller.head.fits(body):
                return BAD, _refusal(ParameterError("The body is not the one that was signed."))
            if caller.head.word != self.word:
                return STALE, {"word": self.word}
            if verb == START:
                return 200, {"run": self.start(caller, body)}
            content = _parse(body)
            if verb == STATUS:
                return 200, self.status(caller)
            name = content.get("run")
            folder = self.own_folder(caller, name)
            if folder is None or not isinstance(name, str):
                return MISSING, {}
            if verb == EVENTS:
                return 200, self.events(folder, content.get("from"))
            if verb == STOP:
                return 200, self.stop(name, f"operator {caller.operator.name}")
            return self.file(folder, content.get("name"))
        except FedJigsawError as error:
            return BAD, _refusal(error)
        except Exception:
            traceback.print_exc()
            name = caller.operator.name
            found = told("operator_failed", operator=name)
            logger.error("a request of operator %s failed; see flower.log", name, extra=found)
            return BROKEN, {}

    def status(self, caller: Caller) -> dict[str, Any]:
        """Return the state of the server, with the caller's own runs that have not ended."""
        from fedjigsaw.flower.status import read_status  # needs what servers do not
        from fedjigsaw.flower.stopping import open_runs

        return {**read_status(self.home), "runs": open_runs(self.home, caller.head.key)}

    def start(self, caller: Caller, body: bytes) -> str:
        """Start a run, and return its name. What is wrong with its job is told by its result."""
        from fedjigsaw.flower import jobs  # needs what servers do not

        name = caller.operator.name
        with self.lock:  # one after another: a large job needs memory
            self._check_may_start(caller)
            content = _parse(body)
            job, resume = content.get("job"), content.get("resume")
            if not isinstance(job, dict) or not isinstance(resume, bool):
                raise ParameterError("The request has no job.")
            folder = jobs.new_job_folder(self.home)
            owner = {"operator": name, "key": caller.head.key}
            write_json(folder / OWNER, owner)
            write_json(folder / jobs.JOB, job)
            process = subprocess.Popen(  # it ends with this process, whose group it is in
                [sys.executable, *MODULE, str(self.home), folder.name, *["--resume"] * resume],
                stdin=subprocess.DEVNULL,
            )
            self.runs[folder.name] = Run(caller.head.key, process)
        found = told("operator", operator=name, run=folder.name)
        logger.info("operator %s started run %s", name, folder.name, extra=found)
        return folder.name

    def _check_may_start(self, caller: Caller) -> None:
        """Raise a FederationError if an operator has too many runs, or starts them too fast."""
        name = caller.operator.name
        self._forget_ended()
        if sum(run.key == caller.head.key for run in self.runs.values()) >= MAX_RUNS:
            raise FederationError(
                f"Operator {name} has {MAX_RUNS} runs that have not ended. Wait for one of them, "
                "or stop it."
            )
        if not self.starts.take(name):
            raise FederationError(f"Operator {name} starts runs too fast. Wait some seconds.")

    def own_folder(self, caller: Caller, name: object) -> Path | None:
        """Return the folder of a run that was started with the caller's key, if there is one."""
        from fedjigsaw.flower import jobs

        if not isinstance(name, str) or not jobs.NAME.fullmatch(name):
            return None
        folder = jobs.job_folder(self.home, name)
        return folder if owner_of(folder) == caller.head.key else None

    def events(self, folder: Path, start: object) -> dict[str, Any]:
        """Return the events of a run from a number on, its state, and the sizes of its files."""
        from fedjigsaw.flower import jobs

        if type(start) is not int or start < 0:
            raise ParameterError("The request has no number of an event.")
        alive = self._is_alive(folder.name)
        # the state before the events: none is missed
        done = (folder / jobs.RESULT).exists() and not alive
        events = read_rows(folder / jobs.EVENTS)[start : start + MAX_EVENTS]
        files = {
            name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()
        }
        state = "done" if done else "running" if alive else "ended"
        return {"events": events, "state": state, "files": files if done else {}}

    def file(self, folder: Path, name: object) -> tuple[int, Any]:
        """Return the path of a result of a run that has ended."""
        path = folder / next((one for one in FILES if one == name), "")
        return (200, path) if path.is_file() and not self._is_alive(folder.name) else (MISSING, {})

    def _is_alive(self, name: str) -> bool:
        with self.lock:
            run = self.runs.get(name)
            return run is not None and run.process.poll() is None

    def stop(self, name: str, by: str) -> dict[str, Any]:
        """Stop a run, and end its process as Ctrl-C does; return how the run ended."""
        from fedjigsaw.flower import stopping

        try:
            return stopping.stop(self.home, name, by)
        finally:
            with self.lock:
                run = self.runs.get(name)
                if run is not None and run.process.poll() is None:
                    run.process.terminate()

    def watch(self) -> None:
        """Look every second whose keys were removed, and stop their runs."""
        while True:
            sleep(1)
            self.stop_removed()

    def stop_removed(self) -> None:
        with self.lock:
            self._forget_ended()
            running = dict(self.runs)
        for name, run in running.items():
            if self.operators.find(run.key) is None:
                found = told("operator_removed", run=name)
                logger.warning("run %s is stopped: its operator was removed", name, extra=found)
                try:
                    self.stop(name, "the removal of its operator")
                except Exception:  # whatever it is, other runs must be stopped
                    traceback.print_exc()

    def _forget_ended(self) -> None:
        self.runs = {name: run for name, run in self.runs.items() if run.process.poll() is None}


def owner_of(folder: Path) -> str | None:
    """Return the fingerprint of the operator's key with which a run was started, if it was."""
    try:
        return str(json.loads((folder / OWNER).read_bytes())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parse(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ParameterError("The request is not JSON.") from error
    if not isinstance(content, dict):
        raise ParameterError("The request is not a JSON object.")
    return content


def _refusal(error: FedJigsawError) -> dict[str, Any]:
    return {"error": str(error), "exit_code": error.exit_code}


async def _send(send: Send, status: int, body: bytes) -> None:
    await _send_head(send, status, len(body))
    await send({"type": "http.response.body", "body": body})


async def _send_head(send: Send, status: int, size: int) -> None:
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
