"""The commands that change who takes part in a federation, and its certificates."""

from pathlib import Path
from typing import Annotated

import typer

from fedjigsaw.cli._shared import FederationFolder, JsonFlag, escape, out, print_json
from fedjigsaw.errors import ParameterError

SiteName = Annotated[str, typer.Argument(help="Name of the site. Example: bern")]
PublicKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--public-key",
        help="Public key that the site made itself, so that its private key never leaves it. "
        "Default: make a key for the site. Example: --public-key site.key.pub",
    ),
]
SERVER_DAYS = 3 * 365  # as in flower.certificates, which needs the extra
DaysOption = Annotated[
    int,
    typer.Option(
        min=1, max=36_500, help="Number of days that the server's certificate is valid for."
    ),
]
AT_ONCE = "A running server knows within a second or two."
SECRET = "It contains the site's private key: anyone who has it can act as that site."
OWN_KEY = "The site puts its own private key there, as site.key (chmod 600)."


def add(
    folder: FederationFolder,
    site: Annotated[str, typer.Argument(help="Name of the new site. Example: rome")],
    public_key: PublicKeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: add a site to a federation, also while the server runs.

    It makes a folder for the site, as `init` does. The other sites need nothing.

    Example: fedjigsaw federation add clinic rome
    """
    from fedjigsaw.flower import folders, members

    made = members.add(folders.server_folder(folder), site, public_key)
    if as_json:
        print_json({"site": site, "folder": str(made)})
        return
    out.print(f"{escape(str(made))} goes to {site}, over a channel you trust. {AT_ONCE}")
    out.print(SECRET if public_key is None else OWN_KEY)


def remove(folder: FederationFolder, site: SiteName, as_json: JsonFlag = False) -> None:
    """At the coordinator: remove a site from a federation, also while the server runs.

    Its key is never accepted again. A site of the same name may be added with another key.

    Example: fedjigsaw federation remove clinic bern
    """
    from fedjigsaw.flower import folders, members

    members.remove(folders.server_folder(folder), site)
    if as_json:
        print_json({"site": site, "removed": True})
        return
    out.print(f"Site {site} is removed, and its key is no longer accepted. {AT_ONCE}")
    out.print("Models stay as they are; `federation forget` deletes its kept summaries.")


def rekey(
    folder: FederationFolder,
    site: SiteName,
    public_key: PublicKeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: give a site a new key, also a revoked one. The old key is refused.

    Take the new site.key to the site, in place of the old file. The rest of the site's folder, such
    as its policy and journal, stays as it is.

    Example: fedjigsaw federation rekey clinic bern
    """
    from fedjigsaw.flower import folders, members

    made = members.rekey(folders.server_folder(folder), site, public_key)
    if as_json:
        print_json({"site": site, "key": str(made) if public_key is None else None})
        return
    out.print(f"Site {site} has a new key, and the old one is refused. {AT_ONCE}")
    if public_key is None:
        out.print(f"{escape(str(made))} goes to {site}, over a channel you trust.")
        out.print("There it replaces the old file; then start the site again.")
    else:
        out.print("The site uses its new private key as site.key; then start it again.")


def revoke(folder: FederationFolder, site: SiteName, as_json: JsonFlag = False) -> None:
    """At the coordinator: no longer accept the key of a site, for good.

    A running server refuses the site within seconds, and its next runs are without it. `rekey` lets
    the site in again, with a new key.

    Example: fedjigsaw federation revoke clinic bern
    """
    from fedjigsaw.flower import folders, members

    home = folders.server_folder(folder)
    new = members.revoke(home, site)
    if as_json:
        print_json({"site": site, "revoked": members.read_revoked(home)[site]})
    elif new:
        out.print(f"Site {site} is revoked. {AT_ONCE}")
    else:
        out.print(f"Site {site} was revoked before, on {members.read_revoked(home)[site]}.")


def renew(
    folder: FederationFolder,
    authority: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the authority's key. Default: the folder authority that `init` "
            "made. Example: --authority /media/stick/authority"
        ),
    ] = None,
    new_authority: Annotated[
        bool,
        typer.Option(
            "--new-authority",
            help="Make another authority, if the key of the first one is lost or was copied. The "
            "server must not run, and every site needs the new ca.crt.",
        ),
    ] = False,
    days: DaysOption = SERVER_DAYS,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator: sign a new certificate for the server, before the old one ends.

    Start the server again, so that it uses it; sites need nothing. `federation status` warns 60
    days before a certificate ends.

    Example: fedjigsaw federation renew clinic
    """
    from fedjigsaw.flower import certificates, folders, renewal

    if new_authority and authority is not None:
        raise ParameterError("Give --authority or --new-authority, not both.")
    home = folders.server_folder(folder)
    have: list[str] = []
    if new_authority:
        have = renewal.renew_authority(home, days)
    else:
        renewal.renew(home, authority, days)
    end = certificates.ends(home / folders.CERTIFICATE)
    if as_json:
        print_json({"ends": end.isoformat(), "new_authority": new_authority, "sites": have})
        return
    out.print(f"The server's certificate is valid until {end:%Y-%m-%d}.")
    if not new_authority:
        out.print("A running server uses it after a restart, and sites need nothing.")
        return
    ca = escape(str(home / folders.CA))
    out.print(f"Take {ca} to every site, over a channel you trust.")
    out.print("There it replaces ca.crt. Until then, they refuse the server.")
    if have:
        out.print(f"These have it, since their folders are here: {', '.join(have)}.")
