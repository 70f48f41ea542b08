"""Methods whose results are known."""

import numpy as np
import pytest

from fedjigsaw import FederatedClusterer, Summary
from fedjigsaw.parameters import integer, real, seed_source


class ClientMeans(FederatedClusterer):
    """One center per client, the mean of its rows, moved by `shift` away from the first one."""

    method = "client-means"
    rules = {"n_clusters": integer(1), "shift": real(0), "random_state": seed_source()}  # noqa: RUF012

    def __init__(self, n_clusters=2, *, shift=0.0, random_state=None):
        self.n_clusters = n_clusters
        self.shift = shift
        self.random_state = random_state

    def summarize(self, X, broadcast, rng):
        return Summary(n_samples=len(X), centers=X.mean(axis=0)[None], counts=np.array([len(X)]))

    def aggregate(self, summaries, broadcast, rng):
        centers = np.concatenate([summary.centers for summary in summaries])
        signs = np.where(np.arange(len(centers)) == 0, -1.0, 1.0)
        return self.make_model(centers + self.shift * signs[:, None])


class Unlucky(ClientMeans):
    """Fails with seed 1."""

    method = "unlucky"

    def aggregate(self, summaries, broadcast, rng):
        if self.random_state == 1:
            raise ValueError("no luck with\nseed 1")
        return super().aggregate(summaries, broadcast, rng)


class Spy(ClientMeans):
    """Notes which rows its clients have."""

    method = "spy"
    seen = []  # noqa: RUF012

    def summarize(self, X, broadcast, rng):
        self.seen.append((self.shift, self.random_state, X.ravel().tolist()))
        return super().summarize(X, broadcast, rng)


class Toy:
    """Two clients, two classes; the best centers are 1 and 11, with an objective of 4."""

    X = np.array([[0.0], [2.0], [10.0], [12.0]])
    y = np.array(["a", "a", "b", "b"])
    clients = np.array([0, 0, 1, 1])
    ClientMeans, Unlucky, Spy = ClientMeans, Unlucky, Spy


@pytest.fixture
def toy():
    Spy.seen.clear()
    return Toy
