"""The option --plugin: methods and splits of one's own file, for one command.

Only commands that run in one process have it; sites of a federation know what is installed there.
"""

from typing import Annotated

import typer


def load(context: typer.Context, places: list[str] | None) -> None:
    """Run the files that were named."""
    if not places or context.resilient_parsing:
        return
    from fedjigsaw.methods import register_all

    for place in places:
        register_all(place)


PluginFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        is_eager=True,  # what it defines can be named by the other options
        callback=load,
        metavar="FILE",
        help="Run this Python file, or import this module, and use the methods that it defines; "
        "repeat it for several. Name a file only if you trust it: it can do everything that you "
        "can. Example: --plugin my_ward.py",
    ),
]
