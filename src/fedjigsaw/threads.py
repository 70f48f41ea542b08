"""Limit the threads that numerical libraries use: one per client."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from typing import ClassVar

from threadpoolctl import LibController, ThreadpoolController

CGROUP = Path("/sys/fs/cgroup")
_own = threading.local()
_initializers: list[Callable[[], object]] = []


def _libraries() -> ThreadpoolController:
    return _scan(len(sys.modules))


@lru_cache(1)  # scanning the loaded libraries is slow: once is enough until more are imported
def _scan(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def available_threads() -> int:
    """Return how many threads this process may compute on.

    These are the cores that the system gives it (affinity, limits of a container), or fewer if
    ``OMP_NUM_THREADS`` says so; one in :func:`one_thread_inside`.
    """
    if getattr(_own, "is_one_of_many", False):
        return 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # a list: one per level
    return min(_cores(), int(wanted)) if wanted.isdecimal() and int(wanted) else _cores()


@cache
def _cores() -> int:
    """Count the cores that this process may use, as joblib does, which takes long to import."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, min(cores, _quota(CGROUP)))


def _quota(folder: Path) -> int:
    """Return how many cores the limit of a container comes to, rounded up."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            if int(quota) > 0 and int(period) > 0:
                return ceil(int(quota) / int(period))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return sys.maxsize


def register_library(initialize: Callable[[], object]) -> None:
    """Register a library with threads of its own that has just been loaded, such as torch.

    Parameters
    ----------
    initialize : callable
        Called in each thread before its limit is set. torch sets the number of OpenMP threads when
        a thread first uses it, which would undo a limit that was set before.
    """
    _initializers.append(initialize)
    _scan.cache_clear()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread.

    Clients run side by side, so more threads would only compete for the cores. And sums over
    several threads add up in another order: only one thread gives the same bits in every engine.
    """
    _initialize()
    with _OneBlasThread(), _libraries().select(user_api="openmp").limit(limits=1):
        yield


class _OneBlasThread:
    """Limit of BLAS libraries to one thread, from the first block to enter to the last to leave.

    Their limits are process-wide: where two threads fit at the same time, the second one finds the
    limit of the first, which is not what may be restored at last.
    """

    _lock = threading.Lock()
    _inside = 0
    _before: ClassVar[dict[str, tuple[LibController, int | None]]] = {}

    def __enter__(self) -> None:
        with self._lock:
            _OneBlasThread._inside += 1
            for library in _libraries().select(user_api="blas").lib_controllers:
                self._before.setdefault(library.filepath, (library, library.num_threads))
                _set_threads(library, 1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            _OneBlasThread._inside -= 1
            if not self._inside:
                for library, number in self._before.values():
                    _set_threads(library, number)
                self._before.clear()


def _set_threads(library: LibController, number: int | None) -> None:
    """Set the limit of a library, also if another thread was the last to do so.

    In newer versions of threadpoolctl, the limit of OpenBLAS belongs to the thread that sets it.
    """
    release = getattr(library, "clear_controlling_thread", lambda *, force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


@contextmanager
def one_thread_inside() -> Iterator[None]:
    """Compute on one thread, in a thread that was started inside :func:`one_thread`.

    OpenMP limits are per thread and not inherited by new threads. Those of BLAS are process-wide.
    """
    _initialize()
    before = getattr(_own, "is_one_of_many", False)
    _own.is_one_of_many = True
    try:
        with _libraries().select(user_api="openmp").limit(limits=1):
            yield
    finally:
        _own.is_one_of_many = before


def _initialize() -> None:
    for initialize in _initializers:
        initialize()
