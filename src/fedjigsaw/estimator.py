"""scikit-learn's API on top of the two halves of a federated method."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from fedjigsaw._rows import Weighted, in_blocks, is_sparse, n_bytes, stack
from fedjigsaw._typing import Floats, Ints, Rows
from fedjigsaw.columns.contrasts import profile_frame
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.engine import (
    NO_GUARD,
    Client,
    DefaultName,
    Engine,
    FederatedMethod,
    SerialEngine,
    check_columns,
    own_name,
    run_rounds,
    warn_of_fewer_clusters,
)
from fedjigsaw.errors import (
    SCIKIT_LEARN,
    DataError,
    DataTypeError,
    DataWarning,
    MessageError,
    ParameterError,
    UnavailableError,
    calling_package,
    counted,
    invalid,
    one_warning_of_each_kind,
    quote_names,
    warn,
)
from fedjigsaw.kernels.backends import Backend
from fedjigsaw.kernels.kmeans import count_distinct, nearest_centers
from fedjigsaw.kernels.matching import pairwise_distances
from fedjigsaw.messages import FIELDS, REGION, REGION_HEAD, Broadcast, Model, Summary, Transcript
from fedjigsaw.number.shapes import label_rows, labels_of_local_centers
from fedjigsaw.parameters import (
    Rule,
    check_parameters,
    complete_rules,
    integer,
    is_integer,
    one_of,
    seed_source,
)
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.guard import Guard, warn_of_far_row
from fedjigsaw.privacy.statistics import moments_of_clients
from fedjigsaw.random import resolve_seed
from fedjigsaw.robust.influence import SiteFindings
from fedjigsaw.sources import is_source, unread
from fedjigsaw.validation import (
    MAX_SAMPLES,
    check_data,
    check_path,
    column_names,
    in_order,
    name_clients,
    rows_by_client,
    take_clients,
    without,
)

if TYPE_CHECKING:
    from fedjigsaw.io.formats import ModelFile

ASSIGN = one_of("nearest", "local")  # the rule for the parameter `assign`
EngineFactory = Callable[[Sequence[Client]], Engine]


class Options(NamedTuple):
    """How a fit runs: what may leave clients, where they run, and how many must answer."""

    guard: Guard
    privacy: Privacy | None
    engine: EngineFactory
    min_clients: int | None


class FederatedClusterer(
    FederatedMethod,
    SiteFindings,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base class of methods that cluster rows.

    A subclass writes `summarize` and `aggregate`, declares in `sends` what the server needs, and
    gets `fit`, `predict` and the rest. It has the parameters `n_clusters` and `random_state`, and
    may add its own in an ``__init__``, and allowed values of them in `rules` (others than these two
    are not checked by default). What else it may set is in
    :class:`~fedjigsaw.engine.FederatedMethod`.

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

    rules: ClassVar[Mapping[str, Rule]] = {
        "n_clusters": integer(1),
        "random_state": seed_source(),
    }
    n_rounds: int = 1
    # the rule for `labels_`; a parameter of every method whose summaries hold local centers
    assign: str = "nearest"
    sends: ClassVar[tuple[str, ...]] = ()
    client_parameters: ClassVar[tuple[str, ...]] = (
        "n_clusters",
        "n_local_clusters",
        "n_init",
        "max_iter",
        "tol",
        "assign",
        "random_state",
    )
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
    n_features_in_: int
    inertia_: float
    n_iter_: int
    transcript_: Transcript
    model_: Model
    summaries_: tuple[Summary, ...]
    _profile: tuple[Ints, Floats, Floats, int] | None  # moments of each cluster, and the guard
    _privacy: Privacy | None = None  # of the fit
    _file: "ModelFile | None" = None  # from which the estimator was loaded
    _clients_column: str | None = None  # taken out of the rows at the fit, and so of others

    __dir__ = object.__dir__  # that of scikit-learn computes each property, such as `sites_`

    def __init__(self, n_clusters: Any = 8, *, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state

    def __init_subclass__(cls, **options: Any) -> None:
        """Give a rule to every parameter that has none, and a class of others its own name."""
        super().__init_subclass__(**options)
        if own_name(cls) is None and cls.__module__.partition(".")[0] != "fedjigsaw":
            cls.method = DefaultName()  # type: ignore[assignment]
        if {"rules", "__init__"} & set(vars(cls)):
            inherited = super(cls, cls).rules
            cls.rules = complete_rules(cls.__init__, vars(cls).get("rules", {}), inherited)

    # --------------------------------------------------------------------- what an author writes

    @abstractmethod
    def summarize(self, X: Floats, broadcast: Broadcast, rng: np.random.Generator) -> Summary:
        """Compute the summary of a client's data; only this summary leaves the client.

        Return `counts` (and `sse`) along with the centers, so that a guard can merge small
        clusters. What the server does not need (`sends`) is removed before the summary leaves.
        """

    @abstractmethod
    def aggregate(
        self, summaries: Sequence[Summary], broadcast: Broadcast, rng: np.random.Generator
    ) -> Model:
        """Run at the server, which knows nothing but the summaries."""

    def make_model(self, centers: Floats, **tensors: np.ndarray) -> Model:
        """Make the model that `aggregate` returns, with the method's name and parameters."""
        return Model(centers, method=self.method, params=self.configuration(), tensors=tensors)

    # ------------------------------------------------------------------ what an author may change

    @property
    def total_rounds(self) -> int:
        """Number of rounds: how often the server asks every client."""
        return self.n_rounds

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

    def merge(self, summaries: Sequence[Summary], n_centers: int) -> Summary:
        """Merge summaries into one of at most `n_centers` centers, as a region sends it.

        The centers of most methods mean something only one by one: they raise a ParameterError.
        """
        total = sum(len(summary.centers) for summary in summaries)
        raise ParameterError(
            f"Centers of {type(self).__name__} cannot be merged, and these are {total:,}. Allow "
            f"the region as many (n_centers={total}), so that they pass as they are, or use jigsaw."
        )

    def check_answer(self, summary: Summary, broadcast: Broadcast) -> None:
        """Check a summary from a client that is not trusted: its centers and its tensors."""
        if not len(summary.centers):
            raise MessageError(
                f"Client {summary.client!r} sent no centers, which {type(self).__name__} needs."
            )
        allowed = self.answer_tensors(broadcast)
        own = set(summary.tensors)
        if REGION_HEAD in own:  # of a region, which is checked where it is taken apart
            own = {name for name in own if not name.startswith(REGION)}
        strange = () if allowed is None else sorted(own - allowed)
        if strange:
            raise MessageError(
                f"Client {summary.client!r} sent {quote_names(strange, 5)}, which no answer to "
                f"this question of {type(self).__name__} has."
            )

    def answer_tensors(self, broadcast: Broadcast) -> Set[str] | None:
        """Return the names of the tensors that an answer to a broadcast may have; None is any."""
        return None if "tensors" in self.sends else frozenset()

    def check(self) -> None:
        """Check the parameters against `rules`, and `sends`; `fit` does this first."""
        self._check_init()
        # a text, or a field that no summary has, would leave the server without numbers
        if not isinstance(self.sends, tuple) or any(name not in FIELDS for name in self.sends):
            fields = ", ".join(map(repr, FIELDS))
            allowed = f"a tuple of some of {fields}, such as ('counts',)"
            raise ParameterError(invalid("sends", type(self).__name__, allowed, repr(self.sends)))
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
        return super().from_settings(settings)

    def configuration(self) -> dict[str, Any]:
        """Return the parameters as JSON values, without a `random_state` that is no integer."""
        plain = (bool, int, float, str, dict, list, tuple, np.generic)
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
            if value is None or isinstance(value, plain)
        }

    # ------------------------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        clients: Any = None,
        guard: Guard = NO_GUARD,
        privacy: Privacy | None = None,
        engine: EngineFactory = SerialEngine,
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
            Where the clients run: `SerialEngine`, `ProcessEngine`, or, for two workers,
            ``functools.partial(ProcessEngine, n_jobs=2)``.
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
        engine: EngineFactory = SerialEngine,
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
        several = isinstance(shards, (Mapping, list, tuple))
        if not several or not len(shards):
            allowed = "a non-empty list of arrays or mapping of id to array"
            got = f"an empty {type(shards).__name__}" if several else type(shards).__name__
            raise DataError(invalid("shards", owner, allowed, got))
        by_id = shards if isinstance(shards, Mapping) else dict(enumerate(shards))
        named = dict(zip(name_clients(by_id, owner=owner), by_id.values(), strict=True))
        if any(map(is_source, named.values())):
            if sample_weight is not None:
                raise ParameterError("sample_weight needs data in memory: give arrays.")
            with self._all_or_nothing():
                self._fit_unread(named, options)
            self._warn_of_fewer(None, None)
            return self
        with self._all_or_nothing():
            parts = self._check_shards(named)
            weights = join_weights(sample_weight, parts, owner=owner)
            ends = np.cumsum([rows.shape[0] for rows in parts.values()]).tolist()
            blocks = (slice(start, end) for start, end in pairwise([0, *ends]))
            rows = stack(list(parts.values()))
            self._fit(rows, dict(zip(parts, blocks, strict=True)), weights, options)
        self._warn_of_fewer(rows, weights)
        return self

    def _check_shards(self, shards: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rows of each client, with the columns in the order of the first client."""
        checked: dict[str, Any] = {}
        first = next(iter(shards))
        # not `feature_names_in_`: it is not there if names are numbers, and these may differ too
        names = column_names(shards[first])
        for name, shard in shards.items():
            shard = in_order(shard, names, client=name, first=first)
            rows = check_data(self, shard, owner=f"client {name!r}", reset=not checked)
            if checked and is_sparse(rows) != is_sparse(checked[first]):
                raise DataError(
                    f"Of clients {first!r} and {name!r}, one has sparse rows and one has dense "
                    "ones. Convert either of them."
                )
            checked[name] = rows
        return checked

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
        self._check_options(options, rows, weights)
        holders = members
        if self.pools_data:  # the number means nothing here, but a wrong one is a mistake
            rule = integer(1, len(holders), or_none=True)
            rule.check("min_clients", "a run", options.min_clients)
            members, options = {"pooled": slice(None)}, options._replace(min_clients=None)
        if weights is not None:  # a client whose rows have no weight takes no part
            everything = np.arange(len(weights))
            kept = {m: everything[held][weights[held] > 0] for m, held in members.items()}
            members = {name: held for name, held in kept.items() if len(held)}
        guard, privacy = options.guard, options.privacy
        if privacy is not None:
            privacy = self.settle_privacy(privacy, rows.shape[1], len(members), rows.shape[0])
        elif guard.min_cluster_size == 1 and weights is None:
            warn_of_far_row(rows)
        clients = [
            Client(
                name,
                rows[held] if weights is None else Weighted(rows[held], weights[held]),
                self,
                guard,
                privacy,
            )
            for name, held in members.items()
        ]
        self._run(clients, options._replace(privacy=privacy))
        self.cluster_centers_ = self.cluster_centers_.astype(rows.dtype)
        if self.pools_data:  # the record says that every client sent its rows
            sent = {name: n_bytes(rows[held]) for name, held in holders.items()}
            rounds = tuple(
                replace(r, bytes_up=sent, bytes_down=r.bytes_down * len(sent))
                for r in self.transcript_.rounds
            )
            self.transcript_ = replace(self.transcript_, rounds=rounds)
        self.labels_, distances = self._label(rows)
        self.inertia_ = float((distances if weights is None else weights * distances) @ distances)
        if self.assign_ == "local":
            self._relabel(self.labels_, rows, holders)
        if privacy is None:
            held_rows = [members[s.client] for s in self.summaries_ if s.client in members]
            size, n_labels = guard.min_cluster_size, len(self.model_.centers)
            found = moments_of_clients(rows, self.labels_, held_rows, n_labels, size, weights)
            self._profile = (*found, size)

    def _fit_unread(self, shards: dict[str, Any], options: Options) -> None:
        """Fit data that are read when it is their client's turn: no row is here to be labeled."""
        self._check_options(options)
        if self.pools_data:
            raise ParameterError(
                f"{type(self).__name__} pools all rows, so they must be in memory: give arrays."
            )
        guard, privacy = options.guard, options.privacy
        if privacy is not None:
            privacy = self.settle_privacy(privacy, len(privacy.bounds[0]), len(shards))
        data = unread(self, shards, private=privacy is not None)
        clients = [Client(name, rows, self, guard, privacy) for name, rows in data]
        self._run(clients, options._replace(privacy=privacy))
        for name in {"labels_", "inertia_"} & set(vars(self)):
            delattr(self, name)  # of an earlier fit

    def _check_options(
        self, options: Options, rows: Any = None, weights: Floats | None = None
    ) -> None:
        """Raise a ParameterError if the arguments of `fit` are not allowed, alone or together."""
        owner = type(self).__name__
        Guard.check(options.guard, owner)
        if not isinstance(options.privacy, Privacy | None):
            allowed = "a Privacy or None"
            raise ParameterError(invalid("privacy", owner, allowed, repr(options.privacy)))
        _check_engine(options.engine, owner, made=isinstance(options.engine, type))
        if weights is not None and (options.guard.min_cluster_size > 1 or options.privacy):
            why = "the noise is for rows that count once."
            if options.privacy is None:
                why = "a guard counts rows, and one row of weight 5 would pass for five."
            what = "a guard" if options.privacy is None else "privacy"
            raise ParameterError(
                f"sample_weight cannot be used with {what}: {why} Leave out one of the two."
            )
        if is_sparse(rows) and options.privacy is not None:
            raise ParameterError(
                "Differential privacy needs dense rows. Convert them with .toarray(), or leave "
                "out privacy."
            )
        if rows is not None and is_integer(self.n_clusters):
            n_rows = rows.shape[0] if weights is None else int(weights.sum())
            if int(self.n_clusters) > n_rows:
                allowed = f"at most the number of rows (n_samples = {n_rows})"
                raise ParameterError(invalid("n_clusters", owner, allowed, self.n_clusters))

    def _run(self, clients: Sequence[Client], options: Options) -> None:
        engine, privacy = options.engine(clients), options.privacy
        _check_engine(engine, type(self).__name__)
        with one_warning_of_each_kind(), engine as running:
            self.model_, self.transcript_, self.summaries_ = run_rounds(
                self,
                running,
                seed=resolve_seed(self.random_state),
                n_rounds=self.total_rounds,
                min_clients=options.min_clients,
                cells=None if privacy is None else privacy.cells,
            )
        check_columns(self.model_, self.n_features_in_, f"{type(self).__name__}.aggregate")
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
        if rows is not None:
            used = rows if weights is None else rows[weights > 0]
            distinct = count_distinct(used, at_most=self.n_clusters)
            if distinct < self.n_clusters:
                why = f"the data have only {counted(distinct, 'distinct row')}"
        owner, asked, found = type(self).__name__, self.n_clusters, self.n_clusters_
        warn_of_fewer_clusters(asked, found, self.summaries_, owner=owner, why=why)

    # ----------------------------------------------------------------------------- after the fit

    @property
    def assign_(self) -> str:
        """The rule that gave `labels_`, "nearest" or "local"."""
        return str(self._fitted_with("assign"))

    def _fitted_with(self, name: str) -> Any:
        """Return a parameter as it was at the fit; `set_params` may have changed it since."""
        check_is_fitted(self, "model_")
        return self.model_.params.get(name, getattr(self, name))

    @property
    def cluster_ids_(self) -> Ints:
        """The id of each cluster in a model file; 0, 1, 2, ... if it follows no other model."""
        check_is_fitted(self, "model_")
        ids = None if self._file is None else self._file.cluster_ids
        return np.arange(len(self.model_.centers)) if ids is None else np.array(ids, dtype=np.int64)

    @property
    def profile_(self) -> Any:
        """What the rows of each cluster are like: a pandas DataFrame, a row per cluster and column.

        It is made from what each client may send under the guard of the fit: mean and standard
        deviation, and the difference from all rows in standard deviations. A fit under differential
        privacy has none.
        """
        check_is_fitted(self, "model_")
        if self._profile is None and not hasattr(self, "labels_"):
            raise UnavailableError(
                "There is no profile_ after a fit of data that were not in memory, nor in a loaded "
                "model. sites.score(..., profile=True) makes one of a file."
            )
        if self._profile is None:
            raise UnavailableError(
                "There is no profile_ after a private fit, which spent nothing on it. "
                "sites.score(..., profile=True, privacy=...) makes one with a budget of its own."
            )
        names = getattr(self, "feature_names_in_", unnamed(self.n_features_in_))
        count, mean, squares, size = self._profile
        return profile_frame(Profile(tuple(names), count, mean, squares, {}, {}, size))

    def predict(self, X: Any, *, clients: Any = None) -> Ints:
        """Return the cluster of each row: that of the nearest center, unless the model says more.

        A model with shapes of clusters labels rows by these, and -1 where a row is in none.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n_samples, n_features)
        clients : array of shape (n_samples,), name of a column, or None
            The client of each row, as in `fit`. A row then gets the label of the nearest center
            that its client sent, as with ``assign="local"``. Rows of clients that took no part in
            the fit get their nearest center.

        Returns
        -------
        array of int of shape (n_samples,)

        Raises
        ------
        DataError
            If the rows have other columns than those of the fit, or missing values.
        ParameterError
            If `clients` are given to a model that was loaded from a file.

        Examples
        --------
        >>> from fedjigsaw import Jigsaw
        >>> model = Jigsaw(2, random_state=0).fit([[30.0], [32.0], [60.0], [62.0]])
        >>> model.predict([[35.0], [70.0]]).tolist()
        [0, 1]
        """
        owner = f"{type(self).__name__}.predict"
        X, clients = take_clients(X, clients, owner=owner)
        rows = self._known(X, "predict")
        labels, _ = self._label(rows)
        if clients is not None:
            if self._file is not None:
                raise ParameterError(
                    "A loaded model does not know what clients sent: predict without clients. "
                    "`fedjigsaw assign --local` labels rows by the summary of a site."
                )
            self._relabel(labels, rows, rows_by_client(rows.shape[0], clients, owner=owner))
        return labels

    # here, since scikit-learn wraps it for `set_output` only where an estimator itself has it
    def transform(self, X: Any) -> Any:
        """Return the distance of each row to each center, as float32 if the rows are float32."""
        rows = self._known(X, "transform")
        distances = np.empty((rows.shape[0], len(self.model_.centers)), dtype=rows.dtype)
        for part, block in self._blocks(rows):
            distances[part] = pairwise_distances(block, self.model_.centers)
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the summed squared distance of the rows to their nearest center.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix of shape (n_samples, n_features)
        y : ignored
            Present for scikit-learn's API.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row in the sum, a number >= 0.

        Returns
        -------
        float
            At most 0; the larger, the better.
        """
        rows = self._known(X, "score")
        owner = f"{type(self).__name__}.score"
        weights = check_weights(sample_weight, rows.shape[0], owner=owner, whole=False)
        total = 0.0
        for part, block in self._blocks(rows):
            _, distances = nearest_centers(block, self.model_.centers)
            weighted = distances if weights is None else weights[part] * distances
            total += float(weighted @ distances)
        return -total

    def _known(self, X: Any, verb: str) -> Any:
        """Return rows with the columns of the fit, in the units of its rows."""
        check_is_fitted(self, "model_")
        owner = f"{type(self).__name__}.{verb}"
        file = self._file
        if file is None or file.encoding is None:
            return check_data(self, without(X, self._clients_column), owner=owner, reset=False)
        from fedjigsaw.io.frames import from_frame, has_names

        names = file.encoding.sources
        table = from_frame(X, None if has_names(X) else names, name=f"X of {owner}")
        lacking = [name for name in names if name not in table.columns]
        if lacking:
            raise DataError(
                f"X of {owner} has no column {quote_names(lacking)}, which the model needs."
            )
        read = table.encoded(file.encoding).select(file.columns)
        blocks = [batch.rows for batch in read.batches()]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(file.columns)))

    def _blocks(self, rows: Any) -> Iterator[tuple[slice, Floats]]:
        """Yield rows in the units of the model, block by block."""
        scaler = None if self._file is None else self._file.scaler
        for part, block in in_blocks(rows):
            yield part, block if scaler is None else scaler.scale(block)

    def _label(self, rows: Any) -> tuple[Ints, Floats]:
        """Return the cluster of each row, and the distance to the nearest center."""
        labels: Ints = np.empty(rows.shape[0], dtype=np.int64)
        distances: Floats = np.empty(rows.shape[0])
        for part, block in self._blocks(rows):
            labels[part], _, distances[part] = label_rows(self.model_, block)
        return labels, distances

    def _relabel(self, labels: Ints, rows: Any, members: Mapping[str, Rows]) -> None:
        """Relabel rows by the local centers of their client, where it sent any."""
        known = [summary for summary in self.summaries_ if summary.client in members]
        if not known:
            return
        centers = [summary.centers for summary in known]
        groups = labels_of_local_centers(self.model_, np.concatenate(centers))
        ends = np.cumsum(list(map(len, centers)))[:-1]
        for summary, own in zip(known, np.split(groups, ends), strict=True):
            held = members[summary.client]
            found = [
                own[nearest_centers(block, summary.centers)[0]]
                for _, block in self._blocks(rows[held])
            ]
            labels[held] = np.concatenate(found)

    # -------------------------------------------------------------------------------------- files

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        scaler: Scaler | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the model to a file, which holds no code: not pickle, but safetensors.

        The commands ``assign``, ``score``, ``inspect``, ``report`` and ``diff`` read it, and so do
        `load` and :func:`fedjigsaw.load`. It has the centers, the parameters, the names of the
        columns and clients, and what the model says about clusters; no row, no label and no
        summary. Columns without names get x0, x1, ...

        Parameters
        ----------
        path : path of the file
        scaler : Scaler or None
            How rows were scaled before the fit, such as ``FederatedPreparation.scaler_``, so that
            the commands and a loaded model take rows as they were before.
        overwrite : bool, default False
            Replace a file that exists, instead of raising an error.

        Raises
        ------
        DataError
            If the file exists and is not to be replaced, or cannot be written.
        """
        check_is_fitted(self, "model_")
        place = check_path(path, f"{type(self).__name__}.save")
        from fedjigsaw.io import formats

        if not overwrite and place.exists():  # said here, since files tell of options of commands
            raise DataError(f"{place} already exists. Use overwrite=True to replace it.")
        formats.save(self._to_file(scaler), place, replace=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load an estimator from a model file of this method.

        The file is one that `save` or a command wrote. It holds no code. `predict`, `transform`
        and `score` take rows as they were before they were scaled, and so are `cluster_centers_`.
        There is no `labels_`, `inertia_`, `transcript_` or `profile_`. Labels count from 0;
        `cluster_ids_` has the ids of a model that follows another one.

        Parameters
        ----------
        path : path of the file

        Raises
        ------
        DataError
            If the file cannot be read.
        MessageError
            If it is not a model, or is one of another method.
        """
        from fedjigsaw.io import formats

        file = formats.load(check_path(path, f"{cls.__name__}.load"), formats.ModelFile)
        if file.model.method != cls.method:
            raise MessageError(
                f"{path} is a model of method {file.model.method!r}, not of {cls.__name__}. "
                "fedjigsaw.load(path) loads a model of any method."
            )
        return cls.of_file(file, Path(path))

    def _to_file(self, scaler: Scaler | None = None) -> "ModelFile":
        from fedjigsaw.io.formats import ModelFile

        if self._file is not None:
            if scaler is not None:
                raise ParameterError("This estimator was loaded from a file with its own scaler.")
            return self._file
        model, clients = self.model_, self.transcript_.clients
        if scaler is not None and len(scaler.columns) != model.centers.shape[1]:
            allowed = f"one for {model.centers.shape[1]} columns"
            raise ParameterError(invalid("scaler", "save", allowed, len(scaler.columns)))
        names = model.feature_names or unnamed(model.centers.shape[1])
        answered = [r.bytes_up.keys() for r in self.transcript_.rounds]
        return ModelFile(
            model.with_feature_names(names if scaler is None else scaler.columns),
            scaler,
            clients,
            sum(summary.n_samples for summary in self.summaries_),
            partly=tuple(c for c in clients if not all(c in names for names in answered)),
            privacy=self._privacy,
            clients_column=self._clients_column,
        )

    @classmethod
    def of_file(cls, file: "ModelFile", path: Path) -> Self:
        """Return a fitted estimator with the model of a file, which was read from a path."""
        from fedjigsaw.io import formats

        with formats.errors_in(path):
            if not len(file.model.centers):
                raise ParameterError("The model has no centers, so that it cannot label rows")
            made = cls.from_settings(dict(file.model.params))
        columns = file.columns if file.encoding is None else file.encoding.sources
        made._file, made._privacy = file, file.privacy
        made._clients_column, made._profile = file.clients_column, None
        made.model_, made.summaries_ = file.model, ()
        made.n_features_in_ = len(columns)
        if columns != unnamed(len(columns)):
            made.feature_names_in_ = np.array(columns, dtype=object)
        centers = file.model.centers[: len(file.model.centers) - file.model.n_lone]
        scaler = file.scaler
        made.cluster_centers_ = np.array(centers) if scaler is None else scaler.unscale(centers)
        made.n_clusters_ = len(centers)
        return made

    # ------------------------------------------------------------------------------- scikit-learn

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.centers)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Show what is stored; scikit-learn (from 1.9 on) would compute each property for it."""
        stored = SimpleNamespace(**vars(self))
        shown: Any = BaseEstimator._get_fitted_attr_html(stored, doc_link)
        shown.estimator_class = type(self)  # for the documentation of each attribute
        return shown


def unnamed(n_columns: int) -> tuple[str, ...]:
    """Return the names that columns without names have in files."""
    return tuple(f"x{j}" for j in range(n_columns))


# ---------------------------------------------------------------------------- arguments of `fit`


def _check_engine(engine: Any, owner: str, *, made: bool = True) -> None:
    """Raise a ParameterError if this is no engine, or, before it was `made`, cannot make one."""
    parts = ("ask", "__enter__", "__exit__") if made else ("__call__",)
    if not all(hasattr(engine, name) for name in parts):
        allowed = "a class or function that makes an engine of clients, such as ProcessEngine"
        raise ParameterError(invalid("engine", owner, allowed, repr(engine)))


def check_weights(weights: Any, n_rows: int, *, owner: str, whole: bool = True) -> Floats | None:
    """Return the weight of each row, or None if none are given.

    Parameters
    ----------
    whole : whether weights must be whole numbers, since summaries count rows.
    """
    if weights is None:
        return None
    try:
        array = np.asarray(weights)
    except ValueError:
        array = np.empty(0)  # rows of different lengths
    if array.dtype.kind not in "biuf":
        raise DataTypeError(invalid("sample_weight", owner, "numbers", array.dtype))
    array = np.full(n_rows, array) if array.ndim == 0 else array
    if array.shape != (n_rows,):
        allowed = f"one number per row, shape ({n_rows},)"
        raise DataError(invalid("sample_weight", owner, allowed, f"shape {array.shape}"))
    checked: Floats = array.astype(np.float64)
    good = (checked >= 0) & (checked <= MAX_SAMPLES)
    if whole:
        good &= checked == np.floor(checked)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        got = f"{checked[row]:g} in row {row}"
        advice = "Only their ratios move the centers: multiply all by one number and round them."
        kind = "whole numbers" if whole else "finite numbers"
        advice = advice if whole and checked[row] >= 0 else ""
        raise DataError(invalid("sample_weight", owner, f"{kind} >= 0", got, advice))
    total = checked.sum()
    if not 0 < total <= MAX_SAMPLES:
        allowed = f"weights that are not all zero and add up to at most {MAX_SAMPLES}"
        raise DataError(invalid("sample_weight", owner, allowed, f"a sum of {total:g}"))
    return checked


def join_weights(weights: Any, rows: Mapping[str, Any], *, owner: str) -> Floats | None:
    """Return the weights of all rows, from those of each client."""
    if weights is None:
        return None
    allowed = "the weights of each client, in a list or mapping like that of its rows"
    if not isinstance(weights, (Mapping, list, tuple)):
        raise DataError(invalid("sample_weight", owner, allowed, type(weights).__name__))
    by_id = weights if isinstance(weights, Mapping) else dict(enumerate(weights))
    named = {str(client): np.asarray(values) for client, values in by_id.items()}
    if named.keys() != rows.keys():
        wrong = quote_names(sorted(named.keys() ^ rows.keys()), 5)
        advice = f"Only one of shards and sample_weight has client {wrong}."
        got = f"those of {counted(len(named), 'client')}"
        raise DataError(invalid("sample_weight", owner, allowed, got, advice))
    for name, own in rows.items():
        if named[name].shape != (own.shape[0],):
            shape = f"one number per row, shape ({own.shape[0]},)"
            got = f"shape {named[name].shape}"
            raise DataError(invalid("sample_weight", f"client {name!r}", shape, got))
    joined = np.concatenate([named[name] for name in rows])
    return check_weights(joined, len(joined), owner=owner)


def warn_of_slip(y: Any, clients: Any, n_rows: int, owner: str) -> None:
    """Warn if `y`, which clustering ignores, looks like the clients of the rows.

    It does if there is a text or whole number for each row, and several rows have the same.
    scikit-learn's own tools pass `y` on to all estimators: that is no slip.
    """
    if y is None or clients is not None:
        return
    try:
        values = np.asarray(y)
    except ValueError:
        return
    texts = values.dtype.kind in "US" or (
        values.dtype.kind == "O" and all(isinstance(value, str) for value in values.flat)
    )
    whole = values.dtype.kind in "iu" and 1 < len(np.unique(values)) <= n_rows / 2
    called_by = calling_package("fedjigsaw")[0]
    if values.shape == (n_rows,) and (texts or whole) and called_by not in SCIKIT_LEARN:
        warn(
            f"{owner} ignores y, its second argument, and takes all rows as those of one client. "
            "If it is the client of each row, pass it by name: fit(X, clients=...).",
            DataWarning,
        )
