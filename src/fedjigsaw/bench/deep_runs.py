"""The rows of DeepFeCA's runs in results/, and what tables and the picture say of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjigsaw.bench.paper import paper_tables
from fedjigsaw.io.rows import read_rows
from fedjigsaw.methods import CLUSTERERS

Run = list[dict[str, Any]]
PAPER_BATCH = 128
TITLES = {
    "iid": "IID",
    "dirichlet(0.3)": "Dirichlet(0.3)",
    "dirichlet(0.1)": "Dirichlet(0.1)",
    "central": "centralized",
}
PAPER_DATA = {  # names of data sets in the paper
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
}
OWN_SIZES = {"tiny-imagenet": 64}  # of images that can be scaled
USUAL_FINAL_RATE = 0.0005  # the defaults of DeepFeCA
USUAL_WEIGHT_DECAY = 0.0001
TRIAL = "deep-try"  # prefix of files of short runs that compare options
EQUAL = "deep-table"  # prefix of files of runs that compare methods
BEST = "deep-swapped-dirichlet0.1-weight-decay"  # has the settings of the recipe `best`
SHOWN_ELSEWHERE = {
    "clusterer", "clusterer_params", "n_clusters", "local_epochs", "n_rounds",
    "random_state", "device", "batch_size",
}  # fmt: skip
NOT_RESULTS = {"compile", "capture", "lanes"}  # how a result is computed, not what it is
_REMOVED = {"robust_average"}  # limits that no client of these runs came near
# parameters that only some runs have, with the values that describe all others
_NOT_IN_ALL = {
    "capture": True, "centered": False, "compile": False, "lanes": 1, "targets": "stored",
    "target_softness": 0.25, "target_balance": "own", "stored_share": 0.0, "teacher_momentum": 0.99,
    "validation_share": 0.0, "wire": "float32",
    "stored_falls": False,  # was removed
}  # fmt: skip


def read_runs(results: Path) -> dict[str, Run]:
    """Read the rows of every DeepFeCA run, by the name of its file; one file is one run."""
    paths = sorted(results.glob("deep*.jsonl"), key=lambda path: _by_number(path.stem))
    found = {path.stem: read_rows(path) for path in paths}
    return {name: rows for name, rows in found.items() if evaluated(rows)}


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts numbers inside a name by value: 9 before 10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def evaluated(run: Run) -> Run:
    """Return the rows of a run that have an evaluation of the features.

    `deep evaluate` adds such rows, too; those of other images do not count.
    """
    own = (row for row in run if row.get("evaluated_on", row.get("dataset")) == row.get("dataset"))
    return [row for row in own if "linear_accuracy" in row]


def trained(run: Run) -> Run:
    """Return the rows of a run that a round of training wrote."""
    return [row for row in run if "evaluated_on" not in row]


def long_runs(runs: Mapping[str, Run], dataset: str, split: str | None = None) -> dict[str, Run]:
    """Return the runs of a data set that do not only compare options or methods."""
    found = {}
    for name, run in runs.items():
        row = evaluated(run)[-1]
        here = row["dataset"] == dataset and split in (None, split_of(row))
        if here and not name.startswith((TRIAL, EQUAL)):
            found[name] = run
    return found


def unlike_best(runs: Mapping[str, Run], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that are not those of the recipe `best`.

    The number of clusters goes with the data, and the number of epochs has a column of its own.
    Pooled training has no choice of a clustering step.
    """
    best = config_of(evaluated(runs[BEST])[-1]) if BEST in runs else {}
    compared = {"clusterer", "local_epochs", "batch_size"}  # elsewhere, they have columns
    compared -= {"clusterer"} if split_of(row) == "central" else set()
    others = SHOWN_ELSEWHERE - compared | NOT_RESULTS
    config = config_of(row)
    return {n: v for n, v in config.items() if n in best and n not in others and v != best[n]}


def config_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in {**_NOT_IN_ALL, **row["config"]}.items() if n not in _REMOVED}


def sizes_of(row: Mapping[str, Any]) -> list[int]:
    sizes: Any = row["config"]["n_clusters"]
    return sizes if isinstance(sizes, list) else [sizes]


def configuration(row: dict[str, Any]) -> str:
    """Describe a configuration in a few words: method, clusters, local epochs, batches."""
    sizes = sizes_of(row)
    inner = row["config"].get("clusterer_params") or {}
    text = ", ".join([CLUSTERERS[row["method"]].label, *(f"{n} = {v}" for n, v in inner.items())])
    text += f", k = {sizes[0]}"
    text += f" in {len(sizes)} heads" if len(sizes) > 1 else ""
    n_epochs = row["config"]["local_epochs"]
    text += f", {n_epochs} epoch{'s' * (n_epochs > 1)} a round"
    size, momentum = row["config"]["batch_size"], row["config"].get("server_momentum", 0)
    text += "" if size == PAPER_BATCH else f", batches of {size}"
    text += f", server momentum {momentum:g}" if momentum else ""
    targets = row["config"].get("targets", "stored")
    text += "" if targets == "stored" else f", {targets} targets"
    rate = row["config"].get("final_learning_rate", USUAL_FINAL_RATE)
    text += "" if rate == USUAL_FINAL_RATE else f", final rate {rate:g}"
    decay = row["config"].get("weight_decay", USUAL_WEIGHT_DECAY)
    text += "" if decay == USUAL_WEIGHT_DECAY else f", weight decay {decay:g}"
    size = scaled_height(row)
    return text + (f", {size} x {size} pixels" if size else "")


def scaled_height(row: Mapping[str, Any]) -> int | None:
    """Return the height that a run scaled its images to; None if they have their own size."""
    if row["dataset"] not in OWN_SIZES:
        return None
    height: int = row["image_size"][0]
    return None if height == OWN_SIZES[row["dataset"]] else height


def split_of(row: Mapping[str, Any]) -> str:
    """Return the split of a run, as the paper's tables name it."""
    return f"dirichlet({row['alpha']:g})" if "alpha" in row else str(row["split"])


def title_of(row: Mapping[str, Any]) -> str:
    return TITLES.get(split_of(row), split_of(row))


def epochs_of(row: Mapping[str, Any]) -> int:
    """Return the number of epochs that a run has trained when it is evaluated."""
    return int(row["rounds"] * row["config"]["local_epochs"])


def length_of(row: Mapping[str, Any], unit: str) -> str:
    """Return the number of rounds or epochs, of how many if a run ended before its schedule did."""
    each = row["config"]["local_epochs"] if unit == "epochs" else 1
    done, planned = each * row["rounds"], each * row["config"]["n_rounds"]
    return str(planned) if done == planned else f"{done} of {planned}"


def published_cells(dataset: str) -> dict[str, Any]:
    """Return the paper's linear probes on a data set, by method and split."""
    tables: dict[str, Any] = paper_tables()["table3_deepfeca_linear_eval"]["cells"]
    cells: dict[str, Any] = tables[PAPER_DATA[dataset]]
    return cells
