"""Commands that list methods and data sets."""

from typing import Annotated, Any

import typer
from rich.table import Table

from fedjigsaw import datasets
from fedjigsaw.cli._plugins import PluginFlag
from fedjigsaw.cli._shared import JsonFlag, err, escape, out, print_json
from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.methods import METHODS, Entry, others

app = typer.Typer()
data_app = typer.Typer(
    help="List the data sets, or download one.", invoke_without_command=True, name="data"
)


@app.command()
def methods(as_json: JsonFlag = False, plugin: PluginFlag = None) -> None:
    """List the methods and their parameters.

    Methods of other packages come last; where one cannot be used, it says why.

    Example: fedjigsaw methods
    """
    own = others()
    entries = [*METHODS.values(), *(entry for entry in own.values() if isinstance(entry, Entry))]
    unusable = {name: str(why) for name, why in own.items() if isinstance(why, FedJigsawError)}
    if as_json:
        listed = {entry.name: _as_json(entry) for entry in entries}
        broken = {name: {"error": why} for name, why in unusable.items() if name not in METHODS}
        print_json(listed | broken)
        return
    table = Table("name", "class", "what it does", "parameters, for -p name=value")
    for entry in entries:
        about = f"{entry.about} ({entry.source})".strip()
        parameters = "see docs/deepfeca.md"
        if entry.data_kind == "rows":  # the others need optional packages
            parameters = ", ".join(entry.own_parameters)
        words = entry.name, entry.location.partition(":")[2], about, parameters
        table.add_row(*map(escape, words))
    out.print(table)
    for why in unusable.values():
        out.print(f"[yellow]Not usable:[/] {escape(why)}")


def _as_json(entry: Entry) -> dict[str, Any]:
    rules = entry.cls.rules if entry.data_kind == "rows" else None
    return {
        "label": entry.label,
        "about": entry.about,
        "source": entry.source,
        "data": entry.data_kind,
        # those of the others are not known without optional packages
        "parameters": None if rules is None else {p: rule.allowed for p, rule in rules.items()},
    }


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
    out.print("Also: the paths of CSV, Excel, Parquet and NPY files.")
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
    as_json: JsonFlag = False,
) -> None:
    """Download a data set into the user's cache, and check every number in it.

    Example: fedjigsaw data fetch ssets
    """
    if name != "ssets":
        raise ParameterError(f"There is no download {name!r}; only 'ssets', which has s1 to s4.")
    with err.status("Fetching five small files"):
        folder = datasets.fetch_ssets(home=home.rstrip("/") + "/")
    if as_json:
        print_json({"name": name, "folder": str(folder)})
        return
    out.print(f"S1 to S4 are in {escape(str(folder))}")
