"""The command compare: methods side by side, or what privacy costs, on the user's own data."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw import partition
from fedjigsaw.cli._comparing import (
    PictureFlag,
    SeedFlag,
    about_k,
    about_privacy,
    chosen_methods,
    costs_in_words,
    drawable,
    parse_epsilons,
    print_table,
    values_of,
)
from fedjigsaw.cli._options import (
    PRIVACY,
    BoundsOption,
    CellsOption,
    Decimal,
    Delta,
    Unit,
    make_privacy,
    open_data_file,
    take_bounds,
)
from fedjigsaw.cli._plugins import PluginFlag
from fedjigsaw.cli._shared import (
    CLUSTERS,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    choice,
    compiling_told,
    escape,
    out,
    parse_params,
    print_json,
    split_names,
    track,
    warnings_shown,
)
from fedjigsaw.comparison.comparing import run
from fedjigsaw.comparison.files import default_columns, pool_files, standard_scaler
from fedjigsaw.comparison.problems import Problem, deal_dataset, fixed
from fedjigsaw.errors import ParameterError, counted
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.tables import Tally
from fedjigsaw.report import pictures
from fedjigsaw.report.latex import escaped
from fedjigsaw.sites.preparation import scale as scale_rows
from fedjigsaw.sites.preparation import scale_bounds

app = typer.Typer()
RUNS = 5  # with --epsilon
SPLIT = "dirichlet"  # of --dataset
NO_NUMBER = "Missing option -k: the number of clusters, e.g. -k 4, or -k auto (jigsaw)."
Epsilons = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="E,E,...",
        help="Show what differential privacy costs instead of comparing methods: jigsaw without "
        "noise, and so that, with or without any one row, any set of results is at most e^E times "
        "as likely, plus --delta. Nothing leaves this machine, so the noise is seeded (--seed), "
        "and the study can be repeated. Example: --epsilon 0.5,1,2,4",
        rich_help_panel=PRIVACY,
    ),
]
Runs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of runs, each with its own seed (SEED + r); with --dataset, also with its own "
        "split, and with --epsilon, with its own noise. The table then has mean and standard "
        "deviation, and says what is significantly worse than the best. "
        f"Default: 1; with --epsilon: {RUNS}. Example: --runs 20",
    ),
]
SplitFlag = Annotated[
    str | None,
    typer.Option(
        **choice(partition.SPLITS),
        help="--dataset: how to split rows among clients: evenly (iid), in random proportions of "
        "each class (dirichlet), a few blocks of one class each (shards), at random in very "
        "different sizes (quantity), another region for each client (features), or by a column of "
        "a file (column). Default: dirichlet.",
    ),
]


@app.command("compare")
def compare_methods(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Your own data, one CSV, Excel, Parquet or NPY file per site. "
            "Example: bern.csv lyon.csv"
        ),
    ] = None,
    k: Annotated[Any, CLUSTERS] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Instead of files: a named data set, or one file with --label, split "
            "among clients. Example: --dataset s1"
        ),
    ] = None,
    clients: Annotated[
        int, typer.Option(min=1, help="--dataset: number of clients. Example: --clients 20")
    ] = 10,
    split: SplitFlag = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="--split dirichlet, quantity: the smaller, the more skewed. Default: 0.3. "
            "Example: --alpha 0.1"
        ),
    ] = None,
    min_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="--split dirichlet, quantity: the fewest rows of a client. Default: the number of "
            "classes, or a tenth of the average client if that is less. Example: --min-size 20",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1, help="--split shards: how many each client gets. Default: 2. Example: --shards 1"
        ),
    ] = None,
    mix: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="--split features: share of the rows that are dealt at random. Default: 0. "
            "Example: --mix 0.2",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="--split column: the column that tells who holds each row. --split features: the "
            "column whose values decide. Default: the direction in which rows vary most. "
            "Example: --by hospital"
        ),
    ] = None,
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
            help="Files: a column with true classes, to measure ari, nmi and purity. "
            "Default: none. "
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
    decimal: Decimal = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Run this method; repeat it for several. `fedjigsaw methods` lists them. "
            "Default: all that support K. Example: --method feca --method jigsaw"
        ),
    ] = None,
    param: ParamFlag = None,
    seed: SeedFlag = 0,
    epsilon: Epsilons = None,
    delta: Delta = None,
    bounds: BoundsOption = None,
    unit: Unit = None,
    cells: CellsOption = None,
    runs: Runs = None,
    picture: PictureFlag = Path("compare.png"),
    latex: Annotated[
        Path | None,
        typer.Option(
            help="Also write the table for LaTeX, with the package booktabs; the best is bold. "
            "Example: --latex compare.tex"
        ),
    ] = None,
    caption: Annotated[
        str | None,
        typer.Option(
            help="--latex: the caption, as LaTeX code. Default: what was compared. "
            "Example: --caption 'Three sites, $k = 4$'"
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Also write the numbers of every method and run as CSV. Example: --csv compare.csv"
        ),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    plugin: PluginFlag = None,
) -> None:
    """Run all methods on your own files, or on a named data set: one table, one picture.

    It reads all files in one place, which no federation could: use data that you may pool, to find
    out which method suits data like yours. Objectives are relative to k-means on all rows. With
    --epsilon, it shows instead what differential privacy costs on these data.

    Example: fedjigsaw compare bern.csv lyon.parquet oslo.csv --columns age,dose --scale -k 4
    """
    drawn = drawable(context, picture)
    check_outputs(drawn, latex, csv, force=force, inputs=files or [])
    if caption is not None and latex is None:
        raise ParameterError("--caption is for --latex FILE.")
    _check_source(files, dataset, split, k)
    epsilons = parse_epsilons(epsilon)
    first = epsilons[0] if epsilons else None
    take_bounds(first, bounds, delta=delta, unit=unit, cells=cells)
    if files:
        tally = Tally()
        problem = _pool(
            files, columns, label=label, drop_missing=drop_missing, decimal=decimal, tally=tally
        )
        skipped = tally.skipped
    else:
        chosen: dict[str, Any] = {"label": label, "columns": split_names(columns)}
        own = {"alpha": alpha, "min_size": min_size, "shards_per_client": shards, "mix": mix}
        chosen |= {name: value for name, value in [*own.items(), ("by", by)] if value is not None}
        problem, skipped = deal_dataset(str(dataset), clients, split=split or SPLIT, **chosen), 0
        if k is None and not problem.has_classes:
            raise ParameterError(NO_NUMBER)
    data, names = problem.data, problem.columns or []
    scaler = standard_scaler(data.X, names) if files and scale else None
    n_rows = len(data.X)  # public here, where nothing leaves
    made = [make_privacy(names, each, delta, bounds, unit, cells, rows=n_rows) for each in epsilons]
    promises = [scale_bounds(promise, scaler) for promise in made if promise is not None]
    problem = replace(problem, data=replace(data, X=scale_rows(data.X, scaler)))
    seeds = range(seed, seed + (runs or (RUNS if promises else 1)))
    n_sites = len(set(problem.clients(seed).tolist()))
    k = k or data.n_clusters
    contenders = chosen_methods(method, parse_params(param), k, promises, len(names), n_sites)
    about = f" ({problem.split})" if problem.split else ""
    rows_in_words = describe_rows(n_rows, skipped)
    title = f"{data.name}: {counted(n_sites, 'site')}{about}, {rows_in_words}, k = {k}"
    title += f", delta = {promises[0].delta:g}" if promises else ""
    follow = partial(track, label="Methods" if len(seeds) == 1 else "Runs")
    with compiling_told():
        found = run(contenders, problem, seeds, track=follow, title=title)
    marked, values = found.table(), values_of(found)
    shown = marked.with_marks()
    heading = f"{shown.caption} (k-means by {found.rows[0]['backend']})"
    tex = "" if latex is None else marked.as_latex(caption or escaped(heading))
    results = {
        "Picture": (drawn, pictures.render(found.plot(), drawn.suffix) if drawn else b""),
        "LaTeX": (latex, f"{tex}\n".encode()),
        "CSV": (csv, f"{found.to_csv()}\n".encode()),
    }
    written = {what: (path, content) for what, (path, content) in results.items() if path}
    for path, content in written.values():
        write_whole(path, content, replace=force)
    notes = [*marked.all_notes("*"), *about_k(found), *costs_in_words(found)]
    if promises:
        notes += about_privacy(promises[0], problem.data.X, scaler, k)
    elif k == "auto" and not method:
        notes.append("With -k auto, only methods that find the number of clusters take part.")
    if as_json:
        values |= {"notes": notes, "skipped": skipped, "picture": drawn and str(drawn)}
        print_json(values)
        return
    print_table(replace(shown, caption=heading))
    for line in notes:
        out.print(escape(line))
    for what, (path, _) in written.items():
        out.print(f"{what}: {escape(str(path))}")


def _check_source(
    files: Sequence[Path] | None, dataset: str | None, split: str | None, k: object
) -> None:
    """Check that the data are either files, which need a number of clusters, or a data set."""
    if bool(files) == bool(dataset):
        raise ParameterError("Give either files, one per site, or --dataset NAME.")
    if files and split:
        raise ParameterError("--split is for --dataset: here, each file is a site.")
    if files and k is None:
        raise ParameterError(NO_NUMBER)


def _pool(
    files: Sequence[Path],
    columns: str | None,
    *,
    label: str | None,
    drop_missing: bool,
    decimal: str | None,
    tally: Tally,
) -> Problem:
    """Read the files of all sites, one client each."""
    names = split_names(columns)
    with warnings_shown():
        names = default_columns(files[0], label, decimal) if names is None else names
    data, ids = pool_files(
        files,
        names,
        label=label,
        drop_missing=drop_missing,
        tally=tally,
        opener=partial(open_data_file, decimal=decimal),
    )
    return Problem(data, fixed(ids), label is not None, columns=names)
