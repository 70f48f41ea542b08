"""Every command. Printing, progress and exit codes live here and nowhere else.

Results go to standard output, all else (progress, errors) to standard error, so that
``fedjigsaw simulate --json | jq`` works. Exit codes are those of :mod:`fedjigsaw.errors`.
"""

import sys
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedjigsaw import __version__, datasets
from fedjigsaw.cli import bench as cli_bench
from fedjigsaw.cli import deep as cli_deep
from fedjigsaw.cli import federation as cli_federation
from fedjigsaw.cli import inspect as cli_inspect
from fedjigsaw.cli import reproduce as cli_reproduce
from fedjigsaw.cli import sites as cli_sites
from fedjigsaw.cli._shared import JsonFlag, err, out, print_json
from fedjigsaw.errors import FedJigsawError, ParameterError, invalid
from fedjigsaw.methods import CLUSTERERS, METHODS

app = typer.Typer(
    help="One-shot federated clustering: every client sends one small summary, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List the data sets, or fetch one.", invoke_without_command=True)
app.add_typer(data_app, name="data")
app.add_typer(cli_bench.app)
app.add_typer(cli_reproduce.app)
app.add_typer(cli_sites.app)
app.add_typer(cli_inspect.app)
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
def methods(as_json: JsonFlag = False) -> None:
    """List the methods and their parameters."""
    if as_json:
        print_json(
            {
                name: {
                    "label": entry.label,
                    "about": entry.about,
                    "source": entry.source,
                    "data": entry.data_kind,
                    "parameters": {p: rule.allowed for p, rule in entry.cls.rules.items()},
                }
                for name, entry in CLUSTERERS.items()
            }
        )
        return
    table = Table("name", "class", "what it does", "parameters, for -p name=value")
    for name, entry in METHODS.items():
        about = f"{entry.about} ({entry.source})"
        parameters = "see docs/deepfeca.md"
        if name in CLUSTERERS:  # the others need optional packages
            parameters = ", ".join(entry.own_parameters)
        table.add_row(name, entry.location.partition(":")[2], about, parameters)
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
        raise ParameterError(invalid("name", "a download", "'ssets'", repr(name)))
    with err.status("Fetching five small files"):
        folder = datasets.fetch_ssets(home=home.rstrip("/") + "/")
    out.print(f"S1 to S4 are in {escape(str(folder))}")


if __name__ == "__main__":
    main()
