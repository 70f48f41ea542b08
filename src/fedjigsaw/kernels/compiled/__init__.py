"""Compiled kernels, by numba: loops over rows that NumPy cannot run at full speed.

They need the extra ``fast``, and everything works without them. Modules of this package import
numba, which takes a while, so they are imported where they are used.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

COMPILING = "Compiling for this machine, once: it takes some seconds, and the next start finds it."
_listeners: list[Callable[[], object]] = []


@contextmanager
def on_compiling(listener: Callable[[], object]) -> Iterator[None]:
    """Call the listener whenever numba begins to compile a function that it finds in no cache."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell_compiling() -> None:
    """Call the listeners."""
    for listener in _listeners:
        listener()


@cache
def installed() -> bool:
    """Say whether numba is installed, without importing it."""
    return find_spec("numba") is not None


def side_by_side(
    function: Callable[[Any], Any], tasks: Sequence[Any], n_threads: int
) -> Iterator[Any]:
    """Yield what a function makes of each task, on several threads: kernels hold no lock."""
    if n_threads == 1 or len(tasks) <= 1:
        yield from map(function, tasks)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(function, tasks)
