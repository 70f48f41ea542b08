"""Commands about the schema that all sites share: schema init, check, apply."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedjigsaw import sites
from fedjigsaw.cli import _schema_words as words
from fedjigsaw.cli._options import Data, DataSet, Decimal, LedgerOption, Output
from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    check_outputs,
    count_rows,
    err,
    escape,
    out,
    print_json,
)
from fedjigsaw.columns.schema import FORMAT_CODES, IGNORE
from fedjigsaw.errors import DataError, ParameterError, counted, quote_names
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.regular import ending
from fedjigsaw.io.schemas import load_schema
from fedjigsaw.io.tables import Table as DataTable
from fedjigsaw.io.tables import open_file
from fedjigsaw.sites.charge import Charges
from fedjigsaw.sites.compatibility import COPY

app = typer.Typer(
    help="The schema that all sites share: what their columns mean.", no_args_is_help=True
)
Schema = Annotated[
    Path, typer.Option("--schema", help="The common schema. Example: --schema schema.toml")
]
MinRows = Annotated[
    int,
    typer.Option(
        "--min-cluster-size",
        min=1,
        help="Guard: propose only categories that at least so many rows have. "
        "Example: --min-cluster-size 10",
    ),
]


@app.command()
def init(
    files: Annotated[
        list[Path],
        typer.Argument(help="One or more data files of this site. Example: bern.csv"),
    ],
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write. Example: -o schema.toml")
    ] = None,
    min_cluster_size: MinRows = 5,
    decimal: Decimal = None,
    ledger: LedgerOption = None,
    data_set: DataSet = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the schema as JSON instead of writing TOML.")
    ] = False,
    force: ForceFlag = False,
) -> None:
    """At one site: propose a schema from its data, to be edited and sent to all sites.

    Kinds of columns are recognized: numbers, categories, words with an order, booleans, dates.
    Identifiers and free text are proposed as "ignore". The proposal names no category that only few
    rows have, and no value of a single row; ranges are rounded outward. Read it before it leaves.
    It has no noise, so it is refused if the ledger of the data has a limit.

    Example: fedjigsaw schema init bern.csv -o schema.toml
    """
    if as_json == (output is not None):
        raise ParameterError("Give a file to write (-o schema.toml), or --json.")
    check_outputs(output, force=force, inputs=[*files, ledger])
    sites.check_once(files)
    each = [sites.Charge.for_file(f, "schema", ledger=ledger, data_set=data_set) for f in files]
    charges = Charges(tuple(each))
    with count_rows("Rows", None) as progress:
        tables = [_open(path, decimal) for path in files]
        proposal = sites.propose_schema(tables, min_rows=min_cluster_size, progress=progress)
    charges.spend(None, None)  # here, so that nothing counts as told where nothing is
    if output is None:
        print_json(proposal.schema.to_dict())
    else:
        write_whole(output, sites.proposal_to_toml(proposal).encode(), replace=force)
    charges.confirm()
    if output is None:
        return
    kinds = [column.kind for column in proposal.schema.columns]
    n_ignored = kinds.count(IGNORE)
    ignored = f", {n_ignored} of them ignored" if n_ignored else ""
    out.print(f"{counted(len(kinds), 'column')}{ignored} -> {escape(str(output))}")
    for entry in proposal.columns:
        if entry.column.kind == IGNORE:
            out.print(escape(f"Ignored: {entry.column.name!r} ({entry.why})."))
    for entry in proposal.columns:
        for doubt in entry.doubts:
            out.print(escape(f"Check {entry.column.name!r}: {doubt}"))
    for line in proposal.told:
        err.print(f"[yellow]At this site:[/] {escape(line)}")
    out.print("Read and edit it, then check it at every site:")
    shown = shlex.join(["fedjigsaw", "schema", "check", str(files[0]), "--schema", str(output)])
    out.print(escape(f"  {shown}"))


@app.command()
def check(
    data: Data,
    schema_file: Schema,
    min_cluster_size: MinRows = 5,
    decimal: Decimal = None,
    as_json: JsonFlag = False,
) -> None:
    """At every site: say how the data fit the schema, and what to do where they do not.

    Nothing leaves: the table is for this site alone. The exit code is 3 if the file cannot be used
    as it is.

    Example: fedjigsaw schema check dresden.csv --schema schema.toml
    """
    schema = load_schema(schema_file)
    with count_rows("Rows", None) as progress:
        table = _open(data, decimal)
        found = sites.check_file(table, schema, min_rows=min_cluster_size, progress=progress)
    if as_json:
        print_json(_as_json(found))
    else:
        _print_check(found, schema_file)
    if not found.fits:
        raise typer.Exit(DataError.exit_code)


@app.command(name="apply")
def apply_(
    data: Data,
    schema_file: Schema,
    output: Output,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            help="Name in the file and in the schema; repeat. Example: --rename Alter=age"
        ),
    ] = None,
    factor: Annotated[
        list[str] | None,
        typer.Option(
            help="Multiply a column by a number, if this file has another unit; repeat. "
            "Example: --factor glucose=18.016"
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="The category that a value of this file means; repeat. "
            "Example: --map sex:w=female",
        ),
    ] = None,
    date_format: Annotated[
        list[str] | None,
        typer.Option(
            help=f"How dates are written, if that is not recognized; repeat. {FORMAT_CODES}. "
            "Examples: --date-format seen=%d.%m.%Y and --date-format 'seen=%d. %b %Y'"
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="What stands for a missing value, in all columns or in one; repeat. "
            "Examples: --missing -9 and --missing glucose:0"
        ),
    ] = None,
    empty: Annotated[
        list[str] | None,
        typer.Option(
            help="A column that this file does not have: it gets missing values only; repeat. "
            "Example: --empty triage"
        ),
    ] = None,
    decimal: Decimal = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """At a site whose file differs: write a clean copy, with names, units and types of the schema.

    All other commands read the copy. Columns that the schema does not use, such as ids, are kept as
    texts. It stays at the site.

    Example: fedjigsaw schema apply dresden.csv --schema schema.toml --factor glucose=18.016 --map
    sex:w=female -o dresden.parquet
    """
    if ending(output) != ".parquet":
        raise ParameterError(f"The copy is a Parquet file: name it {output.stem}.parquet.")
    check_outputs(output, force=force, inputs=[data, schema_file])
    schema = load_schema(schema_file)
    names = [column.name for column in schema.columns]
    everywhere, in_one = words.missing(missing or [], names)
    changes = sites.Changes(
        names=words.renamed(rename or [], names),
        factors={
            n: words.number(n, v) for n, v in words.pairs("--factor", factor or [], names).items()
        },
        levels=words.levels(level or [], names),
        date_formats=words.pairs("--date-format", date_format or [], names),
        missing=everywhere,
        missing_in=in_one,
        empty=tuple(empty or ()),
    )
    with count_rows("Rows", None) as progress:
        done = sites.apply_schema(
            _open(data, decimal), schema, output, changes, replace=force, progress=progress
        )
    if as_json:
        print_json({"file": str(output), **asdict(done)})
        return
    _print_applied(done, output)


def _open(path: Path, decimal: str | None) -> DataTable:
    """Open a site's data, and print how the file is written."""
    table = open_file(path, decimal)
    if table.reader.told:
        err.print(f"{escape(str(path))}: {escape(table.reader.told)}.")
    return table


# ---------------------------------------------------------------------------------------- printing


def _print_check(found: sites.FileCheck, schema_file: Path) -> None:
    table = Table("column", "kind", "missing", "fits", "what to know, what to do")
    for column in found.columns:
        if column.kind == IGNORE:
            continue
        fits = "[red]no[/]" if column.problems else "yes"
        words = "\n".join((*column.problems, *column.remarks))
        missing = f"{column.share_missing:.1%}" if column.n_missing else "-"
        table.add_row(escape(column.name), column.kind, missing, fits, escape(words))
    out.print(table)
    if found.others:
        names = ", ".join(found.others[:20]) + (", ..." if len(found.others) > 20 else "")
        out.print(escape(f"Columns that the schema does not name, which are not used: {names}."))
    rows = f"{found.path}: {counted(found.n_rows, 'row')}"
    if found.fits:
        out.print(escape(f"{rows}. The file fits the schema."))
        return
    if not found.options:
        out.print(escape(f"{rows}. The file cannot be used as it is: correct it."))
        return
    out.print(
        escape(f"{rows}. The file cannot be used as it is: correct it, or make a clean copy:")
    )
    out.print(escape(f"  {_command(found, schema_file)}"))
    left = [column.name for column in found.columns if column.problems and not column.options]
    if left:
        out.print(escape(f"This does not help with {quote_names(left)}: see the table."))
    if any(option == "--rename" for option, _ in found.options):
        out.print("Then check the copy, too: renamed columns have not been checked yet.")


def _command(found: sites.FileCheck, schema_file: Path) -> str:
    """Return the command that makes a clean copy, with the options that were proposed."""
    words = ["fedjigsaw", "schema", "apply", str(found.path), "--schema", str(schema_file)]
    for option, value in dict.fromkeys(found.options):
        words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return shlex.join([*words, "-o", f"{found.path.name.partition('.')[0]}{COPY}.parquet"])


def _as_json(found: sites.FileCheck) -> dict[str, Any]:
    return {
        "file": str(found.path),
        "fits": found.fits,
        "rows": found.n_rows,
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "fits": not column.problems,
                "missing": column.n_missing,
                "unreadable": column.n_unreadable,
                "outside": column.n_outside,
                "unknown": column.unknown,
                "problems": list(column.problems),
                "remarks": list(column.remarks),
                "options": [list(option) for option in column.options],
            }
            for column in found.columns
        ],
        "other_columns": list(found.others),
    }


def _print_applied(done: sites.Applied, output: Path) -> None:
    rows, columns = counted(done.n_rows, "row"), counted(len(done.n_missing), "column")
    copied = f", and {len(done.copied)} more kept as texts" if done.copied else ""
    out.print(f"{rows}, {columns} of the schema{copied} -> {escape(str(output))}")
    for line in done.said:
        out.print(escape(line))
    for name, count in done.n_missing.items():
        if count:
            out.print(escape(f"{name!r}: {_are(count)} missing."))
    for name, count in done.n_outside.items():
        if count:
            out.print(escape(f"{name!r}: {_are(count)} outside of the range or categories."))


def _are(n: int) -> str:
    return counted(n, "value is", "values are")
