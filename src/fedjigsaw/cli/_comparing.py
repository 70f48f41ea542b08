"""What the command compare reports: methods side by side, or what privacy costs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table as RichTable

from fedjigsaw.choice.findings import DOUBTFUL
from fedjigsaw.cli._config import was_given
from fedjigsaw.cli._shared import err, escape, out, track
from fedjigsaw.comparison import Comparison
from fedjigsaw.comparison.comparing import run
from fedjigsaw.comparison.contenders import named, params_by_method, supporting
from fedjigsaw.comparison.cost import (
    by_epsilon,
    check_private,
    clipped_rows,
    findings,
    privacy_cost,
)
from fedjigsaw.comparison.measures import without_classes
from fedjigsaw.comparison.problems import Problem
from fedjigsaw.comparison.tables import NUMBERS, rows_as_csv
from fedjigsaw.errors import ExtraError, ParameterError, counted
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.rows import Row
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.methods import DEFAULT
from fedjigsaw.privacy.guarantee import ROW, Privacy, factor_of
from fedjigsaw.report import pictures
from fedjigsaw.report.latex import escaped, latex_table
from fedjigsaw.report.number import number_notes
from fedjigsaw.report.page.view import Table
from fedjigsaw.sites.preparation import scale_bounds

COST_COLUMNS = (
    "method", "epsilon", "seed", "ratio", "agreement", "purity", "nmi", "ari", "inertia",
    "bytes_per_client", "seconds", "n_found", "noisy_sites", "failed",
)  # fmt: skip
COLUMNS = {
    name: NUMBERS[name]
    for name in ("n_found", "confidence", "l2", "purity", "nmi", "bytes_per_client", "seconds")
}
PictureFlag = Annotated[
    Path,
    typer.Option("--out", "-o", help="The picture to write: PNG, SVG or PDF. Example: -o all.svg"),
]
SeedFlag = Annotated[
    int,
    typer.Option(min=0, help="Seed of the split and of all random choices. Example: --seed 7"),
]


def drawable(context: typer.Context, picture: Path) -> Path | None:
    """Check a picture's format; return None, and say so, if it needs an extra and is not asked for.

    A command that draws by default works without its picture; one that was told to draw does not.
    """
    try:
        pictures.check_format(picture.suffix)
    except ExtraError as error:
        if was_given(context, "picture"):
            raise
        err.print(f"No picture: {escape(str(error))}")
        return None
    return picture


def print_table(table: Table) -> None:
    """Print a table with its first column at the left, all others at the right."""
    shown = RichTable(title=escape(table.caption), title_justify="left", collapse_padding=True)
    for place, heading in enumerate(table.headings):
        justify: Literal["left", "right"] = "right" if table.is_number(place) else "left"
        shown.add_column(heading, justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    out.print(shown)


@dataclass(frozen=True)
class Task:
    """What to cluster, and how often.

    Parameters
    ----------
    k : number of clusters, or "auto".
    seeds : one for each run.
    params : parameters of methods; each goes to all methods that have it.
    scaler : the scaler of the columns, if they were scaled.
    n_skipped : rows of the files that were skipped for missing values.
    caption : LaTeX code in place of the caption of the table.
    """

    problem: Problem
    k: int | str
    seeds: Sequence[int]
    params: Mapping[str, Any]
    scaler: Scaler | None = None
    n_skipped: int = 0
    caption: str | None = None

    @property
    def n_sites(self) -> int:
        return len(set(self.problem.clients(self.seeds[0]).tolist()))

    @property
    def title(self) -> str:
        rows = describe_rows(len(self.problem.data.X), self.n_skipped)
        split = f" ({self.problem.split})" if self.problem.split else ""
        who = counted(self.n_sites, "site")
        return f"{self.problem.data.name}: {who}{split}, {rows}, k = {self.k}"


@dataclass(frozen=True)
class Report:
    """What was found: a table, sentences about it, a picture, values for --json, and files."""

    table: Table
    notes: Sequence[str]
    draw: Callable[[], Any]
    content: Mapping[str, Any]
    latex: str
    csv: str


def report_methods(task: Task, methods: Sequence[str] | None) -> Report:
    """Compare methods."""
    own = params_by_method(methods or supporting(task.k), task.params, task.k)
    chosen = named(own, task.k)
    follow = partial(track, label="Methods" if len(task.seeds) == 1 else "Runs")
    found = run(chosen, task.problem, task.seeds, track=follow, title=task.title)
    marked, content = found.table(), _content(found)
    shown = marked.with_marks()
    caption = f"{shown.caption} (k-means by {found.rows[0]['backend']})"
    notes = [*marked.all_notes("*"), *_about_k(found, content["rows"])]
    if task.k == "auto" and not methods:
        notes.append("With -k auto, only methods that find the number of clusters take part.")
    return Report(
        replace(shown, caption=caption),
        notes,
        found.plot,
        content,
        marked.as_latex(escaped(caption) if task.caption is None else task.caption),
        found.to_csv(),
    )


def best_in_words(found: Comparison) -> list[str]:
    """Say which method comes closest to pooled k-means without pooling rows, and what it sends."""
    apart = [contender.label for contender in found.competitors() if not contender.pools_data]
    numbers = {label: found.means()[label] for label in apart}
    ratios = {m: own["objective_ratio"]["mean"] for m, own in numbers.items()}
    known = {label: ratio for label, ratio in ratios.items() if ratio is not None}
    if not known:
        return []
    best = min(known, key=known.__getitem__)
    return [
        f"Of the methods that leave rows where they are, {best} does best: its objective is "
        f"{known[best]:.3f} times that of k-means on all rows in one place, and each site sends "
        f"{numbers[best]['bytes_per_client']['mean']:,.0f} bytes."
    ]


def _content(found: Comparison) -> dict[str, Any]:
    """Return all values for --json, with the names of methods in place of their labels."""
    names = {contender.label: contender.name for contender in found.contenders}
    significance = {
        number: {
            "best": [names[label] for label in verdict.best],
            "p_values": {names[label]: p for label, p in (verdict.p_values or {}).items()},
        }
        for number, verdict in found.verdicts().items()
    }
    return {
        "rows": [{**row, "method": names[row["method"]]} for row in found.rows],
        "summary": {names[label]: own for label, own in found.means().items()},
        "significance": significance,
        "findings": best_in_words(found),
    }


def _about_k(found: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    """Say how sure the number of clusters is, where methods found it."""
    if len(found.seeds) == 1:
        yield from number_notes(rows)
        return
    for label in found.methods:
        own = [row for row in found.rows if row["method"] == label]
        unsure = sum(row.get("confidence", 1.0) < DOUBTFUL for row in own)
        if unsure:
            yield (
                f"{label}: the number of clusters is in doubt (confidence below {DOUBTFUL:g}) in "
                f"{unsure} of {len(own)} runs."
            )


# ------------------------------------------------------------------------------ what privacy costs


def report_costs(task: Task, promises: Sequence[Privacy], methods: Sequence[str] | None) -> Report:
    """Compare results with and without privacy."""
    for name in methods or []:
        check_private(name)
    rows = privacy_cost(
        task.problem.data,
        task.problem.clients(task.seeds[0]),
        task.k,
        [scale_bounds(promise, task.scaler) for promise in promises],
        method=methods[0] if methods else DEFAULT,
        params=task.params,
        runs=len(task.seeds),
        seed=task.seeds[0],
        track=partial(track, label="Runs"),
    )
    rows, promise = rows if task.problem.has_classes else without_classes(rows), promises[0]
    groups = by_epsilon(rows)
    lines = findings(rows) + _remarks(task, promise)
    differ = ("epsilon", "cells")  # from row to row
    stated = {name: value for name, value in promise.to_dict().items() if name not in differ}
    content = {"privacy": stated, "rows": rows, "by_epsilon": groups, "findings": lines}
    count = counted(len(task.seeds), "run")
    cells = " or ".join(sorted({row["cells"] for row in rows if row["epsilon"] is not None}))
    title = f"{task.title}, {count}, delta = {promise.delta:g}, {cells} cells"
    table = _cost_table(groups, title)
    draw, latex = partial(pictures.privacy_cost, rows), latex_table(table, caption=task.caption)
    return Report(table, lines, draw, content, latex, _cost_csv(rows))


def parse_epsilons(text: str | None) -> list[float]:
    """Parse numbers that are separated by commas."""
    try:
        return [] if text is None else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ParameterError(
            f"--epsilon takes numbers separated by commas, such as 0.5,1,2,4; got {text!r}."
        ) from error


def _cost_csv(rows: Sequence[Row]) -> str:
    return rows_as_csv(rows, [name for name in COST_COLUMNS if any(name in row for row in rows)])


def _remarks(task: Task, promise: Privacy) -> list[str]:
    """Say what the numbers of a study of costs do not show by themselves."""
    row = promise.unit == ROW
    who = "With or without any one row" if row else "Whatever the rows of any one site are"
    bound = f"at most e^epsilon times as likely, plus {promise.delta:g}"
    lines = [f"{who}, any set of outputs is {bound}."]
    X = task.problem.data.X
    clipped = clipped_rows(X, scale_bounds(promise, task.scaler))
    if clipped:
        lines.append(
            f"{clipped:,} of {len(X):,} rows lie outside the bounds and were clipped. If there are "
            "many, the bounds are too narrow."
        )
    if task.scaler is not None:
        lines.append("Columns were scaled without noise: what a private scaler costs is not shown.")
    if task.k == "auto":
        lines.append("With -k auto, objectives may be those of different numbers of clusters.")
    return lines


def _cost_table(groups: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Return a table with one line per epsilon: means over runs, with the range of the cost."""
    shown = [name for name in COLUMNS if name in groups[0] and name != "seconds"]
    titles = ("epsilon", "e^epsilon", "objective / without privacy", "agreement")
    headings = (*titles, *(COLUMNS[name][0] for name in shown))
    lines = []
    for group in groups:
        plain = group["epsilon"] is None
        first = ("without privacy", "") if plain else _both(group["epsilon"])
        if "ratio" not in group:
            empty = [""] * (len(headings) - 3)
            lines.append((*first, "no clusters found", *empty))
            continue
        ratio = "{mean:.3f} ({least:.3f} to {greatest:.3f})".format(**group["ratio"])
        values = [COLUMNS[n][1].format(group[n]["mean"] * COLUMNS[n][2]) for n in shown]
        agreement = f"{group['agreement']['mean']:.3f}"
        lines.append((*first, "1" if plain else ratio, "1" if plain else agreement, *values))
    return Table(title, headings, tuple(lines))


def _both(epsilon: float) -> tuple[str, str]:
    return f"{epsilon:g}", factor_of(epsilon)
