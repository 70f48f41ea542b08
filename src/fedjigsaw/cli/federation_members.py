"""The commands that change who takes part in a federation: federation revoke."""

from typing import Annotated

import typer

from fedjigsaw.cli._shared import FederationFolder, JsonFlag, out, print_json


def revoke(
    folder: FederationFolder,
    site: Annotated[str, typer.Argument(help="Name of the site. Example: bern")],
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: no longer accept the key of a site, for good.

    A running server refuses the site within seconds, and its next runs are without it.

    Example: fedjigsaw federation revoke clinic bern
    """
    from fedjigsaw.flower import folders

    home = folders.server_folder(folder)
    new = folders.revoke(home, site)
    if as_json:
        print_json({"site": site, "revoked": folders.read_revoked(home)[site]})
    elif new:
        out.print(f"Site {site} is revoked. A running server refuses it within 5 seconds.")
    else:
        out.print(f"Site {site} was revoked before, on {folders.read_revoked(home)[site]}.")
