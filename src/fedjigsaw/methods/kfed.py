"""k-FED: few clusters per client, separated by the farthest-first rule (Dennis et al., 2021)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from fedjigsaw._typing import Floats
from fedjigsaw.base import ASSIGN, FederatedClusterer
from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.kmeans import Solution, count_distinct, kmeans, nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.parameters import Rule, integer, is_integer, real, seed_source


class KFed(FederatedClusterer):
    r"""One round, for data of which each client holds only a few of the k clusters.

    Client z clusters its rows into k' clusters by the method of Awasthi and Sheffet (2012),
    :func:`cluster_by_projection`, and sends their centers. The server takes all centers of one
    client, adds the received center that is farthest from those it has until it has k, and puts
    every received center into the group of the nearest of these k. The means of the groups are the
    result. The theory needs :math:`k' \le \sqrt k` and well separated clusters; with k' too
    large, centers that share a cluster are taken for different ones.

    The original needs k' <= d; here the projection is skipped if it would remove nothing.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k in all the data.
    n_local_clusters : int, dict or None, default None
        Number of clusters k' at a client: one for all, or one for each client's name; None is k.
    n_init : int, default 10
        Restarts of each client's k-means.
    max_iter, tol : int, float
        When a restart of k-means ends, as in :class:`sklearn.cluster.KMeans`.
    assign : {"local", "nearest"}, default "local"
        Label rows by the group of their local center, as in the paper on k-FED, or by the nearest
        center of the model. `predict` uses the nearest center unless `clients` are given.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    D. K. Dennis, T. Li, V. Smith: Heterogeneity for the Win: One-Shot Federated Clustering. ICML
    2021.

    Examples
    --------
    Each of three clients holds two of the three clusters.

    >>> from fedjigsaw import KFed
    >>> a, b, c = ([[x - 1.0], [x + 1.0]] for x in (0, 50, 100))
    >>> kfed = KFed(n_clusters=3, n_local_clusters=2, random_state=0)
    >>> kfed = kfed.fit_clients({"Bern": a + b, "Lyon": b + c, "Oslo": a + c})
    >>> sorted(kfed.cluster_centers_.ravel().tolist())
    [0.0, 50.0, 100.0]
    """

    method: ClassVar[str] = "kfed"
    sends: ClassVar[tuple[str, ...]] = ()
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1),
        "n_local_clusters": Rule(
            "an integer >= 1, a dict of such by client, or None",
            lambda value: (
                value is None
                or (isinstance(value, dict) and all(map(_is_count, value.values())))
                or _is_count(value)
            ),
        ),
        "n_init": integer(1),
        "max_iter": integer(1),
        "tol": real(0),
        "assign": ASSIGN,
        "random_state": seed_source(),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_local_clusters: int | dict[str, int] | None = None,
        n_init: int = 10,
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

    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Return the centers of k' local clusters."""
        local = cluster_by_projection(
            X,
            self._local_k(broadcast.client),
            rng=rng,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            backend=self.backend,
        )
        counts = local.counts.astype(np.int64)
        labels = {"labels": local.labels}  # for the guard; they never leave
        return Summary(len(X), local.centers, counts=counts, sse=local.sse, tensors=labels)

    def _local_k(self, client: str) -> int:
        """Return the number k' of local clusters of a client."""
        if not isinstance(self.n_local_clusters, dict):
            return self.n_local_clusters or self.n_clusters
        if client not in self.n_local_clusters:
            raise ParameterError(
                f"n_local_clusters of KFed has no entry for client {client!r}. "
                "Give one for every client."
            )
        return self.n_local_clusters[client]

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Choose centers farthest first, starting with those of one client; then assign once."""
        first = summaries[int(rng.integers(len(summaries)))].centers
        received = np.concatenate([summary.centers for summary in summaries])
        chosen = farthest_first(received, first, self.n_clusters)
        groups, _ = nearest_centers(received, chosen)
        means = np.stack([received[groups == j].mean(axis=0) for j in range(len(chosen))])
        return self.make_model(means, chosen=chosen)


def _is_count(value: object) -> bool:
    return is_integer(value) and int(value) >= 1  # type: ignore[call-overload]


def farthest_first(candidates: Floats, start: Floats, n: int) -> Floats:
    """Take the `start`, then the candidate farthest from all taken ones, until there are `n`.

    A start of more than `n` rows is thinned by the same rule, from its first row on. There may be
    fewer than `n`, since a candidate that is taken already is not taken again.

    Examples
    --------
    >>> farthest_first(np.array([[0.0], [4.0], [9.0], [5.0]]), np.array([[0.0]]), 3).ravel()
    array([0., 9., 4.])
    """
    start = np.unique(start, axis=0)
    if len(start) > n:
        candidates, start = start, start[:1]
    chosen = list(start)
    reach = pairwise_distances(candidates, start).min(axis=1)
    while len(chosen) < n and reach.max() > 0:
        chosen.append(candidates[reach.argmax()])
        reach = np.minimum(reach, pairwise_distances(candidates, chosen[-1][None])[:, 0])
    return np.stack(chosen)


def project(X: Floats, k: int) -> Floats:
    """Project the rows onto their first k right singular vectors, the least one first.

    Uses the eigenvectors of the smaller of the two Gram matrices: with 20,000 columns and 500 rows
    that is one of 500 x 500. The sign of a column of the result is arbitrary.

    Examples
    --------
    >>> abs(project(np.array([[0.0, 3.0, 4.0], [1.0, 0.0, 0.0]]), 1)).round(12) + 0
    array([[5.],
           [0.]])
    """
    n, d = X.shape
    if n < d:  # X = U S V' gives X V = U S, and X X' = U S S U'
        squares, left = eigh(X @ X.T, subset_by_index=[n - k, n - 1])
        return np.asarray(left * np.sqrt(np.maximum(squares, 0)))
    _, right = eigh(X.T @ X, subset_by_index=[d - k, d - 1])
    return np.asarray(X @ right)


def cluster_by_projection(
    X: Floats, n_clusters: int, *, rng: np.random.Generator, **options: Any
) -> Solution:
    """Cluster rows by the method of Awasthi and Sheffet (2012), as k-FED does at every client.

    Project the rows onto the space of their first k singular vectors; cluster the projections;
    start from the means of the rows that are three times closer to their center than to any other;
    run Lloyd's iterations on the rows themselves.
    """
    k = count_distinct(X, at_most=n_clusters)
    projected = project(X, k) if k < X.shape[1] else X
    first = kmeans(projected, k, rng=rng, **options)
    distances = pairwise_distances(projected, first.centers)
    rows = np.arange(len(X))
    own = distances[rows, first.labels].copy()
    distances[rows, first.labels] = np.inf
    core = 3 * own <= distances.min(axis=1)
    starts = []
    for j in range(len(first.centers)):
        members = first.labels == j
        starts.append(X[members & core if (members & core).any() else members].mean(axis=0))
    return kmeans(X, len(starts), rng=rng, **{**options, "init": np.stack(starts)})
