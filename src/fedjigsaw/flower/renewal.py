"""Certificates over time: warn before one ends, sign a new one. A server loads it at its start."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedjigsaw.errors import FederationError, unreadable
from fedjigsaw.flower.certificates import (
    SERVER_DAYS,
    SOON_DAYS,
    authority_ends,
    days_until,
    ends,
    is_own,
    load_certificate,
    make_authority,
    make_server_key,
    sign_server,
)
from fedjigsaw.flower.folders import (
    AUTHORITY,
    AUTHORITY_KEY,
    CA,
    CERTIFICATE,
    KEY,
    NEW_SERVER_KEY,
    PART_LOCK,
    RUNNING,
    ServerSettings,
    beside,
    check_private,
    fill_authority,
    write_secret,
)
from fedjigsaw.flower.members import changing, is_folder_of
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.records.locks import locked_folder

NO_AUTHORITY = (
    "If it is kept elsewhere, give its folder with --authority. If it is lost, --new-authority "
    "makes another one, whose ca.crt must be carried to every site."
)
# what a coordinator does about a certificate that ends: the server's, the authority's
RENEW, RENEW_AUTHORITY = "`federation renew`", "`federation renew --new-authority`"


def remedy(folder: Path, own: str = RENEW) -> str:
    """Return with what the coordinator renews a certificate, which may be of a company."""
    return own if is_own(folder / CA) else "the authority that signed it"


def not_in_use(home: Path) -> str:
    """Say that a running server has another certificate than its folder; nothing if it has not."""
    with suppress(OSError):
        if (home / CERTIFICATE).stat().st_mtime_ns > (home / RUNNING).stat().st_mtime_ns:
            return "the server shows its certificate from before: restart it"
    return ""


def why_invalid(home: Path) -> str:
    """Say why nobody trusts the certificates of a server's folder today; nothing if they do."""
    for name, end, whose, own in (
        (CERTIFICATE, ends(home / CERTIFICATE), "its", RENEW),
        (CA, authority_ends(home / CA), "its authority's", RENEW_AUTHORITY),
    ):
        if days_until(end) <= 0:
            return f"{whose} certificate has ended: renew it with {remedy(home, own)}"
        if days_until(load_certificate(home / name).not_valid_before_utc) > 0:
            return (
                f"{whose} certificate is not valid yet: set the clock of this machine, or if it is "
                f"right, renew the certificate with {remedy(home, own)}"
            )
    return not_in_use(home)


def ending(home: Path) -> Iterator[str]:
    """Yield a warning for each certificate of a server that ends soon, or has ended."""
    yield from _warn("the server's certificate", ends(home / CERTIFICATE), remedy(home))
    yield from authority_ending(home)


def authority_ending(folder: Path) -> Iterator[str]:
    """Yield a warning if the authority's certificate in a folder ends soon, or has ended."""
    end, renewed = authority_ends(folder / CA), remedy(folder, RENEW_AUTHORITY)
    yield from _warn("the authority's certificate", end, renewed)


def server_ending(folder: Path, certificate: Any) -> Iterator[str]:
    """Yield a warning if a certificate that a site was shown ends soon; it is as `ssl` tells it."""
    end = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    yield from _warn("the server's certificate", end, remedy(folder))


def _warn(what: str, end: datetime, renewed: str) -> Iterator[str]:
    days = days_until(end)
    if days < SOON_DAYS:
        when = f"ends in {days:.0f} days, on {end:%Y-%m-%d}" if days > 0 else "has ended"
        yield f"{what} {when}: the coordinator renews it with {renewed}"


# ------------------------------------------------------------------------------- by the coordinator


def renew(home: Path, authority: Path | None = None, days: float = SERVER_DAYS) -> datetime:
    """Sign a new certificate for the server; return when it ends. Its key stays.

    Parameters
    ----------
    home : the server's folder.
    authority : the authority's folder, if it is not beside the server's.
    days : how long the certificate is valid.
    """
    folder = authority or beside(home, AUTHORITY)
    with changing(home):
        settings = ServerSettings.load(home)
        signer = _authority_key(folder, given=authority is not None)
        if load_certificate(folder / CA) != load_certificate(home / CA):
            raise FederationError(f"{folder} is not the authority of {home}, but another one.")
        try:
            certificate = sign_server(settings.host, (home / KEY).read_bytes(), signer, days)
        except OSError as error:
            raise FederationError(unreadable(home / KEY, error)) from error
        except ValueError as error:
            text = f"{folder / AUTHORITY_KEY} or {home / KEY} is not a private key."
            raise FederationError(text) from error
        write_whole(home / CERTIFICATE, certificate)
    return ends(home / CERTIFICATE)


def _authority_key(folder: Path, *, given: bool) -> bytes:
    path = folder / AUTHORITY_KEY
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FederationError(f"{unreadable(path, error)} {NO_AUTHORITY}") from error
    if not given:  # a stick, which may know no modes
        check_private(path, NEW_SERVER_KEY)
    return content


def renew_authority(home: Path, days: float = SERVER_DAYS) -> list[str]:
    """Make a new authority, and a new key and certificate of the server, which must not run.

    Return the sites whose folders are beside the server's and have the new authority already. If
    anything fails, the same can be done again.
    """
    with changing(home), ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(home / PART_LOCK))
        except BlockingIOError as error:
            raise FederationError(f"End the server of {home} first, and start it again.") from error
        settings = ServerSettings.load(home)
        folder = beside(home, AUTHORITY)
        certificate, signer = make_authority()
        key = make_server_key()
        fill_authority(folder, certificate, signer)
        write_secret(home / KEY, key)
        write_whole(home / CERTIFICATE, sign_server(settings.host, key, signer, days))
        write_whole(home / CA, certificate)
        here = [name for name in settings.sites if is_folder_of(beside(home, name), name)]
        for name in here:
            write_whole(beside(home, name) / CA, certificate)
        return here
