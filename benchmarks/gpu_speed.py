"""Speed on a GPU, for docs/performance.md: `python benchmarks/gpu_speed.py [NAME ...]`.

Contenders are measured in turn in one run, and rows replace those of before in
results/benchmarks.jsonl. It takes about two minutes. With `--tiny` all of it runs on a CPU in a
moment, and no row is kept.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter

import numpy as np
import torch

from fedjigsaw import Jigsaw
from fedjigsaw._threads import available_threads
from fedjigsaw._typing import Floats
from fedjigsaw.engine import aggregate_round
from fedjigsaw.kernels.backends import TORCH, VARIABLE, Backend, default_backend, name_of
from fedjigsaw.kernels.device.backend import DeviceBackend
from fedjigsaw.kernels.kmeans import Problem, kmeans_many
from fedjigsaw.messages import Broadcast, Model, Summary
from measuring import Row, alternate, received_summaries, run_benchmarks, seconds_of

TINY = "--tiny" in sys.argv
# of DeepFeCA: rows, columns, clusters
HEADS = [(200, 8, 10)] if TINY else [(5_000, 128, 300), (5_000, 128, 1000)]
N_CLIENTS, N_HEADS = (1, 2) if TINY else (10, 30)  # three heads of each client
SIZES = (  # around the size from where on the GPU is used
    [(50, 2, 5)]
    if TINY
    else [
        (500, 2, 15),
        (500, 512, 10),
        (20_000, 2, 15),
        (2_500, 32, 60),
        (20_000, 16, 60),
        (100_000, 16, 100),
    ]
)
N_SENDERS = 10 if TINY else 10_000  # clients that send 100 centers each
PATIENCE = 90.0  # seconds after which the server is no longer measured on a CPU, too
STARTED = perf_counter()


def _machine() -> Row:
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"device": name, "torch": torch.__version__, "threads": available_threads()}


def gpu_heads(repeats: int = 2) -> Iterator[Row]:
    """Measure the problems of a round of DeepFeCA: ten clients with three heads each, one start."""
    for n, d, k in HEADS:
        sets = [X for X in _sets(n, d, N_CLIENTS) for _ in range(N_HEADS // N_CLIENTS)]
        backend = DeviceBackend(quick_seeds=True)
        work = partial(_heads, sets, k, backend)
        work()  # load libraries
        times = alternate({"torch": work}, repeats)
        few = 2  # on a CPU, all of them would take long
        times["cpu"] = seconds_of(partial(_heads, sets[:few], k, _on_cpu()))
        yield {
            "benchmark": "gpu_heads",
            "n_rows": n,
            "n_columns": d,
            "n_clusters": k,
            "n_problems": N_HEADS,
            "torch_milliseconds": 1e3 * times["torch"] / N_HEADS,
            "cpu_milliseconds": 1e3 * times["cpu"] / few,
            "cpu_backend": name_of(_on_cpu()),
            **_machine(),
        }


def _heads(sets: list[Floats], k: int, backend: Backend) -> None:
    kmeans_many(_problems(sets, k), backend=backend, n_init=1, max_iter=20)


def gpu_clients(repeats: int = 2) -> Iterator[Row]:
    """Measure ten starts of k-means on a client's rows, on the GPU and on the CPU."""
    for n, d, k in SIZES:
        X = _sets(n, d, 1)[0]
        works = {
            name: partial(_client, X, k, backend)
            for name, backend in (("gpu", DeviceBackend()), ("cpu", _on_cpu()))
        }
        works["gpu"]()
        times = alternate(works, repeats)
        yield {
            "benchmark": "gpu_clients",
            "n_rows": n,
            "n_columns": d,
            "n_clusters": k,
            **{f"{name}_milliseconds": 1e3 * t for name, t in times.items()},
            "ratio": times["cpu"] / times["gpu"],
            "cpu_backend": name_of(_on_cpu()),
            **_machine(),
        }


def _client(X: Floats, k: int, backend: Backend) -> None:
    kmeans_many(_problems([X], k), backend=backend)


def gpu_server(k: int = 100) -> Iterator[Row]:
    """Measure Jigsaw's server with a million received centers, on the GPU and on the CPU."""
    _solve(received_summaries(100, 20.0, k), k, TORCH)  # load libraries
    for kind, width in (("blurred", 20.0), ("alone", 100.0)):
        summaries = received_summaries(N_SENDERS, width, k)
        models: list[Model] = []
        times = [
            seconds_of(lambda s=summaries, m=models: m.append(_solve(s, k, "torch")))  # type: ignore[misc]
            for _ in range(2)
        ]
        row: Row = {
            "benchmark": "gpu_server",
            "input": kind,
            "n_centers": k * N_SENDERS,
            "n_columns": summaries[0].centers.shape[1],
            "n_clusters": k,
            "seconds": min(times),
            "same_bits": models[0].centers.tobytes() == models[1].centers.tobytes(),
            **_machine(),
        }
        if perf_counter() - STARTED < PATIENCE:
            row["cpu_seconds"] = seconds_of(
                lambda s=summaries, m=models: m.append(_solve(s, k, "auto"))  # type: ignore[misc]
            )
            values = [float(model.tensors["objective"][0]) for model in models]
            row |= {"objective": values[0] / values[-1], "cpu_backend": name_of(_on_cpu())}
            row["ratio"] = row["cpu_seconds"] / row["seconds"]
        yield row


def _solve(summaries: list[Summary], k: int, backend: str) -> Model:
    with _environment(backend):
        return aggregate_round(Jigsaw(k), summaries, Broadcast(0, 0))


@contextmanager
def _environment(backend: str) -> Iterator[None]:
    before = os.environ.get(VARIABLE, "auto")
    os.environ[VARIABLE] = backend
    yield
    os.environ[VARIABLE] = before


def _on_cpu() -> Backend:
    with _environment("auto"):
        return default_backend()


def _sets(n: int, d: int, many: int) -> list[Floats]:
    rng = np.random.default_rng(0)
    true = 6 * rng.normal(size=(50, d)) / np.sqrt(d)
    return [true[rng.integers(50, size=n)] + rng.normal(size=(n, d)) for _ in range(many)]


def _problems(sets: list[Floats], k: int) -> list[Problem]:
    return [Problem(X, k, np.random.default_rng(i)) for i, X in enumerate(sets)]


BENCHMARKS = {
    "gpu_heads": gpu_heads,
    "gpu_clients": gpu_clients,
    "gpu_server": gpu_server,
}

if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if word != "--tiny"]
    with _environment(TORCH):
        if TINY:
            for name in names or BENCHMARKS:
                print(*BENCHMARKS[name](), sep="\n")
        else:
            run_benchmarks(BENCHMARKS, names)
