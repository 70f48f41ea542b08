"""k-means on pooled data: the benchmark for federated methods."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.kmeans import Solution
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._searching import LocalSearch, n_copies


class CentralKMeans(LocalSearch):
    r"""The benchmark: k-means with all rows in one place.

    The problem: :math:`\min_C \sum_{x \in D} \min_{c \in C} \|x - c\|^2` over sets C of k centers.

    It has the API of a federated method but ignores which client holds a row: *raw data leave the
    clients*, and `transcript_` counts their bytes. It shows what could be reached without
    federation. The paper's row "centralized" is ``n_init=1``.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k.
    n_init : int, default 10
        Restarts.
    max_iter, tol : int, float
        When a restart ends, as in :class:`sklearn.cluster.KMeans`.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    Examples
    --------
    >>> from fedjigsaw import CentralKMeans
    >>> central = CentralKMeans(n_clusters=2, random_state=0).fit([[0.0], [1.0], [9.0]])
    >>> sorted(central.cluster_centers_.ravel().tolist())
    [0.5, 9.0]
    """

    method: ClassVar[str] = "central"
    takes_weights: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    sends: ClassVar[tuple[str, ...]] = ()
    pools_data: ClassVar[bool] = True

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 10,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def summaries_of(
        self, data: Sequence[Floats], found: Sequence[Solution], broadcasts: Sequence[Broadcast]
    ) -> list[Summary]:
        """Return the centers of the pooled rows."""
        return [
            Summary(n_copies(X), local.centers, counts=local.counts.astype(np.int64))
            for X, local in zip(data, found, strict=True)
        ]

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Return the centers of the pooled rows."""
        return self.make_model(summaries[0].centers)
