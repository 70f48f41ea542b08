"""A study: the cells of one table or figure, and the tasks that compute its rows."""

import json
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

from fedjigsaw.bench.cells import BACKENDS, Cell
from fedjigsaw.bench.measures import MEASURES
from fedjigsaw.io.rows import Row

# measured number -> mean, and standard deviation if there is one
Published = Mapping[str, tuple[float, float | None]]


class OwnCell(Protocol):
    """A cell that computes its row itself: a dataclass of plain values, one of which is a seed."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def seed(self) -> int: ...

    def as_row(self) -> Row:
        """Return its values, as the beginning of its row."""
        ...

    def lacks(self) -> str:
        """Say which package is missing and how to install it; empty if the cell can be computed."""
        ...

    def compute(self) -> Row:
        """Return the row."""
        ...


class PlainCell:
    """What cells that need no other package have in common: their values begin their row."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def as_row(self) -> Row:
        return asdict(self)

    def lacks(self) -> str:
        return ""


@dataclass(frozen=True)
class Plan:
    """One cell of a table: what to run for each seed, and what the paper published for it."""

    name: str
    cell: Cell | OwnCell
    published: Published = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Parameters
    ----------
    name : its name on the command line, and of its file of rows.
    about : one line about it.
    numbers : measured numbers that its tables show; none if it has no table of its own.
    layout : what the parts of its cells' names, split at "/", are: "table", "column" or "line".
    corner : head of the first column.
    runs : number of seeds; as many as in the paper, where it is in the paper.
    first_seed : first seed, if it continues another study.
    extra : further measures in its rows, of :data:`fedjigsaw.bench.measures.MEASURES`.
    backend : name of the k-means backend; None is the default of the machine.
    page : the page in docs/ that shows its tables.
    """

    name: str
    about: str
    plans: tuple[Plan, ...]
    numbers: tuple[str, ...] = ("l2",)
    layout: tuple[str, ...] = ("table", "column", "line")
    corner: str = "method"
    runs: int = 10
    first_seed: int = 0
    extra: tuple[str, ...] = ()
    backend: str | None = None
    page: str = "reproduction"

    def __post_init__(self) -> None:
        assert all(name in MEASURES for name in self.extra)
        assert self.backend is None or self.backend in BACKENDS


@dataclass(frozen=True)
class Task:
    """One cell with one seed: what a worker computes into one row."""

    study: str
    name: str
    cell: Cell | OwnCell
    extra: tuple[str, ...] = ()
    backend: str | None = None

    @property
    def key(self) -> str:
        """Study, cell and seed: identifies the task and its row."""
        return f"{self.study}/{self.name}/{self.cell.seed}"

    def made(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row was computed from the cell and with the backend of this task."""
        wanted = json.dumps(self.cell.as_row(), sort_keys=True)
        found = {f.name: row[f.name] for f in fields(self.cell) if f.name in row}
        same_backend = self.backend is None or row.get("backend") == self.backend
        return same_backend and json.dumps(found, sort_keys=True) == wanted

    def lacks(self) -> str:
        """Say which package is missing and how to install it; empty if nothing is."""
        return "" if isinstance(self.cell, Cell) else self.cell.lacks()


def tasks_of(study: Study, runs: int | None = None) -> list[Task]:
    """Return all tasks of a study, seed by seed: an interrupted run has complete tables first."""
    return [
        Task(study.name, plan.name, replace(plan.cell, seed=seed), study.extra, study.backend)
        for seed in range(study.first_seed, runs or study.runs)
        for plan in study.plans
    ]
