"""Commands that make a common scale: stats and scaler."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw import sites
from fedjigsaw.cli._options import (
    BoundsOption,
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
    SchemaOption,
    make_privacy,
    open_data_file,
    print_privacy,
    refuse_with_epsilon,
    written,
)
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    Without,
    check_outputs,
    count_rows,
    err,
    escape,
    out,
    print_json,
    split_names,
    warnings_shown,
)
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.errors import (
    ParameterError,
    counted,
)
from fedjigsaw.io import formats
from fedjigsaw.io.bounds import read_bounds
from fedjigsaw.io.contents import describe_rows
from fedjigsaw.io.schemas import load_schema
from fedjigsaw.records.ledger import default_path
from fedjigsaw.report.inspection import MAX_SHOWN
from fedjigsaw.report.statistics import describe_statistics
from fedjigsaw.report.values import scaler_values
from fedjigsaw.sites.moments import Verdict

app = typer.Typer()


@app.command()
def stats(
    context: typer.Context,
    data: Data,
    output: Output,
    columns: Columns = None,
    schema_file: SchemaOption = None,
    client: ClientName = None,
    min_cluster_size: Annotated[
        int,
        typer.Option(
            min=1,
            help="Guard: write nothing if there are fewer rows than this, and with --schema count "
            "rarer categories as (other); 1 turns it off. Example: --min-cluster-size 10",
        ),
    ] = 5,
    drop_missing: DropMissing = False,
    decimal: Decimal = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    bounds: BoundsOption = None,
    ledger: LedgerOption = None,
    data_set: DataSet = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """At a site: write count, mean and spread of each column, for a common scaler.

    With --epsilon, these are noisy, and use up a part of the privacy budget. A scaler from public
    bounds alone costs nothing: `fedjigsaw scaler --bounds`.

    Example: fedjigsaw stats bern.csv -o bern.stats --columns age,dose

    Example: fedjigsaw stats bern.csv -o bern.stats --schema schema.toml
    """
    inputs = [data, ledger, default_path(data), schema_file]
    check_outputs(output, force=force, inputs=inputs)
    names = split_names(columns)
    schema = None if schema_file is None else load_schema(schema_file)
    if schema is not None and names is not None:
        raise ParameterError("Give --columns or --schema; a schema names its own columns.")
    encoding = None if schema is None else sites.provisional(schema)
    table = open_data_file(
        data, columns=names, drop_missing=drop_missing, encoding=encoding, decimal=decimal
    )
    privacy = make_privacy(table.columns, epsilon, delta, bounds, encoding=encoding)
    if privacy is not None:
        refuse_with_epsilon(context, "min_cluster_size")
    charge = sites.Charge.for_file(data, "statistics", ledger=ledger, data_set=data_set)
    with warnings_shown(), count_rows("Rows", table.n_rows) as progress:
        found = sites.measure(
            table,
            client=client,
            schema=schema,
            min_rows=min_cluster_size,
            privacy=privacy,
            spend=charge.spend,
            progress=progress,
        )
        formats.save(found, output, replace=force)
    charge.confirm()
    if as_json:
        print_json(written(found, output, table.tally.skipped, charge))
        return
    rows = f"About {counted(found.n_samples, 'row')}"
    if privacy is None:
        rows = describe_rows(found.n_samples, table.tally.skipped)
    out.print(f"{rows}, {counted(len(found.sources), 'column')} -> {escape(str(output))}")
    print_privacy(privacy, charge, table.tally.skipped)


@app.command()
def scaler(
    output: Output,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="The files that `stats` wrote, one from each site."),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            help="Make the scaler from the bounds of the columns, a JSON file, instead of from "
            "statistics: it tells nothing about any row. Example: --bounds columns.json"
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="With --bounds: the columns of the scaler, separated by commas. Default: all of "
            "the file. Example: --columns age,dose"
        ),
    ] = None,
    schema_file: SchemaOption = None,
    without: Without = None,
    robust: Annotated[
        bool,
        typer.Option(
            help="From four sites on, set aside statistics that are impossible beside those of "
            "the others. --no-robust lets all count."
        ),
    ] = True,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: merge the statistics of all sites into one scaler.

    It equals the scaler of the pooled rows. Send it to all sites. Sites that differ much from the
    others are named, and columns in which one seems to use another unit: ask them for their units.

    With --schema, it is the whole preparation: it also fills in missing values and encodes
    categories and dates.

    With --bounds, it is that of values spread evenly between the bounds: the middle becomes 0, and
    the deviation is half the width over the root of 3.

    Example: fedjigsaw scaler bern.stats lyon.stats -o scaler.json

    Example: fedjigsaw scaler bern.stats lyon.stats -o scaler.json --schema schema.toml

    Example: fedjigsaw scaler --bounds columns.json -o scaler.json
    """
    if bounds is not None and schema_file is not None:
        raise ParameterError("Give --bounds or --schema: a schema needs the files of `stats`.")
    if bounds is not None or not files:
        made = _from_bounds(files or [], bounds, columns, output, force=force)
        if as_json:
            print_json({"file": str(output), **scaler_values(made), "sites": []})
        else:
            out.print(f"Scaler {made.fingerprint} of public bounds -> {escape(str(output))}")
        return
    if columns is not None:
        raise ParameterError("--columns goes with --bounds; statistics have columns of their own.")
    check_outputs(output, force=force, inputs=[*files, schema_file])
    sites.check_once(files)
    loaded = {str(path): formats.load(path, Stats) for path in files}
    schema = None if schema_file is None else load_schema(schema_file)
    with warnings_shown():
        merged, verdicts = sites.merge_statistics(
            loaded, schema=schema, without=without or (), robust=robust
        )
    formats.save_scaler(merged, output, replace=force)
    used = len(loaded) - len(set(without or ())) - sum(v.used is None for v in verdicts)
    units = sites.unlike_units(loaded, verdicts, without=without or ())
    for column in units:
        err.print(f"[yellow]Warning:[/] {escape(str(column))}")
    if as_json:
        told = {"units": list(map(str, units)), "sites": list(map(_verdict, verdicts))}
        print_json({"file": str(output), **scaler_values(merged), "n_sites": used, **told})
        return
    out.print(f"Scaler {merged.fingerprint} of {counted(used, 'site')} -> {escape(str(output))}")
    for line in describe_statistics(sites.untold(verdicts, units), MAX_SHOWN):
        out.print(escape(line))


def _from_bounds(
    files: list[Path], bounds: str | None, columns: str | None, output: Path, *, force: bool
) -> Scaler:
    if bounds is None or files:
        raise ParameterError("scaler needs files of `stats`, or --bounds, and not both.")
    check_outputs(output, force=force, inputs=[Path(bounds)])
    found = read_bounds(bounds)
    names = split_names(columns) or list(found.columns or ())
    if not names:
        raise ParameterError("--bounds must be a file here, since a scaler names its columns.")
    made = sites.scaler_of_bounds(names, *found.of(names))
    formats.save_scaler(made, output, replace=force)
    return made


def _verdict(verdict: Verdict) -> dict[str, Any]:
    """Return what is said about the statistics of a site, for JSON."""
    return {
        "client": verdict.stats.client,
        "rows": verdict.stats.n_samples,
        "set_aside": verdict.used is None,
        "column": verdict.column or None,
        "reason": verdict.reason,
    }
