"""Limit the threads that numerical libraries use: one per client."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

CGROUP = Path("/sys/fs/cgroup")
_own = threading.local()
_initializers: list[Callable[[], object]] = []
_lock = threading.Lock()
_inside: list[None] = []  # an entry for each thread inside of `one_thread`
_limits: dict[ThreadpoolController, Any] = {}  # of BLAS; the first one knows the limits before


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

    Limits of BLAS are process-wide: where two threads fit at the same time, the second one finds
    the limit of the first. So the last one to leave restores what the first one found.
    """
    _initialize()
    libraries = _scan(len(sys.modules))
    with _lock:
        _inside.append(None)
        if libraries not in _limits:
            _release()
            _limits[libraries] = libraries.select(user_api="blas").limit(limits=1)
    try:
        with libraries.select(user_api="openmp").limit(limits=1):
            yield
    finally:
        with _lock:
            _inside.pop()
            while _limits and not _inside:
                _release()
                _limits.popitem()[1].restore_original_limits()


def _release() -> None:
    """Let this thread set the limits of BLAS, also if another one was the last to do so."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):  # in newer versions
        OpenBLASController.clear_controlling_thread(force=True)


@contextmanager
def one_thread_inside() -> Iterator[None]:
    """Compute on one thread, in a thread that was started inside :func:`one_thread`.

    OpenMP limits are per thread and not inherited by new threads. Those of BLAS are process-wide.
    """
    _initialize()
    before = getattr(_own, "is_one_of_many", False)
    _own.is_one_of_many = True
    try:
        with _scan(len(sys.modules)).select(user_api="openmp").limit(limits=1):
            yield
    finally:
        _own.is_one_of_many = before


def _initialize() -> None:
    for initialize in _initializers:
        initialize()
