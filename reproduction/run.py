"""Compute the rows behind RESULTS.md: one JSON line for each finished key.

    python reproduction/run.py                            # studies, and what of each is finished
    python reproduction/run.py table1 --seeds 2           # compute what is missing, show the tables
    python reproduction/run.py table1 --out build/again   # compute it anew, into another folder
    python reproduction/run.py all

Finished keys are skipped, so that an interrupted run goes on where it stopped.
"""

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where this file is run by its path

from fedjigsaw.errors import DatasetError
from fedjigsaw.report.provenance import provenance
from reproduction import tables
from reproduction.studies import RESULTS, Row, Task, line, read, studies, write


def main(words: Sequence[str] | None = None) -> int:
    """Compute what is missing of some studies, and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="studies, or all; none lists them")
    parser.add_argument("--seeds", type=int, help="number of seeds; default: as many as planned")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; default: one per core")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder; default: results/")
    given = parser.parse_args(words)
    unknown = [name for name in given.names if name not in (*studies(), "all")]
    if unknown:
        parser.error(f"no study {unknown[0]!r}; choose all or one of {', '.join(studies())}")
    if not given.names:
        for name, study in studies().items():
            done, total = len(study.finished(given.out)), len(study.tasks())
            print(f"{name:<16}{done:>5} of {total:<6}{study.about}")
        return 0
    names = list(studies()) if "all" in given.names else given.names
    failed = compute_missing(names, given.out, given.seeds, given.jobs)
    if "all" not in given.names:
        for name in names:
            print(tables.section(studies()[name], given.out, given.seeds))
    return int(failed)


def compute_missing(
    names: Iterable[str], folder: Path, n_seeds: int | None = None, n_jobs: int = -1
) -> bool:
    """Compute the keys without a row, and write each row when it is done; tell if any failed."""
    todo = []
    for name in names:
        study = studies()[name]
        done = {(row["cell"], row["seed"]) for row in study.finished(folder, n_seeds)}
        tasks = study.tasks(n_seeds)
        todo += [task for task in tasks if (task.plan.name, task.seed) not in done]
    if not todo:
        print("Nothing is missing.", file=sys.stderr)
        return False
    for name in {task.study.name for task in todo}:  # removes a line that was cut off
        write(folder, name, read(folder, name))
    failures: Counter[str] = Counter()
    started = monotonic()
    workers = joblib.Parallel(n_jobs, return_as="generator_unordered")
    made = workers(joblib.delayed(compute)(task) for task in todo)
    for n_done, (name, row, why) in enumerate(made, start=1):
        if row:
            with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.write(line(row))
        else:
            failures[why] += 1
        left = (monotonic() - started) / n_done * (len(todo) - n_done)
        end = "\n" if n_done == len(todo) else "\r"
        print(f"{n_done} of {len(todo)} keys, {left:,.0f} s left  ", end=end, file=sys.stderr)
    for why, count in failures.items():
        print(f"{count} keys without a row: {why}", file=sys.stderr)
    return any(not why.startswith("left out") for why in failures)


def compute(task: Task) -> tuple[str, Row, str]:
    """Compute one key in a worker; return its study and its row, or why there is none."""
    module, function = task.study.run.split(":")
    options: dict[str, Any] = dict(task.plan.settings)
    if task.study.measures:
        options["measures"] = task.study.measures
    try:
        with threadpool_limits(1), warnings.catch_warnings():  # workers already use all cores
            warnings.simplefilter("ignore")  # the row says what came of it
            experiment = import_module(f"reproduction.experiments.{module}")
            found = getattr(experiment, function)(seed=task.seed, **options)
    except (ImportError, FileNotFoundError, DatasetError) as error:  # it lacks something
        return task.study.name, {}, f"left out, {type(error).__name__}: {error}"
    except Exception as error:  # other keys may succeed
        return task.study.name, {}, f"{task.study.name}, {type(error).__name__}: {error}"
    key = {"cell": task.plan.name, **task.plan.settings, "seed": task.seed}
    return task.study.name, {**key, **provenance(), **found}, ""


if __name__ == "__main__":
    sys.exit(main())
