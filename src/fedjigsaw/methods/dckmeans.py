"""DC-k-means: k-means of k-means, by divide and conquer (Ginart et al., 2019)."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._searching import LocalSearch


class DCKMeans(LocalSearch):
    r"""One round: each client runs k-means, and the server runs k-means over all centers.

    It is a tree of two levels. A leaf (a client) solves k-means on its own rows and sends its
    centers. The root (the server) solves k-means on the received centers, each of which counts as
    one point:

    .. math:: \min_c \; \sum_m \sum_i \min_j \|c^{(m)}_i - c_j\|^2 .

    The tree was made so that deleting a row changes one leaf and the root. The root does not know
    how many rows a center stands for, so that a center of three rows moves the result as far as one
    of three hundred.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k.
    n_local_clusters : int or None, default None
        Number of clusters at a client; None is k.
    n_init : int, default 1
        Restarts of each client's k-means; one, as in the authors' code. The server has ten.
    max_iter, tol : int, float
        When a restart of k-means ends, as in :class:`sklearn.cluster.KMeans`.
    assign : {"local", "nearest"}, default "local"
        Label rows by the cluster of their local center, as a tree does, or by the nearest center of
        the model. `predict` uses the nearest center unless `clients` are given.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    A. Ginart, M. Guan, G. Valiant, J. Zou: Making AI Forget You: Data Deletion in Machine Learning.
    NeurIPS 2019.

    Examples
    --------
    >>> from fedjigsaw import DCKMeans
    >>> shards = [[[0.0], [10.0]], [[12.0], [2.0]]]
    >>> found = DCKMeans(n_clusters=2, random_state=0).fit_clients(shards)
    >>> sorted(found.cluster_centers_.ravel().tolist())
    [1.0, 11.0]
    """

    method: ClassVar[str] = "dc"
    sends: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_local_clusters: int | None = None,
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        assign: str = "local",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.assign = assign
        self.random_state = random_state

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Cluster all received centers, each of which counts as one point."""
        received = np.concatenate([summary.centers for summary in summaries])
        found = kmeans(received, self.n_clusters, rng=rng, backend=self.backend)
        return self.make_model(found.centers)
