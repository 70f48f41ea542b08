"""What a comparison clusters: rows, their classes if known, and the client of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from fedjigsaw import datasets, partition
from fedjigsaw._rows import dense
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import DataError, ParameterError, quote_names
from fedjigsaw.parameters import integer, is_integer
from fedjigsaw.validation import (
    as_column,
    check_data,
    column_names,
    first_missing,
    in_order,
    name_clients,
    rows_by_client,
    select,
)

OWNER = "compare"
DEFAULT_CLIENTS = 10  # of a split


@dataclass(frozen=True)
class Problem:
    """What to cluster.

    Parameters
    ----------
    clients : for a seed, the client of each row.
    has_classes : whether the classes in `data` are known; otherwise they mean nothing.
    split : how rows are dealt to clients, in words; empty if that does not depend on the seed.
    columns : names of the columns, if known.
    """

    data: Dataset
    clients: Callable[[int], Any]
    has_classes: bool
    split: str = ""
    columns: Sequence[str] | None = None


def fixed(ids: Any) -> Callable[[int], Any]:
    """Return the same client ids for every seed."""
    return lambda seed: ids


def make_problem(
    X: Any, clients: Any, y: Any, n_clients: int | None, options: Mapping[str, Any]
) -> Problem:
    """Read the arguments of :func:`fedjigsaw.compare` that are about data.

    Raises
    ------
    DataError, ParameterError
        If they cannot be used.
    """
    if X is None or (clients is None and _are_shards(X)):
        rows, clients, y, columns = _joined(clients if X is None else X, y)
    else:
        X, clients, y, columns = _columns_apart(X, clients, y)
        rows = _checked(X)
    classes = None if y is None else _classes(y, len(rows))
    known = np.zeros(len(rows), dtype=np.int64) if classes is None else classes
    data = Dataset(rows, known, None, "")
    if isinstance(clients, str) or callable(clients):
        deal, words = _split(clients, rows, classes, n_clients, options)
        return Problem(data, deal, classes is not None, words, columns)
    if n_clients is not None or options:
        names = quote_names([*(["n_clients"] if n_clients is not None else []), *options])
        raise ParameterError(
            f"{names}: only for a split by name or by a function, such as clients='dirichlet'. "
            "Here, clients says which client has which row."
        )
    if clients is None:
        raise ParameterError(
            "compare needs clients: the client of each row, the name of a column, or a split such "
            "as clients='dirichlet', n_clients=10, alpha=0.3."
        )
    rows_by_client(len(rows), clients, owner=OWNER)
    return Problem(data, fixed(np.asarray(clients)), classes is not None, "", columns)


def smallest_client(data: Dataset, n_clients: int, n_clusters: int | str = "auto") -> int:
    """Return the default of a Dirichlet split's `min_size`.

    It is k, as in the paper's splits, but at most a tenth of the rows of an average client: a split
    that meets it is then easy to draw.
    """
    k = data.n_clusters if isinstance(n_clusters, str) else n_clusters
    return min(k, len(data.X) // (10 * n_clients))


def deal_dataset(
    dataset: str,
    n_clients: int = DEFAULT_CLIENTS,
    *,
    split: str = "dirichlet",
    by: str | None = None,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Problem:
    """Load a data set, which every seed splits among clients.

    Parameters
    ----------
    dataset, label, columns : as in :func:`fedjigsaw.datasets.load`.
    split : a key of :data:`fedjigsaw.partition.SPLITS`.
    by : for "column", the column of a file that tells who holds each row; for "features", the
        column that decides, instead of the direction in which rows vary most.
    **options : of the split.
    """
    by_column = split == "column"
    if by_column and by is None:
        text = "The split 'column' needs the column that tells who holds each row."
        raise ParameterError(text, parameter="by")
    data = datasets.load(dataset, label=label, columns=columns, clients=by if by_column else None)
    names = data.columns or [f"x{j}" for j in range(data.X.shape[1])]
    if by_column:
        ids = fixed(partition.column(data.clients))
        return Problem(data, ids, data.has_classes, f"by {by}", names)
    if split not in partition.WITHOUT_CLASSES and not data.has_classes:
        others = ", ".join(partition.WITHOUT_CLASSES)
        raise DataError(
            f"The classes of {data.name} are not known, and rows are dealt by them. "
            f"Name their column, or use another split: {others}.",
            parameter="label",
        )
    if by is not None:
        if by not in names:
            shown = quote_names(list(names))
            raise ParameterError(f"{data.name} has no column {by!r}. It has {shown}.")
        options["direction"] = list(names).index(by)
    deal, words = _split(split, data.X, data.y if data.has_classes else None, n_clients, options)
    return Problem(data, deal, data.has_classes, words, names)


def seeds_of(seeds: Any) -> tuple[int, ...]:
    """Return the seeds of a comparison: a number of them, from 0 on, or those that are listed."""
    if is_integer(seeds) and int(seeds) >= 1:
        return tuple(range(int(seeds)))
    listed = isinstance(seeds, Iterable) and not isinstance(seeds, (str, bytes, Mapping))
    found = list(seeds) if listed else []
    if not found or not all(is_integer(seed) and int(seed) >= 0 for seed in found):
        raise ParameterError(
            "seeds of compare must be a number of seeds >= 1, or a list of integers >= 0; got "
            f"{seeds!r}."
        )
    if len(set(found)) < len(found):
        raise ParameterError(f"A seed is given twice: {', '.join(map(str, found))}.")
    return tuple(map(int, found))


def _are_shards(X: Any) -> bool:
    """Whether data are a list or mapping of tables, one for each client."""
    if isinstance(X, Mapping):
        return not hasattr(X, "columns")
    return isinstance(X, (list, tuple)) and bool(X) and all(_n_dim(part) == 2 for part in X)


def _n_dim(values: Any) -> int:
    try:
        return int(np.ndim(values))
    except ValueError:  # rows of different lengths
        return 0


def _joined(shards: Any, y: Any) -> tuple[Floats, Any, Any, list[str] | None]:
    """Return the rows of all clients, their clients, their classes, and names of the columns."""
    from fedjigsaw.methods.central import CentralKMeans

    if not _are_shards(shards) or not len(shards):
        raise ParameterError(
            "compare needs data: X with the rows of all clients, or a list of 2-D arrays, one for "
            "each client."
        )
    named = shards if isinstance(shards, Mapping) else dict(enumerate(shards))
    names = name_clients(named, owner=OWNER)
    if isinstance(y, Mapping):
        y = [y.get(key) for key in named]
    order, checker = column_names(next(iter(named.values()))), CentralKMeans()
    rows: list[Floats] = []
    classes, columns = [], None
    for name, shard in zip(names, named.values(), strict=True):
        table = in_order(shard, order, client=name, first=names[0])
        table, _, found, columns = _columns_apart(table, None, y if isinstance(y, str) else None)
        checked = check_data(checker, table, owner=f"client {name!r}", reset=not rows)
        rows.append(dense(checked))
        classes.append(found)
    ids = np.repeat(np.array(names), [len(part) for part in rows])
    if isinstance(y, str):
        y = np.concatenate(classes)
    elif isinstance(y, (list, tuple)) and len(y) == len(rows) and _n_dim(y[0]) == 1:
        y = np.concatenate([np.asarray(part) for part in y])
    return np.concatenate(rows), ids, y, columns


def _columns_apart(X: Any, clients: Any, y: Any) -> tuple[Any, Any, Any, list[str] | None]:
    """Take columns that are given by name out of a table; return also the names of the others."""
    names = column_names(X) or []
    if isinstance(y, str) and y not in names:
        raise DataError(f"y is {y!r}, which is not a column of X.{_listed(names)}")
    if isinstance(clients, str) and clients not in (*names, *partition.SPLITS):
        splits = ", ".join(partition.SPLITS)
        raise ParameterError(
            f"clients is {clients!r}, which is neither a column of X nor a split. Splits are "
            f"{splits}.{_listed(names)}"
        )
    if not names:
        return X, clients, y, None
    taken = [given for given in (clients, y) if isinstance(given, str) and given in names]
    rest = [name for name in names if name not in taken]
    clients, y = (
        np.asarray(X[given]) if isinstance(given, str) and given in names else given
        for given in (clients, y)
    )
    return select(X, rest), clients, y, [str(name) for name in rest]


def _listed(names: Sequence[Any]) -> str:
    return f" Columns are {quote_names([str(name) for name in names])}." if names else ""


def _checked(X: Any) -> Floats:
    from fedjigsaw.methods.central import CentralKMeans

    return dense(check_data(CentralKMeans(), X, owner=OWNER, reset=True))


def _classes(y: Any, n_rows: int) -> Ints:
    """Return the class of each row as a number."""
    values = as_column(y, "y", OWNER)
    if values.shape != (n_rows,):
        raise DataError(
            f"y of compare must have one class per row, shape ({n_rows},); got shape "
            f"{values.shape}."
        )
    row = first_missing(values)
    if row is not None:
        raise DataError(f"y of compare has no class in row {row}. Leave such rows out.")
    try:
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise DataError(
            f"Cannot sort the classes in y: {error}. Use only numbers or only strings."
        ) from error


def _split(
    how: Any, rows: Floats, classes: Ints | None, n_clients: int | None, options: Mapping[str, Any]
) -> tuple[Callable[[int], Any], str]:
    """Return what deals rows to clients by a seed, and how that is called."""
    n_clients = DEFAULT_CLIENTS if n_clients is None else n_clients
    integer(1).check("n_clients", OWNER, n_clients)
    name = how if isinstance(how, str) else getattr(how, "__name__", "own split")
    known = () if callable(how) else partition.SPLITS[name]
    unknown = [option for option in options if option not in known or option == "X"]
    if unknown:
        has = ", ".join(option for option in known if option != "X") or "none"
        raise ParameterError(
            f"Split {name!r} has no option {quote_names(unknown)}. Its options: {has}."
        )
    if classes is None and not callable(how) and name not in partition.WITHOUT_CLASSES:
        raise ParameterError(
            f"Split {name!r} deals rows by their classes: give y. Without classes, use "
            f"{', '.join(partition.WITHOUT_CLASSES)}."
        )
    labels = np.zeros(len(rows), dtype=np.int64) if classes is None else classes
    chosen = {**options, "X": rows}
    if "min_size" in known:
        least = smallest_client(Dataset(rows, labels, None, ""), n_clients)
        chosen.setdefault("min_size", least)
    words = _split_words(name, known, chosen)
    return lambda seed: partition.split(how, labels, n_clients, rng=seed, **chosen), words


def _split_words(name: str, known: Sequence[str], chosen: Mapping[str, Any]) -> str:
    """Name a split and all its options, also those at their defaults; arrays are too long."""
    defaults = {o: p.default for o, p in signature(partition.split).parameters.items()}
    used = {option: chosen.get(option, defaults[option]) for option in known}
    words = {
        option: f"{value:g}" if isinstance(value, float) else str(value)
        for option, value in used.items()
        if isinstance(value, (str, int, float))
    }
    return ", ".join([f"{name} split", *(f"{o} = {text}" for o, text in words.items())])
