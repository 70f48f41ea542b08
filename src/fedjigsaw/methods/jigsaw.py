"""Jigsaw: centers with their counts from every client, one weighted solve at the server."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.base import FederatedClusterer
from fedjigsaw.errors import MessageError, ParameterError, invalid
from fedjigsaw.kernels.clouds import settle_clouds
from fedjigsaw.kernels.grouping import group_by_radius
from fedjigsaw.kernels.indices import calinski_harabasz, margins, mutual_information
from fedjigsaw.kernels.kmeans import coordinate_order, kmeans, nearest_centers, partition_of
from fedjigsaw.kernels.solver import solve, solve_each
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods._received import Received, receive
from fedjigsaw.parameters import Rule, integer, one_of, real, seed_source

ROWS_PER_CENTER = 5  # beyond k centers, each must stand for so many rows: the guard's default
SKEWED = 1.0  # bits; local labels from here: to know the client halves the clusters to choose from
SUPPORT = ("clients", "points", "spread", "margin")


class Jigsaw(FederatedClusterer):
    r"""One message per client, centers with their counts; a weighted solve at the server.

    The problem: rows :math:`D = \cup_m D_m` lie with M clients and may not leave; find k centers C
    that minimize :math:`G(C) = \sum_{x \in D} \min_{c \in C} \|x - c\|^2`.

    Each client m runs k-means on :math:`D_m` and sends its centers :math:`c_i`, how many rows
    :math:`n_i` each stands for, and their summed squared distance :math:`s_i`. For any way to put
    those local clusters together, the server then knows the objective exactly:

    .. math:: \sum_i s_i + n_i \|c_i - C_{a(i)}\|^2 ,

    where a(i) is the cluster that i goes to. The first part is settled; the second is weighted
    k-means over the received centers, solved by :func:`~fedjigsaw.kernels.solver.solve`, which
    leaves the local optima that restarts end in. The final boundaries cut through some
    local clusters, so a last step takes them for clouds of rows
    (:func:`~fedjigsaw.kernels.clouds.settle_clouds`).

    Parameters
    ----------
    n_clusters : int or "auto", default 8
        Number of clusters k in all the data. "auto" chooses the k of the largest
        Calinski-Harabasz index, which the server knows exactly from counts and sums; `k_curve_`
        keeps the index of every k. It compares clusterings, so the least it chooses is 2; it tends
        to overlook clusters that are far smaller than others, or blurred; and clients with few
        rows send few centers, in which clusters are lost (give `n_local_clusters` then).
    n_local_clusters : int or None, default None
        Number of clusters k' that each client looks for. None is `detail` times k; with "auto",
        `detail` times `max_clusters`, but only one for every five rows, so that a summary stays
        one.
    detail : int, default 1
        How many times k centers a client may send: more tell the server more, of finer groups.
        Beyond k, only one for every five rows.
    max_clusters : int, default 50
        The largest number that ``n_clusters="auto"`` considers.
    n_init : int, default 10
        Restarts of each client's k-means.
    n_rounds : int, default 1
        Every round after the first is one Lloyd step on all data, exactly: clients answer the
        model with the mean and the count of their rows in each cluster.
    max_iter, tol : int, float
        When a restart of k-means ends, as in :class:`sklearn.cluster.KMeans`.
    patience : int or None, default None
        How many moves the server's search tries in vain before it ends; None is 10 + k / 2. 0 ends
        where Lloyd's iterations do: several times quicker, and good enough where centers are
        needed often rather than well.
    assign : {"nearest", "local", "auto"}, default "nearest"
        Whether `labels_` go by the nearest center of all, or by the nearest center that the row's
        own client sent: better on skewed data, worse on even ones. "auto" decides by `skew_`;
        `assign_` says what was chosen, `assign_reason_` why.
    random_state : int, RandomState, Generator or None
        Seed of the run; with an integer, every run gives the same bits.

    Attributes
    ----------
    support_ : dict of arrays of shape (n_clusters_,)
        What speaks for each cluster. `clients` and `points`: how many took part in it. `spread`:
        root mean square distance s of its rows to its center. `margin`:
        :math:`1 - s / \sqrt{s^2 + D^2}` with the distance D to the nearest other center, between 0
        (they are one) and 1 (far apart).
    k_curve_ : dict of arrays, with ``n_clusters="auto"`` only
        `k`, `objective` and `index` of every k that was considered.
    k_runner_up_ : int or None
        The k of the second largest index.
    objective_ : float
        Summed squared distance of all rows to the centers that their local clusters went to: what
        the server knows without a look at the rows. Some rows are nearer to another center, so
        `inertia_` is at most this.
    skew_ : float
        How many bits the client tells about a row's cluster (their mutual information). 0: all
        clients hold the same mixture. From 1 on, "auto" labels go by local centers: to know the
        client then halves the clusters that a row may be in, so that its client had two centers to
        spend on each.

    Examples
    --------
    Three clients see two of the three clusters each; together they find all three, and how many
    there are.

    >>> from fedjigsaw import Jigsaw
    >>> a, b, c = ([[x + i / 4] for i in range(-8, 9)] for x in (0, 50, 100))
    >>> jigsaw = Jigsaw(n_clusters="auto", random_state=0)
    >>> jigsaw = jigsaw.fit_clients({"Bern": a + b, "Lyon": b + c, "Oslo": a + c})
    >>> jigsaw.cluster_centers_.ravel().tolist()
    [0.0, 50.0, 100.0]
    >>> jigsaw.support_["points"].tolist(), jigsaw.support_["clients"].tolist()
    ([34, 34, 34], [2, 2, 2])
    """

    method: ClassVar[str] = "jigsaw"
    sends: ClassVar[tuple[str, ...]] = ("counts", "sse")
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1, or_word="auto"),
        "n_local_clusters": integer(1, or_none=True),
        "detail": integer(1),
        "max_clusters": integer(2),
        "n_init": integer(1),
        "n_rounds": integer(1),
        "max_iter": integer(1),
        "tol": real(0),
        "patience": integer(0, or_none=True),
        "assign": one_of("nearest", "local", "auto"),
        "random_state": seed_source(),
    }

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_local_clusters: int | None = None,
        detail: int = 1,
        max_clusters: int = 50,
        n_init: int = 10,
        n_rounds: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        patience: int | None = None,
        assign: str = "nearest",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.detail = detail
        self.max_clusters = max_clusters
        self.n_init = n_init
        self.n_rounds = n_rounds
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.assign = assign
        self.random_state = random_state

    def check(self) -> None:
        """Hold the parameters against `rules` and against each other."""
        super().check()
        if self.assign == "local" and self.n_rounds > 1:
            allowed = "'nearest' or 'auto' with several rounds, whose last sends no local clusters"
            raise ParameterError(invalid("assign", "Jigsaw", allowed, "'local'"))

    # ------------------------------------------------------------------------------ at a client

    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Local centers with counts and sums; in later rounds, of the model's clusters."""
        if broadcast.model is None:
            local = kmeans(
                X,
                self.n_local(len(X)),
                rng=rng,
                n_init=self.n_init,
                max_iter=self.max_iter,
                tol=self.tol,
                backend=self.backend,
            )
        else:
            local = partition_of(X, nearest_centers(X, broadcast.model.centers)[0], np.ones(len(X)))
        return Summary(len(X), local.centers, counts=local.counts.astype(np.int64), sse=local.sse)

    def n_local(self, n_rows: int) -> int:
        """How many clusters a client of so many rows looks for."""
        if self.n_local_clusters is not None:
            return self.n_local_clusters
        enough = max(1, n_rows // ROWS_PER_CENTER)
        if self.n_clusters == "auto":
            return min(self.detail * self.max_clusters, enough)
        k = int(self.n_clusters)
        return max(k, min(self.detail * k, enough))

    # ---------------------------------------------------------------------------- at the server

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Weighted k-means over all received centers; in later rounds, the step to the means."""
        if broadcast.model is not None:
            return self._step(receive(summaries), broadcast.model)
        if self.n_clusters == "auto":
            received = receive(summaries)
            curve, centers = self._choose(received, rng)
            return self._model(received, *self._softened(received, centers), k_curve=curve)
        received = receive(summaries, radii_will_do=True)
        if received.radii is not None:  # FeCA's rule
            groups = group_by_radius(received.centers, received.radii)
            largest = sorted(groups, key=len, reverse=True)[: self.n_clusters]
            centers = np.stack([received.centers[group].mean(axis=0) for group in largest])
            return self._model(received, centers)
        found = solve(
            received.centers,
            received.counts,
            self.n_clusters,
            rng=rng,
            max_iter=self.max_iter,
            n_tries=self.patience,
            backend=self.backend,
        )
        return self._model(received, *self._softened(received, found.centers))

    def _softened(self, received: Received, centers: Floats) -> tuple[Floats, Ints | None]:
        """The centers where local clusters are clouds, and whose those are; unless that leaves
        one without any."""
        moved = settle_clouds(
            received.centers,
            received.counts,
            received.sse,
            centers,
            max_iter=self.max_iter,
            backend=self.backend,
        )
        moved = moved[coordinate_order(moved)]
        labels = nearest_centers(received.centers, moved)[0]
        return (moved, labels) if len(np.unique(labels)) == len(moved) else (centers, None)

    def _choose(self, received: Received, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """k, objective and index of every candidate; and the centers of the best of them."""
        if not received.has_sse:
            advice = "Without it no objective is known: give the number of clusters."
            raise MessageError(invalid("sse", "every client", "sent", None, advice))
        tried = list(
            solve_each(
                received.centers,
                received.counts,
                self.max_clusters,
                rng=rng,
                max_iter=self.max_iter,
            )
        )[::-1]
        ks = np.array([len(solution.centers) for solution in tried])
        objectives = received.sse.sum() + np.array([solution.inertia for solution in tried])
        index = calinski_harabasz(
            ks, objectives, received.counts.sum(), effective_dimension(received)
        )
        return np.column_stack([ks, objectives, index]), tried[int(index.argmax())].centers

    def _step(self, received: Received, model: Model) -> Model:
        """The mean of all rows in each cluster; a cluster without rows keeps its center.

        The mean of rows that are all nearest to one center is itself nearest to it, since cells are
        convex: answers need not say which cluster they are of.
        """
        if not received.has_counts:
            advice = "A round after the first is a step to the means of all rows."
            raise MessageError(invalid("counts", "every client", "sent", None, advice))
        labels, k = nearest_centers(received.centers, model.centers)[0], len(model.centers)
        counts = np.bincount(labels, received.counts, minlength=k)[:, None]
        sums = np.zeros_like(model.centers)
        np.add.at(sums, labels, received.counts[:, None] * received.centers)
        centers = np.where(counts > 0, sums / np.where(counts > 0, counts, 1), model.centers)
        return self._model(received, centers, labels, k_curve=model.tensors.get("k_curve"))

    def _model(
        self,
        received: Received,
        centers: Floats,
        labels: Ints | None = None,
        k_curve: np.ndarray | None = None,
    ) -> Model:
        """The centers, and what speaks for each of them."""
        if labels is None:
            centers = centers[coordinate_order(centers)]
            labels = nearest_centers(received.centers, centers)[0]
        k = len(centers)
        table = np.zeros((received.owners.max() + 1, k))
        np.add.at(table, (received.owners, labels), received.counts)
        points = table.sum(axis=0)
        squared = ((received.centers - centers[labels]) ** 2).sum(axis=1)
        sse = np.bincount(labels, received.sse + received.counts * squared, minlength=k)
        spread = np.sqrt(sse / np.where(points > 0, points, 1))
        return self.make_model(
            centers,
            support_clients=(table > 0).sum(axis=0),
            support_points=np.rint(points).astype(np.int64),
            support_spread=spread,
            support_margin=margins(centers, spread),
            objective=np.array([sse.sum()]),
            skew=np.array([mutual_information(table)]),
            **({} if received.has_counts else {"guessed_counts": np.ones(1)}),
            **({} if k_curve is None else {"k_curve": k_curve}),
        )

    # --------------------------------------------------------------------------- what was found

    @property
    def assign_(self) -> str:
        """The rule that gave `labels_`; "auto" is "local" if clients hold different clusters."""
        rule = super().assign_
        if rule != "auto":
            return rule
        skewed = self.n_rounds == 1 and self.model_.tensors["skew"][0] >= SKEWED
        return "local" if skewed else "nearest"

    @property
    def assign_reason_(self) -> str:
        check_is_fitted(self)
        if self.assign != "auto":
            return "asked for"
        if self.n_rounds > 1:
            return "the last round sent no local clusters"
        relation = "at least" if self.skew_ >= SKEWED else "less than"
        told = f"who holds a row tells {self.skew_:.2f} bits about its cluster"
        return f"{told}, {relation} {SKEWED:g}"

    @property
    def support_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        return support_of(self.model_) or {}

    @property
    def k_curve_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        curve = k_curve_of(self.model_)
        if curve is None:
            raise AttributeError("k_curve_ is there after a fit with n_clusters='auto' only")
        return curve

    @property
    def k_runner_up_(self) -> int | None:
        return runner_up(self.k_curve_)

    @property
    def objective_(self) -> float:
        check_is_fitted(self)
        return float(self.model_.tensors["objective"][0])

    @property
    def skew_(self) -> float:
        check_is_fitted(self)
        return float(self.model_.tensors["skew"][0])


def effective_dimension(received: Received) -> int:
    r"""How many columns the data really fill: :math:`(\sum_j v_j)^2 / \sum_j v_j^2`, rounded.

    :math:`v_j` are the variances along the main axes of all rows: those of the received centers,
    and in each direction an equal share of what lies within local clusters. Columns on very
    different scales count as one.
    """
    n, d = received.counts.sum(), received.centers.shape[1]
    offset = received.centers - np.average(received.centers, axis=0, weights=received.counts)
    scale = np.abs(offset).max() or 1.0  # squares of squares stay in range
    offset = offset / scale
    covariance = (offset * received.counts[:, None]).T @ offset / n
    covariance += np.eye(d) * received.sse.sum() / scale**2 / (n * d)
    spread = (covariance**2).sum()
    return max(1, round(float(np.trace(covariance) ** 2 / spread))) if spread > 0 else d


# ---------------------------------------------------------------------------- what a model tells


def support_of(model: Model) -> dict[str, np.ndarray] | None:
    """What speaks for each cluster of a model, or None if it does not say."""
    tensors = {name: model.tensors.get(f"support_{name}") for name in SUPPORT}
    found = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if not found:
        return None
    shapes = {tensor.shape for tensor in found.values()}
    if len(found) < len(SUPPORT) or shapes != {(len(model.centers),)}:
        allowed = f"{', '.join(SUPPORT)}, one number per cluster each"
        raise MessageError(invalid("support", "a model", allowed, sorted(found)))
    return found


def knows_no_counts(model: Model) -> bool:
    """Whether some client sent no counts, so that a model's numbers of rows are guesses."""
    return "guessed_counts" in model.tensors


def k_curve_of(model: Model) -> dict[str, np.ndarray] | None:
    """k, objective and index of every k that was considered, or None if k was given."""
    curve = model.tensors.get("k_curve")
    if curve is None:
        return None
    if curve.ndim != 2 or curve.shape[1] != 3 or not len(curve):
        raise MessageError(invalid("k_curve", "a model", "of shape (n, 3)", curve.shape))
    k, objective, index = curve.T
    return {"k": k.astype(np.int64), "objective": objective, "index": index}


def runner_up(curve: Mapping[str, np.ndarray]) -> int | None:
    """The k of the second largest index."""
    order = np.argsort(-curve["index"], kind="stable")
    return int(curve["k"][order[1]]) if len(order) > 1 else None
