"""Our numbers beside the paper's, with a verdict on each; tables of them in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedjigsaw.bench.markdown import markdown_table
from fedjigsaw.bench.paper import SPLIT_TITLES
from fedjigsaw.bench.study import Plan, Study
from fedjigsaw.io.rows import Row


@dataclass(frozen=True)
class Number:
    """How the paper shows a measured number.

    Parameters
    ----------
    factor, digits : unit and precision of the paper's tables.
    tolerance : how far a mean may lie from one that was published without standard deviation;
        a share of that mean if `relative`.
    """

    title: str
    factor: float = 1.0
    digits: int = 2
    smaller_is_better: bool = False
    tolerance: float = 0.03
    relative: bool = False


NUMBERS = {
    "l2": Number("center distance, l2 / 1e4", 1e-4, 1, smaller_is_better=True),
    "mse": Number(
        "mean squared error / 1e6", 1e-6, 1, smaller_is_better=True, tolerance=0.1, relative=True
    ),
    "purity": Number("purity"),
    "nmi": Number("NMI"),
    "inertia": Number("objective / 1e12", 1e-12, smaller_is_better=True),
    "honest_ratio": Number(
        "objective of the honest rows over that of k-means on them alone", smaller_is_better=True
    ),
    "ratio": Number(
        "objective over that of k-means on all rows without privacy",
        digits=3,
        smaller_is_better=True,
    ),
    "purity_lloyd": Number("purity after one Lloyd step"),
    "nmi_lloyd": Number("NMI after one Lloyd step"),
}
BETTER, WITHIN, WORSE = "▲", "✓", "▼"
WORDS = {BETTER: "better", WITHIN: "within one std", WORSE: "worse"}


def verdict(number: str, mean: float, published: tuple[float, float | None]) -> str:
    """Judge our mean: better than the paper's, within one standard deviation, or worse.

    Examples
    --------
    >>> verdict("l2", 0.9, (1.2, 0.2)), verdict("l2", 1.3, (1.2, 0.2))
    ('▲', '✓')
    >>> verdict("nmi", 0.5, (0.6, None))
    '▼'
    """
    kind = NUMBERS[number]
    theirs, std = published
    reach = std if std is not None else kind.tolerance * (theirs if kind.relative else 1)
    if abs(mean - theirs) <= reach + 1e-9:
        return WITHIN
    return BETTER if (mean < theirs) == kind.smaller_is_better else WORSE


@dataclass(frozen=True)
class Outcome:
    """One number of one cell: ours over seeds, the paper's, and the verdict."""

    plan: Plan
    number: str
    mean: float
    std: float
    runs: int

    @property
    def published(self) -> tuple[float, float | None] | None:
        return self.plan.published.get(self.number)

    @property
    def verdict(self) -> str | None:
        if self.published is None:
            return None
        return verdict(self.number, self.mean, self.published)

    def as_row(self) -> Row:
        """Return the outcome as JSON values."""
        return {
            "cell": self.plan.name, "number": self.number, "mean": self.mean, "std": self.std,
            "runs": self.runs, "paper": self.published, "verdict": self.verdict,
        }  # fmt: skip

    @property
    def text(self) -> str:
        """Ours, the paper's in brackets, and the verdict."""
        digits = NUMBERS[self.number].digits
        ours = f"{self.mean:.{digits}f}" if self.mean < 1e5 else f"{self.mean:.0e}"
        if self.published is None or self.published[1] is not None:
            ours += f" ± {self.std:.{digits}f}" if self.std < 1e5 else f" ± {self.std:.0e}"
        if self.published is None:
            return ours
        mean, std = self.published
        theirs = f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")
        return f"{ours} ({theirs}) {self.verdict}"


def outcomes(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Outcome]:
    """Return (cell, number) -> our mean over the rows beside the paper's number."""
    by_cell: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], []).append(row)
    found = {}
    for plan in study.plans:
        group = by_cell.get(plan.name, [])
        for number in study.numbers:
            values = [row[number] * NUMBERS[number].factor for row in group if number in row]
            if not values:
                continue
            numbers = float(np.mean(values)), float(np.std(values)), len(values)
            found[plan.name, number] = Outcome(plan, number, *numbers)
    return found


def tables(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the Markdown tables of a study by title, one for each number and data set."""
    found = outcomes(study, rows)
    made: dict[str, str] = {}
    for number in study.numbers:
        cells: dict[str, dict[str, dict[str, str]]] = {}  # title -> line -> column -> text
        for plan in study.plans:
            if (plan.name, number) in found:
                where = dict(zip(study.layout, plan.name.split("/"), strict=True))
                title = ", ".join(filter(None, [where.get("table"), NUMBERS[number].title]))
                column = where.get("column", "ours (paper)")
                line = cells.setdefault(title, {}).setdefault(where["line"], {})
                line[column] = found[plan.name, number].text
        made |= {title: _table(study.corner, lines) for title, lines in cells.items()}
    return made


def _table(corner: str, lines: Mapping[str, Mapping[str, str]]) -> str:
    """Write an aligned table; a value for any split goes to the first column."""
    columns = list(dict.fromkeys(c for line in lines.values() for c in line if c != "any"))
    head = [corner, *(SPLIT_TITLES.get(column, column) for column in columns)]
    grid = []
    for name, line in lines.items():
        cells = [line.get(column, "") for column in columns]
        grid.append([name, line.get("any", cells[0]), *cells[1:]])
    return markdown_table(head, grid, aligned=True)


def count_verdicts(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the numbers that are better, within one standard deviation, or worse."""
    verdicts = [found.verdict for found in outcomes(study, rows).values()]
    return {
        word: verdicts.count(sign)
        for word, sign in (("better", BETTER), ("within", WITHIN), ("worse", WORSE))
    }
