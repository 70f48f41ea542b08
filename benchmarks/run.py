"""Benchmarks of speed and memory: `make bench`, or `python benchmarks/run.py [NAME ...]`.

Each benchmark measures two things in the same run and reports their ratio, which depends less on
the load of the machine than seconds do. One JSON line per case goes to results/benchmarks.jsonl.
"""

import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep, time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedjigsaw import Client, FeCA, Jigsaw, Privacy
from fedjigsaw._random import stream
from fedjigsaw._threads import one_thread
from fedjigsaw._typing import Floats, Ints
from fedjigsaw.datasets import gaussian_grid
from fedjigsaw.io.formats import ModelFile, Profile, Score, encode, fingerprint, save
from fedjigsaw.kernels.backends import default_backend
from fedjigsaw.kernels.grouping import group_by_radius
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.messages import Broadcast, Model, Summary
from files import files
from forgetting import forgetting
from measuring import (
    Row,
    peak_of_command,
    received_centers,
    received_summaries,
    run_benchmarks,
    seconds_of,
)
from mixed_tables import write_mixed
from startup import startup


def overhead(
    n_clients: int = 1000, n_rows: int = 500, k: int = 15, repeats: int = 7
) -> Iterator[Row]:
    """Measure `FeCA.fit` on many small clients against k-means alone. Target: 1.3.

    That is called for one client after the other, on one thread; `fit` has all cores.
    """
    X = gaussian_grid(n_clients * n_rows).X
    clients = np.repeat(np.arange(n_clients), n_rows)
    shards = {str(m): X[clients == m] for m in range(n_clients)}
    options: dict[str, Any] = {"weights": None, "n_init": 10, "max_iter": 300, "tol": 1e-4}

    def bare() -> None:
        with one_thread():
            for name, rows in shards.items():
                default_backend().labels(rows, k, rng=stream(0, 0, name), **options)

    whole, kernel = [], []
    for _ in range(repeats):
        kernel.append(seconds_of(bare))
        whole.append(seconds_of(lambda: FeCA(k, random_state=0).fit(X, clients=clients)))
    yield {
        "benchmark": "overhead",
        "n_clients": n_clients,
        "n_rows": n_rows,
        "seconds": min(whole),  # the run that was disturbed least
        "bare_seconds": min(kernel),
        "ratio": min(whole) / min(kernel),
        "target": "<= 1.3",
    }


def aggregation() -> Iterator[Row]:
    """Measure the grouping of received centers in 16 dimensions against a plain double loop.

    There are three kinds of input, with 100 centers per client: "separate" (100 true clusters lie
    far apart), "blurred" (they overlap) and "alone" (every center is a group of its own, the worst
    case). Target for 1e5 centers: below 10 s and 1 GB, and at least 20 times faster than the loop.
    """
    for kind, width in (("separate", 1.0), ("blurred", 20.0), ("alone", 100.0)):
        for n_clients in (10, 100, 1000):
            centers, radii = received_centers(n_clients, width)
            if kind == "alone":
                radii = radii / 4
            tracemalloc.start()
            with one_thread():
                groups = group_by_radius(centers, radii)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                times = []
                for _ in range(3):
                    started = perf_counter()
                    group_by_radius(centers, radii)
                    times.append(perf_counter() - started)
            plain = _double_loop_seconds(centers, groups)
            yield {
                "benchmark": "aggregation",
                "input": kind,
                "n_centers": len(centers),
                "n_groups": len(groups),
                "seconds": median(times),
                "peak_megabytes": peak / 1e6,
                "double_loop_seconds_estimated": plain,
                "ratio": plain / median(times),
                "target": ">= 20, < 10 s, < 1000 MB at 1e5 centers",
            }


def solving(k: int = 100) -> Iterator[Row]:
    """Measure the server of Jigsaw in 16 dimensions against ten restarts of k-means.

    The input is as in :func:`aggregation`; "alone" has no clusters to find. The restarts are those
    of scikit-learn's weighted k-means, on one thread like the server; two are timed and
    extrapolated to ten. Target for 1e5 centers: below 30 s and 1 GB.
    """
    from sklearn.cluster import KMeans

    for kind, width in (("separate", 1.0), ("blurred", 20.0), ("alone", 100.0)):
        for n_clients in (100, 300, 1000):
            summaries = received_summaries(n_clients, width, k)
            centers = np.concatenate([summary.centers for summary in summaries])
            counts = np.concatenate([np.asarray(summary.counts) for summary in summaries])
            work = partial(_aggregate, summaries, k)
            with one_thread():
                tracemalloc.start()
                model = work()
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                seconds = seconds_of(work)
                started = perf_counter()
                two = KMeans(k, n_init=2, random_state=0).fit(centers, sample_weight=counts)
                ten = (perf_counter() - started) * 5
            weighted = counts @ nearest_centers(centers, model.centers)[1] ** 2
            yield {
                "benchmark": "solving",
                "input": kind,
                "n_centers": len(centers),
                "n_clusters": k,
                "seconds": seconds,
                "peak_megabytes": peak / 1e6,
                "ten_restarts_seconds_estimated": ten,
                "ratio": seconds / ten,
                "objective_over_best_of_two": weighted / two.inertia_,
                "target": "<= 1, < 30 s, < 1000 MB at 1e5 centers",
            }


def _aggregate(summaries: list[Summary], k: int) -> Model:
    return Jigsaw(k).aggregate(summaries, Broadcast(0, 0), stream(0, 0))


def _double_loop_seconds(centers: Floats, groups: list[Ints], sample: int = 100_000) -> float:
    """Estimate the seconds of a double loop: one distance at a time to each ungrouped center.

    The number of distances follows from the groups; the time of one distance is measured.
    """
    sizes = np.array([len(group) for group in groups])
    n_distances = int((len(centers) - np.concatenate([[0], np.cumsum(sizes)[:-1]])).sum())
    started = perf_counter()
    inside = 0
    for i in range(sample):
        inside += bool(np.linalg.norm(centers[0] - centers[i % 1000]) <= 1.0)
    return n_distances * (perf_counter() - started) / sample


def large_file(n_rows: int = 5_000_000, n_columns: int = 16) -> Iterator[Row]:
    """Measure the peak memory of `fedjigsaw assign` and `score` on a large Parquet file.

    Each runs in its own process, whose peak memory is read at its end. Target: below 1 GB.
    """
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(n_columns)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        schema = pa.schema([(column, pa.float64()) for column in names])
        with pa.parquet.ParquetWriter(folder / "large.parquet", schema) as writer:
            for _ in range(n_rows // 100_000):
                rows = rng.normal(size=(n_columns, 100_000))
                writer.write_table(pa.table(list(rows), schema=schema))
        model = ModelFile(
            Model(rng.normal(size=(20, n_columns)), "feca", {}, tuple(names)), None, ("a",), 1
        )
        save(model, folder / "model")
        for verb, output in (("assign", "labels.parquet"), ("score", "large.score")):
            words = [verb, "large.parquet", "--model", "model", "-o", output]
            started = perf_counter()
            peak = peak_of_command(words, folder)
            yield {
                "benchmark": "large_file",
                "command": verb,
                "n_rows": n_rows,
                "file_megabytes": (folder / "large.parquet").stat().st_size / 1e6,
                "seconds": perf_counter() - started,
                "peak_megabytes": peak,
                "target": "< 1000 MB",
            }


def report(k: int = 50, n_columns: int = 100, n_sites: int = 12, repeats: int = 5) -> Iterator[Row]:
    """Measure `fedjigsaw report` on a model with profiles, in new processes.

    Target: below 5 s and 3 MB.
    """
    rng = np.random.default_rng(0)
    names = tuple(f"measurement number {j}" for j in range(n_columns))
    sites = [f"site {i}" for i in range(n_sites)]
    counts = rng.integers(10, 1000, (n_sites, k))
    model = ModelFile(
        Model(rng.normal(size=(k, n_columns)), "jigsaw", {}, names),
        Scaler(names, rng.normal(size=n_columns), np.ones(n_columns)),
        tuple(sites),
        int(counts.sum()),
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        save(model, folder / "model")
        for site, own in zip(sites, counts, strict=True):
            rows = np.repeat(own[:, None], n_columns, axis=1)
            profile = Profile(names, rows, model.model.centers, 0.5 * rows, {}, {})
            score = Score(site, fingerprint(encode(model)), own, own.astype(float), profile)
            save(score, folder / f"{site}.score")
        files = [f"{site}.score" for site in sites]
        words = ["-m", "fedjigsaw", "report", "model", *files, "-o", "report.html", "--force"]
        run = partial(
            subprocess.run, [sys.executable, *words], cwd=folder, check=True, capture_output=True
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = min(seconds_of(run) for _ in range(repeats))  # the run that was disturbed least
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield {
            "benchmark": "report",
            "n_clusters": k,
            "n_columns": n_columns,
            "n_sites": n_sites,
            "seconds": seconds,
            "cpu_seconds": used / repeats,
            "megabytes": (folder / "report.html").stat().st_size / 1e6,
            "target": "< 5 s, < 3 MB",
        }


def mixed_table(n_rows: int = 200_000, k: int = 8) -> Iterator[Row]:
    """Measure `summarize` of a CSV file with 20 columns of all kinds, in a process of its own.

    The ratio is to the time that pyarrow needs to read the file alone. Targets: 10 s, 500 MB.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_mixed(folder, n_rows)
        words = ["summarize", "mixed.csv", "-k", str(k), "-o", "s", "--scaler", "scaler.json"]
        started = perf_counter()
        peak = peak_of_command(words, folder)
        seconds = perf_counter() - started
        reading = seconds_of(lambda: pa.csv.read_csv(folder / "mixed.csv"))
        yield {
            "benchmark": "mixed_table",
            "n_rows": n_rows,
            "n_columns": 20,
            "seconds": seconds,
            "reading_seconds": reading,
            "ratio": seconds / reading,
            "peak_megabytes": peak,
            "target": "<= 10 s, <= 500 MB",
        }


def federation(n_rows: int = 400, k: int = 4, repeats: int = 3) -> Iterator[Row]:
    """Measure a run with three sites in a real federation, from submission to model.

    All parts are processes on this machine: a server and three sites, with TLS and keys. The share
    of Flower is the whole time minus the longest work of a site according to its log. The same run
    with :class:`FeCA` in this process is measured for comparison, and so is Flower's own floor: its
    commands with an app that does nothing. In the first run, sites load their libraries. Targets:
    an idle site under 250 MB, a run under 8 s.
    """
    from federation_parts import cpu_seconds, memory, plain_flower
    from fedjigsaw.flower import bundle, folders, founding, jobs, processes

    with TemporaryDirectory() as name, plain_flower(Path(name)) as (run, node):
        floor = {f"flower_site_{kind}": value for kind, value in memory(node).items()}
        floor["floor_seconds"] = min(run() for _ in range(2))

    data = gaussian_grid(3 * n_rows)
    shards = {name: data.X[m::3] for m, name in enumerate(("bern", "lyon", "oslo"))}
    inside = seconds_of(lambda: FeCA(k, random_state=0).fit_clients(shards))
    command = str(Path(sys.executable).parent / "fedjigsaw")
    with TemporaryDirectory() as name, ExitStack() as parts:
        folder = Path(name)
        home = folder / "clinic" / "server"
        port = processes.free_port()
        founding.init(folder / "clinic", list(shards), "127.0.0.1", port, bundle.build())

        started_parts: list[int] = []

        def start(*words: object) -> None:
            process = subprocess.Popen(
                [command, "federation", *map(str, words)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            parts.callback(processes.end, process, 15.0)
            started_parts.append(process.pid)

        started = perf_counter()
        start("server", folder / "clinic")
        for site, rows in shards.items():
            np.save(folder / f"{site}.npy", rows)
            start("site", folder / "clinic" / site, "--data", folder / f"{site}.npy")
        _wait(lambda: (home / folders.RUNNING).exists())
        with jobs.control(home) as client:
            _wait(lambda: all(jobs.connected_sites(client, shards).values()))
            ready = perf_counter() - started
            sleep(5)
            idle = {f"idle_site_{kind}": value for kind, value in memory(started_parts[1]).items()}
            idle |= {f"idle_server_{kind}": v for kind, v in memory(started_parts[0]).items()}
            for number in range(repeats):
                before = cpu_seconds(started_parts)
                row = _submit_to_model(client, home, k)
                sleep(1)  # the processes of apps have ended
                yield {
                    "benchmark": "federation",
                    "n_sites": 3,
                    "n_rows": n_rows,
                    "connect_seconds": ready,
                    "in_process_seconds": inside,
                    "run": number,
                    **row,
                    "cpu_seconds": cpu_seconds(started_parts) - before,
                    **idle,
                    **floor,
                    "ratio": row["seconds"] / floor["floor_seconds"],
                    "load": os.getloadavg()[0],
                    "target": "idle_site_rss_mb < 250, seconds < 8",
                }


def _submit_to_model(client: Any, home: Path, k: int) -> Row:
    from fedjigsaw.flower import jobs

    place = jobs.new_job_folder(home)
    jobs.Job("feca", k).save(place)
    begun = time()
    number = jobs.submit(client, home, place)
    events = list(jobs.follow(client, place, number))
    whole = time() - begun
    if "error" in jobs.read_result(place):
        raise RuntimeError(jobs.read_result(place)["error"])
    asked = max(event["time"] for event in events if event["event"] == "asked")
    logs = [home.parent / name / "site.log" for name in ("bern", "lyon", "oslo")]
    work = max(_last_work(log.read_text().splitlines()) for log in logs)
    return {
        "seconds": whole,
        "server_start_seconds": asked - begun,
        "work_seconds": work,
        "flower_seconds": whole - work,
        "flower_share": 1 - work / whole,
    }


def _last_work(lines: list[str]) -> float:
    """Return the seconds between the last request and its reply in the log of a site."""
    asked, left = (datetime.fromisoformat(line[:23].replace(",", ".")) for line in lines[-2:])
    return (left - asked).total_seconds()


def _wait(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = perf_counter() + seconds
    while not condition():
        if perf_counter() > deadline:
            raise RuntimeError(f"The federation was not ready after {seconds:.0f} seconds.")
        sleep(0.2)


def private_summary(k: int = 15, repeats: int = 5) -> Iterator[Row]:
    """Measure a private summary of a site against a plain one. Target: 3 times as long."""
    privacy = Privacy(epsilon=1.0, bounds=(-1.0, 1.0), cells="own")
    for n_rows, n_columns in ((1_000, 2), (1_000, 16), (10_000, 2), (10_000, 8), (10_000, 16)):
        rng = np.random.default_rng([n_rows, n_columns])
        centers = rng.uniform(-0.7, 0.7, (k, n_columns))
        noise = 0.1 * rng.standard_normal((n_rows, n_columns))
        rows = np.clip(centers[rng.integers(k, size=n_rows)] + noise, -1, 1)
        plain = Client("site", rows, Jigsaw(k))
        private = Client("site", rows, Jigsaw(k), privacy=privacy)
        private.answer(Broadcast(0, 0))  # OpenDP is imported when it is first needed
        times = [
            [seconds_of(partial(client.answer, Broadcast(0, 0))) for client in (plain, private)]
            for _ in range(repeats)
        ]
        bare, noisy = map(min, zip(*times, strict=True))
        yield {
            "benchmark": "private_summary",
            "n_rows": n_rows,
            "n_columns": n_columns,
            "seconds": noisy,
            "plain_seconds": bare,
            "ratio": noisy / bare,
            "target": "<= 3",
        }


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "mixed_table": mixed_table,
    "overhead": overhead,
    "aggregation": aggregation,
    "solving": solving,
    "startup": startup,
    "files": files,
    "large_file": large_file,
    "report": report,
    "federation": federation,
    "forgetting": forgetting,
    "private_summary": private_summary,
}


if __name__ == "__main__":
    run_benchmarks(BENCHMARKS, sys.argv[1:])
