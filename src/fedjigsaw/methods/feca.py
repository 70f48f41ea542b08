r"""FeCA, the method of the paper "Jigsaw Game: Federated Clustering" (Xu et al., 2024).

The five algorithms of the paper stand here, but for Lloyd's algorithm and the extents r', which
k-means has computed before (:mod:`fedjigsaw.kernels.kmeans`):

1. FeCA: :meth:`FeCA.summaries_of` is the loop over clients, and :meth:`FeCA.aggregate` the server;
2. ClientUpdate: :func:`client_update`;
3. RadiusAssign (theoretical): :func:`radius_assign_theoretical`;
4. RadiusAssign (empirical): :func:`radius_assign`;
5. ServerAggregation: :func:`server_aggregation`.

They run for up to `MANY` centers. Beyond, twins with the same bits replace Algorithms 2 and 4 and
lines 2 to 8 of Algorithm 5: :mod:`fedjigsaw.kernels.local_solutions` works on many clients and many
centers at once.

Symbols: client m holds the rows :math:`D^{(m)}`. Cluster i of it holds the rows
:math:`D^{(m)}_i`, and has the center :math:`c_i`, the number of rows :math:`n_i`, the objective
:math:`G_i = \sum_{x \in D_i} \|x - c_i\|^2` and the extent
:math:`r'_i = \max_{x \in D_i} \|x - c_i\|`. These are the fields `centers`, `counts`, `sse` and
`extents` of a :class:`~fedjigsaw.kernels.kmeans.Solution`; its `labels` say which rows are in
:math:`D_i`. A row with a weight counts as so many rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import FewerClustersWarning, MessageError, invalid, warn
from fedjigsaw.kernels.kmeans import Solution, nearest_centers
from fedjigsaw.kernels.local_solutions import (
    distances_within,
    group_by_radius,
    merged_sse,
    refine_many,
)
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._fitted import site_tensors
from fedjigsaw.methods._searching import LocalSearch, make_summaries
from fedjigsaw.parameters import Rule, boolean, one_of

MANY = 10_000  # centers of all clients, beyond which the fast twins of the algorithms run
MAX_CENTERS = 5_000  # of a client that is not trusted: they are compared pair by pair


def client_update(local: Solution) -> Solution:
    r"""Remove one-fit-many centers: Algorithm 2 (ClientUpdate) of the paper, from line 3 on.

    Line 2, Lloyd's algorithm, gave `local`: the best of `n_init` starts of k-means++. The paper
    says neither how Lloyd's algorithm starts nor how often.

    Differences from the paper:

    - The standard deviation of a cluster is :math:`\sqrt{G_i / n_i}`, the root mean square distance
      of its rows to the center. Algorithm 2 has no formula for it; the proof in the appendix speaks
      of the standard deviation of the *distances* to the center, which is another number.
    - The merged objective follows from the statistics of both clusters, without their rows; see
      :func:`~fedjigsaw.kernels.local_solutions.merged_sse`. The merged cluster is used for this
      comparison only, as in the paper.
    - The loop ends where two centers are left. So does the paper's, unless both coincide: i is one
      of the closest pair then. A single center has no pair.
    - Of equal candidates, the first one in the order of `local.centers` is taken.

    Returns
    -------
    The centers that stay, with their clusters. Rows of a cluster that was removed have the label
    -1: they belong to none, as in the paper.

    Examples
    --------
    Two centers share the cluster at 0; one lies between the clusters at 10 and 20.

    >>> from fedjigsaw.kernels.kmeans import partition_of
    >>> X = np.array([[-1.0], [0.0], [0.5], [1.0], [9.0], [11.0], [19.0], [21.0]])
    >>> local = partition_of(X, np.array([0, 0, 1, 1, 2, 2, 2, 2]))
    >>> local.centers.ravel().tolist(), client_update(local).centers.ravel().tolist()
    ([-0.5, 0.75, 15.0], [-0.5, 0.75])
    """
    n, G = local.counts, local.sse
    deviation = np.sqrt(G / n)
    distance = distances_within(local.centers)
    C = np.arange(len(local.centers))  # the centers that are left
    while len(C) > 2:
        i = C[deviation[C].argmax()]  # one-fit-many
        among = distance[np.ix_(C, C)]
        p, q = C[list(np.unravel_index(among.argmin(), among.shape))]  # many-fit-one
        G_j = merged_sse(n[p], n[q], G[p], G[q], distance[p, q])
        if G[i] >= G_j:
            C = C[i != C]
        else:
            break
    place = np.full(len(local.centers) + 1, -1)  # the last one: rows of weight zero, label -1
    place[C] = np.arange(len(C))
    labels = place[local.labels]
    return Solution(local.centers[C], labels, n[C], G[C], local.extents[C])


def radius_assign(local: Solution) -> Floats:
    r"""Return one radius for each center: Algorithm 4 (RadiusAssign, empirical) of the paper.

    :math:`r_i = \min(r'_i, r''_i)`, where :math:`r''_i` is half the distance to the nearest other
    center.

    Difference from the paper: a single center has no other one, and its radius is :math:`r'_i`.

    Examples
    --------
    >>> from fedjigsaw.kernels.kmeans import partition_of
    >>> X = np.array([[-3.0], [3.0], [3.5], [4.5], [25.0], [15.0]])
    >>> local = partition_of(X, np.array([0, 0, 1, 1, 2, 2]))
    >>> local.centers.ravel().tolist(), radius_assign(local).tolist()
    ([0.0, 4.0, 20.0], [2.0, 0.5, 5.0])
    """
    nearest = distances_within(local.centers).min(axis=1)  # infinite for a single center
    radii: Floats = np.minimum(local.extents, nearest / 2)
    return radii


def radius_assign_theoretical(local: Solution) -> Floats:
    r"""Return the same radius for all centers: Algorithm 3 (RadiusAssign, theoretical).

    A center and the nearest one to it are both discarded, as many-fit-one, if the balls of radius
    r' around them overlap (:math:`r'_i + r'_j > d_{ij}`). Half the smallest distance among the
    others is the radius of *all* centers.

    What the paper leaves open:

    - Centers are examined by their distance to the nearest other one before any was discarded, the
      closest first. Ties, also for the nearest one, go to the smaller coordinates, so that the
      order of centers does not matter.
    - A center that was discarded is neither examined nor the nearest one of another: so lines 4 to
      7 read literally, where the set shrinks while the loop runs. A last one is not examined.
    - Where fewer than two centers are left, the empirical radii are returned.

    Examples
    --------
    The clusters of the two centers near 0 overlap; the other centers are 10 apart.

    >>> from fedjigsaw.kernels.kmeans import partition_of
    >>> X = np.array([[-1.0], [0.5], [0.0], [1.5], [19.0], [21.0], [29.0], [31.0]])
    >>> radius_assign_theoretical(partition_of(X, np.arange(8) // 2)).tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    order = np.lexsort(local.centers.T[::-1])
    extents, distance = local.extents[order], distances_within(local.centers[order])
    left = np.ones(len(order), dtype=bool)
    for i in np.argsort(distance.min(axis=1), kind="stable"):
        if not left[i] or left.sum() < 2:
            continue
        j = np.where(left, distance[i], np.inf).argmin()
        if extents[i] + extents[j] > distance[i, j]:
            left[[i, j]] = False
    if left.sum() < 2:
        return radius_assign(local)
    return np.full(len(order), distance[np.ix_(left, left)].min() / 2)


def server_aggregation(k: int, C: Floats, R: Floats) -> Floats:
    r"""Return the means of the k largest groups of centers: Algorithm 5 (ServerAggregation).

    Lines 2 to 8 are :func:`groups_within_radii`.

    The center :math:`c_i` with the largest radius forms a group with all centers within
    :math:`r_i` of it; the group is taken out, and so on until no center is left.

    Differences from the paper:

    - A center is picked among those that are left. The paper does not say that the others leave R.
    - Of equal radii, the center comes first whose coordinates are smaller, so that the order of
      clients does not matter. Of groups of one size, that of the larger radius comes first.
    - If there are fewer than k groups, all are returned. Line 9 does not say so, the paper's
      appendix does.
    - A warning says if groups were chosen among single centers of radius 0, which no number ranks.

    Examples
    --------
    >>> C, R = np.array([[0.0], [1.0], [9.0], [2.5]]), np.array([1.0, 2.0, 0.5, 0.1])
    >>> server_aggregation(1, C, R).tolist()
    [[1.1666666666666667]]
    """
    groups = groups_within_radii(C, R) if len(C) <= MANY else group_by_radius(C, R)
    groups = sorted(groups, key=len, reverse=True)  # stable: by size, then by radius
    _warn_of_arbitrary_groups(groups, R, k)
    return np.stack([C[S].mean(axis=0) for S in groups[:k]])


def groups_within_radii(C: Floats, R: Floats) -> list[Ints]:
    """Return the groups of Algorithm 5, lines 2 to 8, as indices of centers.

    Examples
    --------
    >>> C, R = np.array([[0.0], [1.0], [9.0], [2.5]]), np.array([1.0, 2.0, 0.5, 0.1])
    >>> [S.tolist() for S in groups_within_radii(C, R)]
    [[1, 0, 3], [2]]
    """
    groups = []
    index = np.lexsort((*C.T[::-1], -R))  # by radius, the largest first; then by coordinates
    C, R = C[index], R[index]
    while len(C):
        inside = pairwise_distances(C[:1], C)[0] <= R[0]
        inside[0] = True  # the center itself
        groups.append(index[inside])
        left = ~inside if inside[1:].any() else slice(1, None)  # slices take no time
        C, R, index = C[left], R[left], index[left]
    return groups


def _warn_of_arbitrary_groups(groups: Sequence[Ints], R: Floats, k: int) -> None:
    """Warn if some of the single centers of radius 0 were chosen, by their coordinates alone."""
    bare = [len(S) == 1 and R[S[0]] == 0 for S in groups]
    chosen, others = sum(bare[:k]), sum(bare[k:])
    if chosen and others:
        clusters = f"{chosen} of {k} clusters {'is' if chosen == 1 else 'are'}"
        number = "one" if chosen == 1 else f"{chosen}"
        warn(
            f"{clusters} {number} of {chosen + others} centers of radius 0, chosen arbitrarily: "
            "local clusters of a single row gather no others. Use fewer local clusters, or "
            "Jigsaw with counts.",
            FewerClustersWarning,
        )


class FeCA(LocalSearch):
    r"""Federated centroid aggregation. One round: each client sends centers and radii.

    The problem: M clients hold rows :math:`D = \cup_m D_m`, which may not leave; find k centers C
    that minimize :math:`G(C) = \sum_{x \in D} \min_{c \in C} \|x - c\|^2`.

    Each client m runs k-means on :math:`D_m`, drops the centers that sit between several true
    clusters (:func:`client_update`), gives each of the others a radius (:func:`radius_assign`), and
    sends both. The server groups all received centers by those radii and returns the means of the k
    largest groups (:func:`server_aggregation`).

    Beyond Algorithm 1: clients may look for another number of clusters than k (`n_local_clusters`,
    which the paper's appendix varies, too), rows may have weights, and a guard may merge clusters
    before they leave. A client also sends how many rows it has, and how many clusters its guard
    merged. Neither affects a center.

    A local cluster of one row has the radius 0: it gathers no other center, though a larger circle
    may take it in. Where clients
    have hardly more rows than local clusters, centers are therefore chosen arbitrarily, with a
    :class:`~fedjigsaw.errors.FewerClustersWarning`: use fewer `n_local_clusters`, or
    :class:`~fedjigsaw.Jigsaw`.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters k in all the data.
    n_local_clusters : int or None, default None
        Number of clusters k' that each client looks for; None is k. A client with fewer distinct
        rows looks for as many as it has.
    n_init : int, default 10
        Restarts of each client's k-means.
    refine : bool, default True
        Drop one-fit-many centers. False is the paper's ablation.
    radius : {"empirical", "theoretical"}, default "empirical"
        One radius per center, for data as they are; or one per client, for which the paper proves
        its theorem on separated balls.
    max_iter, tol : int, float
        When a restart of k-means ends, as in :class:`sklearn.cluster.KMeans`.
    assign : {"nearest", "local"}, default "nearest"
        Label rows by the nearest center of the model, or by the nearest center that the row's own
        client sent. "local" is better on skewed data and worse on even splits.
    random_state : int, RandomState, Generator or None
        Seed of the run; with an integer, every run gives the same bits.

    References
    ----------
    J. Xu, H.-Y. Chen, W.-L. Chao, Y. Zhang: Jigsaw Game: Federated Clustering. Transactions on
    Machine Learning Research, 2024.

    Examples
    --------
    Each of three clients holds two of the three clusters. Together they find all three.

    >>> from fedjigsaw import FeCA
    >>> a, b, c = ([[x - 1.0], [x + 1.0]] for x in (0, 50, 100))
    >>> feca = FeCA(n_clusters=3, n_local_clusters=2, random_state=0)
    >>> feca = feca.fit_clients({"Bern": a + b, "Lyon": b + c, "Oslo": a + c})
    >>> sorted(feca.cluster_centers_.ravel().tolist())
    [0.0, 50.0, 100.0]
    >>> feca.transcript_.bytes_up
    144
    """

    method: ClassVar[str] = "feca"
    takes_weights: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    sends: ClassVar[tuple[str, ...]] = ("radii",)
    rules: ClassVar[Mapping[str, Rule]] = {
        "refine": boolean(),
        "radius": one_of("empirical", "theoretical"),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_local_clusters: int | None = None,
        n_init: int = 10,
        refine: bool = True,
        radius: str = "empirical",
        max_iter: int = 300,
        tol: float = 1e-4,
        assign: str = "nearest",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.n_init = n_init
        self.refine = refine
        self.radius = radius
        self.max_iter = max_iter
        self.tol = tol
        self.assign = assign
        self.random_state = random_state

    def summaries_of(
        self, data: Sequence[Floats], found: Sequence[Solution], broadcasts: Sequence[Broadcast]
    ) -> list[Summary]:
        """Return refined centers and their radii of each client: Algorithm 1, lines 3 and 4."""
        many = sum(len(local.centers) for local in found) > MANY
        if many:
            refined = refine_many(found, drop=self.refine)
            kept, radii = [local for local, _ in refined], [own for _, own in refined]
        else:
            kept = list(map(client_update, found)) if self.refine else list(found)
        if self.radius == "theoretical":
            radii = list(map(radius_assign_theoretical, kept))
        elif not many:
            radii = list(map(radius_assign, kept))
        return make_summaries(data, kept, radii=radii)

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Return the means of the largest groups of centers: Algorithm 1, lines 6 to 9.

        Beside the paper, the model notes how many rows each client has, and how many of its centers
        are nearest to each center of the model, those of discarded groups included.
        """
        C, R = _union(summaries)
        centers = server_aggregation(int(self.n_clusters), C, R)
        owners = np.repeat(np.arange(len(summaries)), [len(s.centers) for s in summaries])
        table = np.zeros((len(summaries), len(centers)))
        np.add.at(table, (owners, nearest_centers(C, centers)[0]), 1)
        return self.make_model(centers, **site_tensors([s.n_samples for s in summaries], table))

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: it has radii, and not too many."""
        super().check_answer(summary, broadcast)
        if len(summary.centers) > MAX_CENTERS:
            owner, got = f"client {summary.client!r}", len(summary.centers)
            raise MessageError(invalid("centers", owner, f"at most {MAX_CENTERS} for FeCA", got))
        _union([summary])


def _union(summaries: Sequence[Summary]) -> tuple[Floats, Floats]:
    """Return all received centers and their radii."""
    radii = []
    for summary in summaries:
        if summary.radii is None:
            raise MessageError(f"Client {summary.client!r} sent no radii, which FeCA needs.")
        radii.append(summary.radii)
    return np.concatenate([summary.centers for summary in summaries]), np.concatenate(radii)
