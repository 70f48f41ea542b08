"""Every command. Printing, progress and exit codes live here and nowhere else.

Results go to standard output, all else (progress, errors) to standard error, so that
``fedjigsaw simulate --json | jq`` works. Exit codes are those of :mod:`fedjigsaw.errors`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from rich.markup import escape
from rich.table import Table

from fedjigsaw import __version__, cli_bench, cli_deep, cli_federation, cli_sites, datasets
from fedjigsaw._console import (
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    cluster_count,
    err,
    out,
    parse_params,
    print_json,
    track,
)
from fedjigsaw.bench.cells import SPLITS, Cell, deal, over_seeds, run
from fedjigsaw.bench.runner import write_rows
from fedjigsaw.errors import FedJigsawError, ParameterError, complaint
from fedjigsaw.formats import write_whole
from fedjigsaw.methods import METHODS, make

app = typer.Typer(
    help="One-shot federated clustering: every client sends one small summary, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List the data sets, or fetch one.", invoke_without_command=True)
app.add_typer(data_app, name="data")
app.add_typer(cli_bench.app)
app.add_typer(cli_sites.app)
app.add_typer(cli_deep.app, name="deep")
app.add_typer(cli_federation.app, name="federation")


def main() -> None:
    """Run a command; turn an error of our own into one line and an exit code."""
    try:
        app()
    except FedJigsawError as error:
        err.print(f"[bold red]Error:[/] {escape(str(error))}")
        sys.exit(error.exit_code)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"fedjigsaw {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that come before any command."""


# -------------------------------------------------------------------------------------- commands


@app.command()
def demo(
    picture: Annotated[Path, typer.Option("--out", "-o", help="Where the picture goes.")] = Path(
        "demo.png"
    ),
    rows_file: Annotated[
        Path | None, typer.Option("--rows", help="Also write the table here, as JSON lines.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Cluster a generated data set over ten skewed clients: one table, one picture.

    15 Gaussians in the plane, 5000 rows, dealt out to ten clients by Dirichlet(0.3), so that each
    client sees only some of the clusters. No download, a few seconds.
    """
    from fedjigsaw.bench import pictures

    check_outputs(picture, rows_file, force=force)
    pictures.check_format(picture.suffix)
    data = datasets.load("gaussian-grid")
    k = data.n_clusters
    feca = Cell("gaussian-grid", "feca", k, seed, 10, "dirichlet", alpha=0.3, min_size=k)
    cells = [replace(feca, method=name) for name in METHODS]
    fitted = {cell.method: run(cell, data) for cell in track(cells, "Methods")}
    rows = [row for _, row in fitted.values()]
    figure = pictures.roadmap(fitted["feca"][0], data, deal(data.y, feca))
    write_whole(picture, pictures.render(figure, picture.suffix))
    if rows_file is not None:
        write_rows(rows_file, rows)
    if as_json:
        print_json({"rows": rows, "picture": str(picture)})
        return
    _print_table([[row] for row in rows], "15 Gaussians, 10 clients, Dirichlet(0.3)")
    out.print(f"The whole way from data to centers, as a picture: {escape(str(picture))}")


@app.command()
def simulate(
    dataset: Annotated[
        str, typer.Option(help="Name of a data set; `fedjigsaw data` lists them.")
    ] = "gaussian-grid",
    clients: Annotated[int, typer.Option(min=1, help="Number of clients.")] = 10,
    split: Annotated[
        str, typer.Option(click_type=click.Choice(SPLITS), help="How rows are dealt out.")
    ] = "dirichlet",
    alpha: Annotated[float, typer.Option(help="dirichlet: the smaller, the more skewed.")] = 0.3,
    min_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="dirichlet: fewest rows of a client. Default: k or n / clients / 10.",
        ),
    ] = None,
    shards: Annotated[int, typer.Option(min=1, help="shards: how many each client gets.")] = 2,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; repeat to compare several. Default: all.")
    ] = None,
    k: Annotated[
        Any,
        typer.Option(
            "-k",
            "--n-clusters",
            parser=cluster_count,
            metavar="K",
            help="Clusters; `auto` where the method finds their number. Default: the true one.",
        ),
    ] = None,
    param: ParamFlag = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs, each with its own seed and split.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; run r adds r.")] = 0,
    rows_file: Annotated[
        Path | None,
        typer.Option("--rows", help="Also write one JSON line per run here."),
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Deal a data set out to clients, cluster it, and measure: mean and deviation over runs.

    Example: fedjigsaw simulate --dataset s1 --split dirichlet --alpha 0.3 --method feca -k 15
    """
    check_outputs(rows_file, force=force)
    params = parse_params(param)
    data = datasets.load(dataset)
    k = k or data.n_clusters
    if min_size is None:  # as in the paper's splits, but never hard to meet
        min_size = min(data.n_clusters if k == "auto" else k, len(data.X) // (10 * clients))
    able = [name for name, entry in METHODS.items() if entry.cls.rules["n_clusters"].accepts(k)]
    names = list(dict.fromkeys(method or able))
    chosen = _params_by_method(names, params, k)
    cells = [
        Cell(dataset, name, k, seed + r, clients, split, alpha, min_size, shards, chosen[name])
        for name in names
        for r in range(runs)
    ]
    rows = [run(cell, data)[1] for cell in track(cells, "Runs")]
    if rows_file is not None:
        write_rows(rows_file, rows)
    groups = [[row for row in rows if row["method"] == name] for name in names]
    if as_json:
        summary = {name: over_seeds(group) for name, group in zip(names, groups, strict=True)}
        print_json({"rows": rows, "mean_and_std": summary})
        return
    detail = {"dirichlet": f"({alpha:g})", "shards": f"({shards} each)"}.get(split, "")
    runs_told = "1 run" if runs == 1 else f"{runs} runs"
    _print_table(groups, f"{dataset}, {clients} clients, {split}{detail}, k = {k}, {runs_told}")


@app.command()
def methods(as_json: JsonFlag = False) -> None:
    """List the methods and their parameters."""
    if as_json:
        print_json(
            {
                name: {
                    "label": entry.label,
                    "about": entry.about,
                    "source": entry.source,
                    "parameters": {p: rule.allowed for p, rule in entry.cls.rules.items()},
                }
                for name, entry in METHODS.items()
            }
        )
        return
    table = Table("name", "class", "what it does", "parameters, for -p name=value")
    for name, entry in METHODS.items():
        about = f"{entry.about} ({entry.source})"
        table.add_row(name, entry.cls.__name__, about, ", ".join(entry.own_parameters))
    out.print(table)


@data_app.callback()
def data_list(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the data sets, and whether each can be loaded now."""
    if context.invoked_subcommand:
        return
    here = {name: source.is_here for name, source in datasets.SOURCES.items()}
    if as_json:
        about = {name: source.about for name, source in datasets.SOURCES.items()}
        print_json({name: {"about": about[name], "here": here[name]} for name in here})
        return
    table = Table("name", "what it is", "here?")
    for name, source in datasets.SOURCES.items():
        table.add_row(name, source.about, "yes" if here[name] else "no")
    out.print(table)
    if not all(here.values()):
        out.print(
            "s1 to s4: `fedjigsaw data fetch ssets`, or put them where FEDJIGSAW_DATA points."
        )
        out.print("cifar features: no download; put them where FEDJIGSAW_DATA points.")


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="What to fetch: ssets.")],
    home: Annotated[
        str, typer.Option(help="Address of a folder with the files, for a mirror.")
    ] = datasets.SSETS_HOME,
) -> None:
    """Download a data set into the user's cache, and check every number in it.

    NAME is ssets: the files of s1 to s4, from their home page.
    """
    if name != "ssets":
        raise ParameterError(complaint("name", "a download", "'ssets'", repr(name)))
    with err.status("Fetching five small files"):
        folder = datasets.fetch_ssets(home=home.rstrip("/") + "/")
    out.print(f"S1 to S4 are in {escape(str(folder))}")


# ------------------------------------------------------------------------- reading and printing

# number of a row -> title, format, factor; l2 and its scale are those of the paper
COLUMNS = {
    "n_found": ("centers", "{:.4g}", 1.0),
    "l2": ("l2 / 1e4", "{:.2f}", 1e-4),
    "purity": ("purity", "{:.3f}", 1.0),
    "nmi": ("nmi", "{:.3f}", 1.0),
    "bytes_per_client": ("bytes per client", "{:,.0f}", 1.0),
    "seconds": ("seconds", "{:.2f}", 1.0),
}


def _print_table(groups: Sequence[Sequence[Mapping[str, Any]]], title: str) -> None:
    """One line per group of rows; mean and standard deviation where a group has several."""
    measured = [over_seeds(group) for group in groups]
    shown = [name for name in COLUMNS if name in measured[0]]
    title = f"{title} (k-means by {groups[0][0]['backend']})"
    table = Table(title=title, title_justify="left", collapse_padding=True)
    table.add_column("method", overflow="fold")
    for name in shown:
        table.add_column(COLUMNS[name][0], justify="right", overflow="fold")
    for group, numbers in zip(groups, measured, strict=True):
        values = []
        for name in shown:
            _, form, factor = COLUMNS[name]
            parts = numbers[name] if len(group) > 1 else numbers[name][:1]
            values.append("±".join(form.format(part * factor) for part in parts))
        table.add_row(METHODS[group[0]["method"]].label, *values)
    out.print(table)


def _params_by_method(
    names: Sequence[str], params: Mapping[str, Any], k: int | str
) -> dict[str, Any]:
    """Give every method the parameters that it has; each must be known to at least one of them."""
    chosen = {
        name: {p: v for p, v in params.items() if p in METHODS[name].own_parameters}
        for name in names
        if name in METHODS
    }
    for name in names:
        unknown = {p: v for p, v in params.items() if not any(p in own for own in chosen.values())}
        make(name, k, 0, **chosen.get(name, {}), **unknown).check()
    return chosen


if __name__ == "__main__":
    main()
