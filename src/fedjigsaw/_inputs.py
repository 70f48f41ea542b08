"""Arguments of `fit` as users give them: shards, weights, options, and `y` by mistake."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from fedjigsaw._rows import Weighted, is_sparse
from fedjigsaw._typing import Floats, Rows
from fedjigsaw.engine import Client, Engine
from fedjigsaw.errors import (
    SCIKIT_LEARN,
    DataError,
    DataTypeError,
    DataWarning,
    ParameterError,
    calling_package,
    invalid,
    warn,
)
from fedjigsaw.parameters import is_integer
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.validation import MAX_SAMPLES, check_data, column_names, in_order, name_clients

EngineFactory = Callable[[Sequence[Client]], Engine]


class Options(NamedTuple):
    """How a fit runs: what may leave clients, where they run, and how many must answer."""

    guard: Guard
    privacy: Privacy | None
    engine: EngineFactory
    min_clients: int | None

    def check(self, estimator: Any, rows: Any = None, weights: Floats | None = None) -> None:
        """Raise a ParameterError if these arguments are not allowed, alone or together.

        Parameters
        ----------
        rows, weights : the data of all clients, if they are in memory.
        """
        owner = type(estimator).__name__
        Guard.check(self.guard, owner)
        if not isinstance(self.privacy, Privacy | None):
            allowed = "a Privacy or None"
            raise ParameterError(invalid("privacy", owner, allowed, repr(self.privacy)))
        known = not isinstance(self.engine, type) or _is_engine(self.engine)
        if not callable(self.engine) or not known:
            raise self._no_engine(owner)
        if weights is not None:
            self._check_weighted()
        if is_sparse(rows) and self.privacy is not None:
            raise ParameterError(
                "Differential privacy needs dense rows. Convert them with .toarray(), or leave "
                "out privacy."
            )
        if rows is not None and is_integer(estimator.n_clusters):
            n_rows = rows.shape[0] if weights is None else int(weights.sum())
            if int(estimator.n_clusters) > n_rows:
                allowed = f"at most the number of rows (n_samples = {n_rows})"
                raise ParameterError(invalid("n_clusters", owner, allowed, estimator.n_clusters))

    def settled(self, estimator: Any, n_clients: int, rows: Any = None) -> Self:
        """Return the options with a promise of privacy on whose terms all clients agree."""
        if self.privacy is None:
            return self
        n_rows = None if rows is None else rows.shape[0]
        n_columns = len(self.privacy.bounds[0]) if rows is None else rows.shape[1]
        settled = estimator.settle_privacy(self.privacy, n_columns, n_clients, n_rows)
        return self._replace(privacy=settled)

    def start(self, clients: Sequence[Client], owner: str) -> Engine:
        """Make the engine of the clients."""
        made = self.engine(clients)
        if not _is_engine(made):
            raise self._no_engine(owner)
        return made

    def _no_engine(self, owner: str) -> ParameterError:
        allowed = "a class or function that makes an engine of clients, such as ProcessEngine"
        return ParameterError(invalid("engine", owner, allowed, repr(self.engine)))

    def _check_weighted(self) -> None:
        if self.guard.min_cluster_size > 1:
            raise ParameterError(
                "sample_weight cannot be used with a guard: a guard counts rows, and one row of "
                "weight 5 would pass for five. Leave out one of the two."
            )
        if self.privacy is not None:
            raise ParameterError(
                "sample_weight cannot be used with privacy: the noise is for rows that count "
                "once. Leave out one of the two."
            )


def _is_engine(made: object) -> bool:
    return all(hasattr(made, name) for name in ("gather", "__enter__", "__exit__"))


def check_shards(shards: Any, *, owner: str) -> dict[str, Any]:
    """Return the data of each client by its name."""
    several = isinstance(shards, (Mapping, list, tuple))
    if not several or not len(shards):
        allowed = "a non-empty list of arrays or mapping of id to array"
        got = f"an empty {type(shards).__name__}" if several else type(shards).__name__
        raise DataError(invalid("shards", owner, allowed, got))
    if not isinstance(shards, Mapping):
        shards = dict(enumerate(shards))
    return dict(zip(name_clients(shards, owner=owner), shards.values(), strict=True))


def check_rows(estimator: Any, shards: Mapping[str, Any]) -> list[Any]:
    """Return the rows of each client, with the columns in the order of the first client."""
    checked: list[Any] = []
    first = next(iter(shards))
    # not `feature_names_in_`: it is not there if names are numbers, and these may differ as well
    names = column_names(shards[first])
    for name, shard in shards.items():
        shard = in_order(shard, names, client=name, first=first)
        rows = check_data(estimator, shard, owner=f"client {name!r}", reset=not checked)
        if checked and is_sparse(rows) != is_sparse(checked[0]):
            raise DataError(
                f"Of clients {first!r} and {name!r}, one has sparse rows and one has dense ones. "
                "Convert either of them."
            )
        checked.append(rows)
    return checked


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
    except ValueError as error:
        allowed, got = f"one number per row, shape ({n_rows},)", "rows of different lengths"
        raise DataError(invalid("sample_weight", owner, allowed, got)) from error
    if array.dtype.kind not in "biuf":
        raise DataTypeError(invalid("sample_weight", owner, "numbers", array.dtype))
    if array.ndim == 0:
        array = np.full(n_rows, array)
    if array.shape != (n_rows,):
        allowed = f"one number per row, shape ({n_rows},)"
        raise DataError(invalid("sample_weight", owner, allowed, f"shape {array.shape}"))
    checked: Floats = array.astype(np.float64)
    good = (checked >= 0) & (checked <= MAX_SAMPLES)
    if whole:
        good &= checked == np.floor(checked)
    if not good.all():
        _refuse_weight(checked, int(np.flatnonzero(~good)[0]), owner, whole=whole)
    total = checked.sum()
    if not 0 < total <= MAX_SAMPLES:
        allowed = f"weights that are not all zero and add up to at most {MAX_SAMPLES}"
        raise DataError(invalid("sample_weight", owner, allowed, f"a sum of {total:g}"))
    return checked


def _refuse_weight(weights: Floats, row: int, owner: str, *, whole: bool) -> None:
    value = weights[row]
    fraction = whole and 0 <= value < np.inf and value != np.floor(value)
    advice = (
        "A summary counts rows: multiply all weights by one number and round them, since only "
        "their ratios move the centers."
        if fraction
        else ""
    )
    allowed = "whole numbers >= 0" if whole else "finite numbers >= 0"
    raise DataError(invalid("sample_weight", owner, allowed, f"{value:g} in row {row}", advice))


def join_weights(
    weights: Any, shards: Any, rows: Mapping[str, Any], *, owner: str
) -> Floats | None:
    """Return the weights of all rows, from those of each client."""
    if weights is None:
        return None
    alike = isinstance(weights, Mapping) if isinstance(shards, Mapping) else True
    named = isinstance(weights, Mapping)
    several = named or (isinstance(weights, (list, tuple)) and len(weights) == len(rows))
    if not alike or not several:
        allowed = "the weights of each client, in a list or mapping like that of its rows"
        is_list = isinstance(weights, (list, tuple))
        got = f"{type(weights).__name__}{f' of length {len(weights)}' if is_list else ''}"
        raise DataError(invalid("sample_weight", owner, allowed, got))
    if named:
        weights = _in_order_of(rows, weights, owner)
    parts = []
    for values, (name, own) in zip(weights, rows.items(), strict=True):
        array = np.asarray(values)
        if array.shape != (own.shape[0],):
            allowed = f"one number per row, shape ({own.shape[0]},)"
            whom = f"client {name!r}"
            raise DataError(invalid("sample_weight", whom, allowed, f"shape {array.shape}"))
        parts.append(array)
    return check_weights(np.concatenate(parts), sum(map(len, parts)), owner=owner)


def _in_order_of(rows: Mapping[str, Any], weights: Mapping[Any, Any], owner: str) -> list[Any]:
    named = {str(client): values for client, values in weights.items()}
    advice = "Give the weights of each client of shards, and of no other."
    for name in rows:
        if name not in named:
            raise DataError(f"sample_weight of {owner} has none for client {name!r}. {advice}")
    for name in named:
        if name not in rows:
            raise DataError(f"sample_weight of {owner} has client {name!r} without rows. {advice}")
    return [named[name] for name in rows]


def with_weight(members: dict[str, Rows], weights: Floats | None) -> dict[str, Rows]:
    """Return the rows of each client that have a weight; a client without any is left out."""
    if weights is None:
        return members
    everything = np.arange(len(weights))
    kept = {name: everything[held][weights[held] > 0] for name, held in members.items()}
    return {name: held for name, held in kept.items() if len(held)}


def data_of(rows: Any, held: Rows, weights: Floats | None) -> Any:
    """Return the data of one client."""
    return rows[held] if weights is None else Weighted(rows[held], weights[held])


def warn_of_slip(y: Any, clients: Any, n_rows: int, owner: str) -> None:
    """Warn if `y`, which clustering ignores, looks like the clients of the rows.

    scikit-learn's own tools pass `y` on to all estimators: that is no slip.
    """
    if y is None or clients is not None or not _looks_like_ids(y, n_rows):
        return
    if calling_package("fedjigsaw")[0] not in SCIKIT_LEARN:
        warn(
            f"{owner} ignores y, its second argument, and takes all rows as those of one client. "
            "If it is the client of each row, pass it by name: fit(X, clients=...).",
            DataWarning,
        )


def _looks_like_ids(y: Any, n_rows: int) -> bool:
    """Tell whether there is a text or whole number for each row, and several rows have the same."""
    try:
        values = np.asarray(y)
    except ValueError:
        return False
    if values.shape != (n_rows,):
        return False
    if values.dtype.kind == "O":
        return all(isinstance(value, str) for value in values)
    return values.dtype.kind in "US" or (
        values.dtype.kind in "iu" and 1 < len(np.unique(values)) <= n_rows / 2
    )
