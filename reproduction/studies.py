"""The studies of studies.toml, their keys, and the rows of their finished keys.

A key is a study, the settings of one of its cells, and a seed. A finished key is one JSON line in
``results/STUDY.jsonl``: the name of the cell, settings, seed, measures, version, commit, backend.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
MISSING = "–"


@dataclass(frozen=True)
class Plan:
    """One cell of a table: what to compute for each seed, and what the paper published.

    Parameters
    ----------
    labels : its place on every axis.
    settings : what its experiment is told.
    published : measure -> mean and standard deviation, if there is one.
    """

    labels: tuple[str, ...]
    settings: Mapping[str, Any]
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "/".join(self.labels)


@dataclass(frozen=True)
class Study:
    """One study: its cells, its seeds and what it says of its tables.

    Parameters
    ----------
    about : one line about it.
    run : module and function in experiments/ that computes a key.
    measures : further measures of :mod:`reproduction.experiments.measures`.
    numbers : measures that its tables show; none if it has tables of its own, or none.
    layout : what each label of a cell is: "table", "column" or "line".
    """

    name: str
    about: str
    part: str
    plans: tuple[Plan, ...]
    seeds: tuple[int, ...]
    run: str = "cells:fit"
    measures: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    layout: tuple[str, ...] = ("table", "column", "line")
    corner: str = "method"
    note: str = ""

    def tasks(self, n_seeds: int | None = None) -> list["Task"]:
        """Return all keys, seed by seed: an interrupted run has complete tables first."""
        return [Task(self, plan, seed) for seed in self.seeds[:n_seeds] for plan in self.plans]

    def finished(self, folder: Path, n_seeds: int | None = None) -> list[Row]:
        """Return the rows of its finished keys, in the order of the keys.

        A row that was computed with other settings does not count.
        """
        rows = {(row.get("cell"), row.get("seed")): row for row in read(folder, self.name)}
        found = [(task, rows.get((task.plan.name, task.seed))) for task in self.tasks(n_seeds)]
        return [row for task, row in found if row is not None and task.made(row)]


@dataclass(frozen=True)
class Task:
    """One key: what a worker computes into one row."""

    study: Study
    plan: Plan
    seed: int

    def made(self, row: Row) -> bool:
        """Return whether a row was computed with these settings."""
        return all(row.get(name) == value for name, value in self.plan.settings.items())


def read(folder: Path, name: str) -> list[Row]:
    """Read the rows of a file; it may not be there, or end in a line that was cut off."""
    path = folder / f"{name}.jsonl"
    lines = path.read_text("utf-8").split("\n") if path.exists() else [""]
    return [json.loads(line) for line in lines[:-1]]


def write(folder: Path, name: str, rows: Iterable[Row]) -> None:
    """Write rows in place of those that are in a file; an interrupted write leaves the old file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f".{name}.tmp"
    written.write_text("".join(map(line, rows)), "utf-8")
    written.replace(folder / f"{name}.jsonl")


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    written = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return "\n".join([written[0], "|---" * len(head) + "|", *written[1:]])


def line(row: Row) -> str:
    """Return a row as a line of its file."""
    return json.dumps(_rounded(row), separators=(",", ":")) + "\n"


def _rounded(value: Any) -> Any:
    """Round numbers to six digits: more than any table shows."""
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


@cache
def definitions() -> dict[str, Any]:
    """Return what studies.toml says."""
    return tomllib.loads((HERE / "studies.toml").read_text("utf-8"))


@cache
def paper() -> dict[str, Any]:
    """Return every number of the paper's tables."""
    found: dict[str, Any] = json.loads((HERE / "paper.json").read_text("utf-8"))
    return found


@cache
def studies() -> dict[str, Study]:
    """Return all studies by name."""
    return {name: _study(name, dict(told)) for name, told in definitions()["study"].items()}


def _study(name: str, told: dict[str, Any]) -> Study:
    axes = {**definitions()["axes"], **told.pop("axes", {})}
    common, published = told.pop("settings", {}), told.pop("published", {})
    without, first = told.pop("without", []), told.pop("first_seed", 0)
    plans = [
        _plan(places, common, published)
        for grid in told.pop("grids")
        for places in product(*(_values(axes[axis]) for axis in grid))
    ]
    kept = [p for p in plans if not any(fnmatchcase(p.name, pattern) for pattern in without)]
    seeds = tuple(range(first, told.pop("seeds")))
    told = {key: tuple(v) if isinstance(v, list) else v for key, v in told.items()}
    return Study(name, plans=tuple(kept), seeds=seeds, **told)


def _values(axis: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return labels and settings of an axis, which may be a list of values of one setting."""
    if "values" not in axis:
        return list(axis.items())
    return [(str(value), {axis["setting"]: value}) for value in axis["values"]]


def _plan(
    places: Sequence[tuple[str, Mapping[str, Any]]],
    common: Mapping[str, Any],
    published: Mapping[str, str],
) -> Plan:
    """Merge the settings of a cell; "$name" stands for a setting, "_name" is no setting itself."""
    labels = tuple(label for label, _ in places)
    merged: dict[str, Any] = {}
    for settings in (common, *(settings for _, settings in places)):
        params = {**merged.get("params", {}), **settings.get("params", {})}
        merged |= {**settings, **({"params": params} if params else {})}
    if "params" in merged:
        merged["params"] = {n: _meant(v, merged) for n, v in merged["params"].items()}
    settings = {n: _meant(v, merged) for n, v in merged.items() if not n.startswith("_")}
    found = {n: _published(path.format(*labels, **merged)) for n, path in published.items()}
    return Plan(labels, settings, {n: value for n, value in found.items() if value})


def _meant(value: Any, merged: Mapping[str, Any]) -> Any:
    while isinstance(value, str) and value.startswith("$"):
        value = merged[value.removeprefix("$")]
    return value


def _published(path: str) -> tuple[float, float | None] | None:
    value: Any = paper()
    for name in path.split("/"):
        if name not in value:
            return None
        value = value[name]
    if isinstance(value, dict):
        return value["mean"], value["std"]
    return (value[0], value[1]) if isinstance(value, list) else (value, None)
