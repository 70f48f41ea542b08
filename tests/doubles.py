"""Methods and engines that misbehave on purpose. A module of its own: spawned workers import it."""

import os

import numpy as np

from fedjigsaw import FeCA, SerialEngine
from fedjigsaw.engine import reply_of


class FailsOnNegative(FeCA):
    """Its clients raise if their data hold a negative number."""

    def summarize(self, X, broadcast, rng):
        if (X < 0).any():
            raise RuntimeError("cannot take a negative number")
        return super().summarize(X, broadcast, rng)


class CountsThreads(FeCA):
    """Its clients report how many threads each library would use."""

    sends = ("radii", "tensors")

    def summarize(self, X, broadcast, rng):
        from dataclasses import replace

        from threadpoolctl import threadpool_info

        threads = [library["num_threads"] for library in threadpool_info()]
        summary = super().summarize(X, broadcast, rng)
        return replace(summary, tensors={"threads": np.array(threads)})


class CountedRows(np.ndarray):
    """Counts how often rows are pickled in this process."""

    pickles = 0

    def __reduce_ex__(self, protocol):
        CountedRows.pickles += 1
        return np.asarray(self).__reduce_ex__(protocol)


class TellsWhereRowsAre(FeCA):
    """Its clients report their process, and the file from which their rows are mapped."""

    sends = ("radii", "tensors")

    def summarize(self, X, broadcast, rng):
        from dataclasses import replace

        base = X
        while isinstance(base, (np.ndarray, memoryview)) and not isinstance(base, np.memmap):
            base = base.obj if isinstance(base, memoryview) else base.base
        file = os.stat(base.filename).st_ino if isinstance(base, np.memmap) else 0
        where = {"file": np.array([file]), "process": np.array([os.getpid()])}
        return replace(super().summarize(X, broadcast, rng), tensors=where)


class OneByOne(SerialEngine):
    """One client after the other, each in a call of its own."""

    def ask(self, broadcast):
        return [reply_of(client, broadcast) for client in self.clients]


class ShuffledEngine(SerialEngine):
    """Replies come back in reverse order."""

    def ask(self, broadcast):
        return super().ask(broadcast)[::-1]


class TwiceEngine(SerialEngine):
    """Every client answers twice."""

    def ask(self, broadcast):
        return super().ask(broadcast) * 2
