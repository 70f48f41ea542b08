"""k-FED: few clusters per client, separated by the farthest-first rule (Dennis et al., 2021)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from fedjigsaw._typing import Floats
from fedjigsaw.errors import ParameterError
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import (
    Problem,
    Solution,
    blocks,
    count_distinct,
    kmeans_many,
    label_sums,
    nearest_centers,
    settle_many,
)
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._searching import LocalSearch
from fedjigsaw.parameters import Rule, is_integer


class KFed(LocalSearch):
    r"""One round, for data of which each client holds only a few of the k clusters.

    Client z clusters its rows into k' clusters by the method of Awasthi and Sheffet (2012),
    :func:`cluster_many`, and sends their centers. The server takes all centers of one
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
        "n_local_clusters": Rule(
            "an integer >= 1, a dict of such by client, or None", lambda value: _is_allowed(value)
        ),
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

    def n_local(self, n_rows: int) -> int:
        """Return the number k' of a client without one of its own."""
        k = self.n_local_clusters
        return self.n_clusters if k is None or isinstance(k, dict) else k

    def search(
        self, problems: Sequence[Problem], broadcasts: Sequence[Broadcast]
    ) -> list[Solution]:
        """Return the k' local clusters of each client."""
        if isinstance(own := self.n_local_clusters, dict):
            missing = [b.client for b in broadcasts if b.client not in own]
            if missing:
                raise ParameterError(
                    f"n_local_clusters of KFed has no entry for client {missing[0]!r}. "
                    "Give one for every client."
                )
            numbers = [own[broadcast.client] for broadcast in broadcasts]
            problems = [p._replace(n_clusters=k) for p, k in zip(problems, numbers, strict=True)]
        options: dict[str, Any] = {name: getattr(self, name) for name in ("n_init", "max_iter")}
        return cluster_many(problems, tol=self.tol, backend=self.backend, **options)

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


def _is_allowed(value: Any) -> bool:
    numbers = value.values() if isinstance(value, dict) else [value]
    return value is None or all(is_integer(k) and k >= 1 for k in numbers)


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


def cluster_many(
    problems: Sequence[Problem],
    *,
    n_init: int = 10,
    max_iter: int = 300,
    tol: float = 1e-4,
    backend: Backend | None = None,
) -> list[Solution]:
    """Cluster the rows of each client by the method of Awasthi and Sheffet (2012).

    Project the rows onto the space of their first k singular vectors; cluster the projections;
    start from the means of the rows that are three times closer to their center than to any other;
    run Lloyd's iterations on the rows themselves.
    """
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "backend": backend}
    shadows = list(map(_projected, problems))
    starts: dict[int, Floats] = {}
    for width in {shadow.X.shape[1] for shadow in shadows}:
        group = [i for i, shadow in enumerate(shadows) if shadow.X.shape[1] == width]
        found = kmeans_many([shadows[i] for i in group], n_init=n_init, **options)
        for i, local in zip(group, found, strict=True):
            starts[i] = core_means(problems[i].X, shadows[i].X, local)
    return settle_many(problems, [starts[i] for i in range(len(problems))], **options)


def _projected(problem: Problem) -> Problem:
    """Return a problem in the space of its first k singular vectors, if that is less."""
    X, k = problem.X, problem.n_clusters
    if k >= X.shape[1]:
        return problem
    k = count_distinct(X, at_most=k)
    return problem._replace(X=project(X, k), n_clusters=k)


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
    wide = len(X) < X.shape[1]
    gram = X @ X.T if wide else X.T @ X
    squares, vectors = eigh(gram, subset_by_index=[len(gram) - k, len(gram) - 1])
    if wide:  # X = U S V' gives X V = U S, and X X' = U S S U'
        return np.asarray(vectors * np.sqrt(np.maximum(squares, 0)))
    return np.asarray(X @ vectors)


def core_means(X: Floats, projected: Floats, found: Solution) -> Floats:
    """Return the mean of the core of each cluster.

    The core has the rows whose projection is three times closer to its center than to any other. A
    cluster without any is its own core.

    Examples
    --------
    >>> from fedjigsaw.kernels.kmeans import partition_of
    >>> X = np.array([[0.0], [1.0], [4.6], [10.0], [11.0]])
    >>> core_means(X, X, partition_of(X, np.array([0, 0, 0, 1, 1]))).ravel().tolist()
    [0.5, 10.5]
    """
    k, labels, core = len(found.centers), found.labels, np.empty(len(X), dtype=bool)
    for part in blocks(len(X), k):
        distances = pairwise_distances(projected[part], found.centers)
        own = np.arange(len(distances)), labels[part]
        nearest = distances[own]
        distances[own] = np.inf
        core[part] = 3 * nearest <= distances.min(axis=1)
    core |= np.bincount(labels, core, minlength=k)[labels] == 0
    weights = core.astype(np.float64)
    means: Floats = label_sums(X, labels, weights, k)
    return means / np.bincount(labels, weights, minlength=k)[:, None]
