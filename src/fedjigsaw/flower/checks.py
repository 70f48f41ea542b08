"""Checks of a server's or a site's folder and settings, before anything is started or written."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedjigsaw import sites
from fedjigsaw.errors import FederationError
from fedjigsaw.flower import processes
from fedjigsaw.flower.certificates import SOON_DAYS, days_left, is_address, load_certificate
from fedjigsaw.flower.earlier import read_earlier
from fedjigsaw.flower.folders import (
    APP,
    CA,
    CERTIFICATE,
    KEY,
    NEW_SERVER_KEY,
    WRITTEN_BY_A_SERVER,
    ServerSettings,
    SiteSettings,
    check_private,
    check_writable,
    read_revoked,
    server_folder,
)
from fedjigsaw.flower.renewal import RENEW, RENEW_AUTHORITY
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
    if not (home / APP).is_file():
        raise FederationError(f"{home} has no {APP}, the app of the federation.")
    names = [name for name in settings.sites if name not in revoked]
    yield f"Server at {settings.host}:{settings.port} for {', '.join(names) or 'no site'}."
    address = listen or listen_address(settings.host)
    free = processes.can_listen(address, settings.port)
    taken = "" if free else ", where another program listens now"
    yield f"It listens on {address}, port {settings.port}{taken}."
    yield _check_certificate(home, settings.host)
    yield describe_days(home / CERTIFICATE, "The server's certificate", RENEW)


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
    yield describe_days(folder / CA, "The authority's certificate", RENEW_AUTHORITY)


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
    )
    n_rows = sum(len(batch.rows) for batch in table.batches())
    return f"Its data can be read: {n_rows:,} rows, columns {', '.join(table.columns)}."


# ----------------------------------------------------------------------------------- certificates


def describe_days(path: Path, what: str, remedy: str) -> str:
    """Say how long a certificate is valid; raise a FederationError if it has ended."""
    days = days_left(path)
    if days <= 0:
        raise FederationError(
            f"{what}, {path}, has ended: the coordinator renews it with {remedy}."
        )
    soon = f" The coordinator renews it with {remedy}." if days < SOON_DAYS else ""
    return f"{what} is valid for {days:,.0f} more days.{soon}"


def _check_certificate(home: Path, host: str) -> str:
    """Check that the server's certificate fits its key, its authority and its host."""
    certificate, authority = (load_certificate(home / name) for name in (CERTIFICATE, CA))
    try:
        key = load_pem_private_key((home / KEY).read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise FederationError(f"{home / KEY} is not a private key.") from error
    if key.public_key() != certificate.public_key():
        raise FederationError(f"{home / KEY} is not the key of {home / CERTIFICATE}.")
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception as error:
        raise FederationError(f"{home / CA} did not sign {home / CERTIFICATE}.") from error
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    kind = x509.IPAddress if is_address(host) else x509.DNSName
    if host not in map(str, names.get_values_for_type(kind)):
        raise FederationError(f"{home / CERTIFICATE} is not valid for the host {host}.")
    return "Its certificate, key and authority belong together."
