"""The app that `federation run` submits: one bundle for all runs, and its two halves.

The bundle contains two lines of code for each half, which import the functions below. So a site
runs the fedjigsaw that is installed there, and the fingerprint of the bundle, which sites pin, does
not change with it. Do not move or rename this module, `make_client_app` or `make_server_app`.
"""

import json
import os
from pathlib import Path

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedjigsaw.flower import patches, stopping, work
from fedjigsaw.flower.apps import client_app
from fedjigsaw.flower.folders import SERVER_LOG, SETTINGS, SITE_LOG
from fedjigsaw.flower.jobs import job_folder
from fedjigsaw.flower.processes import FOLDER, OPTIONS, log_to
from fedjigsaw.flower.site import TimeLimitedSite, load_site
from fedjigsaw.io import formats
from fedjigsaw.records.policy import RefusedError

LAST_SENT = "last.summary"  # in a site's folder: the last summary that left it
PROJECT = """\
[project]
name = "fedjigsaw-app"
version = "1.0.0"
description = "One-shot federated clustering with fedjigsaw."
license = {file = "LICENSE"}
dependencies = ["flwr>=1.41,<1.42"]

[tool.flwr.app]
publisher = "fedjigsaw"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "fedjigsaw_app.server:app"
clientapp = "fedjigsaw_app.client:app"

[tool.flwr.app.config]
job = ""
"""
LICENSE = """\
Licensed under the Apache License, Version 2.0; you may obtain a copy at
http://www.apache.org/licenses/LICENSE-2.0
"""


def build() -> bytes:
    """Build the bundle; it always has the same bytes."""
    half = "from fedjigsaw.flower.bundle import make_{0}_app\n\napp = make_{0}_app()\n"
    return patches.build_app(
        {
            "pyproject.toml": PROJECT.encode(),
            "LICENSE": LICENSE.encode(),
            "fedjigsaw_app/__init__.py": b"",
            "fedjigsaw_app/client.py": half.format("client").encode(),
            "fedjigsaw_app/server.py": half.format("server").encode(),
        }
    )


# --------------------------------------------------------------------------------------- at a site


def make_client_app() -> ClientApp:
    """Make a site's half, for the folder and the data that `federation site` was started with."""
    home = Path(os.environ[FOLDER])
    log_to(home / SITE_LOG)

    def load(context: Context) -> TimeLimitedSite:
        _check_there(home)
        return load_site(json.loads(os.environ[OPTIONS]))

    return client_app(load, keep=lambda file: formats.save(file, home / LAST_SENT))


def _check_there(home: Path) -> None:
    """Raise if the folder was moved away, or its disk unmounted, since the site was started.

    Flower makes a folder anew that is gone. Without its policy and journal, the site would answer
    by the default rules and count from zero.
    """
    if not (home / SETTINGS).is_file():
        raise RefusedError(
            f"{home} was moved away or is empty: it has no {SETTINGS}. Put it back, or end the "
            "site and start it with its new place."
        )


# ----------------------------------------------------------------------------------- at the server


def make_server_app() -> ServerApp:
    """Make the server's half, which runs the job that `federation run` left in its folder."""
    app = ServerApp()
    app.main()(do_job)
    return app


def do_job(grid: Grid, context: Context) -> None:
    """Run a job, and write its model or its error to the folder of the job."""
    home = Path(os.environ[FOLDER])
    log_to(home / SERVER_LOG)
    folder = job_folder(home, str(context.run_config["job"]))
    with stopping.watched(folder, stopping.end_process):
        work.do(home, folder, grid)
