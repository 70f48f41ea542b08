"""Federated fuzzy c-means (Stallmann and Wilbik, 2022), in several rounds."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Stats, merge
from fedjigsaw.engine import warn_of_fewer_clusters
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.estimator import ASSIGN, FederatedClusterer
from fedjigsaw.kernels.kmeans import blocks, kmeans, nearest_centers
from fedjigsaw.kernels.matching import match
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.parameters import Rule, integer, is_integer, real, seed_source

SAME = 1e-3  # the distance of two centers that coincide, beside those of their rows to them


class FuzzyCMeans(FederatedClusterer):
    r"""Several rounds: fuzzy c-means at every client from common centers, merged at the server.

    The problem of client l, with memberships :math:`u_{nj} \ge 0`, :math:`\sum_j u_{nj} = 1`:

    .. math:: \min_{c, u} \; \sum_n \sum_j u_{nj}^m \|x_n - c_j\|^2 .

    In each round the server sends its centers, every client runs fuzzy c-means from there and
    sends its centers with their support :math:`s_j = \sum_n u_{nj}^m`. Version 1 averages center
    j over clients, weighted by its support (all clients started from the same center j); version 2
    runs k-means over all received centers.

    The first centers are drawn from statistics, never from rows. In a round of its own before the
    others, each client sends the mean and the sum of squares of each column, and the server draws
    uniformly with the mean and spread of all the data.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k.
    version : {1, 2}, default 1
        How the server merges centers: support-weighted means, or k-means over all.
    n_rounds : int, default 10
        Rounds of clustering; the round for the statistics comes on top.
    m : float, default 2.0
        Fuzziness, above 1. Close to 1 a row belongs to its nearest center alone, as in k-means. In
        many dimensions, large values make all centers coincide at the mean of the data; a
        FewerClustersWarning says so.
    max_iter, tol : int, float
        A client stops when its centers move, in sum of squares, by at most `tol` times the mean
        variance of its columns.
    assign : {"nearest", "local"}, default "nearest"
        Label rows by the nearest center of the model, or by the nearest center that the row's own
        client sent.
    random_state : int, RandomState, Generator or None
        Seed of the run.

    References
    ----------
    M. Stallmann, A. Wilbik: Towards Federated Clustering: A Federated Fuzzy c-Means Algorithm
    (FFCM). 2022.

    Examples
    --------
    >>> from fedjigsaw import FuzzyCMeans
    >>> shards = [[[0.0], [1.0], [10.0]], [[0.5], [9.0], [11.0]]]
    >>> fuzzy = FuzzyCMeans(n_clusters=2, random_state=0).fit_clients(shards)
    >>> sorted(fuzzy.cluster_centers_.ravel().round(1).tolist()), fuzzy.n_iter_
    ([0.5, 10.0], 11)
    """

    method: ClassVar[str] = "fuzzy"
    sends: ClassVar[tuple[str, ...]] = ("tensors",)
    server_parameters: ClassVar[tuple[str, ...]] = ("version",)
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1),
        "version": Rule("1 or 2", lambda value: is_integer(value) and value in (1, 2)),
        "n_rounds": integer(1),
        "m": real(1, inclusive=False),
        "max_iter": integer(1),
        "tol": real(0),
        "assign": ASSIGN,
        "random_state": seed_source(),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        version: int = 1,
        n_rounds: int = 10,
        m: float = 2.0,
        max_iter: int = 300,
        tol: float = 1e-4,
        assign: str = "nearest",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.version = version
        self.n_rounds = n_rounds
        self.m = m
        self.max_iter = max_iter
        self.tol = tol
        self.assign = assign
        self.random_state = random_state

    @property
    def total_rounds(self) -> int:
        """Number of rounds: one for the statistics, then those of clustering."""
        return 1 + self.n_rounds

    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Return column statistics if there is no model yet, else centers and their support."""
        if broadcast.model is None:
            mean = X.mean(axis=0, keepdims=True)
            squares = ((X - mean) ** 2).sum(axis=0)
            counts, total = np.array([len(X)]), np.array([squares.sum()])
            tensors = {"sum_of_squares": squares}
            return Summary(len(X), mean, counts=counts, sse=total, tensors=tensors)
        centers, support = fuzzy_cmeans(
            X, broadcast.model.centers, m=self.m, max_iter=self.max_iter, tol=self.tol
        )
        labels, distances = nearest_centers(X, centers)
        # for the guard; the server gets neither
        counts = np.bincount(labels, minlength=len(centers))
        sse: Floats = np.bincount(labels, distances**2, minlength=len(centers)).astype(np.float64)
        tensors = {"support": support}
        return Summary(len(X), centers, counts=counts, sse=sse, tensors=tensors)

    def answer_tensors(self, broadcast: Broadcast) -> Set[str]:
        """Return the name of the tensor that an answer to a broadcast has."""
        return {"sum_of_squares" if broadcast.model is None else "support"}

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted, as `aggregate` would."""
        super().check_answer(summary, broadcast)
        if broadcast.model is None:
            self._draw([summary], np.random.default_rng(0))
        elif self.version == 1:
            average_by_support([summary], broadcast.model.centers)

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Draw centers to start from, or merge those of the clients."""
        if broadcast.model is None:
            return self.make_model(self._draw(summaries, rng))
        if self.version == 2:
            received = np.concatenate([summary.centers for summary in summaries])
            found = kmeans(received, self.n_clusters, rng=rng, backend=self.backend)
            return self.make_model(found.centers)
        return self.make_model(average_by_support(summaries, broadcast.model.centers))

    def _warn_of_fewer(self, rows: Any, weights: Floats | None) -> None:
        """Warn also of centers that coincide."""
        super()._warn_of_fewer(rows, weights)
        if rows is None:
            return
        found = count_apart(self.model_.centers, *self._label(rows))
        if self.n_clusters_ == self.n_clusters and found < self.n_clusters:
            why = "the other centers coincide with these. A smaller m may tell them apart"
            owner = type(self).__name__
            warn_of_fewer_clusters(self.n_clusters, found, owner=owner, why=why)

    def _draw(self, summaries: Sequence[Summary], rng: np.random.Generator) -> Floats:
        """Draw centers with the mean and the variance of all the data in every column."""
        columns = tuple(map(str, range(summaries[0].centers.shape[1])))
        scaler = merge(
            [
                Stats(s.client, columns, s.n_samples, s.centers[0], _sent(s, "sum_of_squares"))
                for s in summaries
            ]
        )
        reach = np.sqrt(3)  # a uniform draw from [-a, a] has the variance a^2 / 3
        return scaler.unscale(rng.uniform(-reach, reach, (self.n_clusters, len(columns))))


def average_by_support(summaries: Sequence[Summary], before: Floats) -> Floats:
    """Average each center over clients, weighted by support; one without support stays.

    A guard may have merged some of a client's centers. The remaining ones are then paired with the
    centers `before` one to one.
    """
    sums, weights = np.zeros_like(before), np.zeros(len(before))
    for summary in summaries:
        centers, support = summary.centers, _sent(summary, "support")
        if len(centers) > len(before) or support.shape != (len(centers),) or (support < 0).any():
            allowed = f"at most {len(before)}, with a support >= 0 of each"
            got = f"{len(centers)}, with a support of shape {support.shape}"
            raise MessageError(invalid("centers", f"client {summary.client!r}", allowed, got))
        where = np.arange(len(before))
        if len(centers) < len(before):
            rows, where = match(centers, before)
            centers, support = centers[rows], support[rows]
        sums[where] += support[:, None] * centers
        weights[where] += support
    alone = weights == 0
    means: Floats = np.where(alone[:, None], before, sums / np.where(alone, 1.0, weights)[:, None])
    return means


def count_apart(centers: Floats, labels: Ints, distances: Floats) -> int:
    """Count the centers that do not coincide with one that was counted before.

    Two coincide if their distance is nothing beside those of their rows to them. That is measured
    by their own rows: small clusters close together, beside a wide one, are apart.

    Examples
    --------
    >>> centers = np.array([[1.0], [1.0001], [9.0]])
    >>> count_apart(centers, np.array([0, 1, 2]), np.array([1.0, 1.0, 0.0]))
    2
    """
    k = len(centers)
    counts, sse = np.bincount(labels, minlength=k), np.bincount(labels, distances**2, minlength=k)
    kept: list[int] = []
    for j in np.argsort(-counts, kind="stable"):
        gaps = ((centers[kept] - centers[j]) ** 2).sum(axis=1)
        spreads = (sse[kept] + sse[j]) / np.maximum(counts[kept] + counts[j], 1)
        if (gaps > SAME**2 * spreads).all():
            kept.append(int(j))
    return len(kept)


def _sent(summary: Summary, name: str) -> np.ndarray:
    """Return a tensor that a client must have sent."""
    if name not in summary.tensors:
        words = name.replace("_", " ")
        raise MessageError(f"Client {summary.client!r} sent no {words}, which FuzzyCMeans needs.")
    return summary.tensors[name]


def fuzzy_cmeans(
    X: Floats, centers: Floats, *, m: float = 2.0, max_iter: int = 300, tol: float = 1e-4
) -> tuple[Floats, Floats]:
    r"""Run fuzzy c-means. Return the centers and their support :math:`\sum_n u_{nj}^m`.

    It alternates :math:`u_{nj} = 1 / \sum_i (\|x_n - c_j\| / \|x_n - c_i\|)^{2 / (m - 1)}` and
    :math:`c_j = \sum_n u_{nj}^m x_n / \sum_n u_{nj}^m`. A center without support stays.

    Examples
    --------
    >>> centers, support = fuzzy_cmeans(np.array([[0.0], [10.0]]), np.array([[1.0], [9.0]]))
    >>> centers.round(3).ravel().tolist(), support.round(3).tolist()
    ([0.0, 10.0], [1.0, 1.0])
    """
    middle = X.mean(axis=0)
    rows, centers = X - middle, centers - middle
    enough = tol * rows.var(axis=0).mean()
    support = np.zeros(len(centers))
    for _ in range(max_iter):
        before = centers
        sums, support = np.zeros_like(centers), np.zeros(len(centers))
        for part in blocks(len(rows), 3 * len(centers)):
            weights = _memberships(rows[part], centers, m) ** m
            sums += weights.T @ rows[part]
            support += weights.sum(axis=0)
        alone = support == 0
        centers = np.where(alone[:, None], before, sums / np.where(alone, 1.0, support)[:, None])
        if ((centers - before) ** 2).sum() <= enough:
            break
    return centers + middle, support


def _memberships(rows: Floats, centers: Floats, m: float) -> Floats:
    """Return the membership of each row in each center; rows sum to one."""
    squared = np.einsum("ij,ij->i", rows, rows)[:, None] - 2 * (rows @ centers.T)
    squared += np.einsum("ij,ij->i", centers, centers)
    np.maximum(squared, 1e-300, out=squared)  # a row on a center belongs to it alone
    with np.errstate(over="ignore"):
        squared /= squared.min(axis=1, keepdims=True)  # at least one: no power overflows
        closeness: Floats = squared ** (-1 / (m - 1))
    closeness /= closeness.sum(axis=1, keepdims=True)
    return closeness
