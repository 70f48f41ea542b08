"""The command that runs the server of a federation: federation server."""

from pathlib import Path
from typing import Annotated

import typer

from fedjigsaw.cli._config import CheckConfigFlag, ConfigOption, print_settings
from fedjigsaw.cli._logs import JsonLogs, LogFormat, LogLevel, MetricsPort, Screen


def server(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder that `federation init` made; may also be in the file of --config. "
            "Example: clinic",
            envvar="FEDJIGSAW_SERVER_FOLDER",
        ),
    ],
    listen: Annotated[
        str | None,
        typer.Option(
            help="IP address to listen on. Default: all addresses, or the loopback alone if the "
            "sites reach the server there. Example: --listen 10.0.0.5"
        ),
    ] = None,
    config: ConfigOption = None,
    check_config: CheckConfigFlag = False,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    metrics_port: MetricsPort = None,
    as_json: JsonLogs = False,
) -> None:
    """At the coordinator: run the server until Ctrl-C. Sites may start before it.

    Example: fedjigsaw federation server clinic
    """
    from fedjigsaw.flower import checks, serving

    if check_config:
        print_settings(context, checks.check_server(folder, listen), as_json=as_json)
        return
    screen = Screen("json" if as_json else log_format, log_level)
    with screen.running("server"):
        serving.serve(folder, listen=listen, **screen.sinks, metrics_port=metrics_port)
