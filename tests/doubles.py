"""Methods and engines that misbehave on purpose. A module of its own: spawned workers import it."""

import os

import numpy as np

from fedjigsaw import FeCA, SerialEngine, Summary
from fedjigsaw.kmeans import assign
from fedjigsaw.methods import Entry


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


class Lloyd(FeCA):
    """Several rounds: FeCA's centers first, then steps of k-means over all clients."""

    method = "lloyd"
    n_rounds = 2
    sends = ("radii", "counts")

    def summarize(self, X, broadcast, rng):
        if broadcast.model is None:
            return super().summarize(X, broadcast, rng)
        labels, _ = assign(X, broadcast.model.centers)
        used = np.unique(labels)
        centers = np.stack([X[labels == label].mean(axis=0) for label in used])
        counts = np.bincount(labels)[used]
        return Summary(len(X), centers, radii=np.zeros(len(used)), counts=counts)

    def aggregate(self, summaries, broadcast, rng):
        if broadcast.model is None:
            return super().aggregate(summaries, broadcast, rng)
        centers = np.concatenate([summary.centers for summary in summaries])
        counts = np.concatenate([summary.counts for summary in summaries])
        labels, _ = assign(centers, broadcast.model.centers)
        means = [
            np.average(centers[labels == label], axis=0, weights=counts[labels == label])
            for label in np.unique(labels)
        ]
        return self.make_model(np.stack(means))


LLOYD = Entry(Lloyd, "Lloyd", "#123456", "a test's own", "tests")
