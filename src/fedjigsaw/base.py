"""The estimator that every method is: scikit-learn's API on top of two hooks."""

import warnings
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
from fedjigsaw.engine import Client, Engine, SerialEngine, run_rounds
from fedjigsaw.errors import DataError, FewerClustersWarning, ParameterError, invalid
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import count_distinct, nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary, Transcript
from fedjigsaw.parameters import Rule, check_parameters, one_of

ASSIGN = one_of("nearest", "local")  # the rule for the parameter `assign`
EngineFactory = Callable[[Sequence[Client]], Engine]


class FederatedClusterer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    ABC,
):
    """Base of all methods: write `summarize` and `aggregate`, get `fit`, `predict` and the rest.

    A subclass names itself (`method`), lists its parameters in `rules`, and has `n_clusters` and
    `random_state` among them.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters_, n_features_in_)
    labels_ : array of shape (n_samples,)
        Cluster of every row, in the order in which the rows came: that of its nearest center, or,
        with ``assign="local"``, that of its client's nearest local center.
    n_clusters_ : int
        Number of centers found; less than asked for where the summaries held no more.
    assign_ : str
        By which of the two rules `labels_` came about.
    inertia_ : float
        Summed squared distance of all rows to their nearest center.
    n_iter_ : int
        Rounds of communication that the run took.
    transcript_ : Transcript
        Who sent how much, who failed and why, and the seed of the run.
    model_ : Model
        What the server made of the summaries.
    summaries_ : tuple of Summary
        What the clients sent in the last round, in the order of their names: all that left them.
    n_features_in_ : int
    feature_names_in_ : array of str, where the data had column names.
    """

    method: ClassVar[str]
    rules: ClassVar[Mapping[str, Rule]]
    n_rounds: int = 1
    # how `labels_` come about; a parameter of every method whose summaries hold local centers
    assign: str = "nearest"
    # the fields of a summary, besides its centers, that `aggregate` needs: no others are sent
    sends: ClassVar[tuple[str, ...]] = ("radii", "counts", "sse", "tensors")
    # True where raw rows leave the clients: a benchmark, not a federation
    pools_data: ClassVar[bool] = False
    # where k-means runs: not a parameter of the method, and not copied by `clone`; None is
    # the default of this machine, see `fedjigsaw.kernels.backends`
    backend: Backend | None = None

    n_clusters: Any
    random_state: Any

    cluster_centers_: Floats
    labels_: Ints
    assign_: str
    n_clusters_: int
    inertia_: float
    n_iter_: int
    transcript_: Transcript
    model_: Model
    summaries_: tuple[Summary, ...]

    @property
    def total_rounds(self) -> int:
        """How often the server asks every client."""
        return self.n_rounds

    @abstractmethod
    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Run at a client: all that may leave it is in what this returns.

        Give `counts` (and `sse`) along with the centers, so that a guard can merge small clusters;
        what the server does not need (`sends`) is taken out before the summary leaves.
        """

    @abstractmethod
    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Run at the server: all that it knows are the summaries."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        clients: Any = None,
        engine: EngineFactory = SerialEngine,
        min_clients: int | None = None,
    ) -> Self:
        """Cluster rows that are held by several clients.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : ignored; scikit-learn passes it.
        clients : array of shape (n_samples,), who holds each row
            Integers or strings; they become the clients' names. None is a single client.
        engine : where the clients run: `SerialEngine`, `ProcessEngine`, or, for two workers,
            ``functools.partial(ProcessEngine, n_jobs=2)``.
        min_clients : how many clients must answer; None means all.
        """
        self.check()
        owner = f"{type(self).__name__}.fit"
        with self._all_or_nothing():
            rows = check_data(self, X, owner=owner, reset=True)
            members = rows_by_client(len(rows), clients, owner=owner)
            self._fit(rows, members, engine, min_clients)
        if self.n_clusters_ < self._n_asked:
            self._warn_of_fewer(rows)
        return self

    def fit_clients(
        self,
        shards: Sequence[Any] | Mapping[Any, Any],
        *,
        engine: EngineFactory = SerialEngine,
        min_clients: int | None = None,
    ) -> Self:
        """Cluster data that already come apart: a list of arrays, or a mapping of id to array.

        A list is the same as a mapping with the ids "0", "1", and so on. `labels_` follows the
        shards one after the other.
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
        checked: list[Floats] = []
        with self._all_or_nothing():
            for name, shard in zip(names, shards.values(), strict=True):
                checked.append(check_data(self, shard, owner=f"client {name!r}", reset=not checked))
            ends = np.cumsum([len(rows) for rows in checked]).tolist()
            blocks = (slice(start, end) for start, end in pairwise([0, *ends]))
            rows = np.concatenate(checked)
            self._fit(rows, dict(zip(names, blocks, strict=True)), engine, min_clients)
        if self.n_clusters_ < self._n_asked:
            self._warn_of_fewer(rows)
        return self

    def predict(self, X: Any, *, clients: Any = None) -> Ints:
        """Nearest center of each row, or, for rows of known `clients`, as ``assign="local"`` does.

        Parameters
        ----------
        clients : array of shape (n_samples,), who holds each row, as in `fit`
            A row then follows the nearest center that its client sent, to wherever that one went.
            Rows of clients that took no part in the fit get the nearest center.
        """
        rows = self._known(X, "predict")
        labels, _ = nearest_centers(rows, self.cluster_centers_)
        if clients is not None:
            owner = f"{type(self).__name__}.predict"
            self._relabel(labels, rows, rows_by_client(len(rows), clients, owner=owner))
        return labels

    def transform(self, X: Any) -> Floats:
        """Distance of each row to each center."""
        return pairwise_distances(self._known(X, "transform"), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the summed squared distance of the rows to their nearest center."""
        _, distances = nearest_centers(self._known(X, "score"), self.cluster_centers_)
        return -float(distances @ distances)

    def check(self) -> None:
        """Hold the parameters against `rules`; `fit` does this first."""
        check_parameters(type(self).__name__, self.rules, self.get_params(deep=False))

    @classmethod
    def label_centers(cls, model: Model, centers: Floats) -> Ints:
        """Cluster of each local center, and with ``assign="local"`` of the rows around it."""
        return nearest_centers(centers, model.centers)[0]

    @classmethod
    def label_locally(cls, model: Model, centers: Floats, rows: Floats) -> tuple[Ints, Ints]:
        """Cluster of each row of a client, where its nearest local center goes, and which that is.

        On skewed data this uses what the server cannot know: a client that holds few of the
        clusters has cut them apart without the others in the way.
        """
        own = nearest_centers(rows, centers)[0]
        return cls.label_centers(model, centers)[own], own

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Refuse, by a MessageError, what a client sent and was not asked for.

        For a server whose clients are not to be trusted. That a summary is well formed, it knows;
        a method may ask for more.
        """

    def label_rule(self, model: Model) -> str:
        """How `labels_` come about, "nearest" or "local", once the model is known."""
        return self.assign

    def at_client(self, name: str) -> Self:
        """The method as this client runs it: the same everywhere, unless a method says else."""
        return self

    def make_model(self, centers: Floats, **tensors: np.ndarray) -> Model:
        """What `aggregate` returns: the centers, signed with this method and its parameters."""
        return Model(centers, method=self.method, params=self.configuration(), tensors=tensors)

    def configuration(self) -> dict[str, Any]:
        """The parameters as JSON values; a `random_state` that is not an integer is left out."""
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
        """A fit that fails leaves the estimator as it was."""
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
        engine: EngineFactory,
        min_clients: int | None,
    ) -> None:
        if self._n_asked > len(rows):
            allowed = f"at most the number of rows (n_samples = {len(rows)})"
            raise ParameterError(
                invalid("n_clusters", type(self).__name__, allowed, self.n_clusters)
            )
        if not callable(engine):
            allowed = "a class or function that makes an engine of clients, such as ProcessEngine"
            raise ParameterError(invalid("engine", type(self).__name__, allowed, repr(engine)))
        if self.pools_data:
            members, min_clients = {"pooled": slice(None)}, None
        clients = [Client(name, rows[held], self.at_client(name)) for name, held in members.items()]
        with engine(clients) as running:
            self.model_, self.transcript_, self.summaries_ = run_rounds(
                self,
                running,
                seed=resolve_seed(self.random_state),
                n_rounds=self.total_rounds,
                min_clients=min_clients,
            )
        if hasattr(self, "feature_names_in_"):
            self.model_ = replace(self.model_, feature_names=tuple(self.feature_names_in_))
        self.n_iter_ = len(self.transcript_.rounds)
        self.cluster_centers_ = np.array(self.model_.centers)
        self.n_clusters_ = len(self.cluster_centers_)
        self.labels_, distances = nearest_centers(rows, self.cluster_centers_)
        self.inertia_ = float(distances @ distances)
        self.assign_ = self.label_rule(self.model_)
        if self.assign_ == "local":
            self._relabel(self.labels_, rows, members)

    def _relabel(self, labels: Ints, rows: Floats, members: Mapping[str, Rows]) -> None:
        """Give rows the labels of their clients' own centers; of others, they stay as they are."""
        for summary in self.summaries_:
            if summary.client in members:
                held = members[summary.client]
                labels[held] = self.label_locally(self.model_, summary.centers, rows[held])[0]

    def _warn_of_fewer(self, rows: Floats) -> None:
        why = "the summaries held no more groups"
        distinct = count_distinct(rows, at_most=self.n_clusters)
        if distinct < self.n_clusters:
            why = f"the data have only {distinct} distinct row{'s' * (distinct > 1)}"
        warnings.warn(
            f"{type(self).__name__} found {self.n_clusters_} of {self.n_clusters} clusters: {why}.",
            FewerClustersWarning,
            stacklevel=3,
        )

    @property
    def _n_asked(self) -> int:
        """How many clusters were asked for; 0 where the method finds that out itself."""
        return 0 if self.n_clusters == "auto" else int(self.n_clusters)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_
