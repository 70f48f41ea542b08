"""Jobs: configuration, events and result of a run.

Flower returns nothing to the program that submits a run. So a job is a folder at the server:
``job.json`` says what to do; the server's half of the app appends a line to ``events.jsonl`` for
each event, and writes ``model`` and ``result.json`` at the end. No two runs share a folder. A run
for images also keeps a ``checkpoint`` there after every round, until its model was received.
"""

import json
import logging
import re
import secrets
from _thread import interrupt_main
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from time import monotonic, sleep, time
from typing import Any, Self

import httpx

from fedjigsaw.engine import FederatedMethod
from fedjigsaw.errors import FederationError, FedJigsawError, ParameterError, counted, invalid
from fedjigsaw.flower import job_tasks, renewal
from fedjigsaw.flower.doors import SECRET_HEADER
from fedjigsaw.flower.folders import APP, CA, RUNNING, RUNS, SERVER_LOG, ServerSettings
from fedjigsaw.flower.logs import log_of_server, told
from fedjigsaw.flower.members import read_revoked
from fedjigsaw.flower.patches import START_TIME, Control
from fedjigsaw.io.atomic import write_json
from fedjigsaw.io.rows import append_row, read_rows
from fedjigsaw.messages import MAX_TIMEOUT, OWN, SHARED
from fedjigsaw.methods import build
from fedjigsaw.parameters import integer, one_of, real
from fedjigsaw.records.signals import ignoring_signals
from fedjigsaw.validation import MAX_COUNT

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())  # `run --ask none` has no log: nothing on its screen

EVENTS, RESULT, MODEL, CHECKPOINT = "events.jsonl", "result.json", "model", "checkpoint"
ALL, NEW, NONE = "all", "new", "none"  # whom a run asks
Tell = Callable[[Mapping[str, Any]], object]
JOB = "job.json"
STOPPED = "The run was stopped."
# the first tells of a full disk, the second of an app that could not start or was killed
NO_RESULT = "The run ended without a result; see server.log at the server, then flower.log."
NOT_STARTED = (
    f"The server did not start the run within {START_TIME.total_seconds():.0f} s; see flower.log "
    "there, and start the server again."
)
GO_ON = "The rounds so far are kept: add --resume to go on after them."
NAME = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")


class StoppedError(FedJigsawError):
    """The run was stopped by somebody else; with the exit code of one that Ctrl-C stops."""

    exit_code = 130


@dataclass(frozen=True)
class Job:
    """Configuration of a run.

    Parameters
    ----------
    method, n_clusters, params, seed : the method by its name, and its parameters.
    min_sites : smallest number of sites that must answer in every round; None is all of them.
    timeout : seconds that a site has to answer in each round.
    wait : seconds to wait for sites that are not connected yet.
    without : names of sites that take no part.
    ask : whom to ask: "all"; "new" for sites without a kept summary; or "none".
    keep : whether to keep the summaries of this run.
    retries : how often sites that were lost, late or not connected are asked again.
    scale, scaler : whether to make a scaler of statistics of the sites first, or one that is there.
    score, assign : whether to collect scores of the model, and to send it to the sites for labels.
    like : the model before, whose cluster ids the scored and sent one has.
    strict : whether no model is published if a site is unlike all others.
    cells : which cells sites under differential privacy describe.
    """

    method: str
    n_clusters: Any
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    min_sites: int | None = None
    timeout: float = 600.0
    wait: float = 60.0
    without: Sequence[str] = ()
    ask: str = ALL
    keep: bool = True
    retries: int = 0
    scale: bool = False
    scaler: Mapping[str, Any] | None = None
    score: bool = False
    assign: bool = False
    like: str | None = None
    strict: bool = False
    cells: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MAX_COUNT:
            raise ParameterError(invalid("seed", "a run", f"from 0 to {MAX_COUNT}", self.seed))
        integer(1, or_none=True).check("min_sites", "a run", self.min_sites)
        real(0, MAX_TIMEOUT, inclusive=False).check("timeout", "a run", self.timeout)
        real(0).check("wait", "a run", self.wait)
        one_of(ALL, NEW, NONE).check("ask", "a run", self.ask)
        if self.cells is not None:
            one_of(OWN, SHARED).check("cells", "a run", self.cells)
        integer(0, 100).check("retries", "a run", self.retries)
        job_tasks.check_tasks(self)

    def make_method(self) -> FederatedMethod:
        """Make the method; raise a ParameterError if the method cannot run over a network."""
        for name, flag in (("n_clusters", "-k"), ("random_state", "--seed")):
            if name in self.params:
                raise ParameterError(f"Set {name} with {flag}, not with -p.")
        own = {"n_clusters": self.n_clusters, "random_state": self.seed}
        method = build(self.method, {**self.params, **own})
        method.check_federated()
        job_tasks.check_rows(self, method.data_kind)
        return method

    def is_same(self, other: "Job") -> bool:
        """Tell whether both jobs lead to the same model: whom to wait for, how long, is no part."""
        names = ("method", "n_clusters", "params", "seed", "cells")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def save(self, folder: Path) -> None:
        write_json(folder / JOB, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(**json.loads((folder / JOB).read_text()))


def new_job_folder(home: Path) -> Path:
    """Make the folder of a new job."""
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    folder = home / RUNS / name
    folder.mkdir(parents=True)
    return folder


def job_folder(home: Path, name: str) -> Path:
    """Return the folder of a job. Any other name, such as a path, is a ParameterError."""
    if not NAME.fullmatch(name):
        raise ParameterError(invalid("name", "a job", "like 20260131-235959-0123abcd", repr(name)))
    return home / RUNS / name


# ---------------------------------------------------------- written by the server's half of the app


def append_event(folder: Path, event: str, site: str, detail: str) -> None:
    row = {"time": time(), "event": event, "site": site, "detail": detail}
    append_row(folder / EVENTS, row)
    # details may quote what a site sent
    found = told(event, site=site, run=folder.name)
    logger.info("run %s: %s %s", folder.name, event, site, extra=found)


def write_result(folder: Path, *, replace: bool = False, **result: Any) -> bool:
    """Write how a run ended, and return whether that counts: the first result does."""
    try:
        write_json(folder / RESULT, result, replace=replace)
    except FedJigsawError:
        if (folder / RESULT).exists():  # it was stopped in the meantime
            return False
        found = told("run_unwritten", run=folder.name)
        logger.error("cannot write %s: is the disk full?", folder / RESULT, extra=found)
        raise
    _log_end(folder, **result)
    return True


def _log_end(folder: Path, **result: Any) -> None:
    """Write to the server's log how a run ended, also from the process of whoever stopped it."""
    code = result.get("exit_code", 0)
    found = told("run_ended", run=folder.name, exit_code=code)
    level, what = (logging.ERROR if code else logging.INFO), "has ended"
    if code == StoppedError.exit_code:
        level, what = logging.WARNING, "was stopped"
    home = folder.parents[1]
    with log_of_server(home / SERVER_LOG, home / RUNNING):
        for text in result.get("strange", ()):
            logger.warning("run %s: %s", folder.name, text, extra=told("strange", run=folder.name))
        logger.log(level, "run %s %s", folder.name, what, extra=found)


def write_end(folder: Path, error: str, exit_code: int) -> None:
    """Write how a run ended without a model, unless it has a result."""
    write_result(folder, error=error, exit_code=exit_code)


# ------------------------------------------------------------------------ read by `federation run`


def _start(home: Path) -> str:
    return f"Start it with `fedjigsaw federation server {quote(str(home.parent))}`."


@contextmanager
def control(home: Path) -> Iterator[Control]:
    """Connect to the control API of the running server on this machine."""
    try:
        running = json.loads((home / RUNNING).read_text())
        port, secret = int(running["control_port"]), str(running["secret"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FederationError(
            f"The server of {home} is not running on this machine. {_start(home)}"
        ) from error
    client = Control(port, (home / CA).read_bytes(), {SECRET_HEADER.decode(): secret})
    try:
        yield client
    except httpx.HTTPError as error:
        reason = type(error).__name__
        # one that was killed could not say that it ended, also in the middle of an answer
        gone = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
        advice = f" It may have ended. {_start(home)}" * gone
        if invalid_now := renewal.why_invalid(home):
            reason, advice = invalid_now, ""
        raise FederationError(
            f"The server of {home} does not answer ({reason}).{advice}"
        ) from error
    finally:
        client.close()


def run_job(
    home: Path,
    job: Job,
    tell: Tell = lambda event: None,
    *,
    resume: bool = False,
) -> tuple[Path, dict[str, Any]]:
    """Run a job on the server of this machine. Return the model's file and the transcript.

    Ctrl-C stops the run at the server and raises KeyboardInterrupt.

    Parameters
    ----------
    home : the server's folder.
    tell : called with each event of the run: a mapping with `time`, `event`, `site`, `detail`.
    resume : whether to go on from the checkpoint of an earlier run of the same job.
    """
    from fedjigsaw.flower import resuming  # which needs this module

    if job.make_method().data_kind != "images" and resume:
        raise ParameterError(
            f"A run of {job.method} has no checkpoint to resume from: start it again."
        )
    before = resuming.unfinished(home, job) if resume else None
    n_sites = len(active_sites(home, job.without))
    if job.min_sites is not None and job.min_sites > n_sites:
        raise ParameterError(
            f"--min-sites is {job.min_sites}, but this run has {counted(n_sites, 'site')}; "
            "sites that were revoked, or left out by --without, do not count. Lower --min-sites."
        )
    if before is not None:
        resuming.end_work(home, before)
    folder = new_job_folder(home)
    job.save(folder)
    if before is not None:
        resuming.take(before, folder)
    try:
        if job.ask == NONE:
            _do_here(home, folder, tell)
        else:
            _do_at_server(home, folder, tell)
        found = finished(folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)  # whoever started the run has its model
        return found
    # a run without a result would count as active; and if it cannot be written, the disk is full
    except KeyboardInterrupt:
        with ignoring_signals():
            write_end(folder, STOPPED, 130)
        raise
    except FedJigsawError as error:
        kept = (folder / CHECKPOINT).exists()
        text = f"{error} {GO_ON}" if kept else str(error)
        write_end(folder, text, error.exit_code)
        if not kept:
            raise
        raise type(error)(text) from error


def _do_at_server(home: Path, folder: Path, tell: Tell) -> None:
    run = None
    with control(home) as client:
        try:
            run = submit(client, home, folder)
            for event in follow(client, folder, run):
                tell(event)
        except KeyboardInterrupt:
            # without a number, the server may have the run all the same: it finds that it has ended
            with ignoring_signals():  # many press Ctrl-C twice
                if run is not None:
                    client.stop_run(run)
            raise


def _do_here(home: Path, folder: Path, tell: Tell) -> None:
    """Do a job that asks nobody: it needs no running server."""
    from fedjigsaw.flower import stopping, work  # which need this module

    with stopping.watched(folder, interrupt_main):
        work.do(home, folder, None)
    for event in read_rows(folder / EVENTS):
        tell(event)


def finished(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return model and transcript of a run that has ended; raise its error if it has none."""
    result = read_result(folder)
    if "error" in result:
        raise error_of(result)
    return folder / MODEL, result["transcript"]


def submit(client: Control, home: Path, folder: Path) -> int:
    """Start the run of a job and return its number at Flower."""
    run = client.start_run((home / APP).read_bytes(), {"job": folder.name})
    if run is None:
        raise FederationError(f"The server did not start the run; see {home}/flower.log.")
    return run


def follow(client: Control, folder: Path, run: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a run as they happen, until it has a result."""
    seen, asked = 0, monotonic()
    start_by = asked + START_TIME.total_seconds()
    ended = False
    while True:
        done = (folder / RESULT).exists()
        events = read_rows(folder / EVENTS)
        yield from events[seen:]
        seen = len(events)
        if done:
            return
        if ended:
            raise FederationError(NO_RESULT)
        if monotonic() - asked > 2:
            asked, status = monotonic(), client.status(run)
            ended = status == "finished"
            if asked > start_by and status in ("pending", "starting"):
                client.stop_run(run)
                raise FederationError(NOT_STARTED)
        sleep(0.2)


def read_result(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / RESULT).read_text())
    return result


def strange_in_last_run(home: Path) -> list[str]:
    """Return what the last run that ended tells of sites that are unlike all others."""
    with suppress(OSError, ValueError):
        ended = (home / RUNS).glob(f"*-*-*/{RESULT}")
        last = max(ended, key=lambda path: path.stat().st_mtime_ns).parent
        return [f"run {last.name}: {text}" for text in read_result(last).get("strange", ())]
    return []


def error_of(result: Mapping[str, Any]) -> FedJigsawError:
    """Return the exception that ended a run at the server, which left its text and exit code."""
    kinds = {kind.exit_code: kind for kind in FedJigsawError.__subclasses__()}
    return kinds.get(int(result["exit_code"]), FedJigsawError)(str(result["error"]))


def active_sites(home: Path, without: Sequence[str] = ()) -> list[str]:
    """Return the names of the sites whose keys are not revoked, except those in `without`."""
    sites = sorted(set(ServerSettings.load(home).sites) - set(read_revoked(home)))
    if unknown := sorted(set(without) - set(sites)):
        names, known = (", ".join(map(repr, some)) for some in (unknown, sites))
        raise ParameterError(f"There is no site {names}. Sites: {known}.")
    return [name for name in sites if name not in without]


def connected_sites(client: Control, sites: Iterable[str]) -> dict[str, bool]:
    """Return for every one of the sites whether it is connected now."""
    online = client.online()
    return {name: name in online for name in sites}
