"""Clients in worker processes of one machine or of a cluster, through joblib."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from fedjigsaw.engine import CONFIGURATION_ERRORS, Client, Reply, replies
from fedjigsaw.kernels.backends import VARIABLE
from fedjigsaw.messages import Broadcast, Failure
from fedjigsaw.parameters import integer
from fedjigsaw.threads import one_thread

WORKER_DIED = "its worker process ended abruptly (out of memory, or a crash in compiled code)"
DEATHS = ("KilledWorker", "ActorDiedError")  # those of Dask and Ray, which may not be installed
BLOCKS_PER_WORKER = 4  # few messages for many small clients, and still an even load

Block = Sequence[Client]
Task = tuple[int, Any, bytes, str | None]  # number of a block, where it is, what to answer, how
Outcome = tuple[int, list[Reply] | Exception]


class ProcessEngine:
    """Run clients in worker processes, one thread each.

    joblib runs the workers: processes of this machine or, inside
    ``with joblib.parallel_config(backend="dask")``, those of a cluster. Rows are handed over once,
    however many rounds there are: workers of this machine map them from a temporary file, those of
    a Dask cluster keep them until the engine's ``with`` block ends. Classes and functions may be
    defined in a notebook or script.

    The workers of this machine are kept for the next fit, and end when they were idle for five
    minutes. A client whose worker dies fails, and no other does.

    Parameters
    ----------
    clients : sequence of Client
    n_jobs : int or None
        Number of workers. None is that of joblib's configuration or else one per core, and at most
        one per client. A cluster uses all of its workers.

    Raises
    ------
    ParameterError
        If `n_jobs` is not an integer >= 1 or None.

    Examples
    --------
    >>> from functools import partial
    >>> from fedjigsaw import Jigsaw, ProcessEngine
    >>> two = partial(ProcessEngine, n_jobs=2)
    >>> rows, site = [[30.0], [32.0], [60.0], [62.0]], ["Bern", "Oslo", "Bern", "Oslo"]
    >>> model = Jigsaw(2, random_state=0).fit(rows, clients=site, engine=two)  # doctest: +SKIP
    >>> model.cluster_centers_.tolist()  # doctest: +SKIP
    [[31.0], [61.0]]
    """

    def __init__(self, clients: Sequence[Client], *, n_jobs: int | None = None) -> None:
        integer(1, or_none=True).check("n_jobs", "ProcessEngine", n_jobs)
        self.clients = clients
        self.n_jobs = n_jobs
        self._placed: list[tuple[Block, Any]] = []  # blocks of clients, and where workers find them
        self._folder: TemporaryDirectory[str] | None = None

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        """Ask all clients, in blocks, in worker processes."""
        if not self._placed:
            size = max(1, len(self.clients) // (BLOCKS_PER_WORKER * self._workers()))
            starts = range(0, len(self.clients), size)
            blocks = [self.clients[start : start + size] for start in starts]
            self._placed = [(block, self._place(block)) for block in blocks]
        asked = [block for block, _ in self._placed]
        outcomes = self._send([place for _, place in self._placed], broadcast)
        if any(isinstance(outcome, Exception) for outcome in outcomes):
            self._forget()  # what a worker kept may be lost with it
        found: list[Reply] = []
        for block, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Exception):
                found += self._ask_alone(block, broadcast)
            else:
                found += outcome
        return found

    def _ask_alone(self, block: Block, broadcast: Broadcast) -> list[Reply]:
        """Ask clients whose answers were lost, with no others at work; halve the block if needed.

        The death of a worker can take all answers down that are under way, so that only a client
        that was alone is known to be the cause.
        """
        (outcome,) = self._send([self._place(block)], broadcast)
        if not isinstance(outcome, Exception):
            return outcome
        self._forget()
        if len(block) > 1:
            half = len(block) // 2
            first, second = block[:half], block[half:]
            return self._ask_alone(first, broadcast) + self._ask_alone(second, broadcast)
        if isinstance(outcome, BrokenProcessPool) or type(outcome).__name__ in DEATHS:
            return [Failure(block[0].id, WORKER_DIED)]
        return [Failure(block[0].id, f"{type(outcome).__name__}: {outcome}", cause=outcome)]

    def _send(self, places: Sequence[Any], broadcast: Broadcast) -> list[list[Reply] | Exception]:
        """Ask blocks of clients side by side; return the replies of each, or what went wrong."""
        import cloudpickle

        sent, setting = cloudpickle.dumps(broadcast), os.environ.get(VARIABLE)
        outcomes: dict[int, Any] = {
            i: place for i, place in enumerate(places) if isinstance(place, Exception)
        }
        tasks = [(i, place, sent, setting) for i, place in enumerate(places) if i not in outcomes]
        try:
            dask = _dask_client()
            run = _by_joblib(tasks, self._workers()) if dask is None else _by_dask(tasks, dask)
            outcomes.update(run)
        except Exception as error:
            outcomes = dict.fromkeys(range(len(places)), error) | outcomes
        return [outcomes[i] for i in range(len(places))]

    def _workers(self) -> int:
        backend, configured = _active_backend()
        usable: int = backend.effective_n_jobs(self.n_jobs or configured or -1)
        return max(1, min(usable, len(self.clients)))

    def _place(self, block: Block) -> Any:
        """Put a block where workers find it; return where, or the error if it cannot travel."""
        import cloudpickle
        import joblib

        buffers: list[Any] = []
        try:  # all but the arrays, and then these as they are
            head = cloudpickle.dumps(block, protocol=5, buffer_callback=buffers.append)
        except Exception as error:
            return error
        parts = [np.frombuffer(part, np.uint8) for part in (head, *(b.raw() for b in buffers))]
        if _is_loky():
            path = Path(self._shared_folder(), str(len(os.listdir(self._shared_folder()))))
            joblib.dump(parts, path)
            return str(path)
        dask = _dask_client()
        # a task, not scattered data: if its worker dies, another one gets the rows
        return parts if dask is None else dask.submit(list, parts, pure=False)

    def _shared_folder(self) -> str:
        """Return a temporary folder, which is removed even if this process is killed."""
        from joblib.externals.loky.backend import resource_tracker

        if self._folder is None:
            place = os.environ.get("JOBLIB_TEMP_FOLDER")
            self._folder = TemporaryDirectory(
                prefix="fedjigsaw-", dir=place, ignore_cleanup_errors=True
            )
            resource_tracker.register(self._folder.name, "folder")
        return self._folder.name

    def _forget(self) -> None:
        from joblib.externals.loky.backend import resource_tracker

        self._placed = []
        if self._folder is not None:
            self._folder.cleanup()
            resource_tracker.unregister(self._folder.name, "folder")
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._forget()


def _active_backend() -> tuple[Any, int | None]:
    from joblib.parallel import get_active_backend

    found: tuple[Any, int | None] = get_active_backend()
    return found


def _is_loky() -> bool:
    return type(_active_backend()[0]).__name__ == "LokyBackend"


def _dask_client() -> Any:
    """Return the client of the Dask cluster that joblib is configured for, or None."""
    backend, _ = _active_backend()
    return backend.client if type(backend).__name__ == "DaskDistributedBackend" else None


def _by_joblib(tasks: Sequence[Task], workers: int) -> Iterator[Outcome]:
    """Run tasks in any order; raise if a worker dies."""
    from joblib import Parallel, delayed, parallel_config

    options = {"backend": "loky", "inner_max_num_threads": 1} if _is_loky() else {}
    streams = getattr(_active_backend()[0], "supports_return_generator", False)
    with one_thread(), parallel_config(**options):
        run = Parallel(
            max(2, workers),  # one worker would be this process, which must not die with a client
            batch_size=1,
            pre_dispatch=1 if workers == 1 else "all",
            return_as="generator_unordered" if streams else "list",
        )
        yield from run(delayed(_reply)(*task) for task in tasks)


def _by_dask(tasks: Sequence[Task], client: Any) -> Iterator[Outcome]:
    """Run tasks in any order. joblib itself would wait forever for a worker that died."""
    from distributed import as_completed

    futures = {client.submit(_reply, *task, pure=False): task[0] for task in tasks}
    for future in as_completed(futures):  # type: ignore[no-untyped-call]
        try:
            yield future.result()
        except Exception as error:
            yield futures[future], error


def _reply(number: int, place: Any, sent: bytes, backend: str | None) -> tuple[int, list[Reply]]:
    """Ask the clients of a block, in a worker."""
    import cloudpickle
    import joblib

    if backend is not None:  # workers outlive a change of the environment
        os.environ[VARIABLE] = backend
    else:
        os.environ.pop(VARIABLE, None)
    head, *arrays = joblib.load(place, mmap_mode="r") if isinstance(place, str) else place
    clients: Block = cloudpickle.loads(head, buffers=arrays)
    return number, list(_without_cause(replies(clients, cloudpickle.loads(sent))))


def _without_cause(found: Iterable[Reply]) -> Iterator[Reply]:
    """Drop exceptions, which may not survive pickling; keep configuration errors."""
    for reply in found:
        if isinstance(reply, Failure) and not isinstance(reply.cause, CONFIGURATION_ERRORS):
            reply = replace(reply, cause=None)
        yield reply
