"""What the benchmarks share: clocks, received centers to work on, and where rows go."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.io.rows import read_rows, write_rows
from fedjigsaw.kernels.local_solutions import empirical_radii
from fedjigsaw.messages import Summary
from fedjigsaw.report.provenance import provenance

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "benchmarks.jsonl"
Row = dict[str, Any]
Benchmarks = Mapping[str, Callable[[], Iterator[Row]]]


def seconds_of(work: Callable[[], object]) -> float:
    """Return the time that some work takes."""
    started = perf_counter()
    work()
    return perf_counter() - started


def alternate(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Run several works in turn, some times; return the shortest time of each.

    The shortest one was disturbed least by other work on the machine, and taking turns lets a
    change of its load hit all of them.
    """
    times = [{name: seconds_of(work) for name, work in works.items()} for _ in range(repeats)]
    return {name: min(one[name] for one in times) for name in works}


def peak_megabytes() -> float:
    """Return the most memory that this process has had.

    `ru_maxrss` would not do: a new process begins with that of the process that started it.
    """
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1000


def in_new_process(module: str, function: str, *words: object) -> Row:
    """Call a function of a module beside this one in a new process; return what it returns."""
    call = ", ".join(map(repr, words))
    script = f"import json, {module}; print(json.dumps({module}.{function}({call})))"
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd=HERE
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def peak_of_command(words: list[str], folder: Path) -> float:
    """Run a command in a process of its own and return its peak memory in MB."""
    script = (
        "from fedjigsaw.cli import app; "
        f"app({words!r}, standalone_mode=False); "
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=folder
    )
    return int(done.stdout.split()[-1]) / 1000


def received_centers(
    n_clients: int, width: float, k: int = 100, d: int = 16
) -> tuple[Floats, Floats]:
    """Simulate received centers: each client has some true clusters twice and others not at all."""
    rng = np.random.default_rng(1)
    true = rng.uniform(0, 100, (k, d))
    centers, radii = [], []
    for _ in range(n_clients):
        local = true[rng.integers(k, size=k)] + rng.normal(0, width / 2, (k, d))
        centers.append(local)
        radii.append(empirical_radii(local, rng.uniform(4, 6, k) * width))
    return np.concatenate(centers), np.concatenate(radii)


def received_summaries(n_clients: int, width: float, k: int) -> list[Summary]:
    """Simulate summaries with such centers."""
    centers, _ = received_centers(n_clients, width, k)
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 200, (n_clients, k))
    sse = counts * width**2 * centers.shape[1] / 4
    return [
        Summary(int(n.sum()), c, counts=n, sse=s, client=str(i))
        for i, (c, n, s) in enumerate(zip(np.split(centers, n_clients), counts, sse, strict=True))
    ]


def run_benchmarks(benchmarks: Benchmarks, names: Sequence[str]) -> None:
    """Run the named benchmarks, by default all, and replace the rows of each when it is done."""
    for name in names or list(benchmarks):
        made = []
        for row in benchmarks[name]():
            print("  ".join(f"{key}={_short(value)}" for key, value in row.items()), flush=True)
            made.append({**row, **provenance()})
        others = [row for row in read_rows(RESULTS) if row["benchmark"] != name]
        write_rows(RESULTS, [*others, *made])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
