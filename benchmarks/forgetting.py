"""Benchmark of forgetting a site: one summary is deleted, and the model is made anew."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from fedjigsaw import sites
from fedjigsaw.datasets import gaussian_grid
from fedjigsaw.io.tables import from_array
from fedjigsaw.sites.keeping import Kept

# as in the example of MUFC: celltype, 12,009 rows with 10 columns, 100 clients, k = 4
N_CLIENTS, N_ROWS, N_COLUMNS, K = 100, 12_000, 10, 4


def forgetting(repeats: int = 20) -> Iterator[dict[str, Any]]:
    """Measure forgetting one of 100 sites, and the steps after it. Target: 1 ms."""
    data = gaussian_grid(N_ROWS * N_COLUMNS // 2).X.reshape(-1, N_COLUMNS)[:N_ROWS]
    files = [
        sites.summarize(from_array(data[m::N_CLIENTS]), K, client=f"site{m:03d}")
        for m in range(N_CLIENTS)
    ]
    with TemporaryDirectory() as name:
        kept = Kept(Path(name))
        for file in files:
            kept.add(file)
        kept.summaries()  # read once, as a coordinator's program has it
        times = [_forget_and_solve(kept, files[m]) for m in range(repeats)]
    forget, read, solve = map(min, zip(*times, strict=True))
    yield {
        "benchmark": "forgetting",
        "n_sites": N_CLIENTS,
        "n_rows": N_ROWS,
        "n_columns": N_COLUMNS,
        "k": K,
        "forget_milliseconds": 1000 * forget,
        "read_milliseconds": 1000 * read,
        "solve_milliseconds": 1000 * solve,
        "target": "forget < 1 ms",
    }


def _forget_and_solve(kept: Kept, file: Any) -> tuple[float, float, float]:
    """Forget a site, read the others, and solve; return the seconds of each, and keep it again."""
    started = perf_counter()
    kept.forget(file.summary.client)
    forgotten = perf_counter()
    left = kept.about(file.method, file.params)
    read = perf_counter()
    sites.aggregate(left, K)
    solved = perf_counter()
    kept.add(file)
    return forgotten - started, read - forgotten, solved - read
