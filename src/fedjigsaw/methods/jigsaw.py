"""Jigsaw: each client sends centers and counts; the server solves weighted k-means."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedjigsaw._received import Received, receive
from fedjigsaw._rows import unweighted
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.engine import Client
from fedjigsaw.errors import (
    CountsWarning,
    FewerClustersWarning,
    MessageError,
    ParameterError,
    UncertainNumberWarning,
    invalid,
    quote_names,
    warn,
)
from fedjigsaw.estimator import Options
from fedjigsaw.kernels.gaussians import refine
from fedjigsaw.kernels.indices import SKEWED, mutual_information
from fedjigsaw.kernels.kmeans import (
    Problem,
    Solution,
    coordinate_order,
    lloyd_step,
    nearest_centers,
    partition_of,
    squared_distances,
)
from fedjigsaw.kernels.nearest import nearest_on_threads
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import (
    CELL_NOISE,
    CELLS,
    CELLS_ONLY,
    K_CURVE,
    K_TENSORS,
    LEFT_OUT,
    N_SITES,
    OF_SITES,
    QUANTIZATION,
    SHARED,
    Broadcast,
    Model,
    Summary,
)
from fedjigsaw.messages import NOISE as NOISE_OF_CENTERS
from fedjigsaw.methods._fitted import ClusterFindings, site_tensors
from fedjigsaw.methods._merging import divide, merge_received, merge_tables
from fedjigsaw.methods._searching import LocalSearch, make_summaries
from fedjigsaw.methods.feca import server_aggregation
from fedjigsaw.number.cells import (
    find_cells,
    n_cells,
    quantization_variance,
    sampled_labels,
    sends_cells,
    without_duplicates,
)
from fedjigsaw.number.confidence import DOUBTFUL, KFindings
from fedjigsaw.number.shapes import ELONGATED, NOISE, ROUND, SHAPES, ClusterShapes
from fedjigsaw.parameters import Rule, boolean, integer, names, one_of
from fedjigsaw.privacy.cells import CENTERS_PER_CLUSTER, MAX_CENTERS
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.summaries import (
    MAX_CELLS,
    Expected,
    PrivateRound,
    add_up,
    check_cells,
    has_cells,
    n_shared_cells,
    with_cells,
)

if TYPE_CHECKING:
    from fedjigsaw.number.decide import Choice

DETAIL_WITH_LIARS = 3  # one center for each cluster is too wide to tell what others support
ROWS_PER_CENTER = 5  # rows that each center beyond k must stand for, as in the default guard
NO_LIARS_IN_NOISE = "liars and privacy exclude each other: noise hides what others support."
PRIVATE_CLUSTERS = 50  # clusters for which a private summary with an unknown number is made


class Jigsaw(ClusterFindings, LocalSearch):
    r"""One round: each client sends centers and counts; weighted k-means at the server.

    The problem: M clients hold rows :math:`D = \cup_m D_m`, which may not leave; find k centers C
    that minimize :math:`G(C) = \sum_{x \in D} \min_{c \in C} \|x - c\|^2`.

    Each client m runs k-means on :math:`D_m` and sends its centers :math:`c_i`, the number of rows
    :math:`n_i` of each, and their summed squared distance :math:`s_i`. For every way to merge these
    local clusters, the server knows the objective exactly:

    .. math:: \sum_i s_i + n_i \|c_i - C_{a(i)}\|^2 ,

    where a(i) is the cluster of i. The first term is constant. The second is weighted k-means over
    the received centers, solved by :func:`~fedjigsaw.kernels.solver.solve`, which escapes the local
    optima in which restarts end. Since the final boundaries cut through some local clusters, a
    last step treats each of them as a Gaussian (:func:`~fedjigsaw.kernels.gaussians.lloyd`).

    Parameters
    ----------
    n_clusters : int or "auto", default 8
        Number of clusters k in all the data. "auto" finds it, and may find one only: the server
        fits mixtures of Gaussians to what it received, and takes clusters that have valleys
        between them. `k_confidence_` says how sure that is, and `k_sentence_` why not. A warning is
        given below 0.5.
    n_local_clusters : int or None, default None
        Number of clusters k' that each client looks for. None is `detail` times k; with "auto" it
        is one for every five rows, at most 200, and for less than 100 rows up to 20 pairs.
    detail : int or None, default None
        A client sends up to `detail` times k centers; more centers describe finer groups. Beyond
        k, it sends at most one for every five rows. None is 1, or 3 with `liars`. It has no effect
        with "auto".
    max_clusters : int or None, default None
        The largest number that ``n_clusters="auto"`` considers; None is no limit.
    n_init : int, default 10
        Restarts of each client's k-means. With "auto" there is one: groups of few rows need no
        more.
    n_rounds : int, default 1
        Number of rounds. Every round after the first is an exact Lloyd step on all data: clients
        return the mean and the count of their rows in each cluster of the model.
    max_iter, tol : int, float
        When a restart of k-means ends, as in :class:`sklearn.cluster.KMeans`.
    patience : int or None, default None
        Number of moves without success after which the server's search ends; None is 10 + k / 2.
        With 0 it ends where Lloyd's iterations do, which is several times faster and less exact.
    liars : int, default 0
        The result stays good if at most so many clients lie or err. Of those `liars` clients whose
        centers cost most where too few other clients have any, only what others support counts.
        The rest may be a lone cluster, besides the k (`lone_centers_`). Clients send finer
        summaries for it. With 0 all that is valid counts, and a warning names the strangest client.
    vouch : list of str or int, or None, default None
        Names of clients that count in any case, and are not reported.
    shape : {"round", "elongated", "any"}, default "round"
        Shape of clusters. "round": a row belongs to its nearest center. "elongated": it belongs to
        the likeliest component of a mixture of Gaussians, each with axes of its own. "any": pieces
        of a mixture that have no valley between them are one cluster, whatever its shape. Other
        than with "round", clients send as many centers as with ``n_clusters="auto"``.
    noise : bool, default False
        Label rows -1 that are likelier in a uniform background than in any cluster. They belong to
        no cluster, and clients send as many centers as with ``n_clusters="auto"``.
    assign : {"nearest", "local", "auto"}, default "nearest"
        Label rows by the nearest center of the model (or by the shape of clusters), or by the
        nearest center that the row's own client sent. "local" is better on skewed data and worse on
        even splits. "auto" decides by `skew_`; `assign_` says what was chosen, and `assign_reason_`
        why.
    random_state : int, RandomState, Generator or None
        Seed of the run; with an integer, every run gives the same bits.

    Attributes
    ----------
    support_ : dict of arrays of shape (n_clusters + n_lone,)
        Support statistics of each cluster, those of lone clusters at the end. `clients` and
        `points`: number of clients and rows in it. `spread`: root mean square distance s of its
        rows to its center. `margin`: :math:`1 - s / \sqrt{s^2 + D^2}` with the distance D to the
        nearest other center, between 0 (they coincide) and 1 (far apart). With "auto" also
        `separation`, between 0 and 1: how sure it is that fewer rows lie between this cluster and
        its neighbors than in them.
    lone_centers_ : array of shape (n_lone, n_features)
        With `liars`: centers of clusters that one client alone claims. Rows in them have the labels
        k, k + 1, ...
    lone_clients_ : list of str
        The client that claims each of them.
    sites_ : list of SiteReport
        For each client: rows, clusters that it takes part in and holds alone, influence on the
        others, and what is strange about it. Made when it is asked for. After `load`, there is no
        influence if `save` wrote the model, since a file has no summaries; `fedjigsaw aggregate`
        computes it before it writes.
    k_confidence_ : float, with ``n_clusters="auto"`` only
        How sure the number of clusters is, between 0 and 1. Where it was 0.9 or more on generated
        data, nearly every number was right; docs/jigsaw.md has the whole table.
    k_sentence_ : str, with ``n_clusters="auto"`` only
        The same in words: the number, the confidence, and what is nearly as good.
    k_advice_ : list of str, with ``n_clusters="auto"`` only
        What else the clusters are like (long, among background rows, in few columns), and what
        helps.
    k_curve_ : dict of arrays, with ``n_clusters="auto"`` only
        `k`, `objective` and `index` of every k that was considered. The index is minus the BIC, in
        which the best has 0.
    k_runner_up_ : int or None
        The k that is next best.
    objective_ : float
        Summed squared distance of all rows to the centers of their local clusters, which the
        server computes without seeing rows. Some rows are nearer to another center, so `inertia_`
        is at most this.
    skew_ : float
        Mutual information of client and cluster, in bits. It is 0 if all clients hold the same
        mixture. From 1 on, ``assign="auto"`` labels rows by local centers: knowing the client then
        halves the clusters that a row may be in, so the client had two centers for each.

    Examples
    --------
    Each of three clients holds two of the three clusters. Together they find all three, and their
    number.

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
    takes_weights: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True
    sends: ClassVar[tuple[str, ...]] = ("counts", "sse", "tensors")
    client_parameters: ClassVar[tuple[str, ...]] = (
        *LocalSearch.client_parameters,
        "detail",
    )
    server_parameters: ClassVar[tuple[str, ...]] = (
        "max_clusters",
        "max_iter",
        "patience",
        "liars",
        "vouch",
        "shape",
        "noise",
    )
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1, or_word="auto"),
        "detail": integer(1, or_none=True),
        "max_clusters": integer(1, or_none=True),
        "n_rounds": integer(1),
        "patience": integer(0, or_none=True),
        "liars": integer(0),
        "vouch": names(),
        "shape": one_of(*SHAPES),
        "noise": boolean(),
        "assign": one_of("nearest", "local", "auto"),
    }

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_local_clusters: int | None = None,
        detail: int | None = None,
        max_clusters: int | None = None,
        n_init: int = 10,
        n_rounds: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        patience: int | None = None,
        liars: int = 0,
        vouch: Sequence[str] | None = None,
        shape: str = ROUND,
        noise: bool = False,
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
        self.liars = liars
        self.vouch = vouch
        self.shape = shape
        self.noise = noise
        self.assign = assign
        self.random_state = random_state

    def check(self) -> None:
        """Check the parameters against `rules` and against each other."""
        super().check()
        if self.assign == "local" and self.n_rounds > 1:
            raise ParameterError(
                "Labels by local clusters require one round: with several, clients send no local "
                "clusters in the last one.",
                parameter="assign",
            )
        if self._shaped and self.n_rounds > 1:
            raise ParameterError(
                "shape and noise require n_rounds=1: further rounds move the centers of round "
                "clusters."
            )
        if self.liars and (self._in_cells or self.n_rounds > 1):
            raise ParameterError(
                "liars requires one round and a given number of round clusters: neither an "
                "automatic number of clusters nor shape or noise.",
                parameter="liars",
            )

    @property
    def _shaped(self) -> bool:
        """Whether the model describes the shapes of clusters."""
        return self.shape != ROUND or bool(self.noise)

    @property
    def _in_cells(self) -> bool:
        """Whether clients send cells, from which mixtures are fitted."""
        return sends_cells(vars(self))

    @property
    def _options(self) -> dict[str, Any]:
        """Options of everything that iterates at the server."""
        return {"max_iter": self.max_iter, "backend": self.backend}

    @property
    def _vouched(self) -> list[str]:
        """Names of clients that count in any case: client 3 is client "3"."""
        return list(map(str, self.vouch or ()))

    def configuration(self) -> dict[str, Any]:
        """Return the parameters as JSON values, with names of clients as texts."""
        found = super().configuration()
        return found if self.vouch is None else {**found, "vouch": self._vouched}

    def _run(self, clients: Sequence[Client], options: Options) -> None:
        known = [client.id for client in clients]
        unknown = [name for name in self._vouched if name not in known]
        if unknown:
            allowed = f"a list of its clients ({quote_names(known, 5)})"
            raise ParameterError(invalid("vouch", "Jigsaw", allowed, quote_names(unknown, 5)))
        super()._run(clients, options)

    # ------------------------------------------------------------------------------ at a client

    def search(
        self, problems: Sequence[Problem], broadcasts: Sequence[Broadcast]
    ) -> list[Solution]:
        """Return local clusters or cells; in later rounds, the rows in the model's clusters."""
        model = broadcasts[0].model
        if model is not None:
            centers, backend = model.centers, self.backend
            nearest = [nearest_centers(p.X, centers, backend=backend)[0] for p in problems]
            return [partition_of(p.X, n, p.weights) for p, n in zip(problems, nearest, strict=True)]
        if self._in_cells:
            if self.n_local_clusters is None:
                problems = [without_duplicates(problem) for problem in problems]
            return find_cells(problems, backend=self.backend)
        return super().search(problems, broadcasts)

    def summaries_of(
        self, data: Sequence[Floats], found: Sequence[Solution], broadcasts: Sequence[Broadcast]
    ) -> list[Summary]:
        """Return centers, counts and sums of local clusters; later, of the model's clusters."""
        tensors: dict[str, list[np.ndarray]] = {}
        if self._in_cells and broadcasts[0].model is None:
            pairs = map(unweighted, data)
            variances = [quantization_variance(rows, weights=w) for rows, w in pairs]
            tensors = {CELLS_ONLY: [np.ones(1)] * len(data), QUANTIZATION: variances}
        return make_summaries(data, found, tensors)

    def check_privacy(self, privacy: Privacy) -> None:
        """Raise a ParameterError if Jigsaw cannot keep this promise with its parameters."""
        if self.liars:
            raise ParameterError(NO_LIARS_IN_NOISE)
        if privacy.cells == SHARED and self.n_rounds > 1:
            text = "Privacy with cells that all clients share requires one round."
            raise ParameterError(text, parameter="n_rounds")
        fewest, _, n_cells = self._private_sizes()
        found, most = (n_cells, MAX_CELLS) if privacy.cells == SHARED else (fewest, MAX_CENTERS)
        if found > most:
            allowed = f"at most {most} under differential privacy"
            raise ParameterError(invalid("number of centers", "Jigsaw", allowed, found))

    def settle_privacy(
        self, privacy: Privacy, n_columns: int, n_clients: int, n_rows: int | None = None
    ) -> Privacy:
        """Choose the cells by public numbers, and warn if the noise will drown the clusters."""
        rows = privacy.rows or n_rows
        if rows is not None:
            k = self._private_sizes()[0]
            expected = Expected(rows, n_clients, k, n_columns, self.total_rounds)
            if privacy.rows is not None:
                privacy = replace(privacy, cells=expected.cells(privacy))
            privacy = with_cells(privacy, None)
            expected.warn_of_noise(privacy)
        privacy = with_cells(privacy, None)
        self.check_privacy(privacy)
        return privacy

    def summarize_privately(
        self, X: Floats, broadcast: Broadcast, rng: np.random.Generator, privacy: Privacy
    ) -> Summary:
        """Return noisy centers, counts and sums, or a noisy table of cells that all share."""
        privacy = with_cells(privacy, broadcast.cells)
        self.check_privacy(privacy)
        sizes = self._private_sizes()
        return PrivateRound(privacy, self.total_rounds, broadcast, *sizes).answer(X, rng)

    def _private_sizes(self) -> tuple[int, int, int]:
        """Return the fewest and most centers of a private search, and the number of cells."""
        if self.n_local_clusters is not None:
            return (self.n_local_clusters,) * 3
        if self.n_clusters == "auto":
            most = self.max_clusters or PRIVATE_CLUSTERS
            return min(2, most), min(most, MAX_CENTERS), n_shared_cells(most)
        k = int(self.n_clusters)
        return k, min(CENTERS_PER_CLUSTER * k, MAX_CENTERS), n_shared_cells(k)

    def n_local(self, n_rows: int) -> int:
        """Return the number of clusters that a client with `n_rows` rows looks for."""
        if self.n_local_clusters is not None:
            return self.n_local_clusters
        if self._in_cells:
            return n_cells(n_rows)
        k = int(self.n_clusters)
        detail = self.detail or (DETAIL_WITH_LIARS if self.liars else 1)
        return max(k, min(detail * k, max(1, n_rows // ROWS_PER_CENTER)))

    # ---------------------------------------------------------------------------- at the server

    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Solve weighted k-means over all received centers; in later rounds, take a Lloyd step."""
        if any(map(has_cells, summaries)):
            return self._from_cells(summaries, rng)
        if broadcast.model is not None:
            return self._step(receive(summaries), broadcast.model)
        received = receive(summaries)
        by_radius = not (self._in_cells or self.liars) and all(
            s.counts is None and s.radii is not None for s in summaries
        )
        _warn_of_missing_counts(summaries, by_radius)
        if by_radius:  # FeCA's rule
            radii = np.concatenate([s.radii for s in summaries if s.radii is not None])
            means = server_aggregation(int(self.n_clusters), received.centers, radii)
            return self.describe(received, means[coordinate_order(means)])
        self._check_needed(received)
        centers, labels, of_k = self._found(received, rng)
        return self.describe(received, centers, labels, of_k)

    def _from_cells(self, summaries: Sequence[Summary], rng: np.random.Generator) -> Model:
        """Cluster the sum of all tables of shared cells; what a single client holds is not seen."""
        if self.liars:
            raise MessageError(NO_LIARS_IN_NOISE)
        noise = float(np.sqrt(sum(s.tensors[CELL_NOISE][0] ** 2 for s in summaries)))
        received = replace(receive([add_up(summaries)]), count_noise=noise, cells=SHARED)
        centers, labels, of_k = self._found(received, rng)
        model = self.describe(received, centers, labels, of_k)
        hidden = {n: t for n, t in model.tensors.items() if n not in OF_SITES}
        n_sites = sum(int(s.tensors.get(N_SITES, [1])[0]) for s in summaries)
        hidden["support_clients"] = np.full(len(model.centers), n_sites)
        return replace(model, tensors=hidden)

    def merge(self, summaries: Sequence[Summary], n_centers: int) -> Summary:
        """Merge summaries into one of at most `n_centers` centers: weighted k-means again.

        Only centers of one cluster are merged, so that boundaries between clusters, which are
        about the same for others, run between the merged centers and not through them.
        Tables of cells that all clients share are added up, and stay as many cells as they are.
        `liars` has no effect: it is about what reaches the coordinator.
        """
        integer(1).check("n_centers", "Jigsaw.merge", n_centers)
        if any(map(has_cells, summaries)):
            return merge_tables(summaries)
        received = receive(summaries)
        _warn_of_missing_counts(summaries, by_radius=False)
        if not received.has_counts:
            raise ParameterError(
                "Centers can be merged only with counts, and some clients sent none. Let "
                "the guard send counts, exact or rounded.",
                parameter="counts",
            )
        if self._in_cells:
            self._check_needed(received)
        if len(received.centers) <= n_centers:
            labels = np.arange(len(received.centers))
        elif self._in_cells:
            labels = sampled_labels(received.centers, n_centers, self.backend)
        elif n_centers < int(self.n_clusters):
            allowed = f"at least the number of clusters, {self.n_clusters}"
            raise ParameterError(invalid("n_centers", "Jigsaw.merge", allowed, n_centers))
        else:
            rng = np.random.default_rng(0)
            clusters = self._found(received, rng)[1]
            labels = divide(received, clusters, n_centers, rng=rng, **self._options)
        return merge_received(received, labels, summaries)

    def _found(
        self, received: Received, rng: np.random.Generator
    ) -> tuple[Floats, Ints, dict[str, np.ndarray]]:
        """Return centers, the cluster of each local one, and what is known of k and of shapes."""
        if not self._in_cells:
            k, n_tries = int(self.n_clusters), self.patience
            weighted = received.centers, received.weights
            found = solve(*weighted, k, rng=rng, n_tries=n_tries, **self._options)
            return *self._refine(received, found.centers)[:2], {}
        if self._shaped:
            choice = self._choose(received, ELONGATED if self.shape == ROUND else self.shape)
            centers, order, shape = ClusterShapes.of_choice(choice, self.shape, noise=self.noise)
            shapes = shape.tensors()
            labels = shape.label(received.centers, self._nearest(received, centers))
        else:
            choice, shapes = self._choose(received), {}
            settle = not choice.elongated  # k-means would cut long clusters across
            centers, labels, order = self._refine(received, choice.means, settle=settle)
        if self.n_clusters != "auto":
            _warn_of_empty(labels, len(centers))
            return centers, labels, shapes
        findings = KFindings.of(choice, order, received.left_out, received.seen(len(centers)))
        if findings.confidence < DOUBTFUL:
            warn(
                f"The number of clusters is in doubt: {findings.sentence()}",
                UncertainNumberWarning,
            )
        return centers, labels, {K_CURVE: choice.curve, **findings.tensors(), **shapes}

    def answer_tensors(self, broadcast: Broadcast) -> Set[str]:
        """Return the names of the tensors that an answer to a broadcast may have."""
        if broadcast.cells == SHARED:
            return {CELLS, CELL_NOISE}
        return {NOISE_OF_CENTERS, LEFT_OUT, QUANTIZATION}

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted, as `aggregate` would."""
        super().check_answer(summary, broadcast)
        if broadcast.cells == SHARED:
            check_cells(summary)
            return
        self._check_needed(receive([summary]), several_rounds=broadcast.model is not None)

    def _check_needed(self, received: Received, *, several_rounds: bool = False) -> None:
        """Raise a MessageError if a client sent less than "auto", `liars` or rounds need."""
        if (self._in_cells or self.liars) and not received.has_sse:
            raise MessageError(
                "An automatic number of clusters and liars need the summed squared distances of "
                "every client, and some sent none. Give the number of clusters, without liars.",
                parameter="n_clusters",
            )
        if (self.liars or several_rounds) and not received.has_counts:
            raise MessageError(
                "Jigsaw with several rounds or liars needs counts from every client. Let the guard "
                "send counts, exact or rounded, or use neither of them.",
                parameter="counts",
            )
        if self.liars and received.noise.any():
            raise MessageError(NO_LIARS_IN_NOISE)

    def _refine(
        self, received: Received, centers: Floats, *, settle: bool = True
    ) -> tuple[Floats, Ints, Ints]:
        """Treat local clusters as Gaussians: return centers, labels, and the order of centers."""
        all_of = received.weighed()
        parts = all_of.centers, all_of.counts, all_of.sse
        return refine(*parts, centers, settle=settle, **self._options)

    def _nearest(self, received: Received, centers: Floats) -> Ints:
        """Return which center is nearest to each received one."""
        return nearest_on_threads(received.centers, centers, self.backend)

    def _choose(self, received: Received, shape: str = ROUND) -> "Choice":
        from fedjigsaw.number.decide import choose  # lazy: most fits need no search

        weighed = received.without_mixed().weighed()
        sse = weighed.sse
        if weighed.noise.any():  # noise makes some sums zero, and nothing is as narrow as that
            sse = weighed.counts * (sse.sum() / weighed.counts.sum())
        return choose(
            weighed.centers,
            weighed.counts,
            sse,
            owners=weighed.owners,
            quantization=weighed.quantization,
            most=self.max_clusters,
            k=None if self.n_clusters == "auto" else int(self.n_clusters),
            shape=shape,
            backend=self.backend,
        )

    def _step(self, received: Received, model: Model) -> Model:
        """Move each center to the mean of its rows; a center without rows stays.

        The mean of rows that are all nearest to one center is itself nearest to it, since cells are
        convex. So answers need not name their cluster.
        """
        self._check_needed(received, several_rounds=True)
        centers, labels = lloyd_step(received.centers, received.counts, model.centers)
        of_k = {name: t for name, t in model.tensors.items() if name in K_TENSORS}
        return self.describe(received, centers, labels, of_k)

    def describe(
        self,
        received: Received,
        centers: Floats,
        labels: Ints | None = None,
        tensors: Mapping[str, np.ndarray] | None = None,
    ) -> Model:
        """Make the model: centers, and what is known about each cluster and each client.

        Parameters
        ----------
        labels : the cluster of each local one; None is that of the nearest center.
        tensors : further tensors of the model.
        """
        if labels is None:
            labels = self._nearest(received, centers)
        k, inside = len(centers), labels != NOISE
        if not inside.all():  # rows of no cluster count for the objective only
            labels = np.where(inside, labels, self._nearest(received, centers))
        table = np.zeros((received.n_sites, k))
        np.add.at(table, (received.owners[inside], labels[inside]), received.counts[inside])
        points = table.sum(axis=0)
        squared = squared_distances(received.centers, centers, labels)
        costs = received.sse + received.counts * squared
        sse = np.bincount(labels[inside], costs[inside], minlength=k)
        spread = np.sqrt(sse / np.where(points > 0, points, 1))
        return self.make_model(
            centers,
            support_clients=(table > 0).sum(axis=0),
            support_points=np.rint(points).astype(np.int64),
            support_spread=spread,
            objective=np.array([sse.sum() + costs[~inside].sum()]),
            skew=np.array([mutual_information(table)]),
            **site_tensors(received.per_site(received.counts), table),
            **({} if received.has_counts else {"guessed_counts": np.ones(1)}),
            **(tensors or {}),
        )

    # ------------------------------------------------------------------------ fitted attributes

    @property
    def assign_(self) -> str:
        """The rule that gave `labels_`; "auto" is "local" if clients hold different clusters."""
        rule = super().assign_
        if rule != "auto":
            return rule
        skewed = self._fitted_with("n_rounds") == 1 and self.model_.tensors["skew"][0] >= SKEWED
        return "local" if skewed else "nearest"

    @property
    def assign_reason_(self) -> str:
        """Why `assign_` is what it is, in words."""
        if self._fitted_with("assign") != "auto":
            return "asked for"
        if self._fitted_with("n_rounds") > 1:
            return "the last round sent no local clusters"
        relation = "at least" if self.skew_ >= SKEWED else "less than"
        information = f"mutual information of client and cluster is {self.skew_:.2f} bits"
        return f"{information}, {relation} {SKEWED:g}"


def _warn_of_empty(labels: Ints, k: int) -> None:
    """Warn if components of a mixture are nowhere the likeliest ones."""
    n_empty = k - len(np.unique(labels[labels != NOISE]))
    if n_empty:
        warn(
            f"{n_empty} of {k} clusters {'has' if n_empty == 1 else 'have'} hardly any rows: "
            "others are likelier everywhere. Ask for fewer clusters, or for round ones.",
            FewerClustersWarning,
        )


def _warn_of_missing_counts(summaries: Sequence[Summary], by_radius: bool) -> None:
    without = [summary.client for summary in summaries if summary.counts is None]
    if not without:
        return
    who = f"{len(without)} of {len(summaries)} clients sent no counts ({quote_names(without, 5)})"
    what = "each center of a client gets an equal share of its rows"
    if by_radius:
        what = "centers are grouped by their radii, as FeCA does"
    warn(f"{who}; {what}.", CountsWarning)
