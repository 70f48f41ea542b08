"""Compare methods on the same data and the same clients.

For data that may lie in one place, to find out which method suits data like these::

    data, clients = pool_files([Path("bern.csv"), Path("lyon.csv")], columns=["age", "dose"])
    rows = compare(data, clients, 4)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.bench.cells import fit_and_measure
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import ParameterError
from fedjigsaw.io.rows import Row
from fedjigsaw.io.tables import Table, Tally, open_table
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.methods import CLUSTERERS, make
from fedjigsaw.report.number import number_values
from fedjigsaw.report.provenance import provenance
from fedjigsaw.sites import check_once

# follows the progress over a list: what tqdm.tqdm does
Track = Callable[[Sequence[Any]], Iterable[Any]]


def compare(
    data: Dataset,
    clients: Ints,
    n_clusters: int | str,
    *,
    methods: Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    track: Track = iter,
) -> list[Row]:
    """Fit several methods on the same data; return one row for each.

    Parameters
    ----------
    n_clusters : number of clusters, or "auto" for methods that find it.
    methods : names of methods; None is all that support this number of clusters.
    params : parameters; each goes to all methods that have it.
    columns : names of the columns, for what is said about them.
    track : wraps the list of methods to show progress, such as ``tqdm.tqdm``.

    Returns
    -------
    rows : with `ratio`, the objective relative to the best one, and with `k`, how sure the number
        of clusters is, if the method found it.
    """
    chosen = params_by_method(methods or supporting(n_clusters), params or {}, n_clusters)
    rows: list[Row] = []
    for name, own in track(list(chosen.items())):
        method = make(name, n_clusters, seed, **own)
        numbers = fit_and_measure(method, data, clients)
        of_k = number_values(method.model_.with_feature_names(columns))
        found = {} if of_k is None else {"k": of_k}
        row = {"method": name, "params": own, "seed": seed, **numbers, **found}
        rows.append({**row, **provenance()})
    best = min(row["inertia"] for row in rows)
    return [{**row, "ratio": row["inertia"] / best if best else 1.0} for row in rows]


def supporting(n_clusters: int | str) -> list[str]:
    """Return the methods that support this number of clusters; "auto" is only for some."""
    rules = {name: entry.cls.rules["n_clusters"] for name, entry in CLUSTERERS.items()}
    return [name for name, rule in rules.items() if rule.accepts(n_clusters)]


def params_by_method(
    names: Sequence[str], params: Mapping[str, Any], n_clusters: int | str
) -> dict[str, dict[str, Any]]:
    """Give every method the parameters that it has, and check them.

    Raises
    ------
    ParameterError
        If none of the methods has one of the parameters, or a value is not allowed.
    """
    chosen = {
        name: {p: v for p, v in params.items() if p in CLUSTERERS[name].own_parameters}
        for name in dict.fromkeys(names)
        if name in CLUSTERERS
    }
    unknown = {p: v for p, v in params.items() if not any(p in own for own in chosen.values())}
    if unknown and len(chosen) > 1:
        raise ParameterError(
            f"None of {', '.join(chosen)} has a parameter {', '.join(map(repr, unknown))}. "
            "`fedjigsaw methods` lists the parameters of each method."
        )
    for name in names:
        make(name, n_clusters, 0, **chosen.get(name, {}), **unknown).check()
    return chosen


def pool_files(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    *,
    label: str | None = None,
    scale: bool = False,
    drop_missing: bool = False,
    tally: Tally | None = None,
    opener: Callable[..., Table] = open_table,
) -> tuple[Dataset, Ints]:
    """Read the files of several sites into one data set; return it with the client of each row.

    Parameters
    ----------
    files : one CSV, Excel, Parquet, NPY or NPZ file per site.
    columns : columns to use; None is all columns of the first file, without `label`.
    label : a column with true classes.
    scale : whether to give every column mean 0 and standard deviation 1.
    drop_missing : whether to skip rows with missing values, which are an error otherwise.
    tally : where to count the rows of all files, and those that are skipped.
    opener : how a file is opened.
    """
    names = _short_names(files)
    rows, classes, owners = [], [], []
    options: dict[str, Any] = {"id_column": label, "drop_missing": drop_missing}
    if columns is None:
        columns = default_columns(files[0], label)
    for owner, path in enumerate(files):
        table = opener(path, columns=columns, **options)
        for batch in table.batches():
            rows.append(batch.rows)
            owners.append(np.full(len(batch.rows), owner))
            classes += [np.asarray(found)[batch.kept].astype(str) for found in batch.ids]
        if tally is not None:
            tally.rows += table.tally.rows
            tally.skipped += table.tally.skipped
    X = np.concatenate(rows)
    if scale:
        X = standard_scaler(X, columns).scale(X)
    y = np.unique(np.concatenate(classes), return_inverse=True)[1] if classes else np.zeros(len(X))
    name = ", ".join(names[:3]) + ", ..." * (len(files) > 3)
    return Dataset(X, y.astype(np.int64), None, name), np.concatenate(owners)


def default_columns(file: Path, label: str | None = None) -> list[str]:
    """Return the columns of a file, without true classes and what looks like an identifier."""
    return list(open_table(file, id_column=label).columns)


def standard_scaler(X: Floats, columns: Sequence[str]) -> Scaler:
    """Return the scaler that gives every column mean 0 and standard deviation 1."""
    spread = X.std(axis=0)
    return Scaler(tuple(columns), X.mean(axis=0), np.where(spread > 0, spread, 1))


def without_classes(rows: Iterable[Row]) -> list[Row]:
    """Drop the numbers that need true classes."""
    known = ("purity", "nmi", "ari")
    return [{name: v for name, v in row.items() if name not in known} for row in rows]


def _short_names(files: Sequence[Path]) -> list[str]:
    """Return the shortest unique path suffix of each file."""
    check_once(files)
    paths = [path.resolve() for path in files]
    n_parts = 1
    while len({path.parts[-n_parts:] for path in paths}) < len(paths):
        n_parts += 1
    return [str(Path(*path.parts[-n_parts:])) for path in paths]
