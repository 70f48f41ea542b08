"""scikit-learn's API on top of the two halves of a federated method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from inspect import isfunction
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

from fedjigsaw._inputs import (
    EngineFactory,
    Options,
    check_rows,
    check_shards,
    check_weights,
    data_of,
    join_weights,
    warn_of_slip,
    with_weight,
)
from fedjigsaw._prediction import Prediction
from fedjigsaw._regions import own_tensors
from fedjigsaw._rows import n_bytes, stack
from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw.contract import DefaultName, own_name
from fedjigsaw.engine import (
    NO_GUARD,
    BatchEngine,
    Client,
    check_columns,
    run_rounds,
    warn_of_fewer_clusters,
)
from fedjigsaw.errors import (
    MessageError,
    ParameterError,
    counted,
    invalid,
    one_warning_of_each_kind,
    quote_names,
)
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import count_distinct
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import FIELDS, Broadcast, Model, Summary, Transcript, check_received
from fedjigsaw.parameters import (
    Rule,
    check_parameters,
    complete_rules,
    integer,
    is_integer,
    one_of,
    seed_source,
)
from fedjigsaw.privacy.far_rows import warn_of_far_row
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.profiles import moments_of_clients
from fedjigsaw.random import resolve_seed
from fedjigsaw.sources import is_source, unread
from fedjigsaw.validation import check_data, rows_by_client, take_clients

ASSIGN = one_of("nearest", "local")  # the rule for the parameter `assign`


class FederatedClusterer(
    Prediction,
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

    Parameters
    ----------
    n_clusters : int, default 8
        Number of clusters in the data of all clients together.
    random_state : int, RandomState, Generator or None
        Seed of the run; None draws one.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        The centers, as float32 if the rows were float32; `model_` has them in double precision.
    labels_ : array of shape (n_samples,)
        Cluster of every row, in the order of the rows: that of its nearest center or, with
        ``assign="local"``, that of its client's nearest local center.
    n_clusters_ : int
        Number of centers found, without lone clusters (`Jigsaw.lone_centers_`). It is smaller than
        `n_clusters` if the summaries have too few distinct centers.
    assign_ : str
        Which of the two rules gave `labels_`, "nearest" or "local".
    inertia_ : float
        Summed squared distance of all rows to their nearest center, weighted if rows had weights.
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
    cluster_ids_ : array of int
        The id of each cluster in a model file; 0, 1, 2, ... unless it was loaded from a model that
        keeps the ids of an earlier one.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, if the data had names.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import FederatedClusterer, Summary
    >>> class OneMean(FederatedClusterer):
    ...     "One cluster: the mean of all rows."
    ...
    ...     sends = ("counts",)
    ...
    ...     def summarize(self, X, broadcast, rng):
    ...         return Summary(len(X), X.mean(axis=0, keepdims=True), counts=[len(X)])
    ...
    ...     def aggregate(self, summaries, broadcast, rng):
    ...         means = [summary.centers[0] for summary in summaries]
    ...         counts = [summary.counts[0] for summary in summaries]
    ...         return self.make_model([np.average(means, axis=0, weights=counts)])
    >>> model = OneMean(1).fit([[1.0], [2.0], [6.0]], clients=["bern", "bern", "oslo"])
    >>> model.cluster_centers_.tolist()
    [[3.0]]
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
    # whether `summarize` takes rows with weights (fedjigsaw._rows.Weighted) instead of copies of
    # them, and CSR matrices
    takes_weights: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    # True where raw rows leave the clients: a benchmark, not a federation
    pools_data: ClassVar[bool] = False
    # where k-means runs: not a parameter of the method, and not copied by `clone`; None is
    # the default of this machine, see `fedjigsaw.kernels.backends`
    backend: Backend | None = None
    # whether a server looks for clients that are unlike all others
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

    def __init__(self, n_clusters: Any = 8, *, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a rule to every parameter that has none, and a class of others its own name.

        The halves of the server check what they get, also where they are called by hand.
        """
        super().__init_subclass__(**options)
        for half in ("aggregate", "merge"):
            if isfunction(vars(cls).get(half)):
                setattr(cls, half, _of_received(vars(cls)[half]))
        if own_name(cls) is None and cls.__module__.partition(".")[0] != "fedjigsaw":
            cls.method = DefaultName()  # type: ignore[assignment]
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
        return str(self._fitted_with("assign"))

    def _fitted_with(self, name: str) -> Any:
        """Return a parameter as it was at the fit; `set_params` may have changed it since."""
        check_is_fitted(self, "model_")
        return self.model_.params.get(name, getattr(self, name))

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

    def settle_privacy(
        self, privacy: Privacy, n_columns: int, n_clients: int, n_rows: int | None = None
    ) -> Privacy:
        """Return the promise of a run with all that clients must agree on, or raise an error.

        Parameters
        ----------
        n_rows : number of rows, to warn of noise. Nothing that leaves may depend on it.
        """
        self.check_privacy(privacy)
        return privacy

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
        received = check_received(summaries, f"{type(self).__name__}.merge")
        total = sum(len(summary.centers) for summary in received)
        raise ParameterError(
            f"Centers of {type(self).__name__} cannot be merged, and these are {total:,}. Allow "
            f"the region as many (n_centers={total}), so that they pass as they are, or use jigsaw."
        )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        clients: Any = None,
        guard: Guard = NO_GUARD,
        privacy: Privacy | None = None,
        engine: EngineFactory = BatchEngine,
        min_clients: int | None = None,
    ) -> Self:
        """Cluster rows that several clients hold.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n_samples, n_features)
            Rows of float32 stay so, and so do `cluster_centers_` and the distances of `transform`;
            all computation is in float64. Sparse rows are for methods with ``takes_sparse``.
        y : ignored
            Present for scikit-learn's API.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row, a whole number: a row of weight w acts as w copies of it, and one of
            weight 0 as if it were not there. Neither with a guard nor with privacy, which count
            rows. A method without ``takes_weights`` makes these copies, one client after the other.
        clients : array of shape (n_samples,), name of a column, or None
            The client of each row, as integers or strings, which become the clients' names. A
            column of a DataFrame `X` is taken out of the rows, and later out of those of `predict`,
            `transform` and `score`, if they have it. None is a single client.
        guard : Guard
            What may leave a client. The default lets every summary pass; the file workflow and
            federations use ``Guard()``, which merges centers of fewer than five rows.
        privacy : Privacy or None
            Differential privacy for the rows of each client, in place of a guard.
        engine : callable
            Where the clients run: `BatchEngine`, `SerialEngine`, `ProcessEngine`, or, for two
            workers, ``functools.partial(ProcessEngine, n_jobs=2)``.
        min_clients : int or None
            Number of clients that must answer. None is all of them. Ignored where rows are pooled.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If the rows, weights or clients cannot be used: texts, missing values, other lengths.
        ParameterError
            If a parameter is wrong, or there are fewer rows than `n_clusters`.
        QuorumError
            If fewer than `min_clients` clients answered, such as one that its guard blocks.
        """
        self.check()
        owner = f"{type(self).__name__}.fit"
        column = clients if isinstance(clients, str) else None
        X, clients = take_clients(X, clients, owner=owner)
        with self._all_or_nothing():
            rows = check_data(self, X, owner=owner, reset=True)
            members = rows_by_client(rows.shape[0], clients, owner=owner)
            weights = check_weights(sample_weight, rows.shape[0], owner=owner)
            warn_of_slip(y, clients, rows.shape[0], owner)
            self._fit(rows, members, weights, Options(guard, privacy, engine, min_clients))
            self._clients_column = column
        self._warn_of_fewer(rows, weights)
        return self

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """Cluster rows as `fit` does, with the same options, and return the cluster of each."""
        return self.fit(X, y, **options).labels_

    def fit_clients(
        self,
        shards: Sequence[Any] | Mapping[Any, Any],
        *,
        sample_weight: Sequence[Any] | Mapping[Any, Any] | None = None,
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
            on. `labels_` follows the shards one after the other. DataFrames must have the same
            columns, in any order: that of the first client is used.

            Data that exceed memory: instead of an array, the path of a file or of a folder of
            Parquet files, a function that returns an array or yields parts of one, or a source
            (see :mod:`fedjigsaw.sources`). They are read when it is the client's turn, and freed.
            `labels_`, `inertia_` and `profile_` are then not there; `predict` labels rows.
        sample_weight : list of arrays, mapping of id to array, or None
            The weights of each client's rows, as in `fit`; for data in memory.
        guard, privacy, engine, min_clients : as in `fit`

        Returns
        -------
        self

        Raises
        ------
        DataError
            If there are no shards, or one of them cannot be read or has other columns.
        ParameterError, QuorumError
            As in `fit`.

        Examples
        --------
        >>> from fedjigsaw import Jigsaw
        >>> shards = {"bern": [[30.0], [60.0]], "oslo": [[32.0], [62.0]]}
        >>> Jigsaw(2, random_state=0).fit_clients(shards).cluster_centers_.tolist()
        [[31.0], [61.0]]
        """
        self.check()
        owner = f"{type(self).__name__}.fit_clients"
        options = Options(guard, privacy, engine, min_clients)
        named = check_shards(shards, owner=owner)
        if any(map(is_source, named.values())):
            if sample_weight is not None:
                raise ParameterError("sample_weight needs data in memory: give arrays.")
            with self._all_or_nothing():
                self._fit_unread(named, options)
            asked, found = self.n_clusters, self.n_clusters_
            warn_of_fewer_clusters(asked, found, self.summaries_, owner=type(self).__name__)
            return self
        with self._all_or_nothing():
            checked = dict(zip(named, check_rows(self, named), strict=True))
            weights = join_weights(sample_weight, shards, checked, owner=owner)
            ends = np.cumsum([rows.shape[0] for rows in checked.values()]).tolist()
            blocks = (slice(start, end) for start, end in pairwise([0, *ends]))
            members: dict[str, Rows] = dict(zip(named, blocks, strict=True))
            rows = stack(list(checked.values()))
            self._fit(rows, members, weights, options)
        self._warn_of_fewer(rows, weights)
        return self

    # here, since scikit-learn wraps it for `set_output` only where an estimator itself has it
    def transform(self, X: Any) -> Any:
        """Return the distance of each row to each center, as float32 if the rows are float32."""
        rows = self._known(X, "transform")
        distances = np.empty((rows.shape[0], len(self.model_.centers)), dtype=rows.dtype)
        for part, block in self._blocks(rows):
            distances[part] = pairwise_distances(block, self.model_.centers)
        return distances

    def check(self) -> None:
        """Check the parameters against `rules`, and `sends`; `fit` does this first."""
        self._check_init()
        self._check_sends()
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

    def _check_sends(self) -> None:
        """Raise a ParameterError if `sends` is not a tuple of fields: else they would not leave."""
        allowed = f"a tuple of some of {', '.join(map(repr, FIELDS))}, such as ('counts',)"
        if not isinstance(self.sends, tuple) or any(name not in FIELDS for name in self.sends):
            raise ParameterError(invalid("sends", type(self).__name__, allowed, repr(self.sends)))

    def check_federated(self) -> None:
        """Check the parameters for a federation; a method that pools data cannot take part."""
        self.check()
        if self.pools_data:
            raise ParameterError(
                f"Method {self.method!r} pools all rows, so it cannot run in a federation. "
                "Use another method; `fedjigsaw methods` lists them."
            )

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: its centers and its tensors."""
        if not len(summary.centers):
            raise MessageError(
                f"Client {summary.client!r} sent no centers, which {type(self).__name__} needs."
            )
        allowed = self.answer_tensors(broadcast)
        strange = () if allowed is None else sorted(own_tensors(summary).keys() - allowed)
        if strange:
            raise MessageError(
                f"Client {summary.client!r} sent {quote_names(strange, 5)}, which no answer to "
                f"this question of {type(self).__name__} has."
            )

    def answer_tensors(self, broadcast: Broadcast) -> Set[str] | None:
        """Return the names of the tensors that an answer to a broadcast may have; None is any."""
        return None if "tensors" in self.sends else frozenset()

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
            if value is None
            or isinstance(value, (bool, int, float, str, dict, list, tuple, np.generic))
        }

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
        self, rows: Any, members: dict[str, Rows], weights: Floats | None, options: Options
    ) -> None:
        options.check(self, rows, weights)
        holders = members
        if self.pools_data:  # the number means nothing here, but a wrong one is a mistake
            rule = integer(1, len(holders), or_none=True)
            rule.check("min_clients", "a run", options.min_clients)
            members, options = {"pooled": slice(None)}, options._replace(min_clients=None)
        used = with_weight(members, weights)
        options = options.settled(self, len(used), rows)
        guard, privacy = options.guard, options.privacy
        clients = [
            Client(name, data_of(rows, held, weights), self, guard, privacy)
            for name, held in used.items()
        ]
        if guard.min_cluster_size == 1 and privacy is None and weights is None:
            warn_of_far_row(rows)
        self._run(clients, options)
        self.cluster_centers_ = self.cluster_centers_.astype(rows.dtype)
        if self.pools_data:
            self.transcript_ = _of_pooling(self.transcript_, rows, holders)
        self.labels_, distances = self._label(rows)
        self.inertia_ = float((distances if weights is None else weights * distances) @ distances)
        if self.assign_ == "local":
            self._relabel(self.labels_, rows, members)
        if privacy is None:
            held = [used[s.client] for s in self.summaries_ if s.client in used]
            size = guard.min_cluster_size
            n_labels = len(self.model_.centers)
            found = moments_of_clients(rows, self.labels_, held, n_labels, size, weights)
            self._profile = (*found, size)

    def _fit_unread(self, shards: dict[str, Any], options: Options) -> None:
        """Fit data that are read when it is their client's turn: no row is here to be labeled."""
        options.check(self)
        if self.pools_data:
            raise ParameterError(
                f"{type(self).__name__} pools all rows, so they must be in memory: give arrays."
            )
        options = options.settled(self, len(shards))
        guard, privacy = options.guard, options.privacy
        data = unread(self, shards, private=privacy is not None)
        self._run([Client(name, rows, self, guard, privacy) for name, rows in data], options)
        for name in {"labels_", "inertia_"} & set(vars(self)):
            delattr(self, name)  # of an earlier fit

    def _run(self, clients: Sequence[Client], options: Options) -> None:
        starting = options.start(clients, type(self).__name__)
        with one_warning_of_each_kind(), starting as running:
            self.model_, self.transcript_, self.summaries_ = run_rounds(
                self,
                running,
                seed=resolve_seed(self.random_state),
                n_rounds=self.total_rounds,
                min_clients=options.min_clients,
                cells=None if options.privacy is None else options.privacy.cells,
            )
        check_columns(self.model_, self.n_features_in_, f"{type(self).__name__}.aggregate")
        privacy = options.privacy
        if privacy is not None:
            self.model_ = replace(self.model_, centers=privacy.within(self.model_.centers))
        self.model_ = self.model_.with_feature_names(getattr(self, "feature_names_in_", None))
        self.n_iter_ = len(self.transcript_.rounds)
        n_clusters = len(self.model_.centers) - self.model_.n_lone
        self.cluster_centers_ = np.array(self.model_.centers[:n_clusters])
        self.n_clusters_ = len(self.cluster_centers_)
        self._profile, self._privacy, self._file = None, privacy, None
        self._clients_column = None

    def _warn_of_fewer(self, rows: Any, weights: Floats | None) -> None:
        if not is_integer(self.n_clusters) or self.n_clusters_ >= int(self.n_clusters):
            return
        why = ""
        used = rows if weights is None else rows[weights > 0]
        distinct = count_distinct(used, at_most=self.n_clusters)
        if distinct < self.n_clusters:
            why = f"the data have only {counted(distinct, 'distinct row')}"
        owner = type(self).__name__
        asked, found = self.n_clusters, self.n_clusters_
        warn_of_fewer_clusters(asked, found, self.summaries_, owner=owner, why=why)

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.centers)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _of_received(half: Callable[..., Any]) -> Callable[..., Any]:
    """Return a half of a method at the server with a check of the summaries that it gets."""

    @wraps(half)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        owner = f"{type(self).__name__}.{half.__name__}"
        if args:
            args = (check_received(args[0], owner), *args[1:])
        elif "summaries" in named:
            named["summaries"] = check_received(named["summaries"], owner)
        return half(self, *args, **named)

    return checked


def _of_pooling(transcript: Transcript, rows: Any, holders: Mapping[str, Rows]) -> Transcript:
    """Return the record of a run for which every client sent its rows."""
    sent = {name: n_bytes(rows[held]) for name, held in holders.items()}
    rounds = [
        replace(r, bytes_up=sent, bytes_down=r.bytes_down * len(sent)) for r in transcript.rounds
    ]
    return replace(transcript, rounds=tuple(rounds))
