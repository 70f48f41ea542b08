"""Commands that list methods and data sets."""

from typing import Annotated

import typer
from rich.table import Table

from fedjigsaw import datasets
from fedjigsaw.cli._shared import JsonFlag, err, escape, out, print_json
from fedjigsaw.errors import ParameterError
from fedjigsaw.methods import CLUSTERERS, METHODS

app = typer.Typer()
data_app = typer.Typer(
    help="List the data sets, or download one.", invoke_without_command=True, name="data"
)


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
                    "parameters": {p: rule.allowed for p, rule in entry.cls.rules.items()}
                    if name in CLUSTERERS
                    else None,  # the others need optional packages
                }
                for name, entry in METHODS.items()
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
    table = Table("name", "content", "on this machine")
    for name, source in datasets.SOURCES.items():
        table.add_row(name, source.about, "yes" if here[name] else "no")
    out.print(table)
    if not all(here.values()):
        out.print(
            "s1 to s4: run `fedjigsaw data fetch ssets`, or put them into the folder that "
            "FEDJIGSAW_DATA names."
        )
        out.print(
            "CIFAR features: there is no download; put them into the folder that "
            "FEDJIGSAW_DATA names."
        )


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="The data set to download: ssets (s1 to s4).")],
    home: Annotated[
        str,
        typer.Option(
            help="Address of the folder with the files, for a mirror. "
            "Example: --home https://mirror.example/ssets/"
        ),
    ] = datasets.SSETS_HOME,
) -> None:
    """Download a data set into the user's cache, and check every number in it.

    Example: fedjigsaw data fetch ssets
    """
    if name != "ssets":
        raise ParameterError(f"There is no download {name!r}; only 'ssets', which has s1 to s4.")
    with err.status("Fetching five small files"):
        folder = datasets.fetch_ssets(home=home.rstrip("/") + "/")
    out.print(f"S1 to S4 are in {escape(str(folder))}")
