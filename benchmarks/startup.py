"""New processes: commands with small files, and the first minute."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from measuring import COMMAND, Row, alternate, processor_seconds, seconds_of

COMMANDS = (  # a round by files of 400 rows
    "--help",
    "stats a.csv -o a.stats --force",
    "summarize a.csv -k 2 -o a.summary --force",
    "aggregate a.summary -k 2 -o model --force",
    "aggregate a.summary -k 2 -o other --seed 1 --force",
    "assign a.csv --model model -o labels.csv --force",
    "score a.csv --model model",
    "inspect model",
    "diff model other",
)
FIRST_FIT = """
import numpy as np
from fedjigsaw import Jigsaw
X = np.random.default_rng(0).normal(size=(4_000, 4))
Jigsaw(10, random_state=0).fit(X, clients=np.arange(4_000) % 10)
"""
FIRST = {  # what a user starts first -> target in seconds
    "demo": ([COMMAND, "demo", "--out", "demo.png"], 20),
    "fit": ([sys.executable, "-c", FIRST_FIT], 10),
}


def startup(repeats: int = 5) -> Iterator[Row]:
    """Measure new processes in turn against `import numpy`, by their least processor time.

    Target on a quiet machine: 0.3 s for `--help`.
    """
    as_installed = dict(os.environ)
    as_installed.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all modules
    rows = np.random.default_rng(0).normal(size=(400, 2)) + np.repeat([0, 9], 200)[:, None]
    with TemporaryDirectory() as folder:
        np.savetxt(Path(folder) / "a.csv", rows, delimiter=",", header="x,y", comments="")
        run = partial(subprocess.run, cwd=folder, env=as_installed, check=True)
        start = partial(run, capture_output=True)
        works = {words: partial(start, [COMMAND, *words.split()]) for words in COMMANDS}
        works["numpy"] = partial(start, [sys.executable, "-c", "import numpy"])
        cpu = alternate(works, repeats, processor_seconds)
        seconds = alternate(works, repeats)
    for words in COMMANDS:
        yield {
            "command": words,
            "cpu_seconds": cpu[words],
            "seconds": seconds[words],
            "numpy_cpu_seconds": cpu["numpy"],
            "ratio": cpu[words] / cpu["numpy"],
        }


def first_minute(names: Sequence[str] = tuple(FIRST)) -> Iterator[Row]:
    """Measure new processes that have nothing compiled: `make demo` and a first fit."""
    for name in names:
        words, target = FIRST[name]
        with TemporaryDirectory() as folder:
            empty = {**os.environ, "NUMBA_CACHE_DIR": folder}
            run = partial(subprocess.run, words, cwd=folder, env=empty, check=True)
            seconds = seconds_of(partial(run, capture_output=True))
        yield {"command": name, "seconds": seconds, "target": f"<= {target} s"}
