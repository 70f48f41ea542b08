"""Found a federation: make all of its folders, with the keys and certificates in them."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from fedjigsaw.errors import DataError, ParameterError, invalid
from fedjigsaw.flower.certificates import (
    SERVER_DAYS,
    make_authority,
    make_server_key,
    make_site_key,
    sign_server,
)
from fedjigsaw.flower.folders import (
    APP,
    AUTHORITY,
    CA,
    CERTIFICATE,
    KEY,
    RUNS,
    ServerSettings,
    SiteSettings,
    check_names,
    fill_authority,
    fill_site,
    is_host,
    save_settings,
    whole_folder,
    write_secret,
)


def init(
    folder: Path,
    sites: Sequence[str],
    host: str,
    port: int,
    app: bytes,
    days: float = SERVER_DAYS,
) -> None:
    """Make all folders of a federation. If anything fails, no folder is left behind.

    Parameters
    ----------
    folder : a folder that does not exist yet, or is empty.
    sites : names of the sites, which become names of folders.
    host, port : where the sites reach the server; the certificate is valid for this host.
    app : the Flower app bundle; sites run no other one.
    days : how long the server's certificate is valid.
    """
    _check(sites, host, port)
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise DataError(f"{folder} already exists and is not changed. Give a new folder.")
    parent = folder.resolve().parent
    if not parent.is_dir():
        raise DataError(f"Cannot make {folder}: there is no folder {parent}.")
    with whole_folder(folder) as made:
        _fill(made, sites, host, port, app, days)
        if folder.exists():
            folder.rmdir()


def _check(sites: Sequence[str], host: str, port: int) -> None:
    if not sites:
        raise ParameterError("A federation needs at least one site.")
    check_names(sites)
    if not is_host(host):
        allowed = "a host name or an IP address, without a port"
        raise ParameterError(invalid("host", "a federation", allowed, repr(host)))
    if not 1 <= port <= 65535:
        raise ParameterError(invalid("port", "a federation", "from 1 to 65535", port))


def _fill(
    folder: Path, sites: Sequence[str], host: str, port: int, app: bytes, days: float
) -> None:
    authority, authority_key = make_authority()
    fill_authority(folder / AUTHORITY, authority, authority_key)
    key = make_server_key()
    certificate = sign_server(host, key, authority_key, days)
    server = folder / "server"
    server.mkdir(mode=0o700)
    publics = {}
    for name in sites:
        private, publics[name] = make_site_key()
        settings = SiteSettings(name, host, port, sha256(app).hexdigest())
        fill_site(folder / name, settings, authority, private)
    (server / CA).write_bytes(authority)
    (server / CERTIFICATE).write_bytes(certificate)
    write_secret(server / KEY, key)
    (server / APP).write_bytes(app)
    (server / RUNS).mkdir()
    save_settings(server, "server", ServerSettings(host, port, publics))
