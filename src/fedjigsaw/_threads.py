"""How many threads libraries may use: one, while clients compute."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # a scan of all that is loaded: once is enough


def find_libraries_again() -> None:
    """To be called by whoever has loaded a library with threads of its own, such as torch."""
    _libraries.cache_clear()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread.

    Clients run side by side, so more threads each would only fight for the cores; and sums over
    threads add up in another order, so only one thread gives the same bits in every engine.
    """
    with _libraries().limit(limits=1):
        yield


@contextmanager
def one_thread_inside() -> Iterator[None]:
    """The same in a thread that was started inside of :func:`one_thread`.

    OpenMP has a number for each thread, a new thread's is the usual one. The libraries for products
    of matrices have one for the process, which only whoever set it may give back: were each thread
    to do that, the first one to end would take the limit from the others.
    """
    with _libraries().select(user_api="openmp").limit(limits=1):
        yield
