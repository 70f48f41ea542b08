"""Checks of a server's or a site's folder and settings, before anything is started or written."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from fedjigsaw import sites
from fedjigsaw.errors import FederationError, counted
from fedjigsaw.flower import processes
from fedjigsaw.flower.certificates import SOON_DAYS, authority_ends, days_until, ends
from fedjigsaw.flower.earlier import read_earlier
from fedjigsaw.flower.folders import (
    CA,
    CERTIFICATE,
    KEY,
    NEW_SERVER_KEY,
    WRITTEN_BY_A_SERVER,
    ServerSettings,
    SiteSettings,
    check_private,
    check_server_files,
    check_writable,
    server_folder,
)
from fedjigsaw.flower.members import read_revoked
from fedjigsaw.flower.renewal import RENEW_AUTHORITY, remedy
from fedjigsaw.flower.site import load_policy, load_site
from fedjigsaw.io import formats


def check_server(folder: Path, listen: str | None = None) -> Iterator[str]:
    """Check what a server needs; yield what was found, in sentences."""
    from fedjigsaw.flower.serving import check_listen, listen_address

    home = server_folder(folder)
    settings, revoked = ServerSettings.load(home), read_revoked(home)
    check_listen(listen)
    check_private(home / KEY, NEW_SERVER_KEY)
    check_writable(home, WRITTEN_BY_A_SERVER)
    names = [name for name in settings.sites if name not in revoked]
    yield f"Server at {settings.host}:{settings.port} for {', '.join(names) or 'no site'}."
    address = listen or listen_address(settings.host)
    free = processes.can_listen(address, settings.port)
    taken = "" if free else ", where another program listens now"
    yield f"It listens on {address}, port {settings.port}{taken}."
    check_server_files(home, settings.host)
    yield "Its certificate, key and authority belong together."
    yield describe_days(ends(home / CERTIFICATE), "The server's certificate", remedy(home))


def check_site(folder: Path, options: Mapping[str, Any]) -> Iterator[str]:
    """Check what a site needs; yield what was found, in sentences.

    Parameters
    ----------
    options : data and guard of the site, as for :func:`fedjigsaw.flower.site.load_site`.
    """
    settings = SiteSettings.load(folder)
    settings.check_folder(folder)
    yield f"Site {settings.name} of the server at {settings.host}:{settings.port}."
    made = load_site({**options, "name": settings.name, "folder": str(folder.resolve())})
    looser = load_policy(folder).looser()
    yield f"Its policy is {'looser than the default, and accepted' if looser else 'in order'}."
    read_earlier(folder)
    if options["kind"] == "rows":
        yield _read_rows(options)
    else:
        yield made.check() or f"Its images can be read: {options['data']}."
    end, renewed = authority_ends(folder / CA), remedy(folder, RENEW_AUTHORITY)
    yield describe_days(end, "The authority's certificate", renewed)


def site_name(folder: Path) -> str:
    """Return the name of a site; that of its folder if its settings cannot be read."""
    try:
        return SiteSettings.load(folder).name
    except FederationError:
        return folder.resolve().name


def _read_rows(options: Mapping[str, Any]) -> str:
    """Read all rows, as an answer would."""
    scaler = options.get("scaler")
    table = sites.prepare(
        Path(options["data"]),
        scaler=None if scaler is None else formats.load_scaler(Path(scaler)),
        columns=options.get("columns"),
        drop_missing=bool(options.get("drop_missing")),
        decimal=options.get("decimal"),
    )
    n_rows = sum(len(batch.rows) for batch in table.batches())
    return f"Its data can be read: {counted(n_rows, 'row')}, columns {', '.join(table.columns)}."


# ----------------------------------------------------------------------------------- certificates


def describe_days(end: datetime, what: str, remedy: str) -> str:
    """Say how long a certificate is valid; raise a FederationError if it has ended."""
    days = days_until(end)
    if days <= 0:
        raise FederationError(f"{what} has ended: the coordinator renews it with {remedy}.")
    soon = f" The coordinator renews it with {remedy}." if days < SOON_DAYS else ""
    return f"{what} is valid for {counted(days, 'more day')}.{soon}"
