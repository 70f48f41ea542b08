"""What the benchmarks share: clocks, inputs to work on, faiss, and where rows go."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fedjigsaw._typing import Floats
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.report.provenance import provenance
from fedjigsaw.threads import available_threads
from reproduction.studies import RESULTS, read, write

COMMAND = str(Path(sys.executable).parent / "fedjigsaw")
Row = dict[str, Any]
Works = Mapping[str, Callable[[], object]]


def run(*benchmarks: Callable[[], Iterator[Row]], names: Sequence[str]) -> None:
    """Run the named benchmarks, by default all, and replace the rows of each when it is done."""
    by_name = {benchmark.__name__: benchmark for benchmark in benchmarks}
    for name in names or by_name:
        made = []
        for found in by_name[name]():
            row = {"benchmark": name, **found, "threads": available_threads()}
            print("  ".join(f"{key}={_short(value)}" for key, value in row.items()), flush=True)
            made.append({**row, **provenance()})
        if made:  # there are none without the machine that it needs
            others = [row for row in read(RESULTS, "benchmarks") if row["benchmark"] != name]
            write(RESULTS, "benchmarks", [*others, *made])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the time that some work takes."""
    started = perf_counter()
    work()
    return perf_counter() - started


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def alternate(
    works: Works, repeats: int, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Run several works in turn, some times; return the shortest time of each.

    The shortest one was disturbed least by other work on the machine, and taking turns lets a
    change of its load hit all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            started = clock()
            work()
            times[name].append(clock() - started)
    return {name: min(found) for name, found in times.items()}


def named(times: Mapping[str, float], unit: str = "seconds", factor: float = 1.0) -> Row:
    """Return times, or other numbers, as fields of a row."""
    return {f"{name}_{unit}": factor * value for name, value in times.items()}


def in_new_process(work: Callable[..., Row], *words: object) -> Row:
    """Call a function of a module beside this one in a new process; return what it returns."""
    call = f"{work.__module__}.{work.__name__}({', '.join(map(repr, words))})"
    script = f"import json, {work.__module__}; print(json.dumps({call}))"
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd=HERE
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def peak_megabytes(field: str = "VmHWM") -> float:
    """Return the most memory that this process has had; "VmRSS" is what it has now.

    `ru_maxrss` would not do: a new process begins with that of the process that started it.
    """
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1000


def command(words: list[str], folder: str) -> Row:
    """Run a command in this process, which should be a new one; return what it took."""
    from fedjigsaw.cli import app

    os.chdir(folder)
    seconds = seconds_of(lambda: app(words, standalone_mode=False))
    return {"seconds": seconds, "peak_megabytes": peak_megabytes()}


def mixture(rng: np.random.Generator, n: int, d: int, k: int) -> Floats:
    """Draw rows of clusters that overlap a little, whatever the number of columns."""
    centers = rng.normal(size=(k, d)) * 6 / np.sqrt(d)
    rows: Floats = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    return rows


def objective(X: Floats, centers: Floats, weights: Floats | float = 1.0) -> float:
    """Return the objective of k-means."""
    return float((nearest_centers(X, centers)[1] ** 2 * weights).sum())


def faiss_centers(X: Floats, k: int, threads: int, weights: Floats | None = None) -> Floats:
    """Return the centers of faiss with ten starts, of all rows and not of a sample."""
    import faiss

    faiss.omp_set_num_threads(threads)
    most = {"min_points_per_centroid": 1, "max_points_per_centroid": len(X)}
    search = faiss.Kmeans(X.shape[1], k, nredo=10, **most)
    given = None if weights is None else weights.astype(np.float32)
    search.train(X.astype(np.float32), weights=given)
    centers: Floats = search.centroids.astype(np.float64)
    return centers
