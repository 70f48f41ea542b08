"""Commands of a real federation on Flower: federation init, server, site, run, status."""

import importlib.util
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedjigsaw.cli._shared import (
    ForceFlag,
    JsonFlag,
    ParamFlag,
    check_outputs,
    choice,
    clusters_by_head,
    err,
    out,
    parse_params,
    print_json,
    say,
    split_names,
)
from fedjigsaw.errors import (
    ExtraError,
    FederationError,
    FedJigsawError,
    ParameterError,
    invalid,
)
from fedjigsaw.io import formats
from fedjigsaw.io.atomic import write_whole
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.methods import DEFAULT
from fedjigsaw.privacy.guard import COUNTS
from fedjigsaw.sites import MAX_ROWS

app = typer.Typer(
    help="A real federation on Flower: sites that are apart, TLS, a key per site.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(help="The folder that `init` made.")]
PORT = 9092
MAX_ROUNDS_SHOWN = 12
OF_ROWS = ("columns", "scaler", "counts", "max_rows", "drop_missing")


@app.callback()
def federation() -> None:
    """A real federation on Flower: sites that are apart, TLS, a key per site."""
    if importlib.util.find_spec("flwr") is None:
        raise ExtraError("A federation needs Flower. Install it: pip install 'fedjigsaw[flower]'")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder for all of it.")],
    sites: Annotated[str, typer.Option(help="Names of the sites, separated by commas.")],
    host: Annotated[
        str, typer.Option(help="Name or address by which sites reach the server.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The one port that they reach it on.")] = PORT,
) -> None:
    """Make certificates, one key per site, settings, and a folder to hand to each site."""
    from fedjigsaw.flower import bundle, folders

    names = split_names(sites) or []
    folders.init(folder, names, host, port, bundle.build())
    out.print(f"{escape(str(folder / 'server'))} stays with the server, at {host}:{port}.")
    for name in names:
        out.print(f"{escape(str(folder / name))} goes to {name}: it holds a key, send it safely.")


@app.command()
def server(
    folder: Folder,
    listen: Annotated[
        str | None,
        typer.Option(help="Address to listen on. Default: all; for a loopback host, that one."),
    ] = None,
) -> None:
    """Run the server, until Ctrl-C. Sites may already be waiting for it."""
    from fedjigsaw.flower import folders, processes

    home = folders.server_folder(folder)
    settings = folders.ServerSettings.load(home)
    listen = listen or listen_address(settings.host)
    private = processes.free_port()
    arguments = (str(home), str(private), listen)
    with processes.alone(home, "The server"), processes.stopped_by_signals():
        try:
            with processes.running(
                "fedjigsaw.flower.superlink", *arguments, folder=home
            ) as process:
                up = processes.wait_until_answers(
                    "127.0.0.1", private, home / folders.CA, seconds=60, process=process
                )
                if not up:
                    raise FederationError(f"The server did not start; see {home}/flower.log.")
                write_whole(home / folders.RUNNING, json.dumps({"control_port": private}).encode())
                names = ", ".join(settings.sites)
                say(f"Server for {names} at {settings.host}:{settings.port}. Ctrl-C ends it.")
                process.wait()
                raise FederationError(f"The server ended by itself; see {home}/flower.log.")
        except KeyboardInterrupt:
            err.print("The server has ended.")
        finally:
            (home / folders.RUNNING).unlink(missing_ok=True)


@app.command()
def site(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder that this site was handed.")],
    data: Annotated[Path | None, typer.Option(help="CSV, Parquet, NPY or NPZ file.")] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Images instead, for `--method deepfeca`: a folder or an NPZ file."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to use, separated by commas. Default: all.")
    ] = None,
    scaler: Annotated[
        Path | None, typer.Option(help="Made by `scaler`, the same at all sites.")
    ] = None,
    min_cluster_size: Annotated[
        int, typer.Option(min=1, help="Guard: no center of fewer rows or images leaves. 1 is off.")
    ] = 5,
    counts: Annotated[
        str | None,
        typer.Option(
            **choice(COUNTS),
            help="Guard: how cluster sizes leave. Default: as needed.",
        ),
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Cluster a random sample of so many rows at most.")
    ] = MAX_ROWS,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave rows with missing values out.")
    ] = False,
    size: Annotated[
        int | None, typer.Option(min=8, help="Scale images of folders to this height and width.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="For images, a torch device, or auto: a GPU if there is one.")
    ] = "auto",
) -> None:
    """At a site: answer the server's questions, until Ctrl-C. Waits for a server to come up."""
    from fedjigsaw.flower import folders, processes
    from fedjigsaw.flower.site import load_site

    settings = folders.SiteSettings.load(folder)
    if (data is None) == (images is None):
        got = "neither" if data is None else "both"
        raise ParameterError(invalid("data", "federation site", "--data or --images", got))
    for name in ("size", "device") if images is None else OF_ROWS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            kind = "images" if images is None else "rows"
            raise ParameterError(f"--{name.replace('_', '-')} is for sites that hold {kind}.")
    options = {
        "name": settings.name,
        "data": None if data is None else str(data.resolve()),
        "images": None if images is None else str(images.resolve()),
        "columns": split_names(columns),
        "scaler": None if scaler is None else str(scaler.resolve()),
        "min_cluster_size": min_cluster_size,
        "counts": counts,
        "max_rows": max_rows,
        "drop_missing": drop_missing,
        "size": size,
        "device": device,
    }
    load_site(options).check()
    home = folder.resolve()
    with (
        processes.alone(home, f"Site {settings.name}"),
        processes.stopped_by_signals(),
        printed_as_it_grows(home / "site.log"),
    ):
        try:
            while True:
                serve_site(home, settings, json.dumps(options))
        except KeyboardInterrupt:
            err.print(f"Site {settings.name} has ended.")


def serve_site(home: Path, settings: Any, options: str) -> None:
    """One connection to the server, from waiting for it to losing it again."""
    from fedjigsaw.flower import folders, processes

    host, port = settings.host, settings.port
    if not processes.answers(host, port, home / folders.CA):
        err.print(f"Waiting for the server at {host}:{port}.")
        processes.wait_until_answers(host, port, home / folders.CA, seconds=float("inf"))
    arguments = (str(home), str(processes.free_port()))
    more = {processes.OPTIONS: options}
    with processes.running(
        "fedjigsaw.flower.supernode", *arguments, folder=home, **more
    ) as process:
        code = process.wait()
    if code == processes.NEVER_CONNECTED and processes.answers(host, port, home / folders.CA):
        raise FederationError(
            f"The server at {host}:{port} refused site {settings.name}: it does not know this "
            f"site's key, or the clocks differ. {home}/flower.log tells more."
        )
    err.print("The connection has ended; trying again.")


@app.command()
def run(
    folder: Folder,
    output: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")],
    k: Annotated[Any, clusters_by_head("Clusters in all data; `auto` (jigsaw)")],
    method: Annotated[
        str, typer.Option(help="`fedjigsaw methods` lists them; deepfeca learns from images.")
    ] = DEFAULT,
    param: ParamFlag = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    min_sites: Annotated[
        int | None, typer.Option(min=1, help="Fewest sites that must answer. Default: all.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that a site has to answer in a round.")
    ] = 600.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for sites to connect.")] = 60.0,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """On the server's machine: ask all sites, fetch the model."""
    from fedjigsaw.flower import folders, jobs, processes

    check_outputs(output, force=force)
    home = folders.server_folder(folder)
    settings = folders.ServerSettings.load(home)
    job = jobs.Job(method, k, parse_params(param), seed, min_sites, timeout, wait)
    job.clusterer()
    if min_sites is not None and min_sites > len(settings.sites):
        allowed = f"at most the number of sites, {len(settings.sites)}"
        raise ParameterError(invalid("--min-sites", "federation run", allowed, min_sites))
    with processes.stopped_by_signals(), jobs.control(home) as client:
        place = jobs.new_job_folder(home)
        job.save(place)
        number = jobs.submit(client, home, place)
        try:
            for event in jobs.follow(client, place, number):
                tell(event)
        except KeyboardInterrupt:
            jobs.stop(client, number)
            err.print("The run was stopped; there is no model.")
            raise typer.Exit(130) from None
    result = jobs.read_result(place)
    if "error" in result:
        error = FedJigsawError(result["error"])
        error.exit_code = result["exit_code"]
        raise error
    write_whole(output, (place / "model").read_bytes())
    report(formats.load(output, ModelFile), result["transcript"], settings.sites, output, as_json)


@app.command()
def status(folder: Folder, as_json: JsonFlag = False) -> None:
    """On the server's machine: is it up, and who is connected?"""
    from fedjigsaw.flower import folders, jobs

    home = folders.server_folder(folder)
    settings = folders.ServerSettings.load(home)
    with jobs.control(home) as client:
        connected = jobs.connected_sites(client, settings)
    if as_json:
        print_json({"host": settings.host, "port": settings.port, "connected": connected})
        return
    out.print(f"Server at {settings.host}:{settings.port}: up.")
    for name, there in connected.items():
        out.print(f"  {name}: {'connected' if there else 'not connected'}")


# ----------------------------------------------------------------------------------------- parts


def tell(event: Mapping[str, Any]) -> None:
    """A line per event of a run, on standard error."""
    words = {"waiting": "waiting for", "failed": "failed:"}
    told = f"{words.get(event['event'], event['event'])} {event['site']}"
    err.print(escape(f"{told} ({event['detail']})" if event["detail"] else told))


def report(
    model: ModelFile, transcript: Mapping[str, Any], sites: Iterable[str], path: Path, as_json: bool
) -> None:
    """Who took part, who did not and why, and where the model is."""
    from fedjigsaw.flower.site import DEEP

    missing = sorted(set(sites) - set(model.clients))
    if as_json:
        numbers = {"model": str(path), "n_clusters": len(model.model.centers)}
        people = {"sites": list(model.clients), "missing": missing, "partly": list(model.partly)}
        print_json({**numbers, **people, "transcript": transcript})
        return
    rounds = transcript["rounds"]
    table = Table("round", "site", "bytes up", "notes")
    if len(rounds) > MAX_ROUNDS_SHOWN:
        for name in model.clients:
            sent = [r["bytes_up"][name] for r in rounds if name in r["bytes_up"]]
            table.add_row("all", name, f"{sum(sent):,}", f"in {len(sent)} of {len(rounds)} rounds")
    for round_ in rounds:
        for name, size in round_["bytes_up"].items() if len(rounds) <= MAX_ROUNDS_SHOWN else ():
            table.add_row(str(round_["number"]), name, f"{size:,}", "")
        for name, reason in round_["failures"].items():
            table.add_row(str(round_["number"]), name, "", escape(f"failed: {reason}"))
    out.print(table)
    wanted = model.model.params.get("n_clusters")
    if isinstance(wanted, int) and len(model.model.centers) < wanted:
        out.print(f"[yellow]Fewer than {wanted} clusters[/]: the summaries held no more groups.")
    if missing:
        names = ", ".join(missing)
        out.print(f"[yellow]Without {names}[/]: the model says who took part.")
    if model.partly:
        names = ", ".join(model.partly)
        out.print(f"[yellow]{names} not in every round[/]: the model says so.")
    what = "images" if model.model.method == DEEP else "rows"
    told = f"{len(model.clients)} sites, {model.n_samples:,} {what}"
    out.print(f"{told} -> {len(model.model.centers)} centers -> {escape(str(path))}")


def listen_address(host: str) -> str:
    """Where a server listens that sites reach by `host`."""
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return "0.0.0.0"
    if address.is_loopback:
        return str(address)
    return "0.0.0.0" if address.version == 4 else "::"


@contextmanager
def printed_as_it_grows(path: Path) -> Iterator[None]:
    """Show what is added to a log while other processes write it."""
    path.touch()
    ended = Event()
    with path.open() as file:
        file.seek(0, os.SEEK_END)

        def follow() -> None:
            while True:
                last = ended.is_set()
                for line in file:
                    say(line.rstrip("\n"))
                if last:
                    return
                ended.wait(0.3)

        thread = Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
