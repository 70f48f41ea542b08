"""The command compare: methods side by side, or what privacy costs, on the user's own data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import exp
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw._typing import Ints
from fedjigsaw.bench.comparison import (
    compare,
    default_columns,
    pool_files,
    standard_scaler,
    without_classes,
)
from fedjigsaw.bench.cost import by_epsilon, check_private, clipped_rows, findings, privacy_cost
from fedjigsaw.bench.simulation import deal_dataset
from fedjigsaw.cli._options import (
    PRIVACY,
    BoundsOption,
    CellsOption,
    Delta,
    Unit,
    make_privacy,
    open_data_file,
    take_bounds,
)
from fedjigsaw.cli._shared import (
    CLUSTERS,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    escape,
    out,
    parse_params,
    print_json,
    split_names,
    track,
    warnings_shown,
)
from fedjigsaw.cli.bench import (
    COLUMNS,
    MethodFlag,
    PictureFlag,
    SeedFlag,
    measured_table,
    print_table,
)
from fedjigsaw.cli.report import check_page
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import IdentifierWarning, ParameterError
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.rows import Row
from fedjigsaw.io.tables import Tally
from fedjigsaw.kernels.scaling import Scaler
from fedjigsaw.methods import DEFAULT
from fedjigsaw.privacy.guarantee import ROW, Privacy
from fedjigsaw.report import pictures
from fedjigsaw.report.latex import latex_table
from fedjigsaw.report.number import number_notes
from fedjigsaw.report.page.view import Table
from fedjigsaw.sites.preparation import scale as scale_rows
from fedjigsaw.sites.preparation import scale_bounds

app = typer.Typer()
RUNS = 5
Epsilons = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="E,E,...",
        help="Show what differential privacy costs instead of comparing methods: cluster without "
        "noise, then so that, with or without any one row, any set of results is at most e^E times "
        "as likely, plus --delta. Nothing leaves this machine, so the noise is seeded (--seed), "
        "and the study can be repeated. Example: --epsilon 0.5,1,2,4",
        rich_help_panel=PRIVACY,
    ),
]
Runs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of runs, each with its own seed and noise. "
        f"Default: {RUNS}. Example: --runs 20",
        rich_help_panel=PRIVACY,
    ),
]


@dataclass(frozen=True)
class Problem:
    """What to cluster.

    Parameters
    ----------
    ids : client of each row.
    columns : names of the columns.
    has_classes : whether true classes are known.
    scaler : the scaler of the columns, if they were scaled.
    n_skipped : rows of the files that were skipped for missing values.
    """

    data: Dataset
    ids: Ints
    columns: Sequence[str]
    k: int | str
    has_classes: bool
    scaler: Scaler | None = None
    n_skipped: int = 0

    @property
    def title(self) -> str:
        n_sites = len(set(self.ids.tolist()))
        rows = describe_rows(len(self.data.X), self.n_skipped)
        return f"{self.data.name}: {n_sites} sites, {rows}, k = {self.k}"

    def shown(self, rows: list[Row]) -> list[Row]:
        """Return the rows, without scores that need classes where these are not known."""
        return rows if self.has_classes else without_classes(rows)


@dataclass(frozen=True)
class Report:
    """What a comparison found: a table, sentences about it, a picture, and values for --json."""

    table: Table
    notes: Sequence[str]
    figure: Any
    content: Mapping[str, Any]


@app.command("compare")
def compare_methods(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Your own data, one CSV, Excel, Parquet, NPY or NPZ file per site. "
            "Example: bern.csv lyon.csv"
        ),
    ] = None,
    k: Annotated[Any, CLUSTERS] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Instead of files: a named data set, split by Dirichlet. Example: --dataset s1"
        ),
    ] = None,
    clients: Annotated[
        int, typer.Option(min=1, help="--dataset: number of clients. Example: --clients 20")
    ] = 10,
    alpha: Annotated[
        float,
        typer.Option(help="--dataset: the smaller, the more skewed. Example: --alpha 0.1"),
    ] = 0.3,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Files: the columns to use, separated by commas. Default: all but those that look "
            "like identifiers. Example: --columns age,dose"
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Files: a column with true classes, to measure purity and nmi. Default: none. "
            "Example: --label diagnosis"
        ),
    ] = None,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="Files: give every column mean 0 and standard deviation 1. Default: as it is.",
        ),
    ] = False,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Files: skip rows with missing values, and print how many there are. Default: a "
            "missing value is an error.",
        ),
    ] = False,
    method: MethodFlag = None,
    param: ParamFlag = None,
    seed: SeedFlag = 0,
    epsilon: Epsilons = None,
    delta: Delta = None,
    bounds: BoundsOption = None,
    unit: Unit = None,
    cells: CellsOption = None,
    runs: Runs = None,
    picture: PictureFlag = Path("compare.png"),
    html: Annotated[
        Path | None,
        typer.Option(
            help="Also write a page for a browser, which needs no network and no script. "
            "Example: --html compare.html"
        ),
    ] = None,
    latex: Annotated[
        Path | None,
        typer.Option(
            help="Also write the table for LaTeX, with the package booktabs. "
            "Example: --latex compare.tex"
        ),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Run all methods on your own files, or on a named data set: one table, one picture.

    It reads all files in one place, which no federation could: use data that you may pool, to find
    out which method suits data like yours. Objectives are relative to the best one. With --epsilon,
    it shows instead what differential privacy costs on these data.

    Example: fedjigsaw compare bern.csv lyon.parquet oslo.csv --columns age,dose --scale -k 4
    """
    check_outputs(picture, html, latex, force=force, inputs=files or [])
    pictures.check_format(picture.suffix)
    if html is not None:
        check_page(html)
    if bool(files) == bool(dataset):
        raise ParameterError("Give either files, one per site, or --dataset NAME.")
    if files and k is None:
        raise ParameterError(
            "Missing option -k: the number of clusters, e.g. -k 4, or -k auto (jigsaw)."
        )
    epsilons = _parse_epsilons(epsilon)
    first = epsilons[0] if epsilons else None
    take_bounds(first, bounds, delta=delta, unit=unit, cells=cells, runs=runs)
    tally = Tally()
    if files:
        names = split_names(columns)
        with warnings_shown(IdentifierWarning):
            names = default_columns(files[0], label) if names is None else names
        data, ids = pool_files(
            files,
            names,
            label=label,
            drop_missing=drop_missing,
            tally=tally,
            opener=open_data_file,
        )
    else:
        data, ids = deal_dataset(str(dataset), clients, alpha=alpha, seed=seed)
        names = [f"x{j}" for j in range(data.X.shape[1])]
    scaler = standard_scaler(data.X, names) if files and scale else None
    made = [make_privacy(names, each, delta, bounds, unit, cells) for each in epsilons]
    promises = [promise for promise in made if promise is not None]
    data = replace(data, X=scale_rows(data.X, scaler))
    known = not files or label is not None
    problem = Problem(data, ids, names, k or data.n_clusters, known, scaler, tally.skipped)
    options: dict[str, Any] = {"params": parse_params(param), "seed": seed}
    if promises:
        report = _report_costs(problem, promises, method, runs or RUNS, options)
    else:
        report = _report_methods(problem, method, options)
    write_whole(picture, pictures.render(report.figure, picture.suffix), replace=force)
    if html is not None:
        write_whole(html, _page(report, problem), replace=force)
    if latex is not None:
        write_whole(latex, f"{latex_table(report.table)}\n".encode(), replace=force)
    if as_json:
        print_json({**report.content, "skipped": tally.skipped, "picture": str(picture)})
        return
    print_table(report.table)
    for line in report.notes:
        out.print(escape(line))
    for what, path in (("Picture", picture), ("Page", html), ("LaTeX", latex)):
        if path is not None:
            out.print(f"{what}: {escape(str(path))}")


def _page(report: Report, problem: Problem) -> bytes:
    """Return the comparison as a page for a browser."""
    from fedjigsaw.report.page.comparison import best_in_words, comparison_page
    from fedjigsaw.report.page.render import render_page

    facts = {
        "methods": len({row["method"] for row in report.content["rows"]}),
        "rows": len(problem.data.X),
        "sites": len(set(problem.ids.tolist())),
        "columns": problem.data.X.shape[1],
    }
    today = datetime.now(UTC).date()
    notes = [*best_in_words(report.content["rows"]), *report.notes]
    page = comparison_page(report.table, notes, report.figure, facts=facts, today=today)
    return render_page(page)


def _report_methods(
    problem: Problem, methods: Sequence[str] | None, options: Mapping[str, Any]
) -> Report:
    rows = compare(
        problem.data,
        problem.ids,
        problem.k,
        methods=methods,
        columns=problem.columns,
        track=partial(track, label="Methods"),
        **options,
    )
    rows = problem.shown(rows)
    notes = list(number_notes(rows))
    if problem.k == "auto" and not methods:
        notes.append("With -k auto, only methods that find the number of clusters take part.")
    table = measured_table([[row] for row in rows], problem.title)
    return Report(table, notes, pictures.comparison(rows), {"rows": rows})


def _report_costs(
    problem: Problem,
    promises: Sequence[Privacy],
    methods: Sequence[str] | None,
    runs: int,
    options: Mapping[str, Any],
) -> Report:
    for name in methods or []:
        check_private(name)
    rows = privacy_cost(
        problem.data,
        problem.ids,
        problem.k,
        [scale_bounds(promise, problem.scaler) for promise in promises],
        method=methods[0] if methods else DEFAULT,
        runs=runs,
        track=partial(track, label="Runs"),
        **options,
    )
    rows, promise = problem.shown(rows), promises[0]
    groups = by_epsilon(rows)
    lines = findings(rows) + _remarks(problem, promise)
    stated = {name: value for name, value in promise.to_dict().items() if name != "epsilon"}
    content = {"privacy": stated, "rows": rows, "by_epsilon": groups, "findings": lines}

    count = "1 run" if runs == 1 else f"{runs} runs"
    title = f"{problem.title}, {count}, delta = {promise.delta:g}, {promise.cells} cells"
    return Report(_cost_table(groups, title), lines, pictures.privacy_cost(rows), content)


def _remarks(problem: Problem, promise: Privacy) -> list[str]:
    """Say what the numbers of a study of costs do not show by themselves."""
    row = promise.unit == ROW
    who = "With or without any one row" if row else "Whatever the rows of any one site are"
    bound = f"at most e^epsilon times as likely, plus {promise.delta:g}"
    lines = [f"{who}, any set of outputs is {bound}."]
    X = problem.data.X
    clipped = clipped_rows(X, scale_bounds(promise, problem.scaler))
    if clipped:
        lines.append(
            f"{clipped:,} of {len(X):,} rows lie outside the bounds and were clipped. If there are "
            "many, the bounds are too narrow."
        )
    if problem.scaler is not None:
        lines.append("Columns were scaled without noise: what a private scaler costs is not shown.")
    if problem.k == "auto":
        lines.append("With -k auto, objectives may be those of different numbers of clusters.")
    return lines


def _cost_table(groups: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Return a table with one line per epsilon: means over runs, with the range of the cost."""
    shown = [name for name in COLUMNS if name in groups[0] and name not in ("ratio", "seconds")]
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
    return f"{epsilon:g}", f"{exp(epsilon):.3g}"


def _parse_epsilons(text: str | None) -> list[float]:
    """Parse numbers that are separated by commas."""
    try:
        return [] if text is None else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ParameterError(
            f"--epsilon takes numbers separated by commas, such as 0.5,1,2,4; got {text!r}."
        ) from error
