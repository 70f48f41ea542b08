"""Speed at every size, for docs/performance.md: `python benchmarks/speed.py [NAME ...]`.

Each benchmark measures contenders in turn in one run and reports ratios. Its rows replace those of
before in results/benchmarks.jsonl. All of them take about ten minutes on two cores. faiss and
scikit-learn-intelex are measured where they are installed.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from fedjigsaw import BatchEngine, Client, FeCA, Jigsaw, KFed, ProcessEngine, SerialEngine
from fedjigsaw._random import streams
from fedjigsaw._regions import pack_merged
from fedjigsaw._threads import available_threads, one_thread
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.datasets import gaussian_grid
from fedjigsaw.engine import aggregate_round
from fedjigsaw.kernels.backends import (
    IntelexBackend,
    NumbaBackend,
    SklearnBackend,
    default_backend,
)
from fedjigsaw.kernels.grouping import group_by_radius
from fedjigsaw.kernels.kmeans import Problem, Solution, kmeans_many, nearest_centers
from fedjigsaw.kernels.solver import solve
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.sites.region import most_centers
from fedjigsaw.trust.support import unscreened
from measuring import (
    Row,
    alternate,
    in_new_process,
    peak_megabytes,
    received_centers,
    received_summaries,
    run_benchmarks,
    seconds_of,
)

# rows, columns, clusters; clients in one call; what was asked of the gain on one thread and on two:
# four fifths of what a first draft of the compiled kernel reached against the backend of then
SIZES = (
    (50, 2, 5, 500, 83, 119),
    (50, 2, 15, 500, 34, 54),
    (50, 16, 15, 500, 11, 21),
    (500, 2, 15, 200, 7, 10),
    (500, 512, 10, 20, 1.0, 1.7),
    (20_000, 2, 15, 20, 0.64, 0.88),
)
METHODS: dict[str, Any] = {"jigsaw": Jigsaw, "feca": FeCA, "kfed": KFed}
KINDS = {"blurred": 20.0, "alone": 100.0}  # spread of clusters among centers in [0, 100]


def small_clients(repeats: int = 2) -> Iterator[Row]:
    """Measure a client's k-means, ten starts: compiled on one thread and two, and other libraries.

    Objectives are means over all clients, each with rows and a seed of its own, over the mean of
    scikit-learn; that of the compiled kernel is over many seeds of fewer clients, see `objective`.
    """
    for n, d, k, many, target, target_two in SIZES:
        rng = np.random.default_rng(0)
        sets = [mixture(rng, n, d, k) for _ in range(many)]
        found: dict[str, list[float]] = {}
        works: dict[str, Callable[[], object]] = {
            "compiled": partial(_ours, sets, k, 1, found),
            "compiled_two": partial(_ours, sets, k, 2, found),
            "sklearn": partial(_plain, sets, k, SklearnBackend(), found),
        }
        if find_spec("sklearnex"):
            works["intelex"] = partial(_plain, sets, k, IntelexBackend(), found)
        if find_spec("faiss"):
            works["faiss"] = partial(_faiss_sets, sets, k, found)
        _ours(sets[:2], k, 1, {})  # compile, or load what was compiled
        times = alternate(works, repeats)
        row = {f"{name}_microseconds": 1e6 * value / many for name, value in times.items()}
        objectives = {name: sum(values) / sum(found["sklearn"]) for name, values in found.items()}
        del objectives["compiled"]
        takes = getattr(default_backend(), "takes", lambda *size: False)
        chosen = "compiled" if takes(n, d, k) else ("intelex" if "intelex" in works else "sklearn")
        yield {
            "benchmark": "small_clients",
            "n_rows": n,
            "n_columns": d,
            "n_clusters": k,
            "n_clients": many,
            **row,
            "ratio": times["sklearn"] / times["compiled"],
            "ratio_two": times["sklearn"] / times["compiled_two"],
            **objective(sets[: max(5, many // 5)], k),
            **{f"{name}_objective": value for name, value in objectives.items()},
            "auto": chosen,
            **({"intelex_ratio": times[chosen] / times["intelex"]} if "intelex" in works else {}),
            "target": f">= {target}, >= {target_two}, objective <= 1.002",
        }


def objective(sets: list[Floats], k: int, n_seeds: int = 20) -> Row:
    """Return the mean objective of the compiled kernel over that of scikit-learn, and its error.

    The error is the standard error of the mean difference between runs of both with the same rows
    and seed.
    """
    found: dict[str, list[float]] = {}
    repeated = [X for X in sets for _ in range(n_seeds)]  # each problem has a seed of its own
    _ours(repeated, k, 1, found)
    _plain(repeated, k, SklearnBackend(), found)
    ours, plain = (np.array(found[name]) for name in ("compiled", "sklearn"))
    return {
        "objective": float(ours.sum() / plain.sum()),
        "objective_error": float((ours - plain).std(ddof=1) / len(ours) ** 0.5 / plain.mean()),
        "objective_runs": len(ours),
    }


def mixture(rng: np.random.Generator, n: int, d: int, k: int) -> Floats:
    """Draw rows of clusters that overlap a little, whatever the number of columns."""
    centers = rng.normal(size=(k, d)) * 6 / np.sqrt(d)
    rows: Floats = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    return rows


def _problems(sets: list[Floats], k: int) -> list[Problem]:
    return [Problem(X, k, np.random.default_rng(i)) for i, X in enumerate(sets)]


def _inertias(solutions: list[Solution]) -> list[float]:
    return [solution.inertia for solution in solutions]


def _ours(sets: list[Floats], k: int, threads: int, found: dict[str, list[float]]) -> None:
    with _threads(threads):
        solutions = kmeans_many(_problems(sets, k), backend=NumbaBackend())
    found["compiled"] = _inertias(solutions)


def _plain(
    sets: list[Floats], k: int, backend: SklearnBackend, found: dict[str, list[float]]
) -> None:
    with one_thread():
        solutions = kmeans_many(_problems(sets, k), backend=backend)
    found[backend.name] = _inertias(solutions)


def _faiss_sets(sets: list[Floats], k: int, found: dict[str, list[float]]) -> None:
    found["faiss"] = [_objective(X, _faiss(X, k, n_init=10, threads=1)) for X in sets]


def _faiss(
    X: Floats, k: int, *, n_init: int, threads: int, weights: Floats | None = None
) -> Floats:
    import faiss

    faiss.omp_set_num_threads(threads)
    most = len(X)  # of all rows, not of a sample
    search = faiss.Kmeans(
        X.shape[1], k, nredo=n_init, min_points_per_centroid=1, max_points_per_centroid=most
    )
    given = None if weights is None else weights.astype(np.float32)
    search.train(X.astype(np.float32), weights=given)
    centers: Floats = search.centroids.astype(np.float64)
    return centers


def _objective(X: Floats, centers: Floats, weights: Floats | float = 1.0) -> float:
    return float((nearest_centers(X, centers)[1] ** 2 * weights).sum())


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Let compiled kernels use so many threads."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(number)
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before


def many_clients() -> Iterator[Row]:
    """Measure `fit` of many clients of 50 x 2, k = 15, and the compiled kernel alone on their rows.

    `clients_seconds` is the clients' part of `fit`: everything but the server, labels and input.
    Targets: 2 s for 10,000 clients; 20 s and 1.5 GB for 100,000; clients 1.5 times the kernel.
    """
    sizes = {"jigsaw": (100, 1_000, 10_000, 100_000), "feca": (10_000,), "kfed": (10_000,)}
    for method, numbers in sizes.items():
        for n_clients in numbers:
            yield in_new_process("speed", "fit_many", method, n_clients)


def fit_many(method: str, n_clients: int, n_rows: int = 50, k: int = 15) -> Row:
    """Fit a method on many clients, in a process of its own."""
    X = gaussian_grid(n_clients * n_rows).X
    clients = np.repeat(np.arange(n_clients), n_rows)
    model = METHODS[method](k, random_state=0)
    first = partial(model.fit, X[: 20 * n_rows], clients=clients[: 20 * n_rows])
    loading = seconds_of(first)  # libraries, and kernels that were compiled before
    before = peak_megabytes()
    whole = partial(model.fit, X, clients=clients)
    times = [seconds_of(whole)]
    peak = peak_megabytes()
    sent = sum(model.transcript_.rounds[0].bytes_up.values())
    sets = np.split(X, n_clients)

    kernel = partial(_kernel, sets, k)
    clients_part = _clients_part(sets, model)
    alone, theirs = [seconds_of(kernel)], [seconds_of(clients_part)]
    for _ in range(2 if n_clients < 10_000 else 1):
        times.append(seconds_of(whole))
        alone.append(seconds_of(kernel))
        theirs.append(seconds_of(clients_part))
    return {
        "benchmark": "many_clients",
        "method": method,
        "n_clients": n_clients,
        "n_rows": n_rows,
        "n_columns": 2,
        "n_clusters": k,
        "first_fit_seconds": loading,
        "seconds": min(times),
        "clients_seconds": min(theirs),
        "kernel_seconds": min(alone),
        "ratio": min(theirs) / min(alone),
        "fit_ratio": min(times) / min(alone),
        "peak_megabytes": peak,
        "megabytes_before": before,
        "bytes_per_client": sent / n_clients,
        "threads": available_threads(),
        "target": "ratio <= 1.5; <= 2 s for 10,000; <= 20 s, <= 1500 MB for 100,000",
    }


def _kernel(sets: Sequence[Floats], k: int) -> None:
    """Run k-means alone on the rows of all clients."""
    rngs = streams(0, 0, list(map(str, range(len(sets)))))
    kmeans_many([Problem(rows, k, rng) for rows, rng in zip(sets, rngs, strict=True)])


def _clients_part(sets: Sequence[Floats], model: Any) -> Callable[[], object]:
    """Return the work of a method's clients: from the broadcast to all summaries."""
    asked = [Client(str(i), rows, model) for i, rows in enumerate(sets)]
    return partial(BatchEngine(asked).gather, Broadcast(0, 0))


def clients_part(repeats: int = 7) -> Iterator[Row]:
    """Measure what the clients of methods do, over k-means alone on their rows. Target: 1.5."""
    for n, d, k, some, _, _ in SIZES:
        many = 4 * some if n == 50 else some  # hundreds of such clients take only milliseconds
        rng = np.random.default_rng(0)
        sets = [mixture(rng, n, d, k) for _ in range(many)]
        works: dict[str, Callable[[], object]] = {"kernel": partial(_kernel, sets, k)}
        for name, cls in METHODS.items():
            works[name] = _clients_part(sets, cls(k, random_state=0))
        for work in works.values():
            work()  # load what was compiled
        times = alternate(works, repeats)
        kernel = times.pop("kernel")
        yield {
            "benchmark": "clients_part",
            "n_rows": n,
            "n_columns": d,
            "n_clusters": k,
            "n_clients": many,
            "kernel_microseconds": 1e6 * kernel / many,
            **{f"{name}_ratio": value / kernel for name, value in times.items()},
            "threads": available_threads(),
            "target": "<= 1.5",
        }


def engines(repeats: int = 2) -> Iterator[Row]:
    """Measure the engines of one machine on many small clients and on a few large ones."""
    for n_clients, n_rows in ((1_000, 50), (20, 20_000)):
        X = gaussian_grid(n_clients * n_rows).X
        clients = np.repeat(np.arange(n_clients), n_rows)

        def fit(engine: Any, X: Floats = X, clients: Ints = clients) -> None:
            Jigsaw(15, random_state=0).fit(X, clients=clients, engine=engine)

        works: dict[str, Callable[[], object]] = {
            "batch": partial(fit, BatchEngine),
            "serial": partial(fit, SerialEngine),
            "process": partial(fit, partial(ProcessEngine, n_jobs=2)),
        }
        fit(BatchEngine)
        times = alternate(works, repeats)
        yield {
            "benchmark": "engines",
            "n_clients": n_clients,
            "n_rows": n_rows,
            **{f"{name}_seconds": value for name, value in times.items()},
            "threads": available_threads(),
        }


def pooled(
    n_clients: int = 20, k: int = 20, n_columns: int = 20, repeats: int = 2
) -> Iterator[Row]:
    """Measure `fit` of a million rows in 20 clients against k-means on pooled rows. Target: 0.7."""
    from sklearn.cluster import KMeans

    X = mixture(np.random.default_rng(0), 1_000_000, n_columns, k)
    clients = np.arange(len(X)) % n_clients
    found: dict[str, Floats] = {}

    def ours() -> None:
        found["ours"] = Jigsaw(k, random_state=0).fit(X, clients=clients).cluster_centers_

    def sklearn() -> None:
        found["sklearn"] = KMeans(k, n_init=10, random_state=0).fit(X).cluster_centers_

    def faiss() -> None:
        found["faiss"] = _faiss(X, k, n_init=10, threads=available_threads())

    Jigsaw(k).fit(X[:2_000], clients=clients[:2_000])
    times = alternate({"ours": ours, "sklearn": sklearn}, repeats)
    if find_spec("faiss"):
        times["faiss"] = seconds_of(faiss)
    objectives = {name: _objective(X, centers) for name, centers in found.items()}
    yield {
        "benchmark": "pooled",
        "n_rows": len(X),
        "n_columns": n_columns,
        "n_clients": n_clients,
        "n_clusters": k,
        **{f"{name}_seconds": value for name, value in times.items()},
        "ratio": times["ours"] / times["sklearn"],
        **{
            f"{name}_objective": value / objectives["sklearn"] for name, value in objectives.items()
        },
        "threads": available_threads(),
        "target": "<= 0.7",
    }


def server() -> Iterator[Row]:
    """Measure Jigsaw's server, d = 16, k = 100, against one start of k-means on received centers.

    "blurred" has clusters that overlap, "alone" has none to find. The last step of Jigsaw treats
    received centers as clouds of rows: `objective` is that of a row drawn from each cloud, over
    that of the one start. `points_objective` is that of the solver for the received centers alone.
    Target for a million centers: 15 s and 600 MB; objectives never above those of one start.
    """
    for kind in KINDS:
        for n_clients in (100, 1_000, 10_000):
            yield in_new_process("speed", "serve", kind, n_clients)


def serve(kind: str, n_clients: int, k: int = 100) -> Row:
    """Aggregate the summaries of so many clients, in a process of its own."""
    from sklearn.cluster import KMeans

    _solve(received_summaries(10, 20.0, k), k)  # load libraries and compiled kernels
    summaries = received_summaries(n_clients, KINDS[kind], k)
    centers = np.concatenate([summary.centers for summary in summaries])
    counts = np.concatenate([np.asarray(s.counts, np.float64) for s in summaries])
    models: list[Model] = []
    before = _megabytes_now()
    times = [seconds_of(lambda: models.append(_solve(summaries, k)))]
    extra = peak_megabytes() - before
    one = KMeans(k, n_init=1, random_state=0)
    plain = [seconds_of(lambda: one.fit(centers, sample_weight=counts))]
    if n_clients < 10_000:
        times.append(seconds_of(lambda: _solve(summaries, k)))
        plain.append(seconds_of(lambda: one.fit(centers, sample_weight=counts)))
    points = solve(centers, counts, k, rng=np.random.default_rng(0))
    widths = np.sqrt(np.concatenate([np.asarray(s.sse) for s in summaries]) / counts)
    noise = np.random.default_rng(3).normal(0, 1 / np.sqrt(centers.shape[1]), centers.shape)
    rows = centers + widths[:, None] * noise
    plain_objective = _objective(rows, one.cluster_centers_, counts)
    row = {
        "benchmark": "server",
        "input": kind,
        "n_centers": len(centers),
        "n_columns": centers.shape[1],
        "n_clusters": k,
        "seconds": min(times),
        "extra_megabytes": extra,
        "sklearn_seconds": min(plain),
        "ratio": min(times) / min(plain),
        "objective": _objective(rows, models[0].centers, counts) / plain_objective,
        "points_objective": points.inertia / one.inertia_,
        "threads": available_threads(),
        "target": "objective <= 1; <= 15 s, <= 600 MB for 1,000,000",
    }
    if find_spec("faiss") and n_clients < 10_000:  # more would take minutes
        found: list[Floats] = []
        search = partial(_faiss, centers, k, n_init=10, threads=available_threads())
        row["faiss_seconds"] = seconds_of(lambda: found.append(search(weights=counts)))
        row["faiss_objective"] = _objective(rows, found[0], counts) / plain_objective
    return row


def _solve(summaries: list[Summary], k: int) -> Model:
    return aggregate_round(Jigsaw(k), summaries, Broadcast(0, 0))


def _megabytes_now() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def grouping() -> Iterator[Row]:
    """Measure FeCA's grouping at its worst: every center is a group of its own. Target: 5 s."""
    for n_clients in (100, 1_000):
        centers, radii = received_centers(n_clients, KINDS["alone"])
        with one_thread():
            times = [seconds_of(lambda c=centers, r=radii: group_by_radius(c, r / 4))]  # type: ignore[misc]
        yield {
            "benchmark": "grouping",
            "n_centers": len(centers),
            "seconds": min(times),
            "target": "<= 5 s for 100,000",
        }


def region(n_sites: int = 1_000, k: int = 100) -> Iterator[Row]:
    """Measure what a region does with the summaries of its sites, and what it sends."""
    summaries = received_summaries(n_sites, KINDS["blurred"], k)
    method = Jigsaw(k)
    made: list[Summary] = []

    def work() -> None:
        model = _solve(summaries, k)
        merged = method.merge(summaries, most_centers(k, None))
        names = tuple(summary.client for summary in summaries)
        made.append(pack_merged("north", merged, summaries, model, names))

    work()
    yield {
        "benchmark": "region",
        "n_sites": n_sites,
        "n_clusters": k,
        "n_columns": summaries[0].centers.shape[1],
        "n_centers_sent": len(made[0].centers),
        "seconds": seconds_of(work),
        "bytes_per_site": sum(summary.nbytes for summary in summaries) / n_sites,
        "bytes_sent": made[0].nbytes,
    }


def auto(repeats: int = 3) -> Iterator[Row]:
    """Measure a run that finds k itself against one with k given. Target: twice as long."""
    for n_clients, n_rows, n_columns in (
        (10, 500, 2),
        (100, 500, 2),
        (1_000, 50, 2),
        (20, 5_000, 16),
    ):
        X = mixture(np.random.default_rng(0), n_clients * n_rows, n_columns, 15)
        clients = np.arange(len(X)) % n_clients

        def fit(k: Any, X: Floats = X, clients: Ints = clients) -> None:
            Jigsaw(k, random_state=0).fit(X, clients=clients)

        fit("auto")
        times = alternate({"given": partial(fit, 15), "auto": partial(fit, "auto")}, repeats)
        yield {
            "benchmark": "auto",
            "n_clients": n_clients,
            "n_rows": n_rows,
            "n_columns": n_columns,
            "seconds": times["auto"],
            "given_seconds": times["given"],
            "ratio": times["auto"] / times["given"],
            "target": "<= 2",
        }


FIRST_FIT = """
import numpy as np
from fedjigsaw import Jigsaw
X = np.random.default_rng(0).normal(size=(4_000, 4))
Jigsaw(10, random_state=0).fit(X, clients=np.arange(4_000) % 10)
"""


def first_minute() -> Iterator[Row]:
    """Measure new processes that have nothing compiled: `make demo` and a first fit."""
    demo = [str(Path(sys.executable).parent / "fedjigsaw"), "demo", "--out", "demo.png"]
    commands = {"demo": (demo, 20), "fit": ([sys.executable, "-c", FIRST_FIT], 10)}
    for name, (words, target) in commands.items():
        with TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            run = partial(subprocess.run, words, cwd=folder, env=environment, check=True)
            seconds = seconds_of(partial(run, capture_output=True))
        yield {
            "benchmark": "first_minute",
            "command": name,
            "seconds": seconds,
            "threads": available_threads(),
            "target": f"<= {target} s",
        }


SCREEN = "fedjigsaw.methods.jigsaw.screen"  # what looks at sites


def sites(repeats: int = 5) -> Iterator[Row]:
    """Measure `fit` of 30,000 rows of so many sites, over not looking at sites, and with liars.

    The second ratio is to the same detail without liars.
    """
    X = mixture(np.random.default_rng(0), 30_000, 8, 12)
    for n_sites in (5, 30, 50, 64, 65, 200):
        clients = np.arange(len(X)) % n_sites

        def fit(clients: Ints = clients, **options: Any) -> None:
            Jigsaw(12, random_state=0, **options).fit(X, clients=clients)

        def pass_through(fit: Callable[..., None] = fit) -> None:
            with patch(SCREEN, lambda received, *args, **options: unscreened(received)):
                fit()

        works: dict[str, Callable[[], None]] = {
            "fit": fit,
            "without": pass_through,
            "liars": partial(fit, liars=1),
            "fine": partial(fit, detail=3),
        }
        for work in works.values():
            work()
        times = alternate(works, repeats)
        yield {
            "benchmark": "sites",
            "n_sites": n_sites,
            **{f"{name}_seconds": value for name, value in times.items()},
            "ratio": times["fit"] / times["without"],
            "liars_ratio": times["liars"] / times["fine"],
            "threads": available_threads(),
            "target": "<= 1.1; <= 1.4 with liars",
        }


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "small_clients": small_clients,
    "many_clients": many_clients,
    "clients_part": clients_part,
    "engines": engines,
    "pooled": pooled,
    "server": server,
    "grouping": grouping,
    "region": region,
    "auto": auto,
    "first_minute": first_minute,
    "sites": sites,
}


if __name__ == "__main__":
    run_benchmarks(BENCHMARKS, sys.argv[1:])
