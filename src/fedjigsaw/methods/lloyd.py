"""Federated Lloyd: k-means on rows that stay apart, one step of Lloyd's algorithm per round."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.kmeans import (
    Problem,
    Solution,
    kmeans,
    lloyd_step,
    nearest_centers,
    partition_of,
)
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._searching import LocalSearch
from fedjigsaw.parameters import Rule, integer, one_of


class FederatedLloyd(LocalSearch):
    r"""Several rounds: clients send means and counts, and the server moves the common centers.

    The problem is that of k-means on the rows :math:`D_m` of all clients together:

    .. math:: \min_c \; \sum_m \sum_{x \in D_m} \min_j \|x - c_j\|^2 .

    In each round the server sends its centers. For each center j that is the nearest one of some of
    its rows, client m sends the mean :math:`\mu_{mj}` of these rows and their number
    :math:`n_{mj}`. The server moves the centers:

    .. math:: c_j \leftarrow \sum_m n_{mj} \mu_{mj} \Big/ \sum_m n_{mj} .

    This is one step of Lloyd's algorithm on the pooled rows: from the same start it ends where
    k-means on the pooled rows ends, at the price of one round for each step. A center without rows
    stays. A guard that merges small local clusters makes the step inexact.

    With ``step="kmeans"`` the server runs weighted k-means over all received means in each round,
    as FKM does. It depends less on the start, since a center may leave its place altogether, but
    it is no longer Lloyd's algorithm.

    The start takes a round of its own. As in FKM, a client takes one step of Lloyd's algorithm from
    the seeds of k-means++, so that means of rows leave, and the server clusters them. In the
    example of NVIDIA FLARE, clients send the seeds, which are rows.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k.
    n_rounds : int, default 20
        Rounds after the start, and so steps of Lloyd's algorithm.
    step : {"lloyd", "kmeans"}, default "lloyd"
        What the server does in each round: move each center to the mean of its rows, or cluster all
        received means.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    NVIDIA FLARE: Federated K-Means Clustering with Scikit-learn (an example of its repository),
    which averages over all rounds so far, as mini-batch k-means does.

    S. Garst, M. Reinders: Federated K-means Clustering. 2023.

    Examples
    --------
    >>> from fedjigsaw import FederatedLloyd
    >>> shards = [[[0.0], [1.0], [10.0]], [[0.5], [9.0], [11.0]]]
    >>> lloyd = FederatedLloyd(n_clusters=2, n_rounds=3, random_state=0).fit_clients(shards)
    >>> sorted(lloyd.cluster_centers_.ravel().tolist()), lloyd.n_iter_
    ([0.5, 10.0], 4)
    """

    method: ClassVar[str] = "lloyd"
    sends: ClassVar[tuple[str, ...]] = ("counts",)
    server_parameters: ClassVar[tuple[str, ...]] = ("step",)
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_rounds": integer(1),
        "step": one_of("lloyd", "kmeans"),
    }
    # the start of a client: seeds of k-means++, and one step from them
    n_init: int = 1
    max_iter: int = 1
    tol: float = 0.0

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_rounds: int = 20,
        step: str = "lloyd",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_rounds = n_rounds
        self.step = step
        self.random_state = random_state

    @property
    def total_rounds(self) -> int:
        """Number of rounds: one for the start, then one for each step."""
        return 1 + self.n_rounds

    def search(
        self, problems: Sequence[Problem], broadcasts: Sequence[Broadcast]
    ) -> list[Solution]:
        """Return the clusters of each client: around the centers of the model, if there is one."""
        model = broadcasts[0].model
        if model is None:
            return super().search(problems, broadcasts)
        return [cells(problem.X, model.centers) for problem in problems]

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: at most k centers, with counts."""
        super().check_answer(summary, broadcast)
        owner = f"client {summary.client!r}"
        if summary.counts is None:
            raise MessageError(f"Client {summary.client!r} sent no counts, which Fed-Lloyd needs.")
        if summary.counts.min() < 1:
            raise MessageError(invalid("counts", owner, "at least 1", summary.counts.min()))
        if len(summary.centers) > self.n_clusters:
            allowed = f"at most the number of clusters, {self.n_clusters}"
            raise MessageError(invalid("centers", owner, allowed, len(summary.centers)))

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Cluster all received means for the start; then move each center to those nearest to it.

        The mean of the rows of a cell is in the cell, since cells are convex. So the center that is
        nearest to a received mean is the one that its rows were nearest to.
        """
        for summary in summaries:
            self.check_answer(summary, broadcast)
        received = np.concatenate([summary.centers for summary in summaries])
        counts = [summary.counts for summary in summaries if summary.counts is not None]
        weights = np.concatenate(counts).astype(np.float64)
        if broadcast.model is not None and self.step == "lloyd":
            return self.make_model(lloyd_step(received, weights, broadcast.model.centers)[0])
        found = kmeans(received, self.n_clusters, weights=weights, rng=rng, backend=self.backend)
        return self.make_model(found.centers)


def cells(X: Floats, centers: Floats) -> Solution:
    """Return the clusters of rows around given centers; centers without rows are left out.

    Examples
    --------
    >>> found = cells(np.array([[1.0], [3.0], [9.0]]), np.array([[0.0], [20.0], [8.0]]))
    >>> found.centers.ravel().tolist(), found.counts.tolist()
    ([2.0, 9.0], [2.0, 1.0])
    """
    return partition_of(X, nearest_centers(X, centers)[0], np.ones(len(X)))
