"""Run a server or a site of a federation, until it is interrupted."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Any

from fedjigsaw.errors import FederationError, ParameterError
from fedjigsaw.flower import processes, renewal
from fedjigsaw.flower.certificates import is_address
from fedjigsaw.flower.folders import (
    CA,
    CONTACT,
    FLOWER,
    FLOWER_LOG,
    KEY,
    NEW_SERVER_KEY,
    RUNNING,
    SERVER_LOG,
    SITE_LOG,
    WRITTEN_BY_A_SERVER,
    ServerSettings,
    SiteSettings,
    check_private,
    check_server_files,
    check_writable,
    new_task_secret,
    server_folder,
    write_secret,
)
from fedjigsaw.flower.logs import Style
from fedjigsaw.flower.members import read_revoked
from fedjigsaw.flower.metrics import ServerNumbers, SiteNumbers, serving_metrics
from fedjigsaw.records.policy import Policy

Show = Callable[[str], object]
EXPIRED_SECONDS = 60.0  # how often a site looks whether a certificate that has ended was renewed
DEFAULT_STYLE = Style()


def serve(
    folder: Path,
    *,
    listen: str | None = None,
    show: Show = print,
    log: Show = print,
    style: Style = DEFAULT_STYLE,
    metrics_port: int | None = None,
) -> None:
    """Run the server of a federation until Ctrl-C, which raises KeyboardInterrupt.

    Parameters
    ----------
    folder : the folder that `federation init` made, or the server's folder in it.
    listen : address to listen on; by default as `listen_address` says.
    show : called with a line of text when sites can connect.
    log : called with each line of the server's log.
    style : how the log is written.
    metrics_port : port of the loopback for health and metrics; None serves none.
    """
    home = server_folder(folder)
    settings, revoked = ServerSettings.load(home), read_revoked(home)
    check_listen(listen)
    check_private(home / KEY, NEW_SERVER_KEY)
    check_writable(home, WRITTEN_BY_A_SERVER)
    check_server_files(home, settings.host)
    private, secret = processes.free_port(), token_hex(32)
    address = listen or listen_address(settings.host)
    arguments = (str(home), str(private), address)
    variables = {processes.SECRET: secret, **style.variable()}
    started: list[subprocess.Popen[bytes]] = []
    with (
        processes.alone(home, "The server"),
        processes.following(home / SERVER_LOG, log),
        serving_metrics(
            metrics_port, ServerNumbers(home), lambda: all(p.poll() is None for p in started)
        ),
    ):
        new_task_secret(home)  # here, where a full disk can be told: flower.log is on it, too
        try:
            with processes.running(
                "fedjigsaw.flower.superlink", *arguments, folder=home, **variables
            ) as process:
                started.append(process)
                if not processes.wait_until_answers(
                    "127.0.0.1", private, home / CA, seconds=60, process=process
                ):
                    reason = _why_not(address, settings.port)
                    raise FederationError(
                        f"The server did not start{reason}; see {home / FLOWER_LOG}."
                    )
                running = {"control_port": private, "secret": secret, "log": style.words()}
                write_secret(home / RUNNING, json.dumps(running).encode())
                names = ", ".join(name for name in settings.sites if name not in revoked)
                place = f"{settings.host}:{settings.port}"
                show(f"Server for {names} at {place}. Press Ctrl-C to end it.")
                process.wait()
                raise FederationError(f"The server ended unexpectedly; see {home / FLOWER_LOG}.")
        finally:
            (home / RUNNING).unlink(missing_ok=True)


def _why_not(address: str, port: int) -> str:
    """Say that a server cannot listen on its port, or nothing."""
    if processes.can_listen(address, port):
        return ""
    return f": it cannot listen on port {port} of {address}, where perhaps another program does"


def check_listen(listen: str | None) -> None:
    """Raise if this machine cannot listen on an address."""
    if listen is not None and not (is_address(listen) and processes.can_listen(listen)):
        raise ParameterError(f"--listen takes an IP address of this machine; got {listen!r}.")


def listen_address(host: str) -> str:
    """Return the address to listen on by default, for a server that sites reach at `host`.

    Examples
    --------
    >>> listen_address("localhost"), listen_address("10.0.0.1"), listen_address("fed.example.org")
    ('127.0.0.1', '0.0.0.0', '0.0.0.0')
    """
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return "0.0.0.0"
    if address.is_loopback:
        return str(address)
    return "0.0.0.0" if address.version == 4 else "::"


def check_site(folder: Path, options: Mapping[str, Any], show: Show = print) -> Policy:
    """Raise if data or policy of a site cannot be used; return its policy."""
    from fedjigsaw.flower.site import load_policy, load_site  # what computes; a server needs none

    settings = SiteSettings.load(folder)
    settings.check_folder(folder)
    name = settings.name
    if notice := load_site({**options, "name": name, "folder": str(folder.resolve())}).check():
        show(notice)
    policy = load_policy(folder)
    for text in policy.looser().values():
        show(f"Accepted, looser than the default policy: {text}")
    return policy


def serve_site(
    folder: Path,
    options: Mapping[str, Any],
    *,
    show: Show = print,
    log: Show = print,
    style: Style = DEFAULT_STYLE,
    metrics_port: int | None = None,
) -> None:
    """Serve requests from the server until Ctrl-C, which raises KeyboardInterrupt.

    The site waits for its server to start, and connects again when the connection has ended.

    Parameters
    ----------
    folder : the site's folder.
    options : data and guard of the site, as for :func:`fedjigsaw.flower.site.load_site`.
    show : called with a line of text when the connection changes.
    log : called with each line of the site's log.
    style, metrics_port : as for :func:`serve`.
    """
    settings = SiteSettings.load(folder)
    policy = check_site(folder, options, show)
    home = folder.resolve()
    options = {**options, "name": settings.name, "folder": str(home)}
    variables = {processes.OPTIONS: json.dumps(options), **style.variable()}
    with (
        processes.alone(home, f"Site {settings.name}"),
        processes.following(home / SITE_LOG, log),
        serving_metrics(metrics_port, SiteNumbers(home, settings.name, policy), lambda: True),
    ):
        remove_apps(home)
        told = ""
        while True:
            (home / CONTACT).unlink(missing_ok=True)
            try:
                _connect_once(home, settings, variables, show)
                told = ""
            except processes.ExpiredError as error:
                if str(error) != told:
                    show(f"{error} Waiting for it.")
                told = str(error)
                sleep(EXPIRED_SECONDS)


def remove_apps(home: Path) -> None:
    """Remove what Flower keeps at a site, so that it installs the app anew.

    Flower runs an app that it finds there without looking at its content, and the folder comes from
    the coordinator.
    """
    place = home / FLOWER
    try:
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.exists():
            shutil.rmtree(place)
    except OSError as error:
        raise FederationError(f"Cannot remove {place}: {error.strerror}. Remove it.") from error


def warn_of_end(home: Path, settings: SiteSettings, show: Show) -> None:
    """Tell a site of certificates that end soon: the authority's, and the one that it is shown."""
    texts = list(renewal.authority_ending(home))
    if shown := processes.greet(settings.host, settings.port, home / CA):
        texts += renewal.server_ending(home, shown)
    for text in texts:
        show(f"Warning: {text}.")


def _connect_once(
    home: Path, settings: SiteSettings, variables: Mapping[str, str], show: Show
) -> None:
    """Wait for the server, connect to it, and return when the connection has ended."""
    host, port, authority = settings.host, settings.port, home / CA
    if not processes.answers(host, port, authority):
        show(f"Waiting for the server at {host}:{port}.")
        processes.wait_until_answers(host, port, authority, seconds=float("inf"))
    warn_of_end(home, settings, show)
    arguments = (str(home), str(processes.free_port()))
    with processes.running(
        "fedjigsaw.flower.supernode", *arguments, folder=home, **variables
    ) as process:
        code = process.wait()
    if code == processes.WAS_REVOKED:
        raise FederationError(
            f"The server at {host}:{port} no longer accepts the key of site {settings.name}: it "
            "was revoked, removed or replaced by a new one. Ask the coordinator for a new key."
        )
    if code == processes.NEVER_CONNECTED and processes.answers(host, port, authority):
        raise FederationError(
            f"The server at {host}:{port} refused site {settings.name}: it does not know this "
            f"site's key, or the clocks differ. See {home / FLOWER_LOG}."
        )
    show("The connection has ended; connecting again.")
