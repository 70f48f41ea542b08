"""Commands of one round by file: summarize, aggregate, assign."""

from dataclasses import asdict
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from fedjigsaw import sites
from fedjigsaw.cli._options import (
    AgreedSchema,
    BoundsOption,
    CellsOption,
    ClientName,
    Columns,
    Data,
    DataSet,
    Decimal,
    Delta,
    DropMissing,
    Epsilon,
    LedgerOption,
    Output,
    Unit,
    check_agreed,
    make_privacy,
    open_data_file,
    open_to_cluster,
    print_privacy,
    refuse_with_epsilon,
    written,
)
from fedjigsaw.cli._plugins import PluginFlag
from fedjigsaw.cli._shared import (
    CLUSTERS,
    ForceFlag,
    JsonFlag,
    ParamFlag,
    Without,
    check_outputs,
    choice,
    count_rows,
    count_rows_then,
    escape,
    out,
    parse_params,
    print_json,
    split_names,
    warnings_shown,
)
from fedjigsaw.cli._strange import (
    DetailOption,
    LiarsOption,
    StrictFlag,
    VouchOption,
    end,
    given,
    print_strange,
    strange_values,
)
from fedjigsaw.cli._succession import LikeModel, Made, follow, load_earlier
from fedjigsaw.cli.region import (
    AsSummary,
    RegionCenters,
    RegionName,
    check_region,
    write_region,
)
from fedjigsaw.errors import ConspicuousSiteWarning, UncertainNumberWarning, counted
from fedjigsaw.io import formats
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.io.tables import Table
from fedjigsaw.messages import COUNTS
from fedjigsaw.methods import DEFAULT
from fedjigsaw.number.cells import sends_cells
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.records.ledger import default_path
from fedjigsaw.report.inspection import MAX_SHOWN
from fedjigsaw.report.number import describe_number, number_values
from fedjigsaw.report.privacy import privacy_values, rows_in_words
from fedjigsaw.report.trust import (
    check_strict,
    clusters_in_words,
    describe_lone,
    describe_sites,
    part_of,
    reports_of,
    strange_sites,
)

app = typer.Typer()

ModelPath = Annotated[
    Path, typer.Option("--model", help="The model that `aggregate` wrote. Example: --model model")
]


@app.command()
def summarize(
    context: typer.Context,
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
    detail: DetailOption = None,
    columns: Columns = None,
    scaler_file: Annotated[
        Path | None,
        typer.Option(
            "--scaler",
            help="Scale the columns by this file of `scaler`, the same at all sites. Default: no "
            "scaling. Example: --scaler scaler.json",
        ),
    ] = None,
    schema: AgreedSchema = None,
    client: ClientName = None,
    min_cluster_size: Annotated[
        int,
        typer.Option(
            min=1,
            help="Guard: merge centers of fewer rows than this into their nearest neighbor (with "
            "`-k auto` into a similar one, or leave them out); 1 turns it off.",
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
    decimal: Decimal = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    bounds: BoundsOption = None,
    unit: Unit = None,
    cells: CellsOption = None,
    ledger: LedgerOption = None,
    data_set: DataSet = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    plugin: PluginFlag = None,
) -> None:
    """At a site: cluster the rows and write the one summary that leaves.

    Read it with `fedjigsaw inspect` before you send it.

    Example: fedjigsaw summarize bern.csv -k 4 -o bern.summary --scaler scaler.json

    Example: fedjigsaw summarize bern.csv -k 4 -o bern.summary --epsilon 1 --bounds columns.json
    """
    check_outputs(output, force=force, inputs=[data, scaler_file, ledger, default_path(data)])
    names = split_names(columns)
    scaler = None if scaler_file is None else formats.load_scaler(scaler_file)
    encoding = None if scaler is None else scaler.encoding
    check_agreed(scaler_file, encoding, schema)
    table = open_to_cluster(data, names, scaler, decimal)
    privacy = make_privacy(table.columns, epsilon, delta, bounds, unit, cells, encoding=encoding)
    if privacy is not None:
        refuse_with_epsilon(context, "min_cluster_size", "counts", "max_rows")
    charge = sites.Charge.for_file(data, "summary", ledger=ledger, data_set=data_set)
    counting = count_rows_then("Rows", table.n_rows, "Clustering")
    with warnings_shown(), counting as (progress, clustering):
        file = sites.summarize(
            table,
            k,
            method=method,
            params=given(parse_params(param), detail=detail),
            client=client,
            scaler=scaler,
            guard=Guard(min_cluster_size, counts),
            seed=seed,
            privacy=privacy,
            spend=charge.spend,
            max_rows=max_rows,
            columns=names,
            drop_missing=drop_missing,
            progress=progress,
            clustering=clustering,
        )
        formats.save(file, output, replace=force)
    charge.confirm()
    sampled = privacy is None and file.n_used < file.summary.n_samples
    if as_json:
        loss = _mean_distance(table, file, drop_missing=drop_missing) if sampled else None
        values = written(file, output, table.tally.skipped, charge)
        print_json({**values, "mean_squared_distance": loss})
        return
    if privacy is not None:
        text = rows_in_words(file.summary).capitalize()
        out.print(f"{text} -> {escape(str(output))} ({output.stat().st_size:,} bytes)")
        print_privacy(file.privacy, charge, table.tally.skipped, public="scaler" * bool(scaler))
        return
    out.print(f"{_made_of(file)} -> {escape(str(output))} ({output.stat().st_size:,} bytes)")
    if sampled:
        out.print(
            f"Only {file.n_used:,} of the rows, drawn at random, were clustered (--max-rows)."
        )
        mean = _mean_distance(table, file, drop_missing=drop_missing)
        out.print(f"Mean squared distance of all rows to the nearest center: {mean:.6g}")


def _made_of(file: SummaryFile) -> str:
    """Say of how many rows a summary was made, and how many centers the guard let pass."""
    summary = file.summary
    how = "merged or left out" if sends_cells(file.params) else "merged"
    merged = f", {summary.merged} {how} by the guard" if summary.merged else ""
    rows = describe_rows(summary.n_samples, file.n_skipped)
    return f"{rows} -> {counted(len(summary.centers), 'center')}{merged}"


def _mean_distance(table: Table, file: SummaryFile, *, drop_missing: bool) -> float:
    """Measure how far all rows are from the centers of a sample."""
    with count_rows("Measuring the loss", table.n_rows) as progress:
        return sites.mean_squared_distance(
            table, file, drop_missing=drop_missing, progress=progress
        )


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
            "patience, liars, vouch, shape, noise. Repeat it for several. Default: the method's. "
            "What a site gave to `summarize` has no effect here. Example: -p max_clusters=20",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers of the server.")] = 0,
    liars: LiarsOption = None,
    vouch: VouchOption = None,
    strict: StrictFlag = False,
    like: LikeModel = None,
    as_summary: AsSummary = False,
    client: RegionName = None,
    n_centers: RegionCenters = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
    plugin: PluginFlag = None,
) -> None:
    """At the coordinator: aggregate the summaries of all sites into a model.

    With `-k auto` it prints how sure the number of clusters is, and what would be nearly as good.

    With --as-summary it writes one summary for the next level instead, that of a region.

    Example: fedjigsaw aggregate bern.summary lyon.summary -k 4 -o model

    Example: fedjigsaw aggregate bern.summary lyon.summary -k auto -o model

    Example: fedjigsaw aggregate bern.summary lyon.summary -k 4 -o june.model --like may.model

    Example: fedjigsaw aggregate bern.summary lyon.summary -k 4 --as-summary -o north.summary
    """
    check_outputs(output, force=force, inputs=[*files, like])
    earlier = load_earlier(like, output)
    sites.check_once(files)
    check_region(as_summary, client, n_centers, like)
    loaded = sites.read_summaries(files)
    options: dict[str, Any] = {"without": without or (), "seed": seed, "min_sites": min_sites}
    options["params"] = given(parse_params(param), liars=liars, vouch=vouch)
    printed = [UncertainNumberWarning, ConspicuousSiteWarning]  # below
    if as_summary:
        name = client or output.stem
        with warnings_shown(but=printed):
            made = sites.aggregate_region(loaded, k, client=name, n_centers=n_centers, **options)
        if made[1] is not None:
            told = strange_sites(made[1])
            check_strict(made[1], told, strict)
            print_strange([] if as_json else told)
        write_region(*made, output, force=force, as_json=as_json)
        end(made[1], strict)
        return
    with warnings_shown(but=printed):
        model = sites.aggregate(loaded, k, **options)
    told = strange_sites(model)
    check_strict(model, told, strict)
    summaries = [file for file in loaded.values() if isinstance(file, SummaryFile)]
    step = follow(model, earlier, summaries)
    step.save(output, replace=force)
    if as_json:
        print_json(_aggregated(step.model, output) | step.values())
    else:
        print_strange(told)
        _print_model(step, summaries, output)
    end(model, strict)


def _print_model(step: Made, summaries: list[SummaryFile], path: Path) -> None:
    model = step.model
    about = "" if model.privacy is None else "about "
    part = part_of(model)
    rows = describe_rows(part.n_rows, model.n_skipped)
    text = f"{counted(part.n_sites, 'site')}, {about}{rows}{part.more}"
    out.print(f"{text} -> {clusters_in_words(model.model, 'center')} -> {escape(str(path))}")
    step.print()
    found = describe_number(model.model, model.ids), describe_lone(model)
    for line in chain(*found, describe_sites(model, MAX_SHOWN)):
        out.print(escape(line))
    if _is_coarse(summaries, model):
        words = f"summarize -k {model.model.params['n_clusters']} --detail 3"
        out.print(f"Finer summaries would tell more about sites that lie: `{words}`.")
    _report_promises(summaries, model)


def _is_coarse(files: list[SummaryFile], model: ModelFile) -> bool:
    """Tell whether `--detail` of the sites would help, since some may lie.

    They sent hardly more centers than clusters, or cells, which are for `-k auto`.
    """
    if not model.model.params.get("liars"):
        return False
    if any(sends_cells(file.params) for file in files):
        return True
    n_centers = [len(file.summary.centers) for file in files]
    return median(n_centers) < 2 * (len(model.model.centers) - model.model.n_lone)


def _aggregated(model: ModelFile, path: Path) -> dict[str, Any]:
    return {
        "model": str(path),
        "n_clusters": len(model.model.centers) - model.model.n_lone,
        "ids": list(model.cluster_ids),
        "n_samples": model.n_samples,
        "skipped": model.n_skipped,
        "sites": list(model.clients),
        "k": number_values(model.model, model.ids),
        "reports": [asdict(report) for report in reports_of(model)],
        **strange_values(model),
        "privacy": privacy_values(model),
    }


def _report_promises(files: list[SummaryFile], model: ModelFile) -> None:
    """Print what the model promises, or which sites promise nothing while others do."""
    if model.privacy is not None:
        out.print(f"Differential privacy at every site: {model.privacy.sentence()}")
        return
    used = [file for file in files if file.summary.client in model.clients]
    plain = [file.summary.client for file in used if file.privacy is None]
    if len(plain) < len(used):
        names = ", ".join(plain[:MAX_SHOWN]) + ", ..." * (len(plain) > MAX_SHOWN)
        out.print(escape(f"The model promises no differential privacy, since {names} did not."))


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
        list[str] | None,
        typer.Option(
            "--id",
            help="Copy this column of the data to the result. Repeat it for several. Default: "
            "none, and rows are told apart by their number. Example: --id patient --id visit",
        ),
    ] = None,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Give rows with missing values an empty label, and print how many there are. "
            "Default: a missing value is an error.",
        ),
    ] = False,
    decimal: Decimal = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """At a site: write the number and the cluster of every row, in the order of the rows.

    Example: fedjigsaw assign bern.csv --model model -o bern-labels.csv --id patient
    """
    check_outputs(output, force=force, inputs=[data, model, local])
    file = formats.load(model, ModelFile)
    own = None if local is None else formats.load(local, SummaryFile)
    table = open_data_file(
        data,
        columns=file.columns,
        id_column=id_column,
        drop_missing=drop_missing,
        encoding=file.encoding,
        decimal=decimal,
    )
    with warnings_shown(), count_rows("Rows", table.n_rows) as progress:
        parts = sites.assign(table, file, local=own, progress=progress)
        n_rows = sites.write_labels(
            output, parts, id_column=id_column, distances=distances, replace=force
        )
    skipped = table.tally.skipped
    if as_json:
        rule = "nearest" if local is None else "local"
        numbers = {"labels": n_rows - skipped, "skipped": skipped}
        print_json({"file": str(output), "model": str(model), **numbers, "rule": rule})
        return
    without = f", {counted(skipped, 'row')} without one (missing values)" if skipped else ""
    labels = counted(n_rows - skipped, "label")
    out.print(f"{labels}{without} -> {escape(str(output))}")
    for line in describe_lone(file):
        out.print(escape(line))
