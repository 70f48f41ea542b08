"""The commands of a federation on Flower: init, server, site, run, status, stop, and others."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from fedjigsaw.cli import federation_members as members
from fedjigsaw.cli._config import variables
from fedjigsaw.cli._shared import (
    FederationFolder,
    JsonFlag,
    escape,
    out,
    print_json,
    split_names,
)
from fedjigsaw.cli.federation_keep import forget, keep
from fedjigsaw.cli.federation_run import run
from fedjigsaw.cli.federation_server import server
from fedjigsaw.cli.federation_site import site
from fedjigsaw.cli.policy import show_policy

app = typer.Typer(no_args_is_help=True)
PORT = 9092
SITES_FOR_LIARS = 5  # from which on it is proposed that one may lie or err
# panels of `fedjigsaw federation --help`
SERVE, RUN = "Set up and serve", "Run"
SITES, KEYS = "Sites come and go", "Certificates"


@app.callback()
def federation() -> None:
    """Run a method over a network with Flower, with TLS and a key per site.

    Order of use: `init` once; `server` at the coordinator; `site` at each site; then `run`.
    """


@app.command(rich_help_panel=SERVE)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make; it must be new. Example: clinic")],
    sites: Annotated[
        str,
        typer.Option(
            help="Names of the sites, separated by commas. Example: --sites bern,lyon,oslo"
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            help="Host name or IP address by which the sites reach the server. "
            "Example: --host fed.example.org"
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port on which they reach it.")] = PORT,
    days: members.DaysOption = members.SERVER_DAYS,
    as_json: JsonFlag = False,
) -> None:
    """At the coordinator, once: make certificates, keys, and a folder for each site.

    Example: fedjigsaw federation init clinic --sites bern,lyon --host fed.example.org
    """
    from fedjigsaw.flower import bundle, founding

    names = split_names(sites) or []
    founding.init(folder, names, host, port, bundle.build(), days)
    then = f"fedjigsaw federation run {quote(str(folder))} -k K -o {quote(folder.name)}.model"
    then += " --liars 1" * (len(names) >= SITES_FOR_LIARS)
    if as_json:
        places = {name: str(folder / name) for name in ("server", "authority")}
        own = {name: str(folder / name) for name in names}
        print_json({**places, "host": host, "port": port, "sites": own, "next": then})
        return
    out.print(f"{escape(str(folder / 'server'))} stays with the server, at {host}:{port}.")
    for name in names:
        out.print(f"{escape(str(folder / name))} goes to {name}.")
    out.print("Send each site its folder over a channel you trust.")
    out.print("It contains the site's private key: anyone who has it can act as that site.")
    out.print(f"{escape(str(folder / 'authority'))} is needed for `federation renew` only.")
    out.print("Keep it offline: anyone who has it can pose as the server.")
    out.print(escape(f"With the server and its sites running: {then}"))


app.command(rich_help_panel=SERVE, context_settings=variables("server"))(server)
app.command(rich_help_panel=SERVE, context_settings=variables("site"))(site)
app.command(rich_help_panel=SERVE, name="policy")(show_policy)
app.command(rich_help_panel=RUN)(run)


@app.command(rich_help_panel=RUN)
def status(folder: FederationFolder, as_json: JsonFlag = False) -> None:
    """On the server's machine: show whether the server runs, and how its sites are.

    Example: fedjigsaw federation status clinic
    """
    from fedjigsaw.flower import folders, stopping
    from fedjigsaw.flower.status import read_status

    home = folders.server_folder(folder)
    found = {**read_status(home), "runs": stopping.open_runs(home)}
    if as_json:
        print_json(found)
    else:
        print_status(found)


def print_status(found: Mapping[str, Any]) -> None:
    """Print the state of a server in words."""
    out.print(escape(f"Server at {found['host']}:{found['port']}: running."))
    for name, online in found["connected"].items():
        out.print(escape(f"  {name}: {'connected' if online else 'not connected'}"))
        if twin := found["twins"].get(name):
            hosts, last = ", ".join(twin["hosts"]), twin["last"]
            text = f"its key was used from two places at once ({hosts}; last seen {last})"
            out.print(escape(f"    {text}"), style="yellow")
    for name, time in found["revoked"].items():
        out.print(escape(f"  {name}: revoked on {time}"))
    for name, about in found["runs"].items():
        text = f"{about['method']}, -k {_clusters(about['n_clusters'])}"
        out.print(escape(f"Run {name} has not ended: {text}"))
    for text in found["warnings"]:
        out.print(escape(f"Warning: {text.removesuffix('.')}."), style="yellow")


def _clusters(value: object) -> str:
    """Return a number of clusters as it was given: `auto`, one, or one for each head."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@app.command(rich_help_panel=RUN)
def stop(
    folder: FederationFolder,
    run: Annotated[
        str,
        typer.Argument(
            help="Name of the run; `federation status` lists those that have not ended. "
            "Example: 20260131-235959-0123abcd"
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """On the server's machine: stop a run by its name.

    No more sites are asked, and there is no model. A run that has ended is left as it is.

    Example: fedjigsaw federation stop clinic 20260131-235959-0123abcd
    """
    from fedjigsaw.flower import folders, stopping

    found = stopping.stop(folders.server_folder(folder), run)
    if as_json:
        print_json(found)
    elif found["stopped"]:
        out.print(f"Run {run} is stopped. A site that is computing may finish that first.")
    else:
        end = found.get("error") or "it has a model."
        out.print(escape(f"Run {run} had ended before: {end}"))


app.command(rich_help_panel=RUN)(keep)
app.command(rich_help_panel=RUN)(forget)
for command in (members.add, members.remove, members.rekey, members.revoke):
    app.command(rich_help_panel=SITES)(command)
app.command(rich_help_panel=KEYS)(members.renew)
