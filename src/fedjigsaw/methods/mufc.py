"""MUFC: bins and their numbers of rows, clustered at the server (Pan et al., 2023)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.kernels.kmeans import Solution, kmeans
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._searching import LocalSearch, make_summaries
from fedjigsaw.parameters import Rule, real

_POSITIVE = real(0, inclusive=False)


class Mufc(LocalSearch):
    r"""One round: clients send bins of a grid with numbers of rows, for k-means at the server.

    Client m seeds k clusters by k-means++, rounds each center to the middle b of its bin in a grid
    of width :math:`\gamma`, and sends the bins with the numbers :math:`n_b` of rows. The server
    solves

    .. math:: \min_c \; \sum_b n_b \min_j \|b - c_j\|^2 .

    The method was made to unlearn rows quickly, and for secure aggregation of the bins. It differs
    from the paper in three ways:

    - The paper's clients send the bins of the seeds. Seeds are rows, and fine bins tell them. Here
      clients take `max_iter` steps of Lloyd's algorithm first, so that means of rows leave.
    - In the paper, secret sharing adds up the bins of all clients (SCMA), so that the server sees
      sums alone. Here the server sees the bins of each client.
    - The paper's server draws :math:`n_b` points in each bin and clusters these. Weights have the
      same optimum, up to the noise of the draw, and need no memory for points.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k.
    n_local_clusters : int or None, default None
        Number of clusters at a client; None is k.
    bin_width : float or None, default None
        Width :math:`\gamma` of the grid. The paper scales the data to unit range and takes
        :math:`1 / \sqrt n` for n rows. None lets each client take a power of two near
        :math:`s / \sqrt n` for its n rows, with s the standard deviation of the widest column.
    max_iter : int, default 1
        Steps of Lloyd's algorithm after k-means++.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    C. Pan, J. Sima, S. Prakash, V. Rana, O. Milenkovic: Machine Unlearning of Federated Clusters.
    ICLR 2023.

    Examples
    --------
    >>> from fedjigsaw import Mufc
    >>> shards = [[[0.0], [1.0], [10.0]], [[0.5], [9.0], [11.0]]]
    >>> found = Mufc(n_clusters=2, bin_width=0.5, random_state=0).fit_clients(shards)
    >>> sorted(found.cluster_centers_.ravel().tolist())
    [0.5, 10.0]
    """

    method: ClassVar[str] = "mufc"
    sends: ClassVar[tuple[str, ...]] = ("counts",)
    rules: ClassVar[Mapping[str, Rule]] = {
        "bin_width": Rule(
            "a finite number > 0 or None",
            lambda value: value is None or _POSITIVE.accepts(value),
        ),
    }
    n_init: int = 1  # one seeding, as in the paper
    tol: float = 1e-4

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_local_clusters: int | None = None,
        bin_width: float | None = None,
        max_iter: int = 1,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.bin_width = bin_width
        self.max_iter = max_iter
        self.random_state = random_state

    def summaries_of(
        self, data: Sequence[Floats], found: Sequence[Solution], broadcasts: Sequence[Broadcast]
    ) -> list[Summary]:
        """Return the bins of the centers and their numbers of rows."""
        return make_summaries(data, list(map(self._in_bins, data, found)))

    def _in_bins(self, X: Floats, local: Solution) -> Solution:
        width = own_bin_width(X) if self.bin_width is None else float(self.bin_width)
        return replace(local, centers=to_bins(local.centers, width))

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: every bin has a number of rows."""
        super().check_answer(summary, broadcast)
        if summary.counts is None:
            raise MessageError(f"Client {summary.client!r} sent no counts, which MUFC needs.")
        if summary.counts.min() < 1:
            owner = f"client {summary.client!r}"
            raise MessageError(invalid("counts", owner, "at least 1", summary.counts.min()))

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Cluster all bins, weighted by their numbers of rows."""
        for summary in summaries:
            self.check_answer(summary, broadcast)
        received = np.concatenate([summary.centers for summary in summaries])
        counts = [summary.counts for summary in summaries if summary.counts is not None]
        weights = np.concatenate(counts).astype(np.float64)
        found = kmeans(received, self.n_clusters, weights=weights, rng=rng, backend=self.backend)
        return self.make_model(found.centers)


def to_bins(centers: Floats, width: float) -> Floats:
    """Round centers to the middle of their bin; a width of 0 leaves them as they are.

    Examples
    --------
    >>> to_bins(np.array([[0.2, 0.9]]), 0.5).tolist()
    [[0.0, 1.0]]
    """
    if width == 0:
        return centers
    rounded: Floats = np.round(centers / width) * width
    return rounded


def own_bin_width(X: Floats) -> float:
    r"""Return a power of two near :math:`s / \sqrt n`, with s the spread of the widest column.

    Rows that are all equal have no spread, and bins of width 0.

    Examples
    --------
    >>> own_bin_width(np.array([[0.0], [8.0], [0.0], [8.0]]))
    2.0
    """
    spread = float(X.std(axis=0).max())
    if spread == 0:
        return 0.0
    return float(2.0 ** np.round(np.log2(spread / np.sqrt(len(X)))))
