"""Commands that measure on generated or named data: demo, simulate."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table as RichTable

from fedjigsaw import partition
from fedjigsaw.choice.findings import DOUBTFUL
from fedjigsaw.cli._config import was_given
from fedjigsaw.cli._plugins import PluginFlag
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    choice,
    cluster_count,
    compiling_told,
    err,
    escape,
    out,
    parse_params,
    print_json,
    split_names,
    track,
    warnings_shown,
)
from fedjigsaw.comparison.measures import mean_and_std
from fedjigsaw.comparison.simulation import run_demo
from fedjigsaw.comparison.simulation import simulate as run_simulation
from fedjigsaw.comparison.tables import NUMBERS
from fedjigsaw.errors import ExtraError, counted
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.rows import write_rows
from fedjigsaw.methods import CLUSTERERS, DEFAULT, label_of
from fedjigsaw.methods._support import support_of
from fedjigsaw.report import pictures
from fedjigsaw.report.inspection import describe_support
from fedjigsaw.report.page.view import Table

app = typer.Typer()

PictureFlag = Annotated[
    Path,
    typer.Option("--out", "-o", help="The picture to write: PNG, SVG or PDF. Example: -o all.svg"),
]
RowsFlag = Annotated[
    Path | None,
    typer.Option(
        "--rows",
        help="Also write each measured row as a JSON line to this file. Example: --rows rows.jsonl",
    ),
]
SeedFlag = Annotated[
    int,
    typer.Option(min=0, help="Seed of the split and of all random choices. Example: --seed 7"),
]
MethodFlag = Annotated[
    list[str] | None,
    typer.Option(
        help="Run this method; repeat it for several. `fedjigsaw methods` lists them. "
        "Default: all that support K. Example: --method feca --method jigsaw"
    ),
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


@app.command()
def demo(
    context: typer.Context,
    picture: PictureFlag = Path("demo.png"),
    rows_file: RowsFlag = None,
    seed: SeedFlag = 0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Run the methods of the paper on a generated data set: one table, one picture.

    15 Gaussians in the plane, 5000 rows, split among ten clients by Dirichlet(0.3): each client has
    rows of only some of the clusters. It needs no download and takes a few seconds.

    Example: fedjigsaw demo -o demo.png
    """
    drawn = drawable(context, picture)
    check_outputs(drawn, rows_file, force=force)
    with compiling_told():
        result = run_demo(seed, track=partial(track, label="Methods"))
    if drawn is not None:
        figure = pictures.roadmap(result.fitted, result.data, result.clients)
        write_whole(drawn, pictures.render(figure, drawn.suffix), replace=force)
    if rows_file is not None:
        write_rows(rows_file, result.rows, replace=force)
    model = result.fitted[DEFAULT].model_
    if as_json:
        support = {name: values.tolist() for name, values in (support_of(model) or {}).items()}
        print_json({"rows": list(result.rows), "support": support, "picture": drawn and str(drawn)})
        return
    title = "15 Gaussians, 10 clients, Dirichlet(0.3)"
    print_table(measured_table([[row] for row in result.rows], title))
    out.print(f"{CLUSTERERS[DEFAULT].label}:")
    for line in describe_support(model):
        out.print(line)
    if drawn is not None:
        out.print(f"Picture of all steps from data to centers: {escape(str(drawn))}")


@app.command()
def simulate(
    dataset: Annotated[
        str,
        typer.Option(
            help="The data set to split: a name that `fedjigsaw data` lists, or a CSV, Excel, "
            "Parquet or NPY file. "
            "Example: --dataset s1"
        ),
    ] = "gaussian-grid",
    clients: Annotated[
        int, typer.Option(min=1, help="Number of clients. Example: --clients 20")
    ] = 10,
    split: Annotated[
        str,
        typer.Option(
            **choice(partition.SPLITS),
            help="How to split rows among clients: evenly (iid), in random proportions of each "
            "class (dirichlet), a few blocks of one class each (shards), at random in very "
            "different sizes (quantity), another region for each client (features), or by a column "
            "of a file (column).",
        ),
    ] = "dirichlet",
    alpha: Annotated[
        float,
        typer.Option(
            help="dirichlet, quantity: the smaller, the more skewed. Example: --alpha 0.1"
        ),
    ] = 0.3,
    min_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="dirichlet, quantity: the fewest rows of a client. Default: K, or a tenth of the "
            "average client if that is less. Example: --min-size 20",
        ),
    ] = None,
    shards: Annotated[
        int, typer.Option(min=1, help="shards: how many each client gets. Example: --shards 1")
    ] = 2,
    mix: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="features: share of the rows that are dealt at random. Example: --mix 0.2",
        ),
    ] = 0.0,
    by: Annotated[
        str | None,
        typer.Option(
            help="column: the column that tells who holds each row. features: the column whose "
            "values decide. Default: the direction in which rows vary most. Example: --by hospital"
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="A file: the column with true classes. Default: none. Example: --label diagnosis"
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="A file: the columns to use, separated by commas. Default: all others but those "
            "that look like identifiers. Example: --columns age,dose"
        ),
    ] = None,
    method: MethodFlag = None,
    k: Annotated[
        Any,
        typer.Option(
            "-k",
            "--n-clusters",
            parser=cluster_count,
            metavar="K",
            help="Number of clusters; auto lets the method find it (jigsaw). Default: the true "
            "number. Example: -k 15",
        ),
    ] = None,
    param: ParamFlag = None,
    runs: Annotated[
        int,
        typer.Option(
            min=1, help="Number of runs, each with its own seed and split. Example: --runs 100"
        ),
    ] = 10,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the first run; run r has SEED + r. Example: --seed 7"),
    ] = 0,
    rows_file: RowsFlag = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    plugin: PluginFlag = None,
) -> None:
    """Split a data set among clients, cluster it, and measure: mean and deviation over runs.

    Example: fedjigsaw simulate --dataset s1 --split dirichlet --alpha 0.3 --method feca -k 15
    """
    check_outputs(rows_file, force=force)
    with warnings_shown():
        rows = run_simulation(
            dataset,
            clients,
            split,
            alpha=alpha,
            min_size=min_size,
            shards=shards,
            mix=mix,
            by=by,
            label=label,
            columns=split_names(columns),
            methods=method,
            n_clusters=k,
            params=parse_params(param),
            runs=runs,
            seed=seed,
            track=partial(track, label="Runs"),
        )
    if rows_file is not None:
        write_rows(rows_file, rows, replace=force)
    names = list(dict.fromkeys(row["method"] for row in rows))
    groups = {name: [row for row in rows if row["method"] == name] for name in names}
    if as_json:
        summary = {name: mean_and_std(group) for name, group in groups.items()}
        print_json({"rows": rows, "mean_and_std": summary})
        return
    detail = {
        "dirichlet": f"({alpha:g})",
        "shards": f"({shards} each)",
        "quantity": f"({alpha:g})",
        "features": f" ({by or 'principal direction'}, mix {mix:g})",
        "column": f" {by}",
    }.get(split, "")
    k = rows[0]["n_clusters"]
    name, clients = rows[0]["dataset"], rows[0]["n_clients"]
    all_runs = counted(runs, "run")
    title = f"{name}, {clients} clients, {split}{detail}, k = {k}, {all_runs}"
    print_table(measured_table(list(groups.values()), title))
    for name, group in groups.items():
        unsure = sum(row.get("confidence", 1.0) < DOUBTFUL for row in group)
        if unsure:
            number = f"{label_of(name)}: the number of clusters is in doubt"
            out.print(f"{number} (confidence below {DOUBTFUL:g}) in {unsure} of {all_runs}.")


COLUMNS = {
    name: NUMBERS[name]
    for name in ("n_found", "confidence", "l2", "purity", "nmi", "bytes_per_client", "seconds")
}


def measured_table(groups: Sequence[Sequence[Mapping[str, Any]]], title: str) -> Table:
    """Return one line per group of rows; mean and standard deviation of groups of several."""
    measured = [mean_and_std(group) for group in groups]
    shown = [name for name in COLUMNS if name in measured[0]]
    lines = []
    for group, numbers in zip(groups, measured, strict=True):
        values = []
        for name in shown:
            _, form, factor = COLUMNS[name]
            parts = numbers[name] if len(group) > 1 else numbers[name][:1]
            values.append("±".join(form.format(part * factor) for part in parts))
        lines.append((label_of(group[0]["method"]), *values))
    headings = ("method", *(COLUMNS[name][0] for name in shown))
    title = f"{title} (k-means by {groups[0][0]['backend']})"
    return Table(title, headings, tuple(lines))


def print_table(table: Table) -> None:
    """Print a table with its first column at the left, all others at the right."""
    shown = RichTable(title=escape(table.caption), title_justify="left", collapse_padding=True)
    for place, heading in enumerate(table.headings):
        justify: Literal["left", "right"] = "right" if table.is_number(place) else "left"
        shown.add_column(heading, justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    out.print(shown)
