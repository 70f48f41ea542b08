"""Runs the jobs of a study on several cores, and keeps every finished one as a line of JSON.

An interrupted run loses nothing that was finished: the next one computes only what is missing.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from fedjigsaw import datasets
from fedjigsaw._threads import one_thread
from fedjigsaw.bench.cells import run
from fedjigsaw.bench.generated import GENERATED
from fedjigsaw.bench.studies import Job
from fedjigsaw.errors import DataError
from fedjigsaw.io.locks import locked
from fedjigsaw.io.rows import Row, append_row, read_rows, write_rows


def key_of(row: Row) -> str:
    """Which job a row belongs to."""
    return f"{row.get('table')}/{row.get('cell')}/{row.get('seed')}"


def result_file(folder: Path, study: str) -> Path:
    return folder / f"{study}.jsonl"


def finished(jobs: Sequence[Job], folder: Path) -> dict[str, Row]:
    """Key -> row of the jobs that are done.

    A row that was made when a cell of this name meant something else does not count.
    """
    by_key = {job.key: job for job in jobs}
    rows = (row for name in _studies(jobs) for row in read_rows(result_file(folder, name)))
    keyed = ((key_of(row), row) for row in rows)
    return {key: row for key, row in keyed if key in by_key and by_key[key].made(row)}


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """The jobs that have no row yet."""
    done = finished(jobs, folder)
    return [job for job in jobs if job.key not in done]


def forget(jobs: Sequence[Job], folder: Path) -> None:
    """Delete all rows of these jobs' studies, once it is sure that new ones can be made."""
    for name in {job.cell.dataset for job in jobs}:
        _read(name)
    with _alone(_studies(jobs), folder):
        for study in _studies(jobs):
            result_file(folder, study).unlink(missing_ok=True)


def run_jobs(
    jobs: Sequence[Job],
    folder: Path,
    *,
    n_jobs: int | None = None,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Compute the jobs that have no row yet, and write each row as soon as it is done.

    A job that fails does not stop the others; all failures are told at the end.

    Parameters
    ----------
    n_jobs : worker processes; None is one per core.
    progress : called after each job.
    """
    if not missing(jobs, folder):  # then a folder that cannot be written to will do
        return
    with _alone(_studies(jobs), folder):
        todo = missing(jobs, folder)
        for study in _studies(todo):  # a torn last line goes before anything is added
            path = result_file(folder, study)
            write_rows(path, read_rows(path))
        failures = []
        pool = ProcessPoolExecutor(n_jobs or os.cpu_count(), mp_context=get_context("spawn"))
        try:
            futures = {pool.submit(compute, job): job for job in todo}
            for future in as_completed(futures):
                job = futures[future]
                try:
                    append_row(result_file(folder, job.study), future.result())
                except Exception as error:  # whatever it was, the other cells are not to blame
                    failures.append(f"{job.key}: {error}")
                progress()
        finally:
            pool.shutdown(cancel_futures=True)
        for study in _studies(todo):
            _put_in_order(result_file(folder, study), [job for job in jobs if job.study == study])
    if failures:
        raise DataError(f"{len(failures)} of {len(todo)} cells failed. The first: {failures[0]}")


def compute(job: Job) -> Row:
    """One row; runs in a worker."""
    with one_thread():  # more threads would only fight with the other workers for the cores
        _, row = run(job.cell, _load(job.cell.dataset), job.extra)
    return {"table": job.study, "cell": job.name, **row}


def _read(name: str) -> datasets.Dataset:
    return GENERATED[name]() if name in GENERATED else datasets.load(name)


_load = cache(_read)


def _studies(jobs: Iterable[Job]) -> list[str]:
    return sorted({job.study for job in jobs})


@contextmanager
def _alone(names: Iterable[str], folder: Path) -> Iterator[None]:
    """Nobody else writes these studies' rows meanwhile: each would undo what the other wrote."""
    with ExitStack() as stack:
        for name in names:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(folder / f".{name}.lock"))
            except BlockingIOError:
                raise DataError(
                    f"Another run is writing {result_file(folder, name)}. "
                    "Wait until it has ended, or choose another folder."
                ) from None
            except OSError as error:
                raise DataError(f"No rows can be written to {folder}: {error.strerror}.") from error
        yield


def _put_in_order(path: Path, jobs: Sequence[Job]) -> None:
    """Rows in the order of the jobs, whichever worker was first; rows of other jobs at the end."""
    place = {job.key: i for i, job in enumerate(jobs)}
    rows = {key_of(row): row for row in read_rows(path)}
    ordered = sorted(rows.values(), key=lambda row: place.get(key_of(row), len(place)))
    write_rows(path, ordered)
