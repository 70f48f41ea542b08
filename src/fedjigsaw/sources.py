"""Data of clients that are read when it is their turn: more than memory holds, all together.

:meth:`~fedjigsaw.FederatedClusterer.fit_clients` takes, for each client, the path of a file or
folder, a function, or what :func:`table` and :func:`by_client` make. One client is read at a time
(in each worker), in every round, and freed before the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjigsaw._rows import stack
from fedjigsaw._typing import Floats
from fedjigsaw.errors import DataError, quote_names
from fedjigsaw.validation import check_data, column_names, in_order

if TYPE_CHECKING:
    from fedjigsaw.io.tables import Table

__all__ = ["Source", "by_client", "table"]

ALL = 2**62  # rows of a file, at most


class Source(ABC):
    """The rows of one client, in another place than memory.

    :func:`table` and :func:`by_client` make them. A subclass may read from elsewhere, such as a
    database.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw import Jigsaw
    >>> from fedjigsaw.sources import Source
    >>> class Ages(Source):
    ...     def learn(self, estimator, client, *, private):
    ...         estimator.n_features_in_ = 1
    ...
    ...     def read(self, estimator, client):
    ...         return np.array([[30.0], [31.0], [60.0], [61.0]])
    >>> Jigsaw(2, random_state=0).fit_clients({"bern": Ages()}).cluster_centers_.tolist()
    [[30.5], [60.5]]
    """

    @abstractmethod
    def learn(self, estimator: Any, client: str, *, private: bool) -> Sequence[Any] | None:
        """Tell the estimator the number of columns, and return their names if they have any."""

    @abstractmethod
    def read(self, estimator: Any, client: str) -> Floats:
        """Return all rows, with the columns that the estimator knows."""


@dataclass(frozen=True)
class Unread:
    """The data of one client of a run, before they are read."""

    source: Source
    estimator: Any
    client: str

    def read(self) -> Floats:
        return self.source.read(self.estimator, self.client)


def table(
    path: Path | str, *, columns: Sequence[str] | None = None, drop_missing: bool = False
) -> Source:
    """Rows of a file, or of all Parquet files in a folder, in the order of their names.

    Parameters
    ----------
    path : path of a .parquet, .csv, .npy, ... file, or of a folder
    columns : sequence of str or None
        Columns to use. None takes those of the first client: all columns of its first file that do
        not look like identifiers.
    drop_missing : bool, default False
        Skip rows with missing values, instead of raising an error.

    Returns
    -------
    Source
        Nothing is read before ``fit_clients``, which raises a DataError for a file that it cannot
        read, or that has missing values or texts.

    Raises
    ------
    DataError
        If `path` is a folder without Parquet files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedjigsaw import Jigsaw
    >>> from fedjigsaw.sources import table
    >>> path = Path(tempfile.mkdtemp(), "bern.csv")
    >>> _ = path.write_text("name,age\\nA,30\\nB,31\\nC,60\\nD,61\\n")
    >>> model = Jigsaw(2, random_state=0).fit_clients({"bern": table(path, columns=["age"])})
    >>> model.cluster_centers_.tolist()
    [[30.5], [60.5]]
    """
    parts = tuple(_Part(file) for file in _files(path))
    return _Tables(parts, None if columns is None else tuple(columns), drop_missing)


def by_client(
    path: Path | str,
    client: str,
    *,
    columns: Sequence[str] | None = None,
    drop_missing: bool = False,
) -> dict[str, Source]:
    """Rows of each client in a Parquet file or folder with a column of client names.

    The column is read once, to find out which row groups hold which client. Only these are read
    when it is a client's turn, so a data set that is sorted by client is read once per round.

    Parameters
    ----------
    client : name of the column that holds the client of each row, as strings or integers
    path, columns, drop_missing : as in :func:`table`

    Returns
    -------
    dict of str to Source
        By the name of the client, in order, for ``fit_clients``.

    Raises
    ------
    DataError
        If a file cannot be read, is not Parquet, or lacks the column.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> import pyarrow.parquet
    >>> from fedjigsaw import Jigsaw
    >>> from fedjigsaw.sources import by_client
    >>> path = Path(tempfile.mkdtemp(), "all.parquet")
    >>> rows = pa.table({"city": ["bern", "oslo", "bern", "oslo"], "age": [30.0, 31.0, 60.0, 61.0]})
    >>> pyarrow.parquet.write_table(rows, path)
    >>> clients = by_client(path, "city")
    >>> list(clients)
    ['bern', 'oslo']
    >>> Jigsaw(2, random_state=0).fit_clients(clients).cluster_centers_.round(1).tolist()
    [[30.5], [60.5]]
    """
    from fedjigsaw.io.by_client import clients_of_groups

    parts: dict[str, list[_Part]] = {}
    for file in _files(path):
        groups: dict[Any, list[int]] = {}
        for group, found in enumerate(clients_of_groups(file, client)):
            for value in found:
                groups.setdefault(value, []).append(group)
        for value, numbers in groups.items():
            # the same name for 1, 1.0 and "1": files may differ in types
            whole = isinstance(value, float) and value.is_integer()
            part = _Part(file, tuple(numbers), client, value)
            parts.setdefault(str(int(value) if whole else value), []).append(part)
    names = None if columns is None else tuple(columns)
    return {name: _Tables(tuple(parts[name]), names, drop_missing) for name in sorted(parts)}


def is_source(shard: Any) -> bool:
    return isinstance(shard, (Source, str, Path)) or callable(shard) or hasattr(shard, "__next__")


def unread(
    estimator: Any, shards: Mapping[str, Any], *, private: bool
) -> Iterator[tuple[str, Any]]:
    """Yield clients with their data, which are not read yet, or checked if they are arrays.

    The estimator learns the columns from the first client.
    """
    # not `feature_names_in_`: it is not there if names are numbers, and these may differ as well
    names: Sequence[Any] | None = None
    for number, (client, shard) in enumerate(shards.items()):
        if not is_source(shard):
            names = names if number else column_names(shard)
            shard = in_order(shard, names, client=client)
            yield client, check_data(estimator, shard, owner=f"client {client!r}", reset=not number)
            continue
        if hasattr(shard, "__next__"):
            raise DataError(
                f"The data of client {client!r} are a generator, which can be read only once. Pass "
                "the function that makes it."
            )
        source = table(shard) if isinstance(shard, (str, Path)) else shard
        source = source if isinstance(source, Source) else _Call(source)
        if not number:
            names = source.learn(estimator, client, private=private)
            if names is None:  # a class of somebody else may tell them to the estimator alone
                names = getattr(estimator, "feature_names_in_", None)
        if isinstance(source, _Call):
            source = replace(source, names=names)
        yield client, Unread(source, estimator, client)


# ----------------------------------------------------------------------------------------- kinds


@dataclass(frozen=True)
class _Part:
    """A file, or the rows of one client in some row groups of it."""

    path: Path
    groups: tuple[int, ...] | None = None
    column: str = ""
    value: Any = None

    def open(self, columns: Sequence[str] | None, *, drop_missing: bool) -> "Table":
        from fedjigsaw.io.by_client import ClientReader
        from fedjigsaw.io.tables import Table, open_table

        if self.groups is None:
            return open_table(self.path, columns=columns, drop_missing=drop_missing)
        reader = ClientReader(self.path, self.groups, self.column, self.value)
        label = Path(f"{self.path} ({self.column} = {self.value!r})")
        whole = Table(label, tuple(reader.names), reader)
        whole = whole.without_identifiers() if columns is None else whole
        return whole.select(columns, drop_missing=drop_missing)


@dataclass(frozen=True)
class _Tables(Source):
    parts: tuple[_Part, ...]
    columns: tuple[str, ...] | None
    drop_missing: bool

    def learn(self, estimator: Any, client: str, *, private: bool) -> Sequence[Any]:
        opened = self.parts[0].open(self.columns, drop_missing=self.drop_missing)
        if private:
            opened.check_named()
        estimator.n_features_in_ = len(opened.columns)
        estimator.feature_names_in_ = np.array(opened.columns, dtype=object)
        return opened.columns

    def read(self, estimator: Any, client: str) -> Floats:
        known: Sequence[str] | None = getattr(estimator, "feature_names_in_", self.columns)
        if self.columns is not None and known is not None and {*self.columns} != {*known}:
            raise DataError(
                f"Client {client!r} has the columns {quote_names(self.columns)}, but the first "
                f"client has {quote_names(list(known))}."
            )
        names, rng = None if known is None else list(known), np.random.default_rng(0)
        blocks = []
        for part in self.parts:
            opened = part.open(names, drop_missing=self.drop_missing)
            blocks.append(opened.read(max_rows=ALL, rng=rng)[0])
        rows: Floats = stack(blocks)
        if rows.shape[1] != estimator.n_features_in_:
            raise DataError(
                f"{self.parts[0].path} has {rows.shape[1]} columns, but the first client has "
                f"{estimator.n_features_in_}."
            )
        return rows


@dataclass(frozen=True)
class _Call(Source):
    function: Callable[[], Any]
    names: Sequence[Any] | None = None  # of the columns of the first client

    def learn(self, estimator: Any, client: str, *, private: bool) -> Sequence[Any] | None:
        owner, block = next(self._blocks(client))
        check_data(estimator, block, owner=owner, reset=True)
        return column_names(block)

    def read(self, estimator: Any, client: str) -> Floats:
        blocks = []
        for owner, block in self._blocks(client):
            ordered = in_order(block, self.names, client=client)
            blocks.append(check_data(estimator, ordered, owner=owner, reset=False))
        rows: Floats = stack(blocks)
        return rows

    def _blocks(self, client: str) -> Iterator[tuple[str, Any]]:
        made = self.function()
        if not hasattr(made, "__next__"):
            yield f"client {client!r}", made
            return
        number = -1
        for number, block in enumerate(made):
            yield f"client {client!r} (block {number} of its generator)", block
        if number < 0:
            raise DataError(f"The generator of client {client!r} made no rows.")


def _files(given: Path | str) -> list[Path]:
    path = Path(given)
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() == ".parquet")
    if not files:
        raise DataError(f"{path} has no .parquet files.")
    return files
