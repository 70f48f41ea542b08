"""Stop a run by its name, and list those that can be: all that have not ended.

A run is stopped by its result, which says so: whoever follows the run reads it, and the process
that does the work looks for it and ends. Flower is told as well, so that it asks no more sites.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fedjigsaw.errors import ParameterError, did_you_mean
from fedjigsaw.flower import jobs
from fedjigsaw.flower.folders import RUNNING, RUNS
from fedjigsaw.io.atomic import remove_unfinished

STOPPED = "The run was stopped by the coordinator."
WATCH_SECONDS = 0.5


def stop(home: Path, name: str) -> dict[str, Any]:
    """Stop a run of the server on this machine, and return how it ended, for JSON.

    Nothing happens to a run that has ended. One of a server that is not running is marked as
    stopped, too.

    Parameters
    ----------
    home : the server's folder.

    Returns
    -------
    dict
        `run`, its name; `stopped`, whether this call stopped it; `error`, None if it has a model.
    """
    if not jobs.NAME.fullmatch(name) or not jobs.job_folder(home, name).is_dir():
        advice = did_you_mean(name, open_runs(home))
        advice = advice or "`fedjigsaw federation status` lists those to stop."
        raise ParameterError(f"There is no run {name!r}. {advice}")
    folder = jobs.job_folder(home, name)
    code = jobs.StoppedError.exit_code
    stopped = jobs.write_result(folder, error=STOPPED, exit_code=code)
    # again if an earlier call could not tell Flower
    if was_stopped(folder) and (home / RUNNING).exists():
        with jobs.control(home) as client:
            for number in client.runs_of(name):
                client.stop_run(number)
    return {"run": name, "stopped": stopped, "error": jobs.read_result(folder).get("error")}


def was_stopped(folder: Path) -> bool:
    """Tell whether a run has ended because somebody stopped it."""
    try:
        return jobs.read_result(folder).get("exit_code") == jobs.StoppedError.exit_code
    except (OSError, ValueError):
        return False


def open_runs(home: Path) -> dict[str, dict[str, Any]]:
    """Return the runs that have not ended: name -> method, number of clusters."""
    found = {}
    for folder in sorted((home / RUNS).glob("*-*-*")):
        if (folder / jobs.RESULT).exists():
            continue
        job = _values(folder / jobs.JOB)
        found[folder.name] = {name: job.get(name) for name in ("method", "n_clusters")}
    return found


def _values(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# --------------------------------------------------------------------- in the process that works


@contextmanager
def watched(folder: Path, end: Callable[[], object]) -> Iterator[None]:
    """Call `end`, in a thread, if the run of a folder is stopped before the block ends.

    A method may compute for hours, and only the process itself can be asked to end.
    """
    done = Event()

    def watch() -> None:
        while not done.wait(WATCH_SECONDS):
            if was_stopped(folder):
                end()
                return

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def end_process() -> None:
    """End this process at once, whatever it is doing, and leave no file half-written."""
    remove_unfinished()
    os._exit(0)
