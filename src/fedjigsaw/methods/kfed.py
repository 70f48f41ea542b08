"""k-FED: few clusters per client, separated by the farthest-first rule (Dennis et al., 2021)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import ParameterError
from fedjigsaw.estimator import ASSIGN
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
from fedjigsaw.parameters import Rule, integer, is_integer, real, seed_source

STACKED = 32  # columns of small matrices: there, a call costs as much as its work
AT_A_TIME = 2**17  # distances between rows and centers: they fit the cache


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

    def n_local(self, n_rows: int) -> int:
        """Return the number k' of a client without one of its own."""
        k = self.n_local_clusters
        return self.n_clusters if k is None or isinstance(k, dict) else k

    def search(
        self, problems: Sequence[Problem], broadcasts: Sequence[Broadcast]
    ) -> list[Solution]:
        """Return the k' local clusters of each client."""
        if isinstance(self.n_local_clusters, dict):
            problems = [
                problem._replace(n_clusters=self._own_k(self.n_local_clusters, broadcast.client))
                for problem, broadcast in zip(problems, broadcasts, strict=True)
            ]
        options: dict[str, Any] = {name: getattr(self, name) for name in ("n_init", "max_iter")}
        return cluster_many(problems, tol=self.tol, backend=self.backend, **options)

    def _own_k(self, numbers: dict[str, int], client: str) -> int:
        if client not in numbers:
            raise ParameterError(
                f"n_local_clusters of KFed has no entry for client {client!r}. "
                "Give one for every client."
            )
        return numbers[client]

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
    return project_many([X], [k])[0]


def project_many(rows: Sequence[Floats], numbers: Sequence[int]) -> list[Floats]:
    """Project the rows of many clients, each onto its own number of vectors, as :func:`project`."""
    grams = [X @ X.T if len(X) < X.shape[1] else X.T @ X for X in rows]
    return list(map(_onto, rows, _last_eigenvectors(grams, numbers)))


def _onto(X: Floats, vectors: tuple[Floats, Floats]) -> Floats:
    squares, basis = vectors
    if len(X) < X.shape[1]:  # X = U S V' gives X V = U S, and X X' = U S S U'
        return np.asarray(basis * np.sqrt(np.maximum(squares, 0)))
    return np.asarray(X @ basis)


def _last_eigenvectors(
    matrices: Sequence[Floats], numbers: Sequence[int]
) -> list[tuple[Floats, Floats]]:
    """Return the largest eigenvalues of each symmetric matrix, and their vectors as columns."""
    found: dict[int, tuple[Floats, Floats]] = {}
    sizes = np.array(list(map(len, matrices)))
    for size in np.unique(sizes).tolist():
        those = np.flatnonzero(sizes == size).tolist()
        if size > STACKED:
            ends = ([size - numbers[i], size - 1] for i in those)
            each = [eigh(matrices[i], subset_by_index=e) for i, e in zip(those, ends, strict=True)]
            found |= zip(those, each, strict=True)
            continue
        values, vectors = np.linalg.eigh(np.stack([matrices[i] for i in those]))
        for i, value, vector in zip(those, values, vectors, strict=True):
            found[i] = value[-numbers[i] :], vector[:, -numbers[i] :]
    return [found[i] for i in range(len(matrices))]


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
    projected = _projected(problems)
    starts: dict[int, Floats] = {}
    for width in {problem.X.shape[1] for problem in projected}:
        group = [i for i, problem in enumerate(projected) if problem.X.shape[1] == width]
        shadows = [projected[i] for i in group]
        found = kmeans_many(shadows, n_init=n_init, **options)
        means = core_means([problems[i].X for i in group], [p.X for p in shadows], found)
        starts |= zip(group, means, strict=True)
    return settle_many(problems, [starts[i] for i in range(len(problems))], **options)


def _projected(problems: Sequence[Problem]) -> list[Problem]:
    """Return each problem in the space of its first k singular vectors, if that is less."""
    found = list(problems)
    those = [i for i, problem in enumerate(found) if problem.n_clusters < problem.X.shape[1]]
    numbers = [count_distinct(found[i].X, at_most=found[i].n_clusters) for i in those]
    shadows = project_many([found[i].X for i in those], numbers)
    for i, shadow, k in zip(those, shadows, numbers, strict=True):
        found[i] = found[i]._replace(X=shadow, n_clusters=k)
    return found


def core_means(
    rows: Sequence[Floats], projected: Sequence[Floats], found: Sequence[Solution]
) -> list[Floats]:
    """Return the means of the core of each cluster, for many clients.

    The core has the rows whose projection is three times closer to its center than to any other. A
    cluster without any is its own core.

    Examples
    --------
    >>> from fedjigsaw.kernels.kmeans import partition_of
    >>> X = np.array([[0.0], [1.0], [4.6], [10.0], [11.0]])
    >>> (means,) = core_means([X], [X], [partition_of(X, np.array([0, 0, 0, 1, 1]))])
    >>> means.ravel().tolist()
    [0.5, 10.5]
    """
    sizes = np.array([len(one.centers) for one in found])
    owners = np.repeat(np.arange(len(found)), list(map(len, rows)))
    labels = np.concatenate([one.labels for one in found])
    core = _cores(np.concatenate(projected), owners, labels, [one.centers for one in found])
    clusters = (np.cumsum(sizes) - sizes)[owners] + labels  # of all clients, one after the other
    k = int(sizes.sum())
    core |= np.bincount(clusters, core, minlength=k)[clusters] == 0
    w = core.astype(np.float64)
    means = label_sums(np.concatenate(rows), clusters, w, k)
    means /= np.bincount(clusters, w, minlength=k)[:, None]
    return np.split(means, np.cumsum(sizes)[:-1])


def _cores(X: Floats, owners: Ints, labels: Ints, centers: Sequence[Floats]) -> Any:
    """Tell which rows are three times closer to their client's own center than to its others."""
    k = max(map(len, centers))
    padded = np.full((X.shape[1], k, len(centers)), np.inf)  # of a column, center and client
    for i, one in enumerate(centers):
        padded[:, : len(one), i] = one.T
    core = np.empty(len(X), dtype=bool)
    for part in blocks(len(X), k, AT_A_TIME):
        squared = np.zeros((k, len(labels[part])))
        for values, places in zip(X[part].T, padded, strict=True):
            difference = places.take(owners[part], axis=1)
            difference -= values
            difference *= difference
            squared += difference
        own = labels[part], np.arange(squared.shape[1])
        nearest = np.sqrt(squared[own])
        squared[own] = np.inf
        core[part] = 3 * nearest <= np.sqrt(squared.min(axis=0))
    return core
