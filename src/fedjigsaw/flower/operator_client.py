"""An operator's machine: ask the server for its state, start runs there, fetch their results."""

import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from time import monotonic, sleep, time
from typing import Any, TypeVar

import httpx

from fedjigsaw._signals import holding_signals, ignoring_signals
from fedjigsaw.errors import FederationError, FedJigsawError, MessageError, ParameterError
from fedjigsaw.flower import jobs, processes, stopping
from fedjigsaw.flower.doors import UNKNOWN, UNSIGNED
from fedjigsaw.flower.folders import CA
from fedjigsaw.flower.jobs import Job, Tell
from fedjigsaw.flower.operator_protocol import (
    BAD,
    EVENTS,
    FILE,
    FILES,
    MAX_JOB,
    MISSING,
    PATH,
    STALE,
    START,
    STATUS,
    STOP,
    TOLERANCE,
    TOO_MANY,
    sign,
)
from fedjigsaw.flower.operators import OperatorSettings, load_key
from fedjigsaw.io.atomic import open_whole

POLL_SECONDS = 0.5
PATIENCE = 60.0  # seconds in which a server that does not answer may come back
FIRST_WAIT, LONGEST_WAIT = 1.0, 10.0  # seconds before it is asked again; the wait doubles
MAX_ANSWER = 2**26  # bytes of an answer in JSON
MAX_FILE = 2**30
T = TypeVar("T")


class LostError(FederationError):
    """The server does not answer now; it may do so later."""


class UnsentError(LostError):
    """The server has not taken a request, so the request may be sent again, whatever it asks."""


class NoRunError(FederationError):
    """The server has no such run of this operator."""


class OperatorPlace:
    """The machine of an operator.

    Parameters
    ----------
    folder : from `federation operator add`. Results are kept in `runs` in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = OperatorSettings.load(folder)
        self.key = load_key(folder)
        self.word = ""
        self.where = f"The server at {self.settings.host}:{self.settings.port}"

    def status(self) -> dict[str, Any]:
        with self._connected() as client:
            found = self._ask(client, STATUS, {})
        if not isinstance(found.get("connected"), dict):
            raise self._nonsense()
        return found

    def sites(self, without: Sequence[str], tell: Tell) -> list[str]:
        return jobs.asked_sites(patiently(self.status, tell)["connected"], without)

    def run(self, job: Job, tell: Tell, *, resume: bool) -> tuple[Path, dict[str, Any]]:
        """Run a job on the server; Ctrl-C stops it there and raises KeyboardInterrupt.

        It is a FederationError if the server cannot be told to stop it.
        """
        job.make_method()  # what is wrong with it is told here and now
        request = {"job": asdict(job), "resume": resume}
        if (size := len(json.dumps(request))) > MAX_JOB:
            raise ParameterError(
                f"The job has {size:,} bytes; an operator may send {MAX_JOB:,}. Start the run on "
                "the server's machine."
            )
        with self._connected(tell) as client:
            folder = self._start_and_follow(client, job, request, tell)
        try:
            return jobs.finished(folder)
        except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, FedJigsawError):
                raise
            raise self._nonsense() from error

    def _start_and_follow(
        self, client: httpx.Client, job: Job, request: Mapping[str, Any], tell: Tell
    ) -> Path:
        """Start a run, follow it to its end, and return the folder with what it left."""
        results, name, asked = self._results(), "", False

        def start() -> None:
            nonlocal name, asked
            with holding_signals():  # only by its name can the run be stopped
                asked = True
                try:
                    name = self._start(client, request)
                    return
                except UnsentError as error:
                    asked, unsent = False, error
            raise unsent  # outside, where Ctrl-C that was held comes first

        try:
            patiently(start, tell)
            folder = results / name
            folder.mkdir()
            job.save(folder)
            sizes = self._follow(client, name, tell)
        except KeyboardInterrupt as stop:
            if asked and not name:  # somebody did not wait for the answer
                raise self._unanswered() from stop
            if name:  # otherwise it was not started
                with ignoring_signals():
                    self._stop(client, name)
            raise
        for file in FILES:
            if file in sizes:
                patiently(partial(self._fetch, client, name, file, folder / file), tell)
        return folder

    def stop(self, name: str) -> dict[str, Any]:
        """Stop a run of this operator, wherever it was started, and return how it ended."""
        with self._connected() as client:
            try:
                found = self._ask(client, STOP, {"run": name})
            except NoRunError as error:
                known = self._ask(client, STATUS, {}).get("runs")
                known = known if isinstance(known, dict) else {}
                raise stopping.unknown_run(name, known) from error
        if not isinstance(found.get("stopped"), bool):
            raise self._nonsense()
        return found

    def _start(self, client: httpx.Client, request: Mapping[str, Any]) -> str:
        """Start a run, and return its name.

        A request that may have arrived is not sent again: it would start another run.
        """
        try:
            name = self._ask(client, START, request).get("run")
        except UnsentError:
            raise
        except LostError as error:
            raise self._unanswered() from error
        if not isinstance(name, str) or not jobs.NAME.fullmatch(name):
            raise self._nonsense()
        return name

    def _stop(self, client: httpx.Client, name: str) -> None:
        try:
            self._ask(client, STOP, {"run": name})
        except FedJigsawError as error:
            raise FederationError(
                f"{error} So it could not be told to stop run {name}, which may go on there and "
                f"ask sites. Stop it later: fedjigsaw federation stop {quote(str(self.folder))} "
                f"{name}"
            ) from error

    def _results(self) -> Path:
        """Return the folder for results: `runs`, or a temporary one where that is read-only."""
        runs = self.folder / "runs"
        try:
            runs.mkdir(exist_ok=True)
            if os.access(runs, os.W_OK):
                return runs
        except OSError:
            pass
        self._temporary = TemporaryDirectory(prefix="fedjigsaw-")  # as long as this object
        return Path(self._temporary.name)

    def _follow(self, client: httpx.Client, name: str, tell: Tell) -> Mapping[str, int]:
        """Tell the events of a run as they happen; return the sizes of its files at the end."""
        seen = 0
        while True:
            ask = partial(self._ask, client, EVENTS, {"run": name, "from": seen})
            found = patiently(ask, tell)
            events, state, files = (found.get(key) for key in ("events", "state", "files"))
            if not isinstance(events, list) or not isinstance(files, dict):
                raise self._nonsense()
            for event in events:
                tell(self._read_event(event))
            seen += len(events)
            if not events and state == "done":
                return files
            if not events and state != "running":
                raise FederationError(jobs.NO_RESULT)
            if state == "running":
                sleep(POLL_SECONDS)

    def _read_event(self, event: object) -> dict[str, Any]:
        if not isinstance(event, dict):
            raise self._nonsense()
        words = {key: str(event.get(key, "")) for key in ("event", "site", "detail")}
        return {"time": event.get("time"), **words}

    # ------------------------------------------------------------------------------------- requests

    @contextmanager
    def _connected(self, tell: Tell | None = None) -> Iterator[httpx.Client]:
        """Connect to the server, whose certificate must be that of the federation.

        Parameters
        ----------
        tell : wait for a server that does not answer, and tell it; None does not wait.
        """
        host, port = self.settings.host, self.settings.port
        if tell is None:
            self._greet()
        else:
            patiently(self._greet, tell)
        context = ssl.create_default_context(cafile=self.folder / CA)
        place = f"[{host}]" if ":" in host else host
        with httpx.Client(
            base_url=f"https://{place}:{port}", verify=context, trust_env=False, timeout=30.0
        ) as client:
            yield client

    def _greet(self) -> None:
        """Raise a LostError if nobody answers, a FederationError if it is another server."""
        if not processes.answers(self.settings.host, self.settings.port, self.folder / CA):
            raise LostError(f"{self.where} does not answer.")

    def _ask(self, client: httpx.Client, verb: str, content: Any) -> dict[str, Any]:
        """Return an answer in JSON."""
        with self._request(client, verb, content) as response:
            found = self._json(response)
        if response.status_code != 200:
            raise self._refused(response, found)
        return found

    def _fetch(self, client: httpx.Client, run: str, name: str, path: Path) -> None:
        """Fetch a file of a run, whole or not at all."""
        size = 0
        with (
            self._request(client, FILE, {"run": run, "name": name}) as response,
            open_whole(path, private=True) as file,
        ):
            if response.status_code != 200:
                raise self._refused(response, {})
            for part in response.iter_raw():
                size += len(part)
                if size > MAX_FILE:
                    raise MessageError(f"{self.where} sent a file over {MAX_FILE} bytes.")
                file.write(part)

    @contextmanager
    def _request(self, client: httpx.Client, verb: str, content: Any) -> Iterator[httpx.Response]:
        """Send a signed request; once more if the server was started anew since the last one."""
        for _ in range(2):
            body, path = json.dumps(content).encode(), PATH + verb
            headers = sign(self.key, path, body, self.word) | {"accept-encoding": "identity"}
            try:
                with client.stream("POST", path, content=body, headers=headers) as response:
                    if response.status_code != STALE:
                        yield response
                        return
                    self.word = str(self._json(response).get("word"))
            except httpx.HTTPError as error:
                before = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                kind, reason = UnsentError if before else LostError, type(error).__name__
                raise kind(f"{self.where} does not answer ({reason}).") from error
        raise self._nonsense()

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        """Read an answer; one that is empty, as a refusal at the gate is, has no content."""
        content = b""
        for part in response.iter_raw():
            content += part
            if len(content) > MAX_ANSWER:
                raise MessageError(f"{self.where} sent an answer over {MAX_ANSWER} bytes.")
        if response.status_code not in (200, BAD, STALE):  # not ours
            return {}
        try:
            found = json.loads(content or b"{}")
        except (ValueError, RecursionError) as error:
            raise self._nonsense() from error
        if not isinstance(found, dict):
            raise self._nonsense()
        return found

    # --------------------------------------------------------------------------------------- errors

    def _unanswered(self) -> FederationError:
        return FederationError(
            f"{self.where} was asked to start the run, and has not answered: it may have done so. "
            f"`fedjigsaw federation status {quote(str(self.folder))}` lists runs, and `fedjigsaw "
            "federation stop` stops them."
        )

    def _nonsense(self) -> MessageError:
        return MessageError(f"{self.where} sent an answer that cannot be used.")

    def _refused(self, response: httpx.Response, found: Mapping[str, Any]) -> FedJigsawError:
        """Return the error that a refusal means."""
        status, name = response.status_code, self.settings.name
        if status == BAD and type(found.get("exit_code")) is int and "error" in found:
            return jobs.error_of(found)
        if status in (TOO_MANY, 503):  # of its gate
            return UnsentError(f"{self.where} has too many requests; it takes more in a minute.")
        if status == UNKNOWN:
            reason = f"does not know the key of operator {name}: it was removed. Ask for a new one."
        elif status == UNSIGNED and (apart := _apart(response)) > TOLERANCE / 2:
            reason = f"refused operator {name}: the clocks differ by {apart:.0f} s. Set them right."
        elif status == UNSIGNED:
            reason = f"refused the signature of operator {name}."
        elif status == MISSING:
            return NoRunError(f"{self.where} knows no such run.")
        else:
            reason = f"could not answer (status {status}); see flower.log there."
        return FederationError(f"{self.where} {reason}")


def patiently(call: Callable[[], T], tell: Tell) -> T:
    """Call a function; while the server does not answer, tell so and call it again, for a while.

    Only for what may be done twice.
    """
    deadline, wait = monotonic() + PATIENCE, FIRST_WAIT
    while True:
        try:
            return call()
        except LostError as error:
            wait = min(wait, LONGEST_WAIT, deadline - monotonic())
            if wait <= 0:
                raise
            detail = f"{error} Asking again in {wait:.0f} s."
            tell({"event": "waiting", "site": "the server", "detail": detail})
        sleep(wait)
        wait *= 2


def _apart(response: httpx.Response) -> float:
    """Return how many seconds the clocks of the server and of this machine differ."""
    with suppress(KeyError, ValueError, TypeError):
        return abs(parsedate_to_datetime(response.headers["date"]).timestamp() - time())
    return 0.0
