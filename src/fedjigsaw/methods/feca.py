"""FeCA, the method of the paper "Jigsaw Game: Federated Clustering" (Xu et al., 2024)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import MessageError, invalid
from fedjigsaw.estimator import ASSIGN
from fedjigsaw.kernels.kmeans import Solution, nearest_centers
from fedjigsaw.kernels.local_solutions import refine_many, theoretical_radii
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._fitted import SiteFindings
from fedjigsaw.methods._searching import LocalSearch, make_summaries
from fedjigsaw.parameters import Rule, boolean, integer, one_of, real, seed_source
from fedjigsaw.robust.received import Received, final_group_means
from fedjigsaw.robust.site_reports import site_tensors

MAX_CENTERS = 5_000  # of a client that is not trusted: they are compared pair by pair


class FeCA(SiteFindings, LocalSearch):
    r"""Federated centroid aggregation. One round: each client sends centers and radii.

    The problem: M clients hold rows :math:`D = \cup_m D_m`, which may not leave; find k centers C
    that minimize :math:`G(C) = \sum_{x \in D} \min_{c \in C} \|x - c\|^2`.

    Each client m runs k-means on :math:`D_m`, drops the centers that sit between several true
    clusters (:func:`~fedjigsaw.kernels.local_solutions.drop_one_fit_many`), gives each of the
    others a radius, and sends both. The server groups all received centers by those radii
    (:func:`~fedjigsaw.kernels.grouping.groups_by_size`) and returns the means of the
    k largest groups. Of two groups of the same size, the one with the larger radius comes first.

    A local cluster of one row has the radius 0, so that nothing is grouped with it. Where clients
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
        "n_clusters": integer(1),
        "n_local_clusters": integer(1, or_none=True),
        "n_init": integer(1),
        "refine": boolean(),
        "radius": one_of("empirical", "theoretical"),
        "max_iter": integer(1),
        "tol": real(0),
        "assign": ASSIGN,
        "random_state": seed_source(),
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
        """Return refined centers and their radii (ClientUpdate and RadiusAssign)."""
        refined = refine_many(found, drop=self.refine)
        kept, radii = [local for local, _ in refined], [own for _, own in refined]
        if self.radius == "theoretical":
            radii = [theoretical_radii(local.centers, local.extents) for local in kept]
        return make_summaries(data, kept, radii=radii)

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Return the means of the largest groups of centers (ServerAggregation)."""
        received = self._receive(summaries)
        centers = final_group_means(received, self.n_clusters)
        labels, _ = nearest_centers(received.centers, centers)
        table = np.zeros((received.n_sites, len(centers)))
        np.add.at(table, (received.owners, labels), 1)
        rows = np.array([float(summary.n_samples) for summary in summaries])
        return self.make_model(centers, **site_tensors({"rows": rows}, table))

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: it has radii, and not too many."""
        super().check_answer(summary, broadcast)
        if len(summary.centers) > MAX_CENTERS:
            owner, got = f"client {summary.client!r}", len(summary.centers)
            raise MessageError(invalid("centers", owner, f"at most {MAX_CENTERS} for FeCA", got))
        self._receive([summary])

    def _receive(self, summaries: Sequence[Summary]) -> Received:
        """Put centers and radii together. FeCA's server knows no counts: each center counts 1."""
        for summary in summaries:
            if summary.radii is None:
                raise MessageError(f"Client {summary.client!r} sent no radii, which FeCA needs.")
        sizes = [len(summary.centers) for summary in summaries]
        radii = np.concatenate([np.asarray(summary.radii) for summary in summaries])
        return Received(
            centers=np.concatenate([summary.centers for summary in summaries]),
            counts=np.ones(len(radii)),
            sse=np.zeros(len(radii)),
            owners=np.repeat(np.arange(len(sizes)), sizes),
            has_counts=False,
            has_sse=False,
            radii=radii,
            noise=np.zeros(len(radii)),
            n_sites=len(sizes),
        )
