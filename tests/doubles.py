"""Methods and engines that misbehave on purpose. A module of its own: spawned workers import it."""

import os

import numpy as np

from fedjigsaw import FeCA, SerialEngine


class FailsOnNegative(FeCA):
    """Its clients raise if their data hold a negative number."""

    def summarize(self, X, broadcast, rng):
        if (X < 0).any():
            raise RuntimeError("cannot take a negative number")
        return super().summarize(X, broadcast, rng)


class DiesOnNegative(FeCA):
    """Its clients take their whole process down."""

    def summarize(self, X, broadcast, rng):
        if (X < 0).any():
            os._exit(3)
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


class ShuffledEngine(SerialEngine):
    """Replies come back in reverse order."""

    def gather(self, broadcast):
        return super().gather(broadcast)[::-1]


class TwiceEngine(SerialEngine):
    """Every client answers twice."""

    def gather(self, broadcast):
        return super().gather(broadcast) * 2
