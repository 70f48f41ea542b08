"""Data sets that others keep on this machine: files, and what comes with or lies in scikit-learn.

Nothing is downloaded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjigsaw.datasets._dataset import Dataset
from fedjigsaw.errors import DataError, DatasetError

# sets that scikit-learn downloads when it is asked to
FETCHED = ("california_housing", "covtype", "olivetti_faces")
MAX_CLASSES = 100  # different whole numbers of a target that count as classes
TOYS = {
    "iris": "three kinds of iris of scikit-learn, 150 rows, 4 columns",
    "wine": "wines of three growers of scikit-learn, 178 rows, 13 columns",
    "breast-cancer": "benign and malignant cells of scikit-learn, 569 rows, 30 columns",
    "diabetes": "patients of scikit-learn, without classes, 442 rows, 10 columns",
    "digits": "handwritten digits of scikit-learn, 1797 rows, 64 columns",
}


def is_path(name: str) -> bool:
    """Tell whether this is the path of a file, rather than the name of a data set."""
    return Path(name).suffix != "" or Path(name).name != name


def load_file(
    path: Path, label: str | None, clients: str | None, columns: Sequence[str] | None
) -> Dataset:
    """Read a file; see :func:`fedjigsaw.datasets.load`."""
    from fedjigsaw.io.tables import open_table  # lazy: `import fedjigsaw` stays fast

    carried = list(dict.fromkeys(name for name in (label, clients) if name is not None))
    table = open_table(path, columns=columns, id_column=carried)
    rows, found = [], []
    for batch in table.batches():
        rows.append(batch.rows)
        found.append([np.asarray(values)[batch.kept] for values in batch.ids])
    values = {
        name: _complete(np.concatenate(parts), path, name)
        for name, parts in zip(carried, zip(*found, strict=True), strict=False)
    }
    X = np.concatenate(rows)
    y = np.zeros(len(X), dtype=np.int64)
    if label is not None:
        y = np.unique(values[label], return_inverse=True)[1]
    who = None if clients is None else values[clients]
    return Dataset(X, y, None, path.name, table.columns, label is not None, who)


def _complete(values: Any, path: Path, name: str) -> Any:
    """Return the values of a column, none of which is missing."""
    for row, value in enumerate(values.tolist(), start=1):
        if value is None or value != value or value == "":
            raise DataError(f"{path}, row {row}, column {name!r}: the value is missing.")
    return values


def load_toy(name: str) -> Dataset:
    """Load a set that comes with scikit-learn."""
    from sklearn import datasets

    return _of_bunch(getattr(datasets, f"load_{name.replace('-', '_')}")(), name)


def load_fetched(name: str) -> Dataset:
    """Load a set that scikit-learn has downloaded before."""
    from sklearn import datasets

    try:
        return _of_bunch(getattr(datasets, f"fetch_{name}")(download_if_missing=False), name)
    except OSError as error:
        home = datasets.get_data_home()
        raise DatasetError(
            f"Data set {name!r} is not in the cache of scikit-learn ({home}), and nothing is "
            f"downloaded unasked. Fetch it once: sklearn.datasets.fetch_{name}()."
        ) from error


def _of_bunch(bunch: Any, name: str) -> Dataset:
    """Return what scikit-learn loaded, with its target as classes if it looks like classes."""
    rows = bunch.data.toarray() if hasattr(bunch.data, "toarray") else bunch.data
    X = np.asarray(rows, dtype=np.float64)
    incomplete = int(np.isnan(X).any(axis=1).sum())
    if incomplete:
        raise DatasetError(
            f"{incomplete} of {len(X)} rows of {name} have missing values. Fill them in or leave "
            "them out, write the others to a file, and load that."
        )
    target = np.asarray(bunch.target if bunch.target is not None else np.zeros((0, 2)))
    known = target.ndim == 1 and _are_classes(target)
    y = np.unique(target, return_inverse=True)[1] if known else np.zeros(len(X), dtype=np.int64)
    names = getattr(bunch, "feature_names", None)
    columns = () if names is None else tuple(map(str, names))
    return Dataset(X, y, None, name, columns, known)


def _are_classes(target: Any) -> bool:
    """Whether a target has texts, or few whole numbers, rather than amounts."""
    if target.dtype.kind not in "fiub":
        return True
    return bool((target == target.round()).all()) and len(np.unique(target)) <= MAX_CLASSES
