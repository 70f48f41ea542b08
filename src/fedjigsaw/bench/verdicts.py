"""Ours beside the paper's: rows -> tables in Markdown, with a verdict in every cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedjigsaw.bench.studies import Plan, Study


@dataclass(frozen=True)
class Number:
    """A measured number as the paper shows it."""

    title: str
    factor: float = 1.0
    digits: int = 2
    smaller_is_better: bool = False
    tolerance: float = 0.03  # for a mean that was published without a standard deviation
    relative: bool = False


NUMBERS = {
    "l2": Number("center distance, l2 / 1e4", 1e-4, 1, smaller_is_better=True),
    "mse": Number(
        "mean squared error / 1e6", 1e-6, 1, smaller_is_better=True, tolerance=0.1, relative=True
    ),
    "purity": Number("purity"),
    "nmi": Number("NMI"),
    "inertia": Number("objective / 1e12", 1e-12, smaller_is_better=True),
    "purity_lloyd": Number("purity after one Lloyd step"),
    "nmi_lloyd": Number("NMI after one Lloyd step"),
}
BETTER, WITHIN, WORSE = "▲", "✓", "▼"
WORDS = {BETTER: "better", WITHIN: "within one std", WORSE: "worse"}
SPLITS = {
    "iid": "IID",
    "any": "any split",
    **{f"dirichlet({alpha})": f"Dirichlet({alpha})" for alpha in ("1.0", "0.3", "0.1")},
}


def verdict(number: str, mean: float, published: tuple[float, float | None]) -> str:
    """Our mean beside the paper's: better, within one standard deviation, or worse.

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
class Compared:
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

    @property
    def text(self) -> str:
        digits = NUMBERS[self.number].digits
        ours = f"{self.mean:.{digits}f}"
        if self.published is None or self.published[1] is not None:
            ours += f" ± {self.std:.{digits}f}"
        if self.published is None:
            return ours
        mean, std = self.published
        theirs = f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")
        return f"{ours} ({theirs}) {self.verdict}"


def compare(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Compared]:
    """(cell, number) -> our mean over the rows beside the paper's number."""
    by_cell: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_cell.setdefault(row["cell"], []).append(row)
    found = {}
    for plan in study.plans:
        group = by_cell.get(plan.name, [])
        for number in study.numbers if group else ():
            values = [row[number] * NUMBERS[number].factor for row in group]
            numbers = float(np.mean(values)), float(np.std(values)), len(values)
            found[plan.name, number] = Compared(plan, number, *numbers)
    return found


def tables(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Markdown tables of a study by title: one for each number and, where it has any, data set."""
    found = compare(study, rows)
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
        made |= {title: _markdown(study.corner, lines) for title, lines in cells.items()}
    return made


def _markdown(corner: str, lines: Mapping[str, Mapping[str, str]]) -> str:
    """An aligned table; a value that holds for any split stands in the first column."""
    columns = list(dict.fromkeys(c for line in lines.values() for c in line if c != "any"))
    grid = [[corner, *(SPLITS.get(column, column) for column in columns)]]
    for name, line in lines.items():
        grid.append([name, *(line.get(column, "") for column in columns)])
        if "any" in line:
            grid[-1][1] = line["any"]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    text = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in grid
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def count_verdicts(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many numbers came out better, within one standard deviation, or worse."""
    verdicts = [found.verdict for found in compare(study, rows).values()]
    return {
        word: verdicts.count(sign)
        for word, sign in (("better", BETTER), ("within", WITHIN), ("worse", WORSE))
    }
