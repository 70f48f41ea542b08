"""Options of commands that read a site's data, and those of differential privacy."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw.cli._config import was_given
from fedjigsaw.cli._shared import choice, err, escape, out, warnings_shown
from fedjigsaw.columns.encoding import Encoding
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.shown import shown_bounds
from fedjigsaw.errors import MessageError, ParameterError, counted
from fedjigsaw.io import formats
from fedjigsaw.io.bounds import Bounds, read_bounds
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.schemas import load_schema
from fedjigsaw.io.tables import Names, Table, open_table
from fedjigsaw.messages import OWN, SHARED
from fedjigsaw.privacy.dp import ROW, SITE, Privacy
from fedjigsaw.records.budget import DEFAULT_DELTA
from fedjigsaw.records.ledger import LEDGER
from fedjigsaw.sites import Charge

Data = Annotated[
    Path,
    typer.Argument(
        help="The site's data: a text file with a header line (.csv, .tsv, .txt, also .gz), whose "
        "delimiter, decimal sign and encoding are detected, or an Excel, Parquet or NPY file. "
        "Example: bern.csv"
    ),
]
Output = Annotated[Path, typer.Option("--out", "-o", help="The file to write.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="The columns to use, separated by commas. Default: all but those that look like "
        "identifiers. Example: --columns age,dose"
    ),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="What the columns mean, the same file at all sites: kinds, units, missing values, "
        "scaling. `fedjigsaw schema init` makes one. Example: --schema schema.toml",
    ),
]
AgreedSchema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="The schema that the sites agreed on: refuse a scaler or model that was made by "
        "another one, which might use columns that yours ignores. Default: not compared. "
        "Example: --schema schema.toml",
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
        help="Skip rows with missing values, and print how many there are. Default: a missing "
        "value is an error.",
    ),
]
DECIMAL: dict[str, Any] = {
    **choice((".", ",")),
    "help": "The decimal sign of a text or Excel file. Default: detected; a file is refused if "
    "nothing in it tells whether 1.234 is 1234. Example: --decimal ,",
}
Decimal = Annotated[str | None, typer.Option(**DECIMAL)]
PRIVACY = "Differential privacy"
Epsilon = Annotated[
    float | None,
    typer.Option(
        help="Add noise, so that, with or without any one row, any set of results is at most "
        "e^EPSILON times as likely, plus --delta. Default: no noise. Example: --epsilon 1",
        rich_help_panel=PRIVACY,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="Added to the bound that epsilon gives; well below 1 / rows. "
        f"Default: {DEFAULT_DELTA:g}. Example: --delta 1e-7",
        rich_help_panel=PRIVACY,
    ),
]
BoundsOption = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        help="Least and greatest value of each column, in the units of the data: a JSON file such "
        'as {"age": [0, 120], "dose": [0, 10]}, or two numbers for all columns. They are public: '
        "take them from knowledge of the field, never from the rows. Required with --epsilon, "
        "unless a schema has the range of each column. Example: --bounds columns.json",
        rich_help_panel=PRIVACY,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        **choice((ROW, SITE)),
        help="Protect each row, or all rows of the site together, where very many small sites take "
        f"part. Default: {ROW}.",
        rich_help_panel=PRIVACY,
    ),
]
CellsOption = Annotated[
    str | None,
    typer.Option(
        "--cells",
        **choice((OWN, SHARED)),
        help="Look for clusters at each site, or describe cells that all sites share, where each "
        "has few rows. The same at all sites; `fedjigsaw privacy cells` says which. "
        f"Required with --epsilon; with `--unit {SITE}` it is {SHARED}.",
        rich_help_panel=PRIVACY,
    ),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="Where releases about these data are written down and limited. Default: "
        f"{LEDGER} beside the data. Example: --ledger bern.jsonl",
        rich_help_panel=PRIVACY,
    ),
]
DataSet = Annotated[
    str | None,
    typer.Option(
        help="Name of these data in the ledger; releases under one name add up. Default: the name "
        "of the data file, without its ending. Example: --data-set bern",
        rich_help_panel=PRIVACY,
    ),
]


def open_data_file(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    id_column: Names = None,
    drop_missing: bool = False,
    encoding: Encoding | None = None,
    decimal: str | None = None,
) -> Table:
    """Open a site's data; print how the file is written, and which columns are left out."""
    with warnings_shown():
        table = open_table(
            path,
            columns=columns,
            id_column=id_column,
            drop_missing=drop_missing,
            encoding=encoding,
            decimal=decimal,
        )
    if table.reader.told:
        err.print(f"{escape(str(path))}: {escape(table.reader.told)}.")
    return table


def open_to_cluster(
    path: Path,
    columns: Sequence[str] | None = None,
    scaler: Scaler | None = None,
    decimal: str | None = None,
) -> Table:
    """Open a site's data with the columns to cluster by: of the scaler, as named, or all."""
    if scaler is not None:
        columns, encoding = scaler.columns, scaler.encoding
        return open_data_file(path, columns=columns, encoding=encoding, decimal=decimal)
    return open_data_file(path, columns=columns, decimal=decimal)


def check_agreed(source: Path | None, encoding: Encoding | None, schema: Path | None) -> None:
    """Raise if a file of the coordinator was not made by the schema that a site agreed on."""
    if schema is None:
        return
    agreed = load_schema(schema)
    if encoding is None or encoding.schema != agreed:
        if source is None:
            raise ParameterError(
                f"{schema} was agreed on, and no scaler was given. Give the one that was made by "
                "it: --scaler."
            )
        raise MessageError(
            f"{source} was not made by {schema}, the schema that was agreed on. Ask the "
            "coordinator which columns it uses: `fedjigsaw inspect` lists them."
        )


def take_bounds(
    epsilon: float | None, bounds: str | None, **others: float | str | None
) -> Bounds | None:
    """Read the bounds for --epsilon; None without it, and then no other option may be given."""
    if epsilon is None:
        for name, value in {"bounds": bounds, **others}.items():
            if value is not None:
                raise ParameterError(f"--{name} is about differential privacy: give --epsilon too.")
        return None
    if bounds is None:
        raise ParameterError(
            "--epsilon needs --bounds, the least and greatest value of each column: a file such as "
            '{"age": [0, 120]}, or two numbers for all columns. Take them from knowledge of the '
            "field, never from the rows. With a schema, its ranges are the bounds."
        )
    return read_bounds(bounds)


def make_privacy(
    columns: Sequence[str],
    epsilon: float | None,
    delta: float | None,
    bounds: str | None,
    unit: str | None = None,
    cells: str | None = None,
    *,
    encoding: Encoding | None = None,
    rows: int | None = None,
) -> Privacy | None:
    """Make the promise that options ask for, about these columns; None without --epsilon.

    With an encoding, the bounds are those of its schema. `rows` is as in :class:`Privacy`.
    """
    if epsilon is not None and encoding is not None:
        _refuse_bounds(bounds)
        pairs = zip(*(values.tolist() for values in encoding.bounds()), strict=True)
        by_name = dict(zip(encoding.features, pairs, strict=True))
        found: Bounds | None = Bounds("the schema", by_name)
    else:
        found = take_bounds(epsilon, bounds, delta=delta, unit=unit, cells=cells)
    if epsilon is None or found is None:
        return None
    return Privacy(
        epsilon=epsilon,
        delta=DEFAULT_DELTA if delta is None else delta,
        bounds=found.of(columns),
        unit=unit or ROW,
        cells=cells,
        rows=rows,
    )


def _refuse_bounds(bounds: str | None) -> None:
    if bounds is not None:
        raise ParameterError("Leave --bounds out: the schema has the range of each column.")


def make_profile_privacy(
    file: ModelFile, epsilon: float | None, delta: float | None, bounds: str | None
) -> Privacy | None:
    """Make the promise that options ask for, about the numbers of a model's profile.

    They are all columns that its schema has, in the units of the file.
    """
    if epsilon is None or file.encoding is None:
        return make_privacy(file.columns, epsilon, delta, bounds)
    _refuse_bounds(bounds)
    limits = shown_bounds(file.encoding.schema)
    return Privacy(epsilon, DEFAULT_DELTA if delta is None else delta, limits)


def print_privacy(
    privacy: Privacy | None, charge: Charge, n_skipped: int = 0, *, public: str = ""
) -> None:
    """Print what a release promises, what it takes for granted, and what is left."""
    if privacy is not None:
        if n_skipped:
            rows = counted(n_skipped, "row was", "rows were")
            out.print(
                f"{rows} skipped (missing values). This number is exact and does not "
                "leave this site."
            )
        out.print(privacy.sentence())
        if public:
            text = f"The {public} is taken as public: the promise does not cover how it was made."
            out.print(text)
        out.print(escape(charge.describe()))


def refuse_with_epsilon(context: typer.Context, *names: str) -> None:
    """Raise if an option was given that has no meaning under differential privacy."""
    for name in names:
        if was_given(context, name):
            raise ParameterError(
                f"--{name.replace('_', '-')} has no meaning with --epsilon, under which all rows "
                "are used and noise takes the place of the guard. Leave it out."
            )


def written(content: formats.Content, path: Path, n_skipped: int, charge: Charge) -> dict[str, Any]:
    """Return what a site wrote, for JSON: what is in the file, and what is spent and left.

    Parameters
    ----------
    n_skipped : rows that were skipped for missing values, which a private file does not tell.
    """
    from fedjigsaw.report.inspection import describe
    from fedjigsaw.report.values import file_values

    size = path.stat().st_size
    found = file_values(content, describe(content, size, most=sys.maxsize))
    values = {"file": str(path), "bytes": size, **found, "skipped_at_this_site": n_skipped}
    budget = charge.describe() if found["privacy"] is not None else None
    return {**values, "budget": budget}
