"""Lanes: clients of one process that train at the same time, each lane on a thread of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import torch

from fedjigsaw.engine import Client, Reply, reply_of
from fedjigsaw.messages import Broadcast
from fedjigsaw.parameters import integer
from fedjigsaw.threads import one_thread


def own_stream(device: torch.device) -> None:  # pragma: no cover - tests run without a GPU
    """Give this thread its own CUDA stream, so that its work runs beside that of other threads."""
    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]


class ThreadEngine:
    """Run clients in threads of this process, each client always in the same thread.

    For methods that queue work on a GPU and wait for it, and that keep one network per thread.
    Python itself runs one thread at a time, so other methods gain nothing.

    Parameters
    ----------
    clients : sequence of Client
    n_threads : int
        Number of threads, at most one per client.
    start : callable
        Called once in every thread before anything else.
    """

    def __init__(
        self, clients: Sequence[Client], *, n_threads: int, start: Callable[[], None]
    ) -> None:
        integer(1).check("n_threads", "ThreadEngine", n_threads)
        self.clients = clients
        self.n_threads = min(n_threads, max(1, len(clients)))
        self._start = start
        self._threads: list[ThreadPoolExecutor] = []
        # the largest client first, each to the thread with the least data so far
        load = [0] * self.n_threads
        self._places = [0] * len(clients)
        for i in sorted(range(len(clients)), key=lambda i: -len(clients[i].data)):
            self._places[i] = load.index(min(load))
            load[self._places[i]] += len(clients[i].data)

    def ask(self, broadcast: Broadcast) -> list[Reply]:
        with one_thread():  # held here until the last client is done, not only the first
            running = [
                self._threads[place].submit(reply_of, client, broadcast)
                for place, client in zip(self._places, self.clients, strict=True)
            ]
            return [reply.result() for reply in running]

    def __enter__(self) -> Self:
        self._threads = [ThreadPoolExecutor(1) for _ in range(self.n_threads)]
        for thread in self._threads:
            thread.submit(self._start).result()
        return self

    def __exit__(self, *error: object) -> None:
        for thread in self._threads:  # cancel everywhere first, then wait for what is running
            thread.shutdown(wait=False, cancel_futures=True)
        for thread in self._threads:
            thread.shutdown()
