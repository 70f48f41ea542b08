"""Named data sets, and a generator that needs no download.

Files are looked for in the folder that ``FEDJIGSAW_DATA`` names, then in the user's cache, where
``fedjigsaw data fetch`` puts them. The S-sets are checked against a hash of the parsed numbers, so
line endings and spaces do not matter, but a single wrong value does.
"""

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedjigsaw._random import generator
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import DatasetError, ParameterError, invalid
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.parameters import integer, real

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
class Dataset:
    """Rows, their true classes, the true centers where they are known, and a name."""

    X: Floats
    y: Ints
    centers: Floats | None
    name: str

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.y))


@dataclass(frozen=True)
class Source:
    """Where a named data set comes from: a reader, and the file it needs, if any."""

    about: str
    read: Callable[[], Dataset]
    file: str | None = None

    @property
    def is_here(self) -> bool:
        return self.file is None or _find(self.file) is not None


def load(name: str) -> Dataset:
    """Load a data set by name: one of the keys of ``SOURCES``.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.n_clusters
    ((1797, 64), 10)
    """
    if name not in SOURCES:
        allowed = "one of " + ", ".join(SOURCES)
        raise ParameterError(invalid("name", "a data set", allowed, repr(name)))
    return SOURCES[name].read()


def gaussian_grid(
    n_samples: int = 5000,
    *,
    overlap: float = 0.01,
    rng: np.random.Generator | int = 0,
) -> Dataset:
    """15 round Gaussian clusters in the plane, in the spirit of the S-sets.

    Centers sit on a shaken 4 x 4 grid with one place left empty, coordinates run to about a
    million, and clusters are as wide as `overlap` lets them be.

    Parameters
    ----------
    overlap : share of the rows that may lie nearer to another center than to their own
        0.007 is about S1, 0.03 about S2, 0.14 about S3 and 0.2 about S4.

    Examples
    --------
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
    # the share of strays grows with the width: bisect for the largest width that is allowed
    low, high = 0.0, 1_000_000.0
    for _ in range(50):
        width = (low + high) / 2
        strays = np.mean(nearest_centers(centers[y] + width * noise, centers)[0] != y)
        low, high = (width, high) if strays <= overlap else (low, width)
    return Dataset(centers[y] + low * noise, y, centers, "gaussian-grid")


def fetch_ssets(*, home: str = SSETS_HOME, progress: bool = False) -> Path:
    """Download the S-sets from their home page into the user's cache, and check them.

    They arrive in a folder of their own and move to their place only when all of them are right.

    Parameters
    ----------
    home : address of a folder that holds the five files, for a mirror.
    progress : show a progress bar for each file.

    Returns
    -------
    the folder they are in now.
    """
    place = cache_folder() / "ssets"
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        advice = "Name another folder in FEDJIGSAW_CACHE."
        allowed = "one that can be written to"
        raise DatasetError(invalid("cache", str(place.parent), allowed, reason, advice)) from error
    with TemporaryDirectory(dir=place.parent, prefix="fetch-") as name:
        folder = Path(name)
        for file in SSETS_FILES:
            _download(home + file, folder, progress)
        _unpack_truth(folder)
        for sset in SSETS_HASHES:
            _read_sset(folder, sset)
        place.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.replace(place / path.name)
    return place


def cache_folder() -> Path:
    """Where downloads go: ``FEDJIGSAW_CACHE``, else ``fedjigsaw`` in the user's cache."""
    if chosen := os.environ.get("FEDJIGSAW_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedjigsaw"


# --------------------------------------------------------------------------------------- readers


def _find(relative: str) -> Path | None:
    """The file in ``FEDJIGSAW_DATA``, else in the cache, else None."""
    data = os.environ.get("FEDJIGSAW_DATA")
    for folder in ([Path(data)] if data else []) + [cache_folder()]:
        if (folder / relative).is_file():
            return folder / relative
    return None


def _require(relative: str, name: str, advice: str) -> Path:
    path = _find(relative)
    if path is None:
        folder = os.environ.get("FEDJIGSAW_DATA", "not set")
        places = f"FEDJIGSAW_DATA ({folder}) or in the cache ({cache_folder()})"
        raise DatasetError(f"Data set {name!r} is not here: no {relative} in {places}. {advice}")
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
            invalid("files", f"data set {name!r}", "readable tables of integers", error)
        ) from error
    found = sha256(
        b"".join(np.ascontiguousarray(a, "<i8").tobytes() for a in (X, centers, y))
    ).hexdigest()
    if found != SSETS_HASHES[name]:
        allowed = f"the published ones (hash {SSETS_HASHES[name][:12]}...)"
        got = f"others (hash {found[:12]}...)"
        raise DatasetError(invalid("numbers", f"{folder / name}.txt and its truth", allowed, got))
    return Dataset(X.astype(np.float64), y, centers.astype(np.float64), name)


def _download(address: str, folder: Path, progress: bool) -> None:
    import pooch  # only those who download need it

    pooch.get_logger().setLevel("WARNING")  # printing is the command line's job
    try:
        # no hash of the file: what is checked, later, is what it says
        pooch.retrieve(
            address,
            known_hash=None,
            fname=address.rpartition("/")[2],
            path=folder,
            progressbar=progress,
        )
    except (OSError, ValueError) as error:
        advice = (
            f"Get {', '.join(SSETS_FILES)} by another way, unpack the archive, put all files into "
            f"{cache_folder() / 'ssets'}, or name another folder in FEDJIGSAW_DATA."
        )
        problem = f"Cannot download {address} ({type(error).__name__})."
        raise DatasetError(f"{problem} {advice}") from error


def _unpack_truth(folder: Path) -> None:
    """Take the eight small files we know out of the archive, by name, and nothing else."""
    for name in SSETS_HASHES:
        for file in (f"{name}-cb.txt", f"{name}-label.pa"):
            try:
                with (
                    zipfile.ZipFile(folder / "s-originals.zip") as archive,
                    archive.open(file) as part,
                ):
                    content = part.read(1_000_000)
            except (KeyError, zipfile.BadZipFile) as error:
                allowed = f"a zip archive with {file}"
                raise DatasetError(
                    invalid("s-originals.zip", "the S-sets", allowed, error)
                ) from error
            (folder / file).write_bytes(content)


def _load_features(name: str) -> Dataset:
    path = _require(
        FEATURES[name], name, "There is no download: set FEDJIGSAW_DATA to a folder that has it."
    )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["x_train"], arrays["y_train"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        allowed = "an NPZ file with x_train and y_train"
        raise DatasetError(
            invalid("file", f"data set {name!r}", allowed, f"{path}: {error}")
        ) from error
    return Dataset(X.astype(np.float64), y.astype(np.int64), None, name)


def _load_digits() -> Dataset:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    return Dataset(bunch.data.astype(np.float64), bunch.target.astype(np.int64), None, "digits")


SOURCES = {
    "gaussian-grid": Source("15 generated Gaussians in the plane, 5000 rows", gaussian_grid),
    "digits": Source("handwritten digits of scikit-learn, 1797 rows, 64 columns", _load_digits),
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
