"""Run the tasks of studies on several cores, and keep each result as a JSON line.

An interrupted run loses nothing that was finished: the next one computes only what is missing.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from fedjigsaw._locks import locked
from fedjigsaw._threads import one_thread
from fedjigsaw.bench.cells import Cell, run_cell
from fedjigsaw.bench.generated import load_any
from fedjigsaw.bench.study import Task
from fedjigsaw.errors import DataError, unwritable
from fedjigsaw.io.rows import Row, append_row, read_rows, write_rows


def key_of(row: Row) -> str:
    """Return the key of the task that a row belongs to."""
    return f"{row.get('table')}/{row.get('cell')}/{row.get('seed')}"


def result_file(folder: Path, study: str) -> Path:
    """Return the file of a study's rows."""
    return folder / f"{study}.jsonl"


def finished(tasks: Sequence[Task], folder: Path) -> dict[str, Row]:
    """Return key -> row of the finished tasks.

    A row that was computed when a cell of this name meant something else does not count.
    """
    by_key = {task.key: task for task in tasks}
    rows = (row for name in _studies(tasks) for row in read_rows(result_file(folder, name)))
    keyed = ((key_of(row), row) for row in rows)
    return {key: row for key, row in keyed if key in by_key and by_key[key].made(row)}


def missing(tasks: Sequence[Task], folder: Path) -> list[Task]:
    """Return the tasks that have no row yet."""
    done = finished(tasks, folder)
    return [task for task in tasks if task.key not in done]


def computable(tasks: Sequence[Task], folder: Path) -> list[Task]:
    """Return the tasks that have no row yet, and lack no package."""
    return [task for task in missing(tasks, folder) if not task.lacks()]


def delete_rows(tasks: Sequence[Task], folder: Path) -> None:
    """Delete all rows of these tasks' studies, after checking that their data can be loaded."""
    for name in {task.cell.dataset for task in tasks if isinstance(task.cell, Cell)}:
        load_any(name)
    with _exclusive(_studies(tasks), folder):
        for study in _studies(tasks):
            result_file(folder, study).unlink(missing_ok=True)


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    *,
    n_jobs: int | None = None,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Compute the tasks that have no row yet, and write each row as soon as it is done.

    A task that fails does not stop the others; failures are raised at the end. A task that lacks a
    package is left out.

    Parameters
    ----------
    n_jobs : number of worker processes; None is one per core.
    progress : called after each task.
    """
    if not computable(tasks, folder):  # nothing to write: a read-only folder will do
        return
    with _exclusive(_studies(tasks), folder):
        todo = computable(tasks, folder)
        for study in _studies(todo):  # remove a torn last line before appending
            path = result_file(folder, study)
            write_rows(path, read_rows(path))
        failures = []
        pool = ProcessPoolExecutor(n_jobs or os.cpu_count(), mp_context=get_context("spawn"))
        try:
            futures = {pool.submit(compute, task): task for task in todo}
            for future in as_completed(futures):
                task = futures[future]
                try:
                    append_row(result_file(folder, task.study), future.result())
                except Exception as error:  # other cells may succeed
                    failures.append(f"{task.key}: {error}")
                progress()
        finally:
            pool.shutdown(cancel_futures=True)
        for study in _studies(todo):
            _sort_rows(result_file(folder, study), [task for task in tasks if task.study == study])
    if failures:
        raise DataError(f"{len(failures)} of {len(todo)} cells failed. The first: {failures[0]}")


def compute(task: Task) -> Row:
    """Compute one row; runs in a worker."""
    with one_thread():  # workers already use all cores
        if isinstance(task.cell, Cell):
            _, row = run_cell(task.cell, _load(task.cell.dataset), task.extra, task.backend)
        else:
            row = task.cell.compute()
    return {"table": task.study, "cell": task.name, **row}


_load = cache(load_any)


def _studies(tasks: Iterable[Task]) -> list[str]:
    return sorted({task.study for task in tasks})


@contextmanager
def _exclusive(names: Iterable[str], folder: Path) -> Iterator[None]:
    """Lock the files of these studies: two runs would overwrite each other's rows."""
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
                raise DataError(unwritable(folder, error)) from error
        yield


def _sort_rows(path: Path, tasks: Sequence[Task]) -> None:
    """Sort rows in the order of the tasks, with rows of other tasks at the end."""
    place = {task.key: i for i, task in enumerate(tasks)}
    rows = {key_of(row): row for row in read_rows(path)}
    ordered = sorted(rows.values(), key=lambda row: place.get(key_of(row), len(place)))
    write_rows(path, ordered)
