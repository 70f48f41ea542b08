"""Tables of docs/performance.md, from the rows of ``benchmarks/speed.py``.

A part whose rows have not been made says so.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fedjigsaw.bench.speed_rows import ASKED, INPUTS, MISSING, Row, Rows, part, size, table_of
from fedjigsaw.bench.speed_targets import targets_table
from fedjigsaw.kernels.compiled.sizes import OTHERS, measured_speedups
from fedjigsaw.methods import CLUSTERERS

GIGABIT = 1e9 / 8  # bytes per second


def clients_table(rows: Rows) -> str:
    """A client's k-means by size, against other libraries."""
    head = ["client", "compiled", "on 2 threads", "scikit-learn", "intelex", "faiss"]
    lines = [
        [
            size(row),
            *(_micro(row.get(f"{name}_microseconds")) for name in _CONTENDERS),
            f"{row['ratio']:.1f}",
            f"{row['ratio_two']:.1f}",
            f"{row['objective']:.4f} ± {row['objective_error']:.4f}",
            f"{row['faiss_objective']:.4f}" if "faiss_objective" in row else "–",
        ]
        for row in part(rows, "small_clients")
    ]
    return table_of([*head, "gain", "on 2 threads", "objective", "faiss's objective"], lines)


_CONTENDERS = ("compiled", "compiled_two", "sklearn", "intelex", "faiss")


def _micro(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f} µs" if value < 10_000 else f"{value / 1000:,.0f} ms"


def fits_table(rows: Rows) -> str:
    """Whole fits of many small clients."""
    head = ["method", "clients", "seconds", "per client", "clients' part", "whole", "peak MB"]
    lines = [
        [
            CLUSTERERS[row["method"]].label,
            f"{row['n_clients']:,}",
            f"{row['seconds']:.2f}",
            _micro(1e6 * row["seconds"] / row["n_clients"]),
            f"{row['ratio']:.2f}",
            f"{row['fit_ratio']:.2f}",
            f"{row['peak_megabytes']:,.0f}",
        ]
        for row in part(rows, "many_clients")
    ]
    return table_of(head, lines)


def parts_table(rows: Rows) -> str:
    """The clients' part of each method by size, over k-means alone."""
    head = ["client", "k-means", *(CLUSTERERS[name].label for name in _PARTS)]
    lines = [
        [
            size(row),
            _micro(row["kernel_microseconds"]),
            *(f"{row[f'{name}_ratio']:.2f}" for name in _PARTS),
        ]
        for row in part(rows, "clients_part")
    ]
    return table_of(head, lines)


_PARTS = (*ASKED, "kfed")


def engines_table(rows: Rows) -> str:
    """The engines of one machine."""
    head = ["clients", "`BatchEngine`", "`SerialEngine`", "`ProcessEngine`, 2 workers"]
    names = ("batch", "serial", "process")
    lines = [
        [
            f"{r['n_clients']:,} of {r['n_rows']:,} x 2",
            *(f"{r[f'{n}_seconds']:.2f} s" for n in names),
        ]
        for r in part(rows, "engines")
    ]
    return table_of(head, lines)


def simulators_table(rows: Rows) -> str:
    """The same round by `fit` and in simulators of federations."""
    head = ["clients", "", "the round", "ratio", "whole process", "ratio", "same centers"]
    titles = {
        "ours": "`Jigsaw.fit`",
        "flower": "Flower {flwr}, Ray {ray}",
        "flare": "NVIDIA FLARE {nvflare}",
    }
    lines = [
        [
            f"{row['n_clients']:,}",
            titles[row["contender"]].format(**row["versions"]),
            *_simulated(row),
        ]
        for row in part(rows, "simulators")
    ]
    return table_of(head, lines)


def _simulated(row: Row) -> list[str]:
    if "limit_seconds" in row:
        return ["–", "–", f"more than {row['limit_seconds']:,} s", "–", "–"]
    return [
        f"{row['seconds']:.1f} s",
        f"{row['ratio']:.1f}",
        f"{row['process_seconds']:.1f} s",
        f"{row['process_ratio']:.1f}",
        "yes" if row["same_result"] else "no",
    ]


def pooled_table(rows: Rows) -> str:
    """One large problem: federated against pooled."""
    head = ["", "seconds", "objective"]
    titles = {
        "ours": "`Jigsaw.fit`, {n_clients} clients",
        "sklearn": "scikit-learn's `KMeans(n_init=10)`, pooled rows",
        "faiss": "faiss, ten starts, pooled rows",
    }
    lines = [
        [title.format(**row), f"{row[f'{name}_seconds']:.1f}", f"{row[f'{name}_objective']:.4f}"]
        for row in part(rows, "pooled")
        for name, title in titles.items()
        if f"{name}_seconds" in row
    ]
    return table_of(head, lines)


def server_table(rows: Rows) -> str:
    """Jigsaw's server by the number of received centers."""
    head = ["received centers", "kind", "seconds", "more MB", "scikit-learn, one start"]
    lines = [
        [
            f"{row['n_centers']:,}",
            str(row["input"]),
            f"{row['seconds']:.1f}",
            f"{row['extra_megabytes']:,.0f}",
            f"{row['sklearn_seconds']:.1f} s",
            f"{row['objective']:.4f}",
            f"{row['points_objective']:.4f}",
            f"{row['faiss_seconds']:.1f} s, {row['faiss_objective']:.4f}"
            if "faiss_seconds" in row
            else "–",
        ]
        for row in part(rows, "server")
    ]
    return table_of(
        [*head, "objective", "of centers", "faiss, ten starts: seconds, objective"], lines
    )


def grouping(rows: Rows) -> str:
    """Say how long FeCA's grouping takes at its worst."""
    parts = [f"{r['n_centers']:,} in {r['seconds']:.2f} s" for r in part(rows, "grouping")]
    return ", ".join(parts) or MISSING


def auto_table(rows: Rows) -> str:
    """Fits that find k against fits with k given."""
    head = ["clients", "k given", '`"auto"`', "ratio"]
    lines = [
        [
            f"{row['n_clients']:,} of {row['n_rows']:,} x {row['n_columns']}",
            f"{row['given_seconds']:.2f} s",
            f"{row['seconds']:.2f} s",
            f"{row['ratio']:.1f}",
        ]
        for row in part(rows, "auto")
    ]
    return table_of(head, lines)


def startup_table(rows: Rows) -> str:
    """Commands before their work, and with small files."""
    head = ["command", "rows", "seconds", "processor time", "of `import numpy`"]
    lines = [
        [
            f"`{row['command']}`",
            f"{row['n_rows']:,}" if row["n_rows"] else "before its work",
            f"{row['seconds']:.2f}",
            f"{row['cpu_seconds']:.2f} s",
            f"{row['ratio']:.1f}",
        ]
        for row in part(rows, "startup")
    ]
    return table_of(head, lines)


def files_table(rows: Rows) -> str:
    """Commands on large files: `files` are measured against other libraries, if they were."""
    head = ["command", "rows", "seconds", "of reading and computing alone", "peak MB"]
    lines = [
        [
            f"`{row['command']}`",
            f"{row['n_rows']:,}",
            f"{row['seconds']:.1f}",
            f"{row['ratio']:.2f}" if "ratio" in row else "–",
            f"{row['peak_megabytes']:,.0f}" if "peak_megabytes" in row else "–",
        ]
        for row in part(rows, "files") or part(rows, "large_file")
    ]
    return table_of(head, lines)


def backends_table() -> str:
    """The table by which the backend is chosen: how many times as fast compiled k-means is."""
    tables = [measured_speedups(over) for over in OTHERS]
    measured = tables[0].keys()
    sizes = sorted({n for n, _, _ in measured})

    def cell(size: tuple[int, int, int]) -> str:
        return " / ".join(f"{table[size]:.1f}" for table in tables) if size in measured else ""

    lines = [
        [f"{d}", f"{k}", *(cell((n, d, k)) for n in sizes)]
        for d, k in sorted({(d, k) for _, d, k in measured})
    ]
    return table_of(["columns", "k", *(f"{n:,} rows" for n in sizes)], lines)


def growth(rows: Rows) -> str:
    """Say with which power of the number of clients, and of centers, the time grows."""
    fits = [(r["n_clients"], r["seconds"]) for r in part(rows, "many_clients", method="jigsaw")]
    words = [f"clients: {_powers(fits)}"]
    for kind in INPUTS:
        served = [(r["n_centers"], r["seconds"]) for r in part(rows, "server", input=kind)]
        words.append(f"received centers, {kind}: {_powers(served)}")
    return "; ".join(words)


def _powers(points: Sequence[tuple[int, float]]) -> str:
    powers = [np.log(t / s) / np.log(n / m) for (m, s), (n, t) in pairwise(points)]
    return ", ".join(f"{power:.2f}" for power in powers) or MISSING


def plan_table(rows: Rows, sites: Sequence[int] = (10_000, 100_000, 1_000_000)) -> str:
    """The bytes and seconds of many sites through regions, from what was measured."""
    measured = part(rows, "region")
    served = part(rows, "server", input="blurred")
    if not measured or len(served) < 2:
        return MISSING
    (region,) = measured
    head = ["sites", "regions", "received by each region", "seconds of each region"]
    lines = []
    for n in sites:
        regions = n // region["n_sites"]
        centers, received = regions * region["n_centers_sent"], regions * region["bytes_sent"]
        lines.append(
            [
                f"{n:,}",
                f"{regions:,}",
                f"{region['n_sites'] * region['bytes_per_site'] / 1e6:.1f} MB",
                f"{region['seconds']:.1f}",
                f"{centers:,}",
                f"{received / 1e6:,.1f} MB, {received / GIGABIT:.2f} s",
                f"{_between(served, centers):.1f}",
                f"{n * region['bytes_per_site'] / 1e9:,.1f} GB",
            ]
        )
    last = ["received by the server, at 1 Gbit/s", "seconds of the server", "without regions"]
    return table_of([*head, "centers at the server", *last], lines)


def gpu_lloyd_table(rows: Rows) -> str:
    """Lloyd's iterations of one large problem on a GPU."""
    titles = {
        "ours": "fedjigsaw",
        "torch": "plain torch, float32",
        "flash": "flash-kmeans, float32",
        "flash_bf16": "flash-kmeans, bfloat16",
    }
    lines = [
        [title, f"{row[f'{name}_milliseconds']:.2f} ms", f"{row[f'{name}_objective']:.5f}"]
        for row in part(rows, "gpu_lloyd")
        for name, title in titles.items()
        if f"{name}_milliseconds" in row
    ]
    return table_of(["", "an iteration", "objective"], lines)


def gpu_clients_table(rows: Rows) -> str:
    """One problem on a GPU and on a CPU: ten starts at a client, and one of a head of DeepFeCA."""
    lines = [
        [size(row), "10", *_both(row["gpu_milliseconds"], row["cpu_milliseconds"])]
        for row in part(rows, "gpu_clients")
    ] + [
        [size(row), "1", *_both(row["torch_milliseconds"], row["cpu_milliseconds"])]
        for row in part(rows, "gpu_heads")
    ]
    return table_of(["rows", "starts", "GPU", "CPU", "gain"], lines)


def _both(gpu: float, cpu: float) -> list[str]:
    return [f"{gpu:,.1f} ms", f"{cpu:,.1f} ms", f"{cpu / gpu:.2f}"]


def gpu_server_table(rows: Rows) -> str:
    """Jigsaw's server on a GPU and on a CPU; objectives are over that of the CPU."""
    lines = [
        [
            f"{row['n_centers']:,}",
            str(row["input"]),
            f"{row['seconds']:.1f} s",
            *(
                (f"{row['cpu_seconds']:.1f} s", f"{row['ratio']:.1f}", f"{row['objective']:.5f}")
                if "cpu_seconds" in row
                else ("–", "–", "–")
            ),
        ]
        for row in part(rows, "gpu_server")
    ]
    return table_of(["received centers", "kind", "GPU", "CPU", "gain", "objective"], lines)


def _between(served: Rows, centers: int) -> float:
    """Read off the seconds of the server, between what was measured or in line with it."""
    x, y = (np.log([row[key] for row in served]) for key in ("n_centers", "seconds"))
    i = int(np.clip(np.searchsorted(x, np.log(centers)), 1, len(x) - 1))
    power = (y[i] - y[i - 1]) / (x[i] - x[i - 1])
    return float(np.exp(y[i] + power * (np.log(centers) - x[i])))


TABLES: dict[str, Callable[[Rows], str]] = {
    "targets": targets_table,
    "clients": clients_table,
    "fits": fits_table,
    "parts": parts_table,
    "engines": engines_table,
    "simulators": simulators_table,
    "pooled": pooled_table,
    "server": server_table,
    "auto": auto_table,
    "startup": startup_table,
    "files": files_table,
    "plan": plan_table,
    "gpu-lloyd": gpu_lloyd_table,
    "gpu-clients": gpu_clients_table,
    "gpu-server": gpu_server_table,
}
