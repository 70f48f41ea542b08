"""Every private name of Flower in the processes that start apps, and in those of apps.

This continues :mod:`fedjigsaw.flower.patches`, whose rules hold here too: one function for each
touch point, and after *Upstream* what Flower would have to offer so that the function could go.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedjigsaw.flower.patches import wrap
from fedjigsaw.flower.plain_records import check_envelope, check_record

CLIENT_APP, SERVER_APP = "flwr-clientapp", "flwr-serverapp"


@dataclass(frozen=True)
class Task:
    """What the process of an app needs to know.

    Parameters
    ----------
    app : CLIENT_APP or SERVER_APP.
    address : where it gets its input, on the loopback of this machine.
    authority : file with the certificate that the address must show; None is no encryption.
    token : shows there that this is the process of the app.
    quiet : whether to discard what the app prints.
    """

    app: str
    address: str
    authority: str | None
    token: str
    quiet: bool

    @property
    def certificate(self) -> bytes | None:
        return None if self.authority is None else Path(self.authority).read_bytes()


def load(app: str) -> Any:
    """Import what an app of this kind needs of Flower, and return the function that runs it."""
    # Upstream: commands that do not import the SuperNode and the SuperLink, which take a second.
    if app == CLIENT_APP:
        return import_module("flwr.supernode.runtime.run_clientapp").run_clientapp
    if app == SERVER_APP:
        return import_module("flwr.superlink.runtime.run_serverapp").run_serverapp
    raise ValueError(f"{app} is neither {CLIENT_APP} nor {SERVER_APP}.")


def run_app(task: Task) -> None:
    """Run an app in this process."""
    # Upstream: public functions that take a configuration object.
    run = load(task.app)
    install_whole()
    read_plain_records_only()
    # a forked process must not close what belongs to the one that it was forked from
    import_module("flwr.supercore.exit.exit_handler").registered_exit_handlers.clear()
    more: dict[str, Any] = {}
    if task.app == SERVER_APP:
        from queue import Queue

        from flwr.supercore.logger import mirror_output_to_queue

        more["log_queue"] = Queue()
        mirror_output_to_queue(more["log_queue"])
    run(
        runtime_api_address=task.address,
        token=task.token,
        insecure=task.authority is None,
        certificates=task.certificate,
        parent_pid=os.getppid(),
        runtime_dependency_install=False,
        **more,
    )


def install_whole() -> None:
    """Have this process install apps whole or not at all.

    Flower takes every folder with the name of an app for the app. One that was begun on a full
    disk, or by a process that was killed, would fail in every later run.
    """
    # Upstream: an app that is installed elsewhere, and then renamed.
    wrap(import_module("flwr.cli.install"), "validate_and_install", _install_whole)


def _install_whole(
    original: Callable[..., Path],
    source: Path,
    fingerprint: str,
    name: str | None,
    place: Path | None,
    quiet: bool = False,
) -> Path:
    from flwr.common.constant import APP_DIR, FAB_HASH_TRUNCATION
    from flwr.supercore.utils import get_flwr_home

    home = place or get_flwr_home()
    apps = home / APP_DIR
    for found in apps.glob(f"*.{fingerprint[:FAB_HASH_TRUNCATION]}"):
        return found
    apps.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home) as begun:
        made = original(source, fingerprint, name, Path(begun), quiet)
        whole = apps / made.name
        try:
            made.rename(whole)
        except OSError:
            if not whole.exists():  # otherwise another process was faster
                raise
    return whole


def read_plain_records_only() -> None:
    """Have this process read no records that take much more memory than bytes on the way."""
    # Upstream: a limit on the number of values in a record.
    from flwr.proto.recorddict_pb2 import ConfigRecordValue

    utils: Any = import_module("flwr.supercore.inflatable.inflatable_utils")
    kinds = utils.inflatable_class_registry
    for name in set(kinds) - {"Message", "RecordDict", "ConfigRecord"}:
        del kinds[name]  # Flower refuses them, then
    numbers = {field.name: field.number for field in ConfigRecordValue.DESCRIPTOR.fields}
    single = {number for name, number in numbers.items() if not name.endswith("_list")}
    check = partial(check_record, single=single, bytes_list=numbers["bytes_list"])
    for name, checks in (
        ("Message", check_envelope),
        ("RecordDict", check_envelope),
        ("ConfigRecord", check),
    ):
        wrap(kinds[name], "inflate", partial(_inflate, checks))


def _inflate(
    check: Callable[[bytes], None], original: Callable[..., Any], content: bytes, children: Any
) -> Any:
    check(content)
    return original(content, children)


def run_starter(
    address: str,
    authority: str | None,
    secret: bytes,
    parent: int | None,
    start: Callable[[Task], object],
    between: Callable[[], object],
) -> None:
    """Run SuperExec in this process, which gets tasks and starts an app for each.

    Parameters
    ----------
    address, authority : as for a :class:`Task`.
    secret : shows that this is the process that starts apps.
    parent : end with this process; this takes a thread. None is not to look.
    start : called with each task, instead of starting a process whose arguments show the token.
    between : called each time before asking for a task.
    """
    # Upstream: tokens for local processes by standard input, as for those in containers, and
    # processes that are waited for; a command that does not import all other commands.
    from flwr.supercore.superexec.executor import LaunchResult, SubprocessExecutor
    from flwr.supercore.utils import disable_process_dumping

    loop: Any = import_module("flwr.supercore.superexec.run_superexec")

    class Starter(SubprocessExecutor):
        def launch(self, spec: Any) -> Any:
            start(as_task(spec))
            return LaunchResult.accepted()

        def reconcile(self) -> None:
            between()

    disable_process_dumping(strict=False)
    wrap(loop, "get_executor", lambda original, *kind, **more: Starter())
    loop.run_superexec(
        runtime_api_address=address,
        insecure=authority is None,
        root_certificates_path=authority,
        superexec_auth_secret=secret,
        parent_pid=parent,
        runtime_dependency_install=False,
    )


def as_task(spec: Any) -> Task:
    """Return what Flower says about an app to start."""
    # Upstream: the same, documented.
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

    authority = None if spec.insecure else spec.root_certificates_path
    command = TASK_TYPE_TO_COMMAND[spec.task_type]
    return Task(command, spec.runtime_api_address, authority, spec.token, spec.suppress_output)


def end_task(task: Task) -> None:
    """Mark the task of an app as failed; nothing happens if the app has ended it itself.

    Flower itself notices an app that ended abruptly after a minute.
    """
    # Upstream: processes of apps that are waited for.
    import httpx
    from flwr.common.constant import SubStatus
    from flwr.proto.runtime_pb2 import PushTaskOutputRequest
    from flwr.supercore.interceptors import (
        RuntimeTokenHttpInterceptor,
        RuntimeVersionHttpInterceptor,
    )
    from flwr.supercore.runtime import RuntimeHttpClient

    with (
        suppress(httpx.HTTPError),
        RuntimeHttpClient.from_server_address(
            task.address,
            task.authority is None,
            task.certificate,
            [RuntimeVersionHttpInterceptor("SuperExec"), RuntimeTokenHttpInterceptor(task.token)],
        ) as client,
    ):
        client.PushTaskOutput(PushTaskOutputRequest(sub_status=SubStatus.FAILED, details=""))
