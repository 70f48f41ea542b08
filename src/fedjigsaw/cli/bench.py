"""Commands that measure: demo, simulate, compare, reproduce."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedjigsaw import datasets, partition
from fedjigsaw.bench import runner, verdicts
from fedjigsaw.bench.cells import SPLITS, Cell, deal, fit, origin, over_seeds, own_files, run
from fedjigsaw.bench.studies import Job, Study, find, jobs_of, studies
from fedjigsaw.cli._shared import (
    CLUSTERS,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    choice,
    cluster_count,
    count_steps,
    err,
    out,
    parse_params,
    print_json,
    split_names,
    track,
)
from fedjigsaw.errors import ParameterError, invalid
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.rows import Row, read_rows, write_rows
from fedjigsaw.methods import CLUSTERERS, DEFAULT, make
from fedjigsaw.methods._support import support_of
from fedjigsaw.report.inspection import describe_support

app = typer.Typer()


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
    from fedjigsaw.report import pictures

    check_outputs(picture, rows_file, force=force)
    pictures.check_format(picture.suffix)
    data = datasets.load("gaussian-grid")
    k = data.n_clusters
    main = Cell("gaussian-grid", DEFAULT, k, seed, 10, "dirichlet", alpha=0.3, min_size=k)
    cells = [replace(main, method=name) for name in CLUSTERERS]
    fitted = {cell.method: run(cell, data) for cell in track(cells, "Methods")}
    rows = [row for _, row in fitted.values()]
    methods = {name: method for name, (method, _) in fitted.items()}
    figure = pictures.roadmap(methods, data, deal(data.y, main))
    write_whole(picture, pictures.render(figure, picture.suffix))
    if rows_file is not None:
        write_rows(rows_file, rows)
    model = methods[DEFAULT].model_
    if as_json:
        support = {name: values.tolist() for name, values in (support_of(model) or {}).items()}
        print_json({"rows": rows, "support": support, "picture": str(picture)})
        return
    _print_table([[row] for row in rows], "15 Gaussians, 10 clients, Dirichlet(0.3)")
    out.print(f"{CLUSTERERS[DEFAULT].label}:")
    for line in describe_support(model):
        out.print(line)
    out.print(f"The whole way from data to centers, as a picture: {escape(str(picture))}")


@app.command()
def simulate(
    dataset: Annotated[
        str, typer.Option(help="Name of a data set; `fedjigsaw data` lists them.")
    ] = "gaussian-grid",
    clients: Annotated[int, typer.Option(min=1, help="Number of clients.")] = 10,
    split: Annotated[
        str, typer.Option(**choice(SPLITS), help="How rows are dealt out.")
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
    names = _able(method, k)
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


@app.command("compare")
def compare_methods(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Your own data, one CSV, Parquet, NPY or NPZ file per site."),
    ] = None,
    k: Annotated[Any, CLUSTERS] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Instead of files: a named data set, dealt out.")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="--dataset: number of clients.")] = 10,
    alpha: Annotated[
        float, typer.Option(help="--dataset: skew of the Dirichlet split; small is skewed.")
    ] = 0.3,
    columns: Annotated[
        str | None, typer.Option(help="Files: columns to use, separated by commas. Default: all.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Files: a column with true classes, for purity and nmi.")
    ] = None,
    scale: Annotated[
        bool, typer.Option("--scale", help="Files: give every column mean 0 and deviation 1.")
    ] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Files: leave rows with missing values out.")
    ] = False,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; repeat for several. Default: all.")
    ] = None,
    param: ParamFlag = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    picture: Annotated[Path, typer.Option("--out", "-o", help="Where the picture goes.")] = Path(
        "compare.png"
    ),
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """All methods on your own files, or on a named data set: one table, one picture.

    It reads all files in one place, as no federation could: to find out which method suits data
    like yours, on data that you may pool. The objective is relative to the best one found.

    Example: fedjigsaw compare bern.csv lyon.parquet oslo.csv --columns age,dose --scale -k 4
    """
    from fedjigsaw.report import pictures

    check_outputs(picture, force=force, inputs=files or [])
    pictures.check_format(picture.suffix)
    if bool(files) == bool(dataset):
        got = "both" if files else "neither"
        raise ParameterError(invalid("data", "compare", "files or --dataset", got))
    if files:
        if k is None:
            raise ParameterError(
                "How many clusters? Say -k 4, or -k auto for methods that find their number."
            )
        data, ids = own_files(
            files, split_names(columns), label, scale=scale, drop_missing=drop_missing
        )
    else:
        data = datasets.load(str(dataset))
        k = k or data.n_clusters
        least = min(data.n_clusters, len(data.X) // (10 * clients))
        ids = partition.dirichlet(data.y, clients, alpha=alpha, rng=seed, min_size=least)
    chosen = _params_by_method(_able(method, k), parse_params(param), k)
    rows = []
    for name, params in track(list(chosen.items()), "Methods"):
        _, numbers = fit(make(name, k, seed, **params), data, ids)
        if files and label is None:
            numbers = {n: v for n, v in numbers.items() if n not in ("purity", "nmi", "ari")}
        rows.append({"method": name, "params": params, "seed": seed, **numbers, **origin()})
    best = min(row["inertia"] for row in rows)
    rows = [{**row, "ratio": row["inertia"] / best if best else 1.0} for row in rows]
    write_whole(picture, pictures.render(pictures.comparison(rows), picture.suffix))
    if as_json:
        print_json({"rows": rows, "picture": str(picture)})
        return
    told = f"{len(set(ids.tolist()))} sites, {len(data.X):,} rows, k = {k}"
    _print_table([[row] for row in rows], f"{data.name}: {told}")
    if k == "auto" and not method:
        out.print("Only methods that find the number of clusters themselves take part.")
    out.print(f"The same as a picture: {escape(str(picture))}")


@app.command()
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Names of tables, or all. Without any: list them."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Seeds per cell. Default: as many as the paper's.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Cells computed at a time. Default: one per core.")
    ] = None,
    folder: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the rows, one file per table.")
    ] = Path("results"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the rows of these tables and start anew.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compute the paper's tables, and show ours beside the paper's numbers.

    Every finished cell is one line in OUT/TABLE.jsonl. Interrupt it when you like: the next run
    computes only what is missing.

    Example: fedjigsaw reproduce table1 --runs 10
    """
    if not tables:
        _list(folder, as_json)
        return
    chosen = find(tables)
    wanted = [job for study in chosen for job in jobs_of(study, runs)]
    if fresh:
        runner.forget(wanted, folder)
    todo = runner.missing(wanted, folder)
    if len(todo) < len(wanted):
        err.print(f"{len(wanted) - len(todo)} of {len(wanted)} cells are in {folder} already.")
        _tell_other_origins(folder, chosen)
    _tell_other_cells(folder, todo)
    try:
        with count_steps("Cells", len(todo)) as progress:
            runner.run_jobs(wanted, folder, n_jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        kept = len(wanted) - len(runner.missing(wanted, folder))
        err.print(f"Interrupted. {kept} of {len(wanted)} cells are kept; run it again to go on.")
        raise
    done = runner.finished(wanted, folder).values()
    rows = {study.name: [row for row in done if row["table"] == study.name] for study in chosen}
    if as_json:
        print_json(
            {
                study.name: [
                    {"cell": cell, "number": number, "mean": c.mean, "std": c.std, "runs": c.runs}
                    | {"paper": c.published, "verdict": c.verdict}
                    for (cell, number), c in verdicts.compare(study, rows[study.name]).items()
                ]
                for study in chosen
            }
        )
        return
    for study in chosen:
        _print_study(study, rows[study.name])
        if not study.numbers:
            path = runner.result_file(folder, study.name)
            out.print(f"No table of its own; the rows are in {escape(str(path))}.\n")


# ------------------------------------------------------------------------- reading and printing

# number of a row -> title, format, factor; l2 and its scale are those of the paper
COLUMNS = {
    "n_found": ("centers", "{:.4g}", 1.0),
    "ratio": ("objective / best", "{:.3f}", 1.0),
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
        table.add_row(CLUSTERERS[group[0]["method"]].label, *values)
    out.print(table)


def _params_by_method(
    names: Sequence[str], params: Mapping[str, Any], k: int | str
) -> dict[str, Any]:
    """Give every method the parameters that it has; each must be known to at least one of them."""
    chosen = {
        name: {p: v for p, v in params.items() if p in CLUSTERERS[name].own_parameters}
        for name in names
        if name in CLUSTERERS
    }
    unknown = {p: v for p, v in params.items() if not any(p in own for own in chosen.values())}
    if unknown and len(chosen) > 1:
        told = f"None of {', '.join(chosen)} has a parameter {', '.join(map(repr, unknown))}."
        raise ParameterError(f"{told} `fedjigsaw methods` lists what each has.")
    for name in names:
        make(name, k, 0, **chosen.get(name, {}), **unknown).check()
    return chosen


def _able(names: list[str] | None, k: int | str) -> list[str]:
    """The methods that were asked for, or all that can take this number of clusters."""
    able = [name for name, entry in CLUSTERERS.items() if entry.cls.rules["n_clusters"].accepts(k)]
    return list(dict.fromkeys(names or able))


def _list(folder: Path, as_json: bool) -> None:
    """Which tables there are, and how much of each is there."""
    counts = {}
    for study in studies().values():
        wanted = jobs_of(study)
        counts[study.name] = (len(wanted) - len(runner.missing(wanted, folder)), len(wanted))
    if as_json:
        print_json(
            {
                name: {"about": study.about, "done": counts[name][0], "cells": counts[name][1]}
                for name, study in studies().items()
            }
        )
        return
    table = Table("name", "what it is", f"done in {folder}")
    for name, study in studies().items():
        table.add_row(name, study.about, "{} of {}".format(*counts[name]))
    out.print(table)
    out.print("Run one with `fedjigsaw reproduce NAME`, or all of them.")


def _tell_other_origins(folder: Path, chosen: list[Study]) -> None:
    """Rows that other code made are kept; whoever reads them should know."""
    here = (origin()["commit"], origin()["backend"])
    others = {
        f"{row['commit']} ({row['backend']})"
        for study in chosen
        for row in read_rows(runner.result_file(folder, study.name))
        if (row["commit"], row["backend"]) != here
    }
    if others:
        told = escape(", ".join(sorted(others)))
        err.print(f"Some are of other commits or backends: {told}. --fresh makes all anew.")


def _tell_other_cells(folder: Path, todo: Sequence[Job]) -> None:
    """Rows that are there but hold something else: why a finished table is computed again."""
    files = {runner.result_file(folder, job.study) for job in todo}
    there = {runner.key_of(row) for path in files for row in read_rows(path)}
    others = [job.key for job in todo if job.key in there]
    if others:
        told = f"Rows with other parameters, replaced as these cells are made anew: {others[0]}"
        told += f" and {len(others) - 1} more" * (len(others) > 1)
        err.print(f"{escape(told)}.")


def _print_study(study: Study, rows: list[Row]) -> None:
    out.print(f"[bold]{study.name}[/]: {study.about}")
    for title, table in verdicts.tables(study, rows).items():
        out.print(f"\n{title}")
        out.print(escape(table))
    counts = verdicts.count_verdicts(study, rows)
    if any(counts.values()):
        told = ", ".join(f"{n} {word}" for word, n in counts.items())
        out.print(
            f"\nOurs (the paper's): {told} "
            f"({verdicts.BETTER} better, {verdicts.WITHIN} within one standard deviation, "
            f"{verdicts.WORSE} worse)."
        )
    out.print("")
