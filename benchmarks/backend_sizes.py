"""Measure at which sizes compiled k-means is faster than that of other libraries, on this machine.

All run on one thread, in turn, on rows of blurred clusters; times are those of the processor, so
that other work on the machine counts little. The table says where the backend "auto" uses which:

    python benchmarks/backend_sizes.py     # writes src/fedjigsaw/kernels/compiled/sizes.json

scikit-learn-intelex, which exists for x86-64 only, has to be installed.
"""

import itertools
import json
import os
from pathlib import Path
from time import process_time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from fedjigsaw._threads import one_thread
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.kernels.backends import Backend, IntelexBackend, NumbaBackend, SklearnBackend
from fedjigsaw.kernels.compiled.sizes import OTHERS
from fedjigsaw.kernels.kmeans import Problem, kmeans_many

ROWS = (20, 100, 500, 2_500, 12_500, 62_500)
COLUMNS = (2, 8, 32, 128, 512)
CLUSTERS = (3, 15, 60, 240)
MOST = 62_500 * 32 * 60  # rows x columns x clusters; larger problems behave as these do
ENOUGH = 0.3  # seconds of scikit-learn for each size
N_INIT = 10  # as methods ask for: some work for a small client is done once for all starts
N_INIT_LARGE = 3  # of more than `SMALL` rows, where each start is work of its own
SMALL = 2_500
TABLE = Path(__file__).parents[1] / "src/fedjigsaw/kernels/compiled/sizes.json"


def main() -> None:
    table = []
    ratios(20, 2, 3)  # import and compile
    for d, k, n in itertools.product(COLUMNS, CLUSTERS, ROWS):
        if k <= n // 2 and n * d * k <= MOST:
            table.append([n, d, k, *(round(ratio, 2) for ratio in ratios(n, d, k))])
            print(*table[-1], flush=True)
    text = ",\n".join(json.dumps(line) for line in table)
    write_whole(TABLE, f"[\n{text}\n]\n".encode())


def ratios(n: int, d: int, k: int) -> list[float]:
    """Return the time of each other library over that of compiled k-means."""
    backends = (NumbaBackend(), SklearnBackend(), IntelexBackend())
    assert tuple(backend.name for backend in backends[1:]) == OTHERS
    once = seconds(SklearnBackend(), n, d, k, 1)
    many = max(1, min(200, int(ENOUGH / once)))
    times = [[seconds(backend, n, d, k, many) for backend in backends] for _ in range(2)]
    compiled, *others = np.min(times, axis=0)
    return [float(other / compiled) for other in others]


def seconds(backend: Backend, n: int, d: int, k: int, many: int) -> float:
    """Return the time for several sets of rows, the same ones for every library."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(k, d)) * 6 / np.sqrt(d)
    sets = [centers[rng.integers(k, size=n)] + rng.normal(size=(n, d)) for _ in range(many)]
    problems = [Problem(X, k, np.random.default_rng(i)) for i, X in enumerate(sets)]
    n_init = N_INIT if n <= SMALL else N_INIT_LARGE
    started = process_time()
    with one_thread():
        kmeans_many(problems, n_init=n_init, backend=backend)
    return process_time() - started


if __name__ == "__main__":
    main()
