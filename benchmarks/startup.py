"""How long commands take before their work, and with small files, against `import numpy`."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

COMMAND = [str(Path(sys.executable).parent / "fedjigsaw")]
# as installed: compiled once, not in each process
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
NUMPY = [sys.executable, "-c", "import numpy"]
# words -> target in seconds on a quiet machine; a file that is not there ends a command before its
# work, and the others are a round by files of 400 rows
BEFORE = {
    "--help": 0.3,
    "stats none -o x": 0.6,
    "scaler none -o x": 0.6,
    "summarize none -k 2 -o x": 0.6,
    "aggregate none -k 2 -o x": 0.6,
    "assign none --model none -o x": 0.6,
    "score none --model none": 0.6,
    "inspect none": 0.6,
    "diff none none": 0.6,
    "report none -o x.html": 0.6,
    "schema check none --schema none": 0.6,
}
WHOLE = (
    "stats a.csv -o a.stats --force",
    "summarize a.csv -k 2 -o a.summary --force",
    "aggregate a.summary -k 2 -o model --force",
    "aggregate a.summary -k 2 -o other --seed 1 --force",
    "assign a.csv --model model -o labels.csv --force",
    "score a.csv --model model",
    "inspect model",
    "diff model other",
)


def startup(repeats: int = 5) -> Iterator[dict[str, Any]]:
    """Measure new processes in turn; of each, the least processor time and the least time."""
    rows = np.random.default_rng(0).normal(size=(400, 2)) + np.repeat([0, 9], 200)[:, None]
    with TemporaryDirectory() as name:
        np.savetxt(Path(name) / "a.csv", rows, delimiter=",", header="x,y", comments="")
        commands = {words: [*COMMAND, *words.split()] for words in (*BEFORE, *WHOLE)}
        commands["numpy"] = NUMPY
        found: dict[str, list[tuple[float, float]]] = {words: [] for words in commands}
        for _ in range(repeats):
            for words, command in commands.items():
                found[words].append(_times(command, name))
    best = {
        words: [min(kind) for kind in zip(*times, strict=True)] for words, times in found.items()
    }
    for words in (*BEFORE, *WHOLE):
        yield {
            "benchmark": "startup",
            "command": words,
            "n_rows": 0 if words in BEFORE else len(rows),
            "cpu_seconds": best[words][0],
            "seconds": best[words][1],
            "numpy_cpu_seconds": best["numpy"][0],
            "ratio": best[words][0] / best["numpy"][0],
            **({"target": f"<= {BEFORE[words]} s"} if words in BEFORE else {}),
        }


def _times(command: list[str], folder: str) -> tuple[float, float]:
    """Run a command; return its processor time and its wall time in seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, perf_counter() - started
