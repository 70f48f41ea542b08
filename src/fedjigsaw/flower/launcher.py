"""Starts the apps of the server: ``python -m fedjigsaw.flower.launcher flower-superexec ...``.

Flower starts a fresh process for each app, which takes seconds to load its libraries, and gives it
its token in its arguments, which anybody on the machine can list. This process loads libraries once
and forks for each app. Where forking is not safe, it starts ``launcher app``, which reads its task,
with the token, from standard input. Those of a site are started by :mod:`fedjigsaw.flower.warm`.
"""

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path

from fedjigsaw._imports import spare_imports
from fedjigsaw.flower import app_patches, forking
from fedjigsaw.flower.app_patches import SERVER_APP, Task


class Apps:
    """The processes of apps that this process has started and that have not ended yet."""

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}
        self.fresh: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, task: Task) -> None:
        """Start an app: fork, or start a fresh process where that is not safe."""
        if forking.is_safe():
            work = partial(app_patches.run_app, task)
            number = forking.fork(work, task.app, quiet=task.quiet)
        else:
            process = start_fresh(task)
            number, self.fresh[process.pid] = process.pid, process
        self.tasks[number] = task

    def end_tasks(self) -> None:
        """End the tasks of processes that have ended, in case they have not done so themselves."""
        gone = [number for number, process in self.fresh.items() if process.poll() is not None]
        forked = forking.ended(self.tasks.keys() - self.fresh.keys())
        for number in (*gone, *forked):
            self.fresh.pop(number, None)
            app_patches.end_task(self.tasks.pop(number))


def start_fresh(task: Task) -> "subprocess.Popen[bytes]":
    """Start an app in a process that loads everything itself, and give it its task."""
    words = [sys.executable, "-m", __spec__.name, "app"]
    silent = subprocess.DEVNULL if task.quiet else None
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
    return process


def start_apps(arguments: Sequence[str]) -> None:
    """Get tasks and start an app for each, until the parent process ends."""
    options = _parser().parse_args(arguments)
    linux = sys.platform == "linux"
    if linux:
        forking.end_with_parent(options.parent_pid)
    preload(SERVER_APP)
    apps = Apps()
    app_patches.run_starter(
        options.runtime_api_address,
        options.root_certificates,
        Path(options.superexec_auth_secret_file).read_bytes(),
        None if linux else options.parent_pid,
        apps.start,
        apps.end_tasks,
    )


def preload(app: str, *, images: bool = False) -> None:
    """Load what all apps of a kind need, or those of a site that holds images."""
    app_patches.load(app)
    import_module("fedjigsaw.flower.bundle")
    import_module("fedjigsaw.methods.jigsaw")  # with scikit-learn, which all methods need
    if images:
        with suppress(ImportError):  # the app says what is missing
            import_module("fedjigsaw.deep.site")
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it


def _parser() -> argparse.ArgumentParser:
    """Return a parser for what Flower gives to its own command, and no more."""
    parser = argparse.ArgumentParser(prog="flower-superexec", allow_abbrev=False)
    parser.add_argument("--runtime-api-address", required=True)
    encryption = parser.add_mutually_exclusive_group(required=True)
    encryption.add_argument("--insecure", action="store_true")
    encryption.add_argument("--root-certificates")
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--superexec-auth-secret-file", required=True)
    return parser


def main(command: str, arguments: Sequence[str]) -> None:
    spare_imports()
    if command == "app":
        app_patches.run_app(Task(**json.loads(sys.stdin.readline())))
    elif command == "flower-superexec":
        start_apps(arguments)
    else:
        raise SystemExit(f"{command} is neither flower-superexec nor app.")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
