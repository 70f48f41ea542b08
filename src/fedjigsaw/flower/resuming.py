"""Find the checkpoint of an earlier run, check it, and take it for a new one."""

from pathlib import Path

from fedjigsaw.errors import FederationError, FedJigsawError, ParameterError
from fedjigsaw.flower.folders import RUNS, ServerSettings
from fedjigsaw.flower.jobs import (
    CHECKPOINT,
    RESULT,
    Job,
    StoppedError,
    control,
    read_result,
    write_result,
)
from fedjigsaw.flower.progress import Progress


def unfinished(home: Path, job: Job) -> Path:
    """Find the folder of the latest run of a job that has ended, and whose model nobody got.

    Parameters
    ----------
    home : the server's folder.

    Raises
    ------
    FederationError
        If the server still works on that run: its checkpoint is in use.
    MessageError, ParameterError
        If there is no checkpoint, or the run cannot go on from it.
    """
    for checkpoint in sorted((home / RUNS).glob(f"*/{CHECKPOINT}"), reverse=True):
        folder = checkpoint.parent
        if Job.load(folder).is_same(job):
            if _is_at_work(home, folder):
                raise FederationError(
                    f"Run {folder.name} has not ended: stop it with `federation stop FOLDER "
                    f"{folder.name}`, or wait and try again."
                )
            _check(home, job, checkpoint)
            return folder
    raise ParameterError(
        "There is no checkpoint of a run with the same method, -k, -p and --seed. "
        "Leave out --resume to start one."
    )


def _is_at_work(home: Path, folder: Path) -> bool:
    """Tell whether the server works on a run, even if nobody follows it any more."""
    if (folder / RESULT).exists():
        return False
    with control(home) as client:
        return any(client.status(run) != "finished" for run in client.runs_of(folder.name))


def _check(home: Path, job: Job, checkpoint: Path) -> None:
    """Raise an error that says what to do if a job cannot go on from a checkpoint."""
    try:
        progress = Progress.load(checkpoint)
        progress.check_same(job.make_method(), job.seed)
        progress.check_sites(ServerSettings.load(home).sites)
    except FedJigsawError as error:
        text = str(error)
        text = text if str(checkpoint) in text else f"Cannot go on from {checkpoint}. {text}"
        raise type(error)(f"{text} Start without --resume.") from error


def end_work(home: Path, before: Path) -> None:
    """Have the server end a run that is to be gone on from, if it works on it all the same.

    Whoever followed the run lost the server, such as a busy one that did not answer in time, and
    wrote that the run has ended: two would train, and write one checkpoint.
    """
    with control(home) as client:
        going = [run for run in client.runs_of(before.name) if client.status(run) != "finished"]
        if going and "error" in read_result(before):
            # the process that does the work looks for this
            words = "The run was stopped: another one goes on from it."
            write_result(before, replace=True, error=words, exit_code=StoppedError.exit_code)
        for run in going:
            client.stop_run(run)


def take(before: Path, folder: Path) -> None:
    """Move the checkpoint of a run to the folder of the one that goes on from it."""
    (before / CHECKPOINT).replace(folder / CHECKPOINT)
    for leftover in before.glob(f".{CHECKPOINT}.*"):  # of a server that was killed while writing
        leftover.unlink(missing_ok=True)
