"""Data sets by name or from a file, and a generator that needs no download.

Files are searched in the folder ``FEDJIGSAW_DATA``, then in the user's cache, which
``fedjigsaw data fetch`` fills. The S-sets are checked against a hash of the parsed numbers: line
endings and spaces do not matter, a single wrong value does.
"""

import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedjigsaw.datasets._dataset import Dataset as Dataset
from fedjigsaw.datasets._outside import (
    FETCHED,
    TOYS,
    is_path,
    load_fetched,
    load_file,
    load_toy,
)
from fedjigsaw.errors import DatasetError, ParameterError, invalid, unwritable
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.parameters import integer, real
from fedjigsaw.random import generator

SSETS_HOME = "https://cs.uef.fi/sipu/datasets/"
SSETS_FILES = ("s1.txt", "s2.txt", "s3.txt", "s4.txt", "s-originals.zip")
SSETS_HASHES = {
    "s1": "3fb93dd89d90a50ace77228a215923b277aaf213fc8518180754735cc2792327",
    "s2": "114895ae4231ad3637b946fa8be71f8e8dbd0dce99b6be737c9684645a8e50e2",
    "s3": "09137842927d357d58fcb4879c89b9dff191bc720d8cf32cf5d10125e5ee2305",
    "s4": "a3c3f2b642fd3c9f5320e32fc3621388893fdd9340704079e86ca58c22f24daa",
}

FEATURES = {
    "cifar10-features": "features/cifar10_resnet50_pca128.npz",
    "cifar100-features": "features/cifar100_resnet50_pca128.npz",
}


@dataclass(frozen=True)
class Source:
    """Source of a named data set: a reader, and the file that it needs, if any.

    Parameters
    ----------
    about : str
        A line about the data set.
    read : callable
        Returns the data set, or raises a DatasetError if its file is not here.
    file : str or None
        Path of its file in ``FEDJIGSAW_DATA`` or the cache; None if it needs none.

    Examples
    --------
    >>> from fedjigsaw.datasets import SOURCES
    >>> SOURCES["iris"].is_here, SOURCES["iris"].read().X.shape
    (True, (150, 4))
    """

    about: str
    read: Callable[[], Dataset]
    file: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether the data set can be loaded without a download."""
        return self.file is None or _find(self.file) is not None


def load(
    name: str | Path,
    *,
    label: str | None = None,
    clients: str | None = None,
    columns: Sequence[str] | None = None,
) -> Dataset:
    """Load a data set: by its name, from scikit-learn, or from a file.

    Nothing is downloaded.

    Parameters
    ----------
    name : str or Path
        One of:

        - a key of ``SOURCES``, among them the sets that come with scikit-learn;
        - "covtype", "california_housing" or "olivetti_faces", if scikit-learn fetched it before;
        - the path of a CSV, Excel, Parquet or NPY file.
    label : str or None
        Of a file: the column with the true classes.
    clients : str or None
        Of a file: the column that tells who holds each row, for the split "column".
    columns : sequence of str or None
        Of a file: the columns to use. None is all others, but for what looks like an identifier.

    Returns
    -------
    Dataset

    Raises
    ------
    ParameterError
        If there is no data set of this name, or columns are named for one that is not a file.
    DatasetError
        If it has to be downloaded first; the error says how.
    DataError
        If the file cannot be read, lacks a column, or has missing values or texts.

    Examples
    --------
    >>> from fedjigsaw.datasets import load
    >>> digits = load("digits")
    >>> digits.X.shape, digits.n_clusters
    ((1797, 64), 10)
    """
    if not isinstance(name, (str, Path)):
        allowed = "the name of a data set, or the path of a file"
        raise ParameterError(invalid("name", "load", allowed, type(name).__name__))
    if isinstance(name, Path) or is_path(name):
        return load_file(Path(name), label, clients, columns)
    if label is not None or clients is not None or columns is not None:
        raise ParameterError(
            f"label, clients and columns choose columns of a file, and {name!r} is not one."
        )
    if name.replace("-", "_") in FETCHED:
        return load_fetched(name.replace("-", "_"))
    key = name if name in SOURCES else name.replace("_", "-")
    if key not in SOURCES:
        raise ParameterError(
            f"Unknown data set {name!r}. Choose one of {', '.join(SOURCES)}, or give the path of "
            "a file."
        )
    return SOURCES[key].read()


def gaussian_grid(
    n_samples: int = 5000,
    *,
    overlap: float = 0.01,
    rng: np.random.Generator | int = 0,
) -> Dataset:
    """Generate 15 spherical Gaussian clusters in the plane, similar to the S-sets.

    Centers lie on a randomly perturbed 4 x 4 grid with one place left empty. Coordinates go up to
    about a million, and clusters are as wide as `overlap` allows.

    Parameters
    ----------
    n_samples : int, default 5000
        Number of rows, at least 15. All clusters have equally many, up to one.
    overlap : float from 0 to 0.5, default 0.01
        Largest share of rows that are closer to another center than to their own: about 0.007 for
        S1, 0.03 for S2, 0.14 for S3 and 0.2 for S4.
    rng : Generator or int, default 0
        Source of random numbers, or its seed.

    Returns
    -------
    Dataset
        With the true classes and centers.

    Raises
    ------
    ParameterError
        If a parameter is outside of these limits.

    Examples
    --------
    >>> from fedjigsaw.datasets import gaussian_grid
    >>> grid = gaussian_grid(600, overlap=0.05, rng=1)
    >>> grid.X.shape, grid.centers.shape
    ((600, 2), (15, 2))
    """
    integer(15).check("n_samples", "gaussian_grid", n_samples)
    real(0).check("overlap", "gaussian_grid", overlap)
    if overlap > 0.5:
        raise ParameterError(invalid("overlap", "gaussian_grid", "at most 0.5", overlap))
    rng = generator(rng, "gaussian_grid")
    places = rng.permutation(16)[:15]
    corners = np.column_stack([places % 4, places // 4]) * 250_000.0 + 125_000.0
    centers = corners + rng.uniform(-60_000, 60_000, size=(15, 2))
    y = rng.permutation(np.arange(n_samples) % 15)
    noise = rng.standard_normal((n_samples, 2))
    # overlap grows with the width: bisect for the largest width that is allowed
    low, high = 0.0, 1_000_000.0
    for _ in range(50):
        width = (low + high) / 2
        found = np.mean(nearest_centers(centers[y] + width * noise, centers)[0] != y)
        low, high = (width, high) if found <= overlap else (low, width)
    return Dataset(centers[y] + low * noise, y, centers, "gaussian-grid")


def fetch_ssets(*, home: str = SSETS_HOME) -> Path:
    """Download the S-sets from their home page into the user's cache, and check them.

    They are downloaded to a temporary folder and moved to the cache only if all of them are right.

    Parameters
    ----------
    home : str
        URL of a folder with the five files, ending in a slash, to download from a mirror.

    Returns
    -------
    Path
        The folder of the cache that now contains them.

    Raises
    ------
    DatasetError
        If a download fails, a file is not the one that is expected, or the cache cannot be written.
    """
    target = cache_folder() / "ssets"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        advice = "Set FEDJIGSAW_CACHE to another folder."
        raise DatasetError(f"{unwritable(target.parent, error)} {advice}") from error
    with TemporaryDirectory(dir=target.parent, prefix="fetch-") as name:
        folder = Path(name)
        for file in SSETS_FILES:
            _download(home + file, folder)
        _unpack_truth(folder)
        for sset in SSETS_HASHES:
            _read_sset(folder, sset)
        target.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.replace(target / path.name)
    return target


def cache_folder() -> Path:
    """Return the folder for downloads: ``FEDJIGSAW_CACHE`` if set, else the user's cache folder.

    The latter is ``fedjigsaw`` in ``$XDG_CACHE_HOME`` or ``~/.cache`` on Linux, and what is usual
    on other systems. It need not exist.

    Examples
    --------
    >>> import os
    >>> from fedjigsaw.datasets import cache_folder
    >>> os.environ.get("FEDJIGSAW_CACHE", str(cache_folder())) == str(cache_folder())
    True
    """
    if chosen := os.environ.get("FEDJIGSAW_CACHE"):
        return Path(chosen)
    import pooch  # lazy: `import fedjigsaw` stays fast

    return Path(pooch.os_cache("fedjigsaw"))


# --------------------------------------------------------------------------------------- readers


def _find(relative: str) -> Path | None:
    """Return the path of a file in ``FEDJIGSAW_DATA``, else in the cache, else None."""
    data = os.environ.get("FEDJIGSAW_DATA")
    if data and (Path(data) / relative).is_file():
        return Path(data) / relative
    cached = cache_folder() / relative
    return cached if cached.is_file() else None


def _require(relative: str, name: str, advice: str) -> Path:
    path = _find(relative)
    if path is None:
        folder = os.environ.get("FEDJIGSAW_DATA") or "not set"
        places = f"FEDJIGSAW_DATA ({folder}) or the cache ({cache_folder()})"
        raise DatasetError(f"Data set {name!r} not found: no {relative} in {places}. {advice}")
    return path


def _load_sset(name: str) -> Dataset:
    path = _require(
        f"ssets/{name}.txt", name, "Run `fedjigsaw data fetch ssets`, or set FEDJIGSAW_DATA."
    )
    return _read_sset(path.parent, name)


def _read_sset(folder: Path, name: str) -> Dataset:
    try:
        X = np.loadtxt(folder / f"{name}.txt", dtype=np.int64)
        centers = np.loadtxt(folder / f"{name}-cb.txt", dtype=np.int64)
        y = np.loadtxt(folder / f"{name}-label.pa", dtype=np.int64, skiprows=5) - 1
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"Cannot read data set {name!r} in {folder} as tables of integers: {error}"
        ) from error
    found = sha256(
        b"".join(np.ascontiguousarray(a, "<i8").tobytes() for a in (X, centers, y))
    ).hexdigest()
    if found != SSETS_HASHES[name]:
        raise DatasetError(
            f"The numbers in {folder / name}.txt, {name}-cb.txt and {name}-label.pa are not the "
            f"published ones: their hash is {found[:12]}..., not {SSETS_HASHES[name][:12]}... "
            "Delete the files and run `fedjigsaw data fetch ssets`."
        )
    return Dataset(X.astype(np.float64), y, centers.astype(np.float64), name)


def _download(url: str, folder: Path) -> None:
    import pooch  # lazy: `import fedjigsaw` stays fast

    pooch.get_logger().setLevel("WARNING")  # printing is the command line's job
    try:
        # no hash of the file: the numbers in it are checked later
        pooch.retrieve(url, known_hash=None, fname=url.rpartition("/")[2], path=folder)
    except (OSError, ValueError) as error:
        advice = (
            f"Download {', '.join(SSETS_FILES)} with another tool, unpack the archive, and move "
            f"all files to {cache_folder() / 'ssets'}, or to the folder ssets in FEDJIGSAW_DATA."
        )
        problem = f"Cannot download {url} ({type(error).__name__})."
        raise DatasetError(f"{problem} {advice}") from error


def _unpack_truth(folder: Path) -> None:
    """Extract the eight files of true centers and labels from the archive, and nothing else."""
    for name in SSETS_HASHES:
        for file in (f"{name}-cb.txt", f"{name}-label.pa"):
            try:
                with (
                    zipfile.ZipFile(folder / "s-originals.zip") as archive,
                    archive.open(file) as part,
                ):
                    content = part.read(1_000_000)
            except (KeyError, zipfile.BadZipFile) as error:
                problem = f"Cannot extract {file} from the downloaded s-originals.zip: {error}"
                raise DatasetError(problem) from error
            (folder / file).write_bytes(content)


def _load_features(name: str) -> Dataset:
    path = _require(
        FEATURES[name], name, "It cannot be downloaded: set FEDJIGSAW_DATA to a folder with it."
    )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["x_train"], arrays["y_train"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"Cannot read {path} as an NPZ file with x_train and y_train: {error}"
        ) from error
    return Dataset(X.astype(np.float64), y.astype(np.int64), None, name)


SOURCES = {
    "gaussian-grid": Source("15 generated Gaussians in the plane, 5000 rows", gaussian_grid),
    **{name: Source(about, partial(load_toy, name)) for name, about in TOYS.items()},
    "s1": Source(
        "15 clusters in the plane, 5000 rows, little overlap",
        partial(_load_sset, "s1"),
        "ssets/s1.txt",
    ),
    "s2": Source("like s1, more overlap", partial(_load_sset, "s2"), "ssets/s2.txt"),
    "s3": Source("like s2, more overlap", partial(_load_sset, "s3"), "ssets/s3.txt"),
    "s4": Source("like s3, most overlap", partial(_load_sset, "s4"), "ssets/s4.txt"),
    "cifar10-features": Source(
        "CIFAR-10 as frozen ResNet-50 features, 50000 rows, 128 columns",
        partial(_load_features, "cifar10-features"),
        FEATURES["cifar10-features"],
    ),
    "cifar100-features": Source(
        "CIFAR-100 as frozen ResNet-50 features, 50000 rows, 128 columns",
        partial(_load_features, "cifar100-features"),
        FEATURES["cifar100-features"],
    ),
}
"""Data sets that :func:`load` knows by name; `is_here` of each tells whether it can be loaded."""
