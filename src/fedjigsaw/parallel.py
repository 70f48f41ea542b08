"""Clients in worker processes of one machine or of a cluster, through joblib."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedjigsaw.engine import CONFIGURATION_ERRORS, Client, Reply, replies
from fedjigsaw.kernels.backends import VARIABLE
from fedjigsaw.messages import Broadcast, Failure
from fedjigsaw.parameters import integer
from fedjigsaw.threads import one_thread

WORKER_DIED = "its worker process ended abruptly (out of memory, or a crash in compiled code)"
DEATHS = ("KilledWorker", "ActorDiedError")  # those of Dask and Ray, which may not be installed
BLOCKS_PER_WORKER = 4  # few messages for many small clients, and still an even load
ALIGNMENT = 64  # bytes, of the arrays in a packed block

Block = Sequence[Client]
Packed = npt.NDArray[np.uint8]
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
        self._folder: _Folder | None = None

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        """Ask all clients, in blocks, in worker processes."""
        if not self._placed:
            self._placed = [(block, self._place(block)) for block in self._blocks()]
        blocks, places = zip(*self._placed, strict=True) if self._placed else ((), ())
        outcomes = self._send(places, broadcast)
        if any(isinstance(outcome, Exception) for outcome in outcomes):
            self._forget()  # what a worker kept may be lost with it
        replies = (
            self._ask_alone(block, broadcast) if isinstance(outcome, Exception) else outcome
            for block, outcome in zip(blocks, outcomes, strict=True)
        )
        return list(chain.from_iterable(replies))

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
            halves = (block[:half], block[half:])
            return [reply for part in halves for reply in self._ask_alone(part, broadcast)]
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

    def _blocks(self) -> list[Block]:
        size = max(1, len(self.clients) // (BLOCKS_PER_WORKER * self._workers()))
        return [self.clients[i : i + size] for i in range(0, len(self.clients), size)]

    def _workers(self) -> int:
        backend, configured = _active_backend()
        usable: int = backend.effective_n_jobs(self.n_jobs or configured or -1)
        return max(1, min(usable, len(self.clients)))

    def _place(self, block: Block) -> Any:
        """Put a block where workers find it; return where, or the error if it cannot travel."""
        try:
            parts = list(_packed(block))
        except Exception as error:
            return error
        if _is_loky():
            self._folder = self._folder or _Folder()
            return self._folder.write(parts)
        joined, dask = b"".join(parts), _dask_client()
        if dask is None:
            return np.frombuffer(joined, np.uint8)
        # a task, not scattered data: if its worker dies, another one gets the rows
        return dask.submit(np.frombuffer, joined, np.uint8, pure=False)

    def _forget(self) -> None:
        self._placed = []
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._forget()


class _Folder:
    """A temporary folder of packed blocks, which the workers of this machine map into memory.

    It is removed even if this process is killed: joblib has a process that sees to that.
    """

    def __init__(self) -> None:
        from joblib.externals.loky.backend import resource_tracker

        place = os.environ.get("JOBLIB_TEMP_FOLDER")
        self._folder = TemporaryDirectory(
            prefix="fedjigsaw-", dir=place, ignore_cleanup_errors=True
        )
        self._tracker = resource_tracker
        self._written = 0
        resource_tracker.register(self._folder.name, "folder")

    def write(self, parts: Sequence[Any]) -> Packed:
        path = Path(self._folder.name, str(self._written))
        self._written += 1
        with open(path, "wb") as file:
            file.writelines(parts)
        return np.memmap(path, np.uint8, "r")

    def remove(self) -> None:
        self._folder.cleanup()
        self._tracker.unregister(self._folder.name, "folder")


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


def _packed(block: Block) -> Iterator[Any]:
    """Yield a block as bytes: sizes of the parts, all but the arrays, and each array as it is."""
    import cloudpickle

    arrays: list[Any] = []
    head = cloudpickle.dumps(block, protocol=5, buffer_callback=arrays.append)
    parts = [head, *(array.raw() for array in arrays)]
    sizes = np.array([len(parts), *map(len, parts)], np.int64).tobytes()
    for part in (sizes, *parts):
        yield part
        yield bytes(_padded(len(part)) - len(part))


def _unpacked(packed: Packed) -> Block:
    """Return the clients of a block; their arrays are read-only views of the packed one."""
    import cloudpickle

    n_parts = int(packed[:8].view(np.int64)[0])
    sizes = packed[8 : 8 * (n_parts + 1)].view(np.int64).tolist()
    starts = accumulate(map(_padded, sizes), initial=_padded(8 * (n_parts + 1)))
    head, *arrays = (packed[i : i + size] for i, size in zip(starts, sizes, strict=False))
    clients: Block = cloudpickle.loads(head, buffers=arrays)
    return clients


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _reply(number: int, place: Packed, sent: bytes, backend: str | None) -> tuple[int, list[Reply]]:
    """Ask the clients of a block, in a worker."""
    import cloudpickle

    if backend is not None:  # workers outlive a change of the environment
        os.environ[VARIABLE] = backend
    else:
        os.environ.pop(VARIABLE, None)
    found = replies(_unpacked(place), cloudpickle.loads(sent))
    return number, [_without_cause(reply) for reply in found]


def _without_cause(reply: Reply) -> Reply:
    """Drop the exception, which may not survive pickling; keep configuration errors."""
    if isinstance(reply, Failure) and not isinstance(reply.cause, CONFIGURATION_ERRORS):
        return replace(reply, cause=None)
    return reply
