"""The command that shows what is in a file."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjigsaw.cli._shared import JsonFlag, escape, out, print_json
from fedjigsaw.cli.journal import show_journal
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import Schema
from fedjigsaw.errors import MessageError, counted, quote_names
from fedjigsaw.io import formats
from fedjigsaw.io.regular import ending
from fedjigsaw.io.schemas import load_schema
from fedjigsaw.records.journal import is_journal
from fedjigsaw.report.inspection import MAX_SHOWN, describe
from fedjigsaw.report.values import file_values, shown_bytes

MAX_JSON = 8 * 2**20  # bytes of numbers; as JSON they need more than a hundred times the memory

app = typer.Typer()


@app.command()
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file that one of these commands wrote: bern.summary, model, journal.jsonl, "
            "schema.toml."
        ),
    ],
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help=f"Show every center and column. Default: the first {MAX_SHOWN}."
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what is in a file, and what could be inferred from it.

    Example: fedjigsaw inspect bern.summary
    """
    if is_journal(file):
        show_journal(file, as_json)
        return
    if ending(file) == ".toml":
        _show_schema(load_schema(file), as_json)
        return
    content: formats.Content | Scaler
    content = formats.load_scaler(file) if formats.is_scaler(file) else formats.load_any(file)
    if as_json and shown_bytes(content) > MAX_JSON:
        raise MessageError(
            f"{file} has too many numbers to print as JSON: at most {MAX_JSON // 8:,}. "
            "Leave --json out; --all shows every center."
        )
    most = sys.maxsize if everything or as_json else MAX_SHOWN
    with formats.errors_in(file):
        lines = describe(content, file.stat().st_size, most=most)
    if as_json:
        print_json(_values(content, file, lines))
        return
    for line in lines:
        out.print(escape(line))


def _show_schema(schema: Schema, as_json: bool) -> None:
    if as_json:
        print_json({"kind": "schema", "fingerprint": schema.fingerprint, **schema.to_dict()})
        return
    n_columns = counted(len(schema.columns), "column")
    out.print(f"A schema of {n_columns}, fingerprint {schema.fingerprint}:")
    for column in schema.columns:
        unit = f", in {column.unit}" if column.unit else ""
        levels = f": {quote_names(column.categories)}" if column.categories else ""
        out.print(escape(f"  {column.name}: {column.kind}{unit}{levels}"))
    out.print("What could be inferred: what is in the file, a text; it has no values of rows.")


def _values(content: formats.Content | Scaler, file: Path, lines: list[str]) -> dict[str, Any]:
    with formats.errors_in(file):
        found = file_values(content, lines)
    return {"file": str(file), "bytes": file.stat().st_size, **found, "lines": lines}
