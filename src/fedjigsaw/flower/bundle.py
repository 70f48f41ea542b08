"""The app that `federation run` submits: one bundle for all runs, and its two halves.

The bundle itself holds two lines of code, which import the halves below. So what runs at a site is
the fedjigsaw that is installed there, and the bundle's fingerprint never changes.
"""

import json
import logging
import os
import traceback
from pathlib import Path

from flwr.app import Context
from flwr.cli.build import build_fab_from_files
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedjigsaw.errors import FedJigsawError
from fedjigsaw.flower.apps import FlowerEngine, client_app, federate
from fedjigsaw.flower.folders import ServerSettings
from fedjigsaw.flower.jobs import Job, append_event, job_folder, write_result
from fedjigsaw.flower.processes import FOLDER, OPTIONS, log_to
from fedjigsaw.flower.site import load_site
from fedjigsaw.io import formats

logger = logging.getLogger(__name__)

LAST_SENT = "last.summary"  # in a site's folder: what left it last
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
    """The bundle, always the same bytes."""
    half = "from fedjigsaw.flower.bundle import make_{0}_app\n\napp = make_{0}_app()\n"
    return build_fab_from_files(
        {
            "pyproject.toml": PROJECT.encode(),
            "LICENSE": LICENSE.encode(),
            "fedjigsaw_app/__init__.py": b"",
            "fedjigsaw_app/client.py": half.format("client").encode(),
            "fedjigsaw_app/server.py": half.format("server").encode(),
        }
    )[0]


# --------------------------------------------------------------------------------------- at a site


def make_client_app() -> ClientApp:
    """A site's half: it is at home in the folder that `federation site` was started with."""
    home = Path(os.environ[FOLDER])
    log_to(home / "site.log")
    return client_app(
        lambda context: load_site(json.loads(os.environ[OPTIONS])),
        keep=lambda file: formats.save(file, home / LAST_SENT),
    )


# ----------------------------------------------------------------------------------- at the server


def make_server_app() -> ServerApp:
    """The server's half: it does the job that `federation run` left in the server's folder."""
    app = ServerApp()
    app.main()(do_job)
    return app


def do_job(grid: Grid, context: Context) -> None:
    """Run a job; its model, or why there is none, lies beside it in the end."""
    home = Path(os.environ[FOLDER])
    folder = job_folder(home, str(context.run_config["job"]))
    try:
        job = Job.load(folder)
        engine = FlowerEngine(
            grid,
            job.clusterer(),
            names=sorted(ServerSettings.load(home).sites),
            timeout=job.timeout,
            wait=job.wait,
            tell=lambda *event: append_event(folder, *event),
        )
        file, transcript = federate(engine, seed=job.seed, min_sites=job.min_sites)
        formats.save(file, folder / "model")
        write_result(folder, transcript=transcript.to_dict())
    except FedJigsawError as error:
        write_result(folder, error=str(error), exit_code=error.exit_code)
    except Exception as error:
        traceback.print_exc()
        write_result(folder, error=f"{type(error).__name__}: {error}", exit_code=1)
