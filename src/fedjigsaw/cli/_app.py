"""The commands, in panels, as one application. A command's module is imported when it is called."""

import inspect as inspect_source
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from fedjigsaw import __version__, cli
from fedjigsaw._imports import spare_imports
from fedjigsaw.cli._declared import Command, keep_help
from fedjigsaw.cli._shared import out, print_error
from fedjigsaw.errors import FedJigsawError

START, EXPERIMENTS, FILES = "Start here", "Experiments on one machine", "One round, by files"
FEDERATION, IMAGES = "Federation over a network", "Images"
# command -> panel of `fedjigsaw --help`, where it is (the module and, for a group of commands, the
# name of its application), and the first paragraph of its help, which a test compares with its own
COMMANDS = {
    "methods": (START, "catalog", "List the methods and their parameters."),
    "demo": (
        START,
        "demo",
        "Run the methods of the paper on a generated data set: one table, one picture.",
    ),
    "compare": (
        EXPERIMENTS,
        "compare",
        "Run all methods on your own files, or on a named data set: one table, one picture.",
    ),
    "stats": (
        FILES,
        "scaling",
        "At a site: write count, mean and spread of each column, for a common scaler.",
    ),
    "scaler": (
        FILES,
        "scaling",
        "At the coordinator: merge the statistics of all sites into one scaler.",
    ),
    "summarize": (
        FILES,
        "sites",
        "At a site: cluster the rows and write the one summary that leaves.",
    ),
    "aggregate": (
        FILES,
        "sites",
        "At the coordinator: aggregate the summaries of all sites into a model.",
    ),
    "assign": (
        FILES,
        "sites",
        "At a site: write the number and the cluster of every row, in the order of the rows.",
    ),
    "score": (
        FILES,
        "score",
        "Measure how well a model fits: at a site for its rows, with --merge for all sites.",
    ),
    "inspect": (FILES, "inspect", "Show what is in a file, and what could be inferred from it."),
    "diff": (
        FILES,
        "diff",
        "Compare two models: which clusters moved, are new or gone, and whether that is chance.",
    ),
    "report": (
        FILES,
        "report",
        "Write a report that anyone can open: one HTML file, without scripts or network.",
    ),
    "data": (START, "catalog:data_app", "List the data sets, or download one."),
    "schema": (FILES, "schema:app", "The schema that all sites share: what their columns mean."),
    "privacy": (
        FILES,
        "privacy:app",
        "Show or limit what the releases of a site's data give away together.",
    ),
    "federation": (
        FEDERATION,
        "federation:app",
        "Run a method over a network with Flower, with TLS and a key per site.",
    ),
    "deep": (
        IMAGES,
        "deep:app",
        "Learn features from images that stay at their sites (requires torch).",
    ),
}


class Later(TyperCommand):
    """A command, or a group of commands, that is imported when it is called.

    It has what the list of all commands shows, and no more.
    """

    def __init__(self, name: str, panel: str, place: str, about: str) -> None:
        super().__init__(name, help=about, rich_help_panel=panel)
        self.place = place

    @cached_property
    def command(self) -> Command:
        """The command itself."""
        module, _, group = self.place.partition(":")
        if cli.started:
            spare_imports()
        with cli.importing():
            part: typer.Typer = getattr(import_module(f"fedjigsaw.cli.{module}"), group or "app")
        _unwrap_help(part)
        whole = typer.Typer(add_completion=False)
        whole.add_typer(part, name=self.name if group else None)
        found: Any = get_command(whole)
        command: Command = found.commands[self.name]
        for _, each in all_commands("", command):
            keep_help(each)
        return command

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **named: Any) -> Any:
        """Parse the words that follow the name of the command."""
        cli.running = self.command
        for word in args:
            cli.running = getattr(cli.running, "commands", {}).get(word, cli.running)
        return self.command.make_context(info_name, args, *more, **named)


def all_commands(name: str, command: Any) -> Iterator[tuple[str, Command]]:
    """Yield a command with its whole name and, of a group, all those below it."""
    if isinstance(command, Later):
        command = command.command
    yield name, command
    if isinstance(command, TyperGroup):
        for word, part in command.commands.items():
            yield from all_commands(f"{name} {word}", part)


class Commands(TyperGroup):
    """All commands."""

    def __init__(self, **settings: Any) -> None:
        settings["commands"] = {name: Later(name, *row) for name, row in COMMANDS.items()}
        super().__init__(**settings)


app = typer.Typer(
    cls=Commands,
    help="One-shot federated clustering: every site sends one small summary, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    is_text = not any(line.startswith((" ", "- ", "* ", "\b")) for line in lines)
    return " ".join(lines) if is_text else paragraph


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
