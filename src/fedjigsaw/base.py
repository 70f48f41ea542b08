"""scikit-learn's API on top of the two halves of a federated method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from fedjigsaw._random import resolve_seed
from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw._validation import check_data, name_clients, rows_by_client
from fedjigsaw.choice.shapes import label_rows, local_labels
from fedjigsaw.contract import DefaultName
from fedjigsaw.engine import (
    NO_GUARD,
    BatchEngine,
    Client,
    Engine,
    run_rounds,
    warn_of_fewer_clusters,
)
from fedjigsaw.errors import DataError, MessageError, ParameterError, invalid
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.contrasts import profile_frame
from fedjigsaw.kernels.kmeans import count_distinct, nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.kernels.profiles import Profile
from fedjigsaw.messages import Broadcast, Model, Summary, Transcript
from fedjigsaw.parameters import (
    Rule,
    check_parameters,
    complete_rules,
    integer,
    is_integer,
    one_of,
    seed_source,
)
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.profiles import moments_of_clients
from fedjigsaw.sources import is_source, unread

ASSIGN = one_of("nearest", "local")  # the rule for the parameter `assign`
EngineFactory = Callable[[Sequence[Client]], Engine]


class FederatedClusterer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    ABC,
):
    """Base class of methods that cluster rows.

    A subclass writes `summarize` and `aggregate` and gets `fit`, `predict` and the rest. It has the
    parameters `n_clusters` and `random_state`, and may add its own in an ``__init__``. It may set
    its name on the command line (`method`; by default that of the class: ``MyWard`` is "my-ward")
    and allowed values of its parameters (`rules`; others than these two are not checked by
    default). It implements :class:`~fedjigsaw.contract.FederatedMethod`.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
    labels_ : array of shape (n_samples,)
        Cluster of every row, in the order of the rows: that of its nearest center or, with
        ``assign="local"``, that of its client's nearest local center.
    n_clusters_ : int
        Number of centers found. It is smaller than `n_clusters` if the summaries have too few
        distinct centers.
    assign_ : str
        Which of the two rules gave `labels_`, "nearest" or "local".
    inertia_ : float
        Summed squared distance of all rows to their nearest center.
    n_iter_ : int
        Number of rounds of the run.
    transcript_ : Transcript
        Bytes sent by each client, failures, and the seed of the run.
    model_ : Model
        What the server made of the summaries.
    summaries_ : tuple of Summary
        What the clients sent in the last round, in the order of their names.
    profile_ : DataFrame
        Mean and spread of each column in each cluster, and how they differ from all rows. Made
        when it is asked for; requires pandas.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, if the data had names.
    """

    method: ClassVar[str] = DefaultName()  # type: ignore[assignment]
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1),
        "random_state": seed_source(),
    }
    data_kind: ClassVar[str] = "rows"
    n_rounds: int = 1
    # the rule for `labels_`; a parameter of every method whose summaries hold local centers
    assign: str = "nearest"
    # the fields of a summary, besides its centers, that `aggregate` needs: no others are sent
    sends: ClassVar[tuple[str, ...]] = ()
    # the parameters that each client may choose for itself, and those that act at the server, where
    # the coordinator sets them; on all others clients must agree
    server_parameters: ClassVar[tuple[str, ...]] = ()
    client_parameters: ClassVar[tuple[str, ...]] = (
        "n_clusters",
        "n_local_clusters",
        "n_init",
        "max_iter",
        "tol",
        "assign",
        "random_state",
    )
    # True where raw rows leave the clients: a benchmark, not a federation
    pools_data: ClassVar[bool] = False
    # where k-means runs: not a parameter of the method, and not copied by `clone`; None is
    # the default of this machine, see `fedjigsaw.kernels.backends`
    backend: Backend | None = None
    # whether a server computes what only reports show: influences of clients, margins of clusters
    for_reports: bool = True

    n_clusters: Any
    random_state: Any

    cluster_centers_: Floats
    labels_: Ints
    n_clusters_: int
    inertia_: float
    n_iter_: int
    transcript_: Transcript
    model_: Model
    summaries_: tuple[Summary, ...]
    _profile: tuple[Ints, Floats, Floats, int] | None  # moments of each cluster, and the guard

    def __init__(self, n_clusters: Any = 8, *, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a rule to every parameter that has none."""
        super().__init_subclass__(**options)
        if {"rules", "__init__"} & set(vars(cls)):
            inherited = super(cls, cls).rules
            cls.rules = complete_rules(cls.__init__, vars(cls).get("rules", {}), inherited)

    @property
    def total_rounds(self) -> int:
        """Number of rounds: how often the server asks every client."""
        return self.n_rounds

    @property
    def assign_(self) -> str:
        """The rule that gave `labels_`, "nearest" or "local"."""
        check_is_fitted(self, "model_")
        return self.assign

    @property
    def profile_(self) -> Any:
        """What the rows of each cluster are like: a pandas DataFrame, a row per cluster and column.

        It is made from what each client may send under the guard of the fit: mean and standard
        deviation, and the difference from all rows in standard deviations. A fit under differential
        privacy has none.
        """
        check_is_fitted(self, "model_")
        if self._profile is None and not hasattr(self, "labels_"):
            raise ParameterError(
                "There is no profile_ after a fit of data that were not in memory. "
                "sites.score(..., profile=True) makes one of a file."
            )
        if self._profile is None:
            raise ParameterError(
                "There is no profile_ after a private fit, which spent nothing on it. "
                "sites.score(..., profile=True, privacy=...) makes one with a budget of its own."
            )
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        count, mean, squares, size = self._profile
        return profile_frame(Profile(tuple(names), count, mean, squares, {}, {}, size))

    @abstractmethod
    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Compute the summary of a client's data; only this summary leaves the client.

        Return `counts` (and `sse`) along with the centers, so that a guard can merge small
        clusters. What the server does not need (`sends`) is removed before the summary leaves.
        """

    def check_privacy(self, privacy: Privacy) -> None:
        """Raise a ParameterError if the method cannot keep this promise, before it is paid for."""
        raise ParameterError(
            f"Method {self.method!r} has no differential privacy. Use jigsaw, or leave out privacy."
        )

    def summarize_privately(
        self, X: Floats, broadcast: Broadcast, rng: np.random.Generator, privacy: Privacy
    ) -> Summary:
        """Compute a differentially private summary; a method that cannot raises an error."""
        self.check_privacy(privacy)
        raise NotImplementedError

    @abstractmethod
    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Run at the server, which knows nothing but the summaries."""

    def merge(self, summaries: Sequence[Summary], n_centers: int) -> Summary:
        """Merge summaries into one of at most `n_centers` centers, as a region sends it.

        The centers of most methods mean something only one by one: they raise a ParameterError.
        """
        total = sum(len(summary.centers) for summary in summaries)
        raise ParameterError(
            f"Centers of {type(self).__name__} cannot be merged, and these are {total:,}. Allow "
            f"a region {total} centers (--centers {total}), so that they pass as they are, or use "
            "jigsaw."
        )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        clients: Any = None,
        guard: Guard = NO_GUARD,
        privacy: Privacy | None = None,
        engine: EngineFactory = BatchEngine,
        min_clients: int | None = None,
    ) -> Self:
        """Cluster rows that several clients hold.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : ignored
            Present for scikit-learn's API.
        clients : array of shape (n_samples,) or None
            The client of each row, as integers or strings, which become the clients' names. None
            is a single client.
        guard : Guard
            What may leave a client. The default lets every summary pass; the file workflow and
            federations use ``Guard()``, which merges centers of fewer than five rows.
        privacy : Privacy or None
            Differential privacy for the rows of each client, in place of a guard.
        engine : callable
            Where the clients run: `BatchEngine`, `SerialEngine`, `ProcessEngine`, or, for two
            workers, ``functools.partial(ProcessEngine, n_jobs=2)``.
        min_clients : int or None
            Number of clients that must answer. None is all of them.
        """
        self.check()
        owner = f"{type(self).__name__}.fit"
        with self._all_or_nothing():
            rows = check_data(self, X, owner=owner, reset=True)
            members = rows_by_client(len(rows), clients, owner=owner)
            self._fit(rows, members, guard, privacy, engine, min_clients)
        self._warn_of_fewer(rows)
        return self

    def fit_clients(
        self,
        shards: Sequence[Any] | Mapping[Any, Any],
        *,
        guard: Guard = NO_GUARD,
        privacy: Privacy | None = None,
        engine: EngineFactory = BatchEngine,
        min_clients: int | None = None,
    ) -> Self:
        """Cluster data that are already split by client.

        Parameters
        ----------
        shards : list of arrays or mapping of id to array
            The rows of each client. A list is the same as a mapping with the ids "0", "1", and so
            on. `labels_` follows the shards one after the other.

            Data that exceed memory: instead of an array, the path of a file or of a folder of
            Parquet files, a function that returns an array or yields parts of one, or a source
            (see :mod:`fedjigsaw.sources`). They are read when it is the client's turn, and freed.
            `labels_`, `inertia_` and `profile_` are then not there; `predict` labels rows.
        guard, privacy, engine, min_clients : as in `fit`
        """
        self.check()
        owner = f"{type(self).__name__}.fit_clients"
        if not isinstance(shards, (Mapping, list, tuple)) or not len(shards):
            allowed = "a non-empty list of arrays or mapping of id to array"
            got = (
                f"an empty {type(shards).__name__}"
                if isinstance(shards, (Mapping, list, tuple))
                else type(shards).__name__
            )
            raise DataError(invalid("shards", owner, allowed, got))
        if not isinstance(shards, Mapping):
            shards = dict(enumerate(shards))
        names = name_clients(shards, owner=owner)
        if any(map(is_source, shards.values())):
            with self._all_or_nothing():
                named = dict(zip(names, shards.values(), strict=True))
                self._fit_unread(named, guard, privacy, engine, min_clients)
            asked, found = self.n_clusters, self.n_clusters_
            warn_of_fewer_clusters(asked, found, owner=type(self).__name__)
            return self
        checked: list[Floats] = []
        with self._all_or_nothing():
            for name, shard in zip(names, shards.values(), strict=True):
                checked.append(check_data(self, shard, owner=f"client {name!r}", reset=not checked))
            ends = np.cumsum([len(rows) for rows in checked]).tolist()
            blocks = (slice(start, end) for start, end in pairwise([0, *ends]))
            rows = np.concatenate(checked)
            members: dict[str, Rows] = dict(zip(names, blocks, strict=True))
            self._fit(rows, members, guard, privacy, engine, min_clients)
        self._warn_of_fewer(rows)
        return self

    def predict(self, X: Any, *, clients: Any = None) -> Ints:
        """Return the cluster of each row: that of the nearest center, unless the model says more.

        A model with shapes of clusters labels rows by these, and -1 where a row is in none.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        clients : array of shape (n_samples,) or None
            The client of each row, as in `fit`. A row then gets the label of the nearest center
            that its client sent, as with ``assign="local"``. Rows of clients that took no part in
            the fit get their nearest center.
        """
        rows = self._known(X, "predict")
        labels = label_rows(self.model_, rows).labels
        if clients is not None:
            owner = f"{type(self).__name__}.predict"
            self._relabel(labels, rows, rows_by_client(len(rows), clients, owner=owner))
        return labels

    def transform(self, X: Any) -> Floats:
        """Return the distance of each row to each center."""
        return pairwise_distances(self._known(X, "transform"), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the summed squared distance of the rows to their nearest center."""
        _, distances = nearest_centers(self._known(X, "score"), self.cluster_centers_)
        return -float(distances @ distances)

    def check(self) -> None:
        """Check the parameters against `rules`; `fit` does this first."""
        self._check_init()
        check_parameters(type(self).__name__, self.rules, self.get_params(deep=False))

    @classmethod
    def _check_init(cls) -> None:
        """Raise a ParameterError if the class lacks a parameter that every method has."""
        for name in ("n_clusters", "random_state"):
            if name not in cls.rules:
                raise ParameterError(
                    f"{cls.__name__}.__init__ has no parameter {name!r}, which every method has: "
                    "def __init__(self, n_clusters=8, *, ..., random_state=None)."
                )

    def check_federated(self) -> None:
        """Check the parameters for a federation; a method that pools data cannot take part."""
        self.check()
        if self.pools_data:
            raise ParameterError(
                f"Method {self.method!r} pools all rows, so it cannot run in a federation. "
                "Use another method; `fedjigsaw methods` lists them."
            )

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: it must have centers."""
        if not len(summary.centers):
            raise MessageError(
                f"Client {summary.client!r} sent no centers, which {type(self).__name__} needs."
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make an estimator from named parameters and check it.

        Raise a ParameterError for a name that is not a parameter.
        """
        cls._check_init()
        unknown = sorted(set(settings) - set(cls.rules))
        if unknown:
            own = (name for name in cls.rules if name not in ("n_clusters", "random_state"))
            raise ParameterError(
                f"{cls.__name__} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(own) or 'none of its own'}."
            )
        made = cls(**settings)
        made.check()
        return made

    def make_model(self, centers: Floats, **tensors: np.ndarray) -> Model:
        """Make the model that `aggregate` returns, with the method's name and parameters."""
        return Model(centers, method=self.method, params=self.configuration(), tensors=tensors)

    def configuration(self) -> dict[str, Any]:
        """Return the parameters as JSON values, without a `random_state` that is no integer."""
        params = self.get_params(deep=False)
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in params.items()
            if value is None or isinstance(value, (bool, int, float, str, dict, np.generic))
        }

    def _known(self, X: Any, verb: str) -> Floats:
        check_is_fitted(self)
        return check_data(self, X, owner=f"{type(self).__name__}.{verb}", reset=False)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was if the fit fails."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(
        self,
        rows: Floats,
        members: dict[str, Rows],
        guard: Guard,
        privacy: Privacy | None,
        engine: EngineFactory,
        min_clients: int | None,
    ) -> None:
        self._check_fit(len(rows), guard, privacy, engine)
        holders = members
        if self.pools_data:
            members, min_clients = {"pooled": slice(None)}, None
        clients = [Client(name, rows[held], self, guard, privacy) for name, held in members.items()]
        self._run(clients, privacy, engine, min_clients)
        if self.pools_data:
            self.transcript_ = _of_pooling(self.transcript_, rows, holders)
        self.labels_, _, distances = label_rows(self.model_, rows)
        self.inertia_ = float(distances @ distances)
        if self.assign_ == "local":
            self._relabel(self.labels_, rows, members)
        self._profile = None
        if privacy is None:
            held = [members[s.client] for s in self.summaries_ if s.client in members]
            size = guard.min_cluster_size
            found = moments_of_clients(rows, self.labels_, held, self.n_clusters_, size)
            self._profile = (*found, size)

    def _fit_unread(
        self,
        shards: dict[str, Any],
        guard: Guard,
        privacy: Privacy | None,
        engine: EngineFactory,
        min_clients: int | None,
    ) -> None:
        """Fit data that are read when it is their client's turn: no row is here to be labeled."""
        self._check_fit(None, guard, privacy, engine)
        if self.pools_data:
            raise ParameterError(
                f"{type(self).__name__} pools all rows, so they must be in memory: give arrays."
            )
        data = unread(self, shards, private=privacy is not None)
        clients = [Client(name, rows, self, guard, privacy) for name, rows in data]
        self._run(clients, privacy, engine, min_clients)
        self._profile = None
        for name in {"labels_", "inertia_"} & set(vars(self)):
            delattr(self, name)  # of an earlier fit

    def _run(
        self,
        clients: Sequence[Client],
        privacy: Privacy | None,
        engine: EngineFactory,
        min_clients: int | None,
    ) -> None:
        with engine(clients) as running:
            self.model_, self.transcript_, self.summaries_ = run_rounds(
                self,
                running,
                seed=resolve_seed(self.random_state),
                n_rounds=self.total_rounds,
                min_clients=min_clients,
            )
        if privacy is not None:
            self.model_ = replace(self.model_, centers=privacy.within(self.model_.centers))
        self.model_ = self.model_.with_feature_names(getattr(self, "feature_names_in_", None))
        self.n_iter_ = len(self.transcript_.rounds)
        self.cluster_centers_ = np.array(self.model_.centers)
        self.n_clusters_ = len(self.cluster_centers_)

    def _check_fit(
        self, n_rows: int | None, guard: Guard, privacy: Privacy | None, engine: EngineFactory
    ) -> None:
        """Raise a ParameterError if these arguments of a fit are not allowed."""
        if n_rows is not None and is_integer(self.n_clusters) and int(self.n_clusters) > n_rows:
            allowed = f"at most the number of rows (n_samples = {n_rows})"
            raise ParameterError(
                invalid("n_clusters", type(self).__name__, allowed, self.n_clusters)
            )
        if not isinstance(guard, Guard):
            raise ParameterError(invalid("guard", type(self).__name__, "a Guard", repr(guard)))
        if not isinstance(privacy, Privacy | None):
            allowed = "a Privacy or None"
            raise ParameterError(invalid("privacy", type(self).__name__, allowed, repr(privacy)))
        if not callable(engine):
            allowed = "a class or function that makes an engine of clients, such as ProcessEngine"
            raise ParameterError(invalid("engine", type(self).__name__, allowed, repr(engine)))

    def _relabel(self, labels: Ints, rows: Floats, members: Mapping[str, Rows]) -> None:
        """Relabel rows by the local centers of their client, where it sent any."""
        for summary in self.summaries_:
            if summary.client in members:
                held = members[summary.client]
                labels[held], _ = local_labels(self.model_, summary.centers, rows[held])

    def _warn_of_fewer(self, rows: Floats) -> None:
        if not is_integer(self.n_clusters) or self.n_clusters_ >= int(self.n_clusters):
            return
        why = "the summaries have too few distinct centers"
        distinct = count_distinct(rows, at_most=self.n_clusters)
        if distinct < self.n_clusters:
            why = f"the data have only {distinct} distinct row{'s' * (distinct > 1)}"
        owner = type(self).__name__
        warn_of_fewer_clusters(
            self.n_clusters, self.n_clusters_, owner=owner, why=why, stacklevel=3
        )

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_


def _of_pooling(transcript: Transcript, rows: Floats, holders: Mapping[str, Rows]) -> Transcript:
    """Return the record of a run for which every client sent its rows."""
    sent = {name: rows[held].nbytes for name, held in holders.items()}
    rounds = [
        replace(r, bytes_up=sent, bytes_down=r.bytes_down * len(sent)) for r in transcript.rounds
    ]
    return replace(transcript, rounds=tuple(rounds))
