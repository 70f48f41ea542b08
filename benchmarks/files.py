"""The work on files: summarize, assign and score, against reading and computing alone."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from fedjigsaw import sites
from fedjigsaw._typing import Floats
from fedjigsaw.io.formats import ModelFile, save
from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.messages import Model
from fedjigsaw.threads import one_thread
from measuring import Row, alternate, command, in_new_process, processor_seconds

WORDS = {
    "assign": ["narrow.parquet", "--model", "narrow.model", "-o", "labels.parquet", "--force"],
    "score": ["narrow.parquet", "--model", "narrow.model", "-o", "own.score"],
    "summarize": ["wide.parquet", "-k", "20", "-o", "summary"],
}
PART = 100_000  # rows that are written at once


def files(n_rows: int = 1_000_000, k: int = 20) -> Iterator[Row]:
    """Measure work on a Parquet file against reading it with pyarrow and the bare computation.

    That is k-means of the same backend with as many starts, and predict of scikit-learn. The ratio
    is that of processor time, in one process, so that starting a command is not part of it. Seconds
    and peak memory are those of the command in a process of its own. Targets: 1.3 and 1.5.
    """
    from sklearn.cluster import KMeans

    with TemporaryDirectory() as folder:
        narrow, model = _write(Path(folder), "narrow", n_rows, 16, k)
        wide, _ = _write(Path(folder), "wide", n_rows, 20, k)
        fitted = KMeans(k, init=model.model.centers, n_init=1, max_iter=1).fit(_read(narrow)[:PART])
        labels = Path(folder) / "labels.parquet"

        def predict() -> None:
            fitted.predict(_read(narrow))

        def bare() -> None:
            with one_thread():
                kmeans(_read(wide), k, rng=np.random.default_rng(0))

        ours: dict[str, tuple[Callable[[], object], Callable[[], None]]] = {
            "assign": (lambda: sites.write_labels(labels, sites.assign(narrow, model)), predict),
            "score": (partial(sites.score, narrow, model), predict),
            "summarize": (partial(sites.summarize, wide, k), bare),
        }
        for name, (work, alone) in ours.items():
            times = alternate({"ours": work, "bare": alone}, 2, processor_seconds)
            yield {
                "command": name,
                "n_rows": n_rows,
                "n_clusters": k,
                **in_new_process(command, [name, *WORDS[name]], folder),
                "cpu_seconds": times["ours"],
                "bare_cpu_seconds": times["bare"],
                "ratio": times["ours"] / times["bare"],
            }


def large_file(n_rows: int = 5_000_000) -> Iterator[Row]:
    """Measure `assign` and `score` on a large file, in new processes. Target: below 1 GB."""
    with TemporaryDirectory() as folder:
        path, _ = _write(Path(folder), "narrow", n_rows, 16, 20)
        for name in ("assign", "score"):
            yield {
                "command": name,
                "n_rows": n_rows,
                "file_megabytes": path.stat().st_size / 1e6,
                **in_new_process(command, [name, *WORDS[name]], folder),
            }


def _write(folder: Path, name: str, n_rows: int, d: int, k: int) -> tuple[Path, ModelFile]:
    """Write rows around k centers that overlap, and a model of these centers."""
    rng, path = np.random.default_rng(0), folder / f"{name}.parquet"
    centers = rng.uniform(-10, 10, (k, d))
    columns = tuple(f"x{j}" for j in range(d))
    schema = pa.schema([(column, pa.float64()) for column in columns])
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, PART):
            n = min(PART, n_rows - start)
            rows = centers[rng.integers(k, size=n)] + 3 * rng.standard_normal((n, d))
            writer.write_table(pa.table(list(rows.T.copy()), schema=schema))
    model = ModelFile(Model(centers, "feca", {}, columns), None, ("a",), 1)
    save(model, folder / f"{name}.model")
    return path, model


def _read(path: Path) -> Floats:
    columns = pa.parquet.read_table(path).columns
    return np.column_stack([column.to_numpy() for column in columns])
