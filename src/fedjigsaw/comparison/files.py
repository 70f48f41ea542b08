"""Read the files of several sites into one place.

For data that may lie in one place, to find out which method suits data like these::

    data, clients = pool_files([Path("bern.csv"), Path("lyon.csv")], columns=["age", "dose"])
    found = compare(["jigsaw", "feca"], data.X, clients=clients, n_clusters=4)
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.datasets import Dataset
from fedjigsaw.io.tables import Table, Tally, open_table
from fedjigsaw.sites import check_once


def pool_files(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    *,
    label: str | None = None,
    drop_missing: bool = False,
    tally: Tally | None = None,
    opener: Callable[..., Table] = open_table,
) -> tuple[Dataset, Ints]:
    """Read the files of several sites into one data set; return it with the client of each row.

    Parameters
    ----------
    files : one CSV, Excel, Parquet or NPY file per site.
    columns : columns to use; None is all columns of the first file, without `label`.
    label : a column with true classes.
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
    y = np.unique(np.concatenate(classes), return_inverse=True)[1] if classes else np.zeros(len(X))
    name = ", ".join(names[:3]) + ", ..." * (len(files) > 3)
    return Dataset(X, y.astype(np.int64), None, name), np.concatenate(owners)


def default_columns(file: Path, label: str | None = None, decimal: str | None = None) -> list[str]:
    """Return the columns of a file, without true classes and what looks like an identifier."""
    return list(open_table(file, id_column=label, decimal=decimal).columns)


def standard_scaler(X: Floats, columns: Sequence[str]) -> Scaler:
    """Return the scaler that gives every column mean 0 and standard deviation 1."""
    spread = X.std(axis=0)
    return Scaler(tuple(columns), X.mean(axis=0), np.where(spread > 0, spread, 1))


def _short_names(files: Sequence[Path]) -> list[str]:
    """Return the shortest unique path suffix of each file."""
    check_once(files)
    paths = [path.resolve() for path in files]
    n_parts = 1
    while len({path.parts[-n_parts:] for path in paths}) < len(paths):
        n_parts += 1
    return [str(Path(*path.parts[-n_parts:])) for path in paths]
