"""Commands of one round by file: stats, scaler, summarize, aggregate, assign, score."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw import sites
from fedjigsaw.cli._shared import (
    CLUSTERS,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    Without,
    check_outputs,
    choice,
    count_rows,
    escape,
    out,
    parse_params,
    print_json,
    split_names,
    warnings_shown,
)
from fedjigsaw.errors import (
    CountsWarning,
    FewerClustersWarning,
    FewerRowsWarning,
    ForeignSummaryWarning,
    ParameterError,
    RefusedFileWarning,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score, SummaryFile
from fedjigsaw.io.tables import open_table
from fedjigsaw.kernels.scaling import Stats
from fedjigsaw.messages import COUNTS
from fedjigsaw.methods import DEFAULT
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.inspection import MAX_SHOWN
from fedjigsaw.report.statistics import describe_statistics
from fedjigsaw.report.trust import describe_sites

app = typer.Typer()

Data = Annotated[
    Path,
    typer.Argument(
        help="The site's data: a CSV (with a header line), Parquet, NPY or NPZ file, for example "
        "bern.csv."
    ),
]
Output = Annotated[Path, typer.Option("--out", "-o", help="The file to write.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="The columns to use, separated by commas. Default: all. Example: --columns age,dose"
    ),
]
ClientName = Annotated[
    str | None,
    typer.Option(
        "--client",
        help="The name of this site, which must differ from site to site. Default: the name of "
        "the data file, without its ending. Example: --client bern",
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing",
        help="Skip rows with missing values. Default: a missing value is an error.",
    ),
]
ModelPath = Annotated[
    Path, typer.Option("--model", help="The model that `aggregate` wrote. Example: --model model")
]


@app.command()
def stats(
    data: Data,
    output: Output,
    columns: Columns = None,
    client: ClientName = None,
    min_cluster_size: Annotated[
        int,
        typer.Option(
            min=1, help="Guard: write nothing if there are fewer rows than this; 1 turns it off."
        ),
    ] = 5,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
) -> None:
    """At a site: write count, mean and spread of each column, for a common scaler.

    Example: fedjigsaw stats bern.csv -o bern.stats --columns age,dose
    """
    check_outputs(output, force=force, inputs=[data])
    table = open_table(data, columns=split_names(columns), drop_missing=drop_missing)
    with count_rows("Rows", table.n_rows) as progress:
        found = sites.measure(table, client=client, min_rows=min_cluster_size, progress=progress)
    formats.save(found, output, replace=force)
    out.print(f"{found.n_samples:,} rows, {len(found.columns)} columns -> {escape(str(output))}")


@app.command()
def scaler(
    files: Annotated[
        list[Path], typer.Argument(help="The files that `stats` wrote, one from each site.")
    ],
    output: Output,
    without: Without = None,
    robust: Annotated[
        bool,
        typer.Option(
            help="From four sites on, set aside statistics that are impossible beside those of "
            "the others. --no-robust believes all sites."
        ),
    ] = True,
    force: ForceFlag = False,
) -> None:
    """At the coordinator: merge the statistics of all sites into one scaler.

    It equals the scaler of the pooled rows. Send it to all sites. Sites that differ much from the
    others are named: ask them for their units.

    Example: fedjigsaw scaler bern.stats lyon.stats -o scaler.json
    """
    check_outputs(output, force=force, inputs=files)
    sites.check_once(files)
    loaded = {str(path): formats.load(path, Stats) for path in files}
    merged, verdicts = sites.merge_statistics(loaded, without=without or (), robust=robust)
    formats.save_scaler(merged, output, replace=force)
    used = len(loaded) - len(set(without or ())) - sum(v.used is None for v in verdicts)
    out.print(f"Scaler {merged.fingerprint} of {_sites(used)} -> {escape(str(output))}")
    for line in describe_statistics(verdicts, MAX_SHOWN):
        out.print(escape(line))


@app.command()
def summarize(
    data: Data,
    output: Output,
    k: Annotated[Any, CLUSTERS],
    method: Annotated[
        str,
        typer.Option(
            help="The clustering method, the same at all sites; `fedjigsaw methods` lists them. "
            "Example: --method feca"
        ),
    ] = DEFAULT,
    param: ParamFlag = None,
    columns: Columns = None,
    scaler_file: Annotated[
        Path | None,
        typer.Option(
            "--scaler",
            help="Scale the columns by this file of `scaler`, the same at all sites. Default: no "
            "scaling. Example: --scaler scaler.json",
        ),
    ] = None,
    client: ClientName = None,
    min_cluster_size: Annotated[
        int,
        typer.Option(
            min=1,
            help="Guard: merge centers of fewer rows than this into their nearest neighbor; "
            "1 turns it off.",
        ),
    ] = 5,
    counts: Annotated[
        str | None,
        typer.Option(
            **choice(COUNTS),
            help="Guard: send cluster sizes exactly, rounded to multiples of --min-cluster-size, "
            "or not at all. Default: exactly if the method needs them, else not at all.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random numbers; use the same at all sites.")
    ] = 0,
    max_rows: Annotated[
        int,
        typer.Option(
            min=1, help="Cluster a random sample of this size if there are more complete rows."
        ),
    ] = sites.MAX_ROWS,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
) -> None:
    """At a site: cluster the rows and write the one summary that leaves.

    Read it with `fedjigsaw inspect` before you send it.

    Example: fedjigsaw summarize bern.csv -k 4 -o bern.summary --scaler scaler.json
    """
    check_outputs(output, force=force, inputs=[data, scaler_file])
    table = open_table(data)
    with warnings_shown(FewerRowsWarning), count_rows("Rows", table.n_rows) as progress:
        file = sites.summarize(
            table,
            k,
            method=method,
            params=parse_params(param),
            client=client,
            scaler=None if scaler_file is None else formats.load_scaler(scaler_file),
            guard=Guard(min_cluster_size, counts),
            seed=seed,
            max_rows=max_rows,
            columns=split_names(columns),
            drop_missing=drop_missing,
            progress=progress,
        )
    formats.save(file, output, replace=force)
    summary = file.summary
    merged = f", {summary.merged} merged by the guard" if summary.merged else ""
    text = f"{summary.n_samples:,} rows -> {len(summary.centers)} centers{merged}"
    out.print(f"{text} -> {escape(str(output))} ({output.stat().st_size:,} bytes)")
    if file.n_used < summary.n_samples:
        out.print(
            f"Only {file.n_used:,} of the rows, drawn at random, were clustered (--max-rows)."
        )
        with count_rows("Measuring the loss", table.n_rows) as progress:
            mean = sites.mean_squared_distance(
                table, file, drop_missing=drop_missing, progress=progress
            )
        out.print(f"Mean squared distance of all rows to the nearest center: {mean:.6g}")


@app.command()
def aggregate(
    files: Annotated[
        list[Path], typer.Argument(help="The files that `summarize` wrote, one from each site.")
    ],
    output: Output,
    k: Annotated[Any, CLUSTERS],
    without: Without = None,
    min_sites: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Leave out files that cannot be used, and name them, as long as this many remain. "
            "Default: one such file is an error. Example: --min-sites 5",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--param",
            help="Set a parameter that acts at the server; for jigsaw: max_clusters, max_iter, "
            "patience. Repeat it for several. Default: the method's. What a site gave to "
            "`summarize` has no effect here. Example: -p max_clusters=80",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers of the server.")] = 0,
    force: ForceFlag = False,
) -> None:
    """At the coordinator: aggregate the summaries of all sites into a model.

    Example: fedjigsaw aggregate bern.summary lyon.summary -k 4 -o model
    """
    check_outputs(output, force=force, inputs=files)
    sites.check_once(files)
    with warnings_shown(CountsWarning, FewerClustersWarning, RefusedFileWarning):
        model = sites.aggregate(
            sites.read_summaries(files),
            k,
            without=without or (),
            seed=seed,
            params=parse_params(param),
            min_sites=min_sites,
        )
    formats.save(model, output, replace=force)
    text = f"{_sites(len(model.clients))}, {model.n_samples:,} rows"
    out.print(f"{text} -> {len(model.model.centers)} centers -> {escape(str(output))}")
    for line in describe_sites(model, MAX_SHOWN):
        out.print(escape(line))


@app.command()
def assign(
    data: Data,
    model: ModelPath,
    output: Annotated[
        Path,
        typer.Option("--out", "-o", help="The file to write; its name ends in .parquet or .csv."),
    ],
    local: Annotated[
        Path | None,
        typer.Option(
            help="Label by the summary that this site sent: a row gets the cluster of its nearest "
            "local center. Better if sites have very different clusters; `inspect` recommends it "
            "then. Default: nearest center of the model. Example: --local bern.summary"
        ),
    ] = None,
    distances: Annotated[
        bool,
        typer.Option(
            "--distances",
            help="Also write the distance of each row to the center of its cluster, in scaled "
            "units if there is a scaler.",
        ),
    ] = False,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Copy this column of the data to the result, to tell rows apart. Default: none. "
            "Example: --id patient",
        ),
    ] = None,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Give rows with missing values an empty label. Default: a missing value is an "
            "error.",
        ),
    ] = False,
    force: ForceFlag = False,
) -> None:
    """At a site: write the cluster of every row, in the order of the rows.

    Example: fedjigsaw assign bern.csv --model model -o bern-labels.csv --id patient
    """
    check_outputs(output, force=force, inputs=[data, model, local])
    file = formats.load(model, ModelFile)
    own = None if local is None else formats.load(local, SummaryFile)
    table = open_table(data, columns=file.columns, id_column=id_column, drop_missing=drop_missing)
    with warnings_shown(ForeignSummaryWarning), count_rows("Rows", table.n_rows) as progress:
        parts = sites.assign(table, file, local=own, progress=progress)
        n_rows = sites.write_labels(
            output, parts, id_column=id_column, distances=distances, replace=force
        )
    out.print(f"{n_rows:,} labels -> {escape(str(output))}")


@app.command()
def score(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="The site's data file; with --merge, the files that `score` wrote, one from each "
            "site."
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", help="The model that `aggregate` wrote; required unless --merge is given."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file to write the score to. Default: print it only."),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add up scores of several sites for the same model.")
    ] = False,
    client: ClientName = None,
    drop_missing: DropMissing = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure how well a model fits: at a site for its rows, with --merge for all sites.

    Example: fedjigsaw score bern.csv --model model -o bern.score

    Example: fedjigsaw score --merge bern.score lyon.score
    """
    check_outputs(output, force=force, inputs=[*data, model])
    if merge:
        sites.check_once(data)
        found = sites.merge_scores({str(path): formats.load(path, Score) for path in data})
    elif model is None or len(data) != 1:
        raise ParameterError("score needs one data file and --model, or --merge and score files.")
    else:
        file = formats.load(model, ModelFile)
        table = open_table(data[0], columns=file.columns, drop_missing=drop_missing)
        with count_rows("Rows", table.n_rows) as progress:
            found = sites.score(table, file, client=client, progress=progress)
    if output is not None:
        formats.save(found, output, replace=force)
    rows, sizes, inertia = found.n_rows, found.counts.tolist(), float(found.sse.sum())
    if as_json:
        print_json({"who": found.client, "rows": rows, "inertia": inertia, "cluster_sizes": sizes})
        return
    out.print(f"{escape(found.client)}: {rows:,} rows, inertia {inertia:.10g}")
    out.print("Rows per cluster: " + ", ".join(map(str, sizes)))


# ----------------------------------------------------------------------------------------- parts


def _sites(n: int) -> str:
    return "1 site" if n == 1 else f"{n} sites"
