"""The option --plugin: methods and splits of one's own file, for one command."""

from collections.abc import Sequence

import click
from typer.core import TyperOption

# commands that run in one process; sites of a federation know only what is installed there
PLUGGABLE = ("aggregate", "compare", "diff", "methods", "simulate", "summarize")
HELP = (
    "Run this Python file, or import this module, and use the methods that it defines; repeat it "
    "for several. Name a file only if you trust it: it can do everything that you can. Example: "
    "--plugin my_ward.py"
)


def add_option(command: click.Command) -> None:
    """Give a command the option --plugin."""
    option = TyperOption(
        param_decls=["--plugin"],
        type=str,
        multiple=True,
        default=(),
        required=False,
        nargs=1,
        is_eager=True,  # what it defines can be named by the other options
        expose_value=False,
        callback=load,
        metavar="FILE",
        help=HELP,
    )
    command.params.append(option)


def load(context: click.Context, option: click.Parameter, places: Sequence[str]) -> None:
    """Run the files that were named."""
    if not places or context.resilient_parsing:
        return
    from fedjigsaw.methods import register_all

    for place in places:
        register_all(place)
