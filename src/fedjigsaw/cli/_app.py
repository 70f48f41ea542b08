"""The commands, in panels, as one application."""

import inspect as inspect_source
import sys
from typing import Annotated

import typer

from fedjigsaw import __version__
from fedjigsaw.cli import (
    bench,
    catalog,
    compare,
    deep,
    diff,
    federation,
    inspect,
    privacy,
    report,
    reproduce,
    scaling,
    schema,
    score,
    sites,
)
from fedjigsaw.cli._shared import out, print_error
from fedjigsaw.errors import FedJigsawError

app = typer.Typer(
    help="One-shot federated clustering: every client sends one small summary, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
START = "Start here"
# commands -> their panel in `fedjigsaw --help`, in the order in which panels are shown
PANELS = {
    catalog.app: START,
    bench.app: "Experiments on one machine",
    compare.app: "Experiments on one machine",
    reproduce.app: "Experiments on one machine",
    scaling.app: "One round, by files",
    sites.app: "One round, by files",
    score.app: "One round, by files",
    inspect.app: "One round, by files",
    diff.app: "One round, by files",
    report.app: "One round, by files",
}


def _assemble() -> None:
    for part, panel in PANELS.items():
        for command in part.registered_commands:
            command.rich_help_panel = START if command.callback is bench.demo else panel
        app.add_typer(part)
    app.add_typer(catalog.data_app, name="data", rich_help_panel=START)
    app.add_typer(schema.app, name="schema", rich_help_panel="One round, by files")
    app.add_typer(privacy.app, name="privacy", rich_help_panel="One round, by files")
    app.add_typer(federation.app, name="federation", rich_help_panel="Federation over a network")
    app.add_typer(deep.app, name="deep", rich_help_panel="Images")
    _unwrap_help(app)


def _unwrap_help(part: typer.Typer) -> None:
    """Join the lines of each paragraph of help, which Typer shows as they are in the source."""
    for command in part.registered_commands:
        text = command.help or inspect_source.getdoc(command.callback) or ""
        command.help = "\n\n".join(map(_join, text.split("\n\n"))) or None
    for group in part.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)


def _join(paragraph: str) -> str:
    """Join the lines of a paragraph, unless it is a list or a block."""
    lines = paragraph.splitlines()
    is_text = not any(line.startswith((" ", "-", "*", "\b")) for line in lines)
    return " ".join(lines) if is_text else paragraph


_assemble()


def run() -> None:
    """Run a command; print an error of fedjigsaw as one line and exit with its code."""
    try:
        app()
    except FedJigsawError as error:
        print_error(error)
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
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options that come before any command."""
