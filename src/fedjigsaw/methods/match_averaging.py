"""Match averaging: the baseline that pairs all clients' centers one to one."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.matching import match
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._searching import LocalSearch


class MatchAveraging(LocalSearch):
    r"""One round: each client runs k-means; the server pairs the centers and averages them.

    The problem at the server: client m has sent centers :math:`c^{(m)}_1, \dots, c^{(m)}_k`; find
    centers :math:`c_j` and one-to-one pairings :math:`\pi_m` that minimize

    .. math:: \sum_m \sum_i \|c^{(m)}_i - c_{\pi_m(i)}\|^2 .

    It starts at one client's centers. Then it alternately pairs all clients' centers with the means
    (optimally, by the Hungarian method) and averages the pairs, until nothing changes. The pairing
    is right if every client holds every cluster. On skewed data it must pair centers of different
    clusters, whose means lie in between; that is why it serves as the baseline.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k, in all the data and at every client. A client with fewer distinct
        rows has fewer centers, which are paired as far as they go.
    n_init : int, default 10
        Restarts of each client's k-means.
    max_iter, tol : int, float
        When a restart of k-means ends, as in :class:`sklearn.cluster.KMeans`.
    assign : {"nearest", "local"}, default "nearest"
        Label rows by the nearest center of the model, or by the nearest center that the row's own
        client sent.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    The row "M-Avg" in J. Xu et al.: Jigsaw Game: Federated Clustering. TMLR, 2024.

    Examples
    --------
    >>> from fedjigsaw import MatchAveraging
    >>> shards = [[[0.0], [10.0]], [[12.0], [2.0]]]
    >>> matched = MatchAveraging(n_clusters=2, random_state=0).fit_clients(shards)
    >>> sorted(matched.cluster_centers_.ravel().tolist())
    [1.0, 11.0]
    """

    method: ClassVar[str] = "match"
    takes_weights: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    sends: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 10,
        max_iter: int = 300,
        tol: float = 1e-4,
        assign: str = "nearest",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.assign = assign
        self.random_state = random_state

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: it has at most k centers."""
        super().check_answer(summary, broadcast)
        if len(summary.centers) > self.n_clusters:
            allowed = f"at most the number of clusters, {self.n_clusters}"
            advice = "Summarize with the number of clusters that is wanted in the end."
            owner, got = f"client {summary.client!r}", len(summary.centers)
            raise MessageError(invalid("centers", owner, allowed, got, advice))

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Average the pairs, starting at the client with the most centers (then: the most rows)."""
        for summary in summaries:
            self.check_answer(summary, broadcast)
        sets = [summary.centers for summary in summaries]
        first = max(summaries, key=lambda s: (len(s.centers), s.n_samples, s.centers.tolist()))
        means, error = np.array(first.centers), np.inf
        while True:
            pairs = [match(centers, means) for centers in sets]
            before = error
            error = sum(
                float(((centers[rows] - means[partners]) ** 2).sum())
                for centers, (rows, partners) in zip(sets, pairs, strict=True)
            )
            if not error < before:  # each step lowers it, so this comes after finitely many
                return self.make_model(means)
            sums, sizes = np.zeros_like(means), np.zeros(len(means))
            for centers, (rows, partners) in zip(sets, pairs, strict=True):
                sums[partners] += centers[rows]
                sizes[partners] += 1
            means = sums / sizes[:, None]
