"""The estimator that every method is: scikit-learn's API on top of two hooks."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from fedjigsaw._inputs import (
    Floats,
    Ints,
    Rule,
    check_data,
    check_parameters,
    name_clients,
    resolve_seed,
    split_by_client,
)
from fedjigsaw.engine import Client, Engine, SerialEngine, run_rounds
from fedjigsaw.errors import DataError, FewerClustersWarning, ParameterError, complaint
from fedjigsaw.kmeans import assign
from fedjigsaw.matching import pairwise_distances
from fedjigsaw.messages import Broadcast, Model, Summary, Transcript

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
        Nearest center of every row, in the order in which the rows came.
    n_clusters_ : int
        Number of centers found; less than asked for where the summaries held no more.
    inertia_ : float
        Summed squared distance of all rows to their center.
    n_iter_ : int
        Rounds of communication that the run took.
    transcript_ : Transcript
        Who sent how much, who failed and why, and the seed of the run.
    model_ : Model
        What the server made of the summaries.
    n_features_in_ : int
    feature_names_in_ : array of str, where the data had column names.
    """

    method: ClassVar[str]
    rules: ClassVar[Mapping[str, Rule]]
    n_rounds: int = 1
    # True where raw rows leave the clients: a benchmark, not a federation
    pools_data: ClassVar[bool] = False

    n_clusters: Any
    random_state: Any

    cluster_centers_: Floats
    labels_: Ints
    n_clusters_: int
    inertia_: float
    n_iter_: int
    transcript_: Transcript
    model_: Model

    @abstractmethod
    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Run at a client: all that leaves it is what this returns."""

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
        engine : where the clients run: `SerialEngine` or `ProcessEngine`.
        min_clients : how many clients must answer; None means all.
        """
        self._check()
        owner = type(self).__name__
        rows = check_data(self, X, owner=f"{owner}.fit", reset=True)
        shards = split_by_client(rows, clients, owner=f"{owner}.fit")
        return self._fit(rows, shards, engine, min_clients)

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
        self._check()
        owner = f"{type(self).__name__}.fit_clients"
        if not isinstance(shards, (Mapping, list, tuple)) or not len(shards):
            allowed = "a non-empty list of arrays or mapping of id to array"
            got = (
                f"an empty {type(shards).__name__}"
                if isinstance(shards, (Mapping, list, tuple))
                else type(shards).__name__
            )
            raise DataError(complaint("shards", owner, allowed, got))
        if not isinstance(shards, Mapping):
            shards = dict(enumerate(shards))
        names = name_clients(shards, owner=owner)
        checked: dict[str, Floats] = {}
        for name, shard in zip(names, shards.values(), strict=True):
            checked[name] = check_data(self, shard, owner=f"client {name!r}", reset=not checked)
        return self._fit(np.concatenate(list(checked.values())), checked, engine, min_clients)

    def predict(self, X: Any) -> Ints:
        """Nearest center of each row."""
        return assign(self._known(X, "predict"), self.cluster_centers_)[0]

    def transform(self, X: Any) -> Floats:
        """Distance of each row to each center."""
        return pairwise_distances(self._known(X, "transform"), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the summed squared distance of the rows to their nearest center."""
        _, distances = assign(self._known(X, "score"), self.cluster_centers_)
        return -float(distances @ distances)

    def configuration(self) -> dict[str, Any]:
        """The parameters as JSON values; a `random_state` that is not an integer is left out."""
        params = self.get_params(deep=False)
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in params.items()
            if value is None or isinstance(value, (bool, int, float, str, np.generic))
        }

    def _check(self) -> None:
        check_parameters(type(self).__name__, self.rules, self.get_params(deep=False))

    def _known(self, X: Any, verb: str) -> Floats:
        check_is_fitted(self)
        return check_data(self, X, owner=f"{type(self).__name__}.{verb}", reset=False)

    def _fit(
        self,
        rows: Floats,
        shards: dict[str, Floats],
        engine: EngineFactory,
        min_clients: int | None,
    ) -> Self:
        if self.n_clusters > len(rows):
            allowed = f"at most the number of rows (n_samples = {len(rows)})"
            raise ParameterError(
                complaint("n_clusters", type(self).__name__, allowed, self.n_clusters)
            )
        if self.pools_data:
            shards = {"pooled": rows}
        clients = [Client(name, data, self) for name, data in shards.items()]
        with engine(clients) as running:
            self.model_, self.transcript_ = run_rounds(
                self,
                running,
                seed=resolve_seed(self.random_state),
                n_rounds=self.n_rounds,
                min_clients=min_clients,
            )
        self.n_iter_ = len(self.transcript_.rounds)
        self.cluster_centers_ = np.array(self.model_.centers)
        self.n_clusters_ = len(self.cluster_centers_)
        self.labels_, distances = assign(rows, self.cluster_centers_)
        self.inertia_ = float(distances @ distances)
        if self.n_clusters_ < self.n_clusters:
            self._warn_of_fewer(rows)
        return self

    def _warn_of_fewer(self, rows: Floats) -> None:
        why = "the summaries held no more groups"
        distinct = len(np.unique(rows, axis=0)) if len(rows) <= 10_000 else len(rows)
        if distinct < self.n_clusters:
            why = f"the data have only {distinct} distinct row{'s' * (distinct > 1)}"
        warnings.warn(
            f"{type(self).__name__} found {self.n_clusters_} of {self.n_clusters} clusters: {why}.",
            FewerClustersWarning,
            stacklevel=4,
        )

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_
