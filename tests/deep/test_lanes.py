"""Clients in threads of one process: the same bits, each client in its own thread."""

from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from threading import Thread, get_ident
from time import sleep

import numpy as np
import pytest

from doubles import CountsThreads, FailsOnNegative
from fedjigsaw import Client, FeCA, SerialEngine, run_rounds
from fedjigsaw.deep.lanes import ThreadEngine
from fedjigsaw.messages import Broadcast, Failure

TwoThreads = partial(ThreadEngine, n_threads=2, start=int)
GOOD = [[0.0], [1.0], [9.0]]
BAD = [[0.0], [-1.0], [9.0]]


def clients(method, **shards):
    return [Client(name, np.asarray(rows, dtype=float), method) for name, rows in shards.items()]


@pytest.mark.usefixtures("two_threads")
def test_clients_compute_on_one_thread():
    with TwoThreads(clients(CountsThreads(2), a=GOOD, b=GOOD)) as running:
        for summary in running.ask(Broadcast(0, 0)):
            assert set(summary.tensors["threads"].tolist()) == {1}


def test_a_run_goes_on_with_enough_clients():
    method = FailsOnNegative(2, random_state=0)
    people = clients(method, a=GOOD, b=BAD, c=GOOD)
    with TwoThreads(people) as running:
        model, transcript, _ = run_rounds(method, running, seed=0, min_clients=2)
    assert transcript.failures == (Failure("b", "RuntimeError: cannot take a negative number"),)
    assert model == run_rounds(method, SerialEngine(people[::2]), seed=0).model


def test_a_client_stays_on_its_thread():
    """The largest alone, the three others together; in every round the same."""

    class WhereAmI(FeCA):
        def summarize(self, X, broadcast, rng):
            seen.append((broadcast.round, len(X), get_ident()))
            return super().summarize(X, broadcast, rng)

    seen, started = [], []
    sizes = {"a": 3, "b": 12, "c": 4, "d": 4}
    people = clients(WhereAmI(2), **{n: np.arange(2.0 * s)[:, None] for n, s in sizes.items()})
    with ThreadEngine(people, n_threads=2, start=lambda: started.append(get_ident())) as engine:
        for number in range(3):
            replies = engine.ask(Broadcast(number, 0))
            assert [reply.client for reply in replies] == list("abcd")
    places = {(rows, thread) for _, rows, thread in seen}
    assert len(seen) == 12
    assert len(places) == 3  # sizes 6 and 24, and 8 twice
    by_thread = {t: sorted(r for r, own in places if own == t) for t in set(started)}
    assert sorted(by_thread.values()) == [[6, 8], [24]]


def test_what_has_not_begun_is_not_begun_after_an_end():
    seen = []

    class Slow(FeCA):
        def summarize(self, X, broadcast, rng):
            seen.append(len(X))
            sleep(1)
            return super().summarize(X, broadcast, rng)

    people = clients(Slow(2), **{str(i): GOOD for i in range(8)})

    def ask():
        with suppress(CancelledError):
            engine.ask(Broadcast(0, 0))

    with TwoThreads(people) as engine:
        Thread(target=ask).start()
        while len(seen) < 2:
            sleep(0.01)
    assert len(seen) == 2


def test_a_thread_that_cannot_start():
    def fail():
        raise MemoryError("out of memory")

    with pytest.raises(MemoryError, match="out of memory"):
        ThreadEngine(clients(FeCA(2), a=GOOD), n_threads=1, start=fail).__enter__()
