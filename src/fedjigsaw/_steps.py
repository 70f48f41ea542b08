"""How far a long computation is: kernels tell it, and whoever shows it listens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[int, int], object]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call the listener with the number of steps done and of all, whenever one is done.

    It hears this thread alone: of clients side by side, none knows how far all are.

    Examples
    --------
    >>> with listening(lambda done, total: print(f"{done} of {total}")):
    ...     tell_step(1, 10)
    1 of 10
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell_step(done: int, total: int) -> None:
    """Tell the listener, if there is one, that so many steps of all are done."""
    listener = _listener.get()
    if listener is not None:
        listener(done, total)
