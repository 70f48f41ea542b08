"""The process that starts apps: what Flower gives it, and what it gives to the apps."""

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.types import ExecutionSpec

from fedjigsaw.flower import app_patches, bundle, launcher, processes
from fedjigsaw.flower.app_patches import Task

SPEC = ExecutionSpec(
    task_type=TaskType.CLIENT_APP, runtime_api_address="127.0.0.1:9", token="abc",
    insecure=True, root_certificates_path=None, runtime_dependency_install=False,
    parent_pid=7, suppress_output=True, task_id=1,
)  # fmt: skip


def test_an_app_is_installed_whole_or_not_at_all(monkeypatch, tmp_path):
    """On a full disk, Flower itself leaves a part of it, which it then takes for the app."""
    install = import_module("flwr.cli.install")
    monkeypatch.setattr(install, "validate_and_install", install.validate_and_install)
    app_patches.install_whole()
    app, copy = bundle.build(), install.shutil.copy2

    def full(source, target):
        copy(source, target)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(install.shutil, "copy2", full)
        with pytest.raises(OSError, match="No space left"):
            install.install_from_fab(app, tmp_path, skip_prompt=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    place = install.install_from_fab(app, tmp_path, skip_prompt=True)
    assert (place / "pyproject.toml").is_file()
    assert (place / "fedjigsaw_app" / "client.py").is_file()
    assert place.parent == tmp_path / "apps"
    assert list(tmp_path.iterdir()) == [tmp_path / "apps"]
    (place / "pyproject.toml").write_text("kept")
    assert install.install_from_fab(app, tmp_path, skip_prompt=True) == place
    assert (place / "pyproject.toml").read_text() == "kept"


def test_flowers_own_loop_starts_them_and_looks_after_them(monkeypatch):
    """The loop runs once: nobody answers at the address."""
    loop = import_module("flwr.supercore.superexec.run_superexec")
    monkeypatch.setattr(loop, "get_executor", loop.get_executor)
    for name in ("register_signal_handlers", "make_simple_http_retry_invoker"):
        monkeypatch.setattr(loop, name, lambda **more: None)
    started, looked = [], []

    def stop():
        looked.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app_patches.run_starter("127.0.0.1:9", None, b"secret", None, started.append, stop)
    assert looked == [1]
    loop.get_executor().launch(SPEC)
    assert started == [app_patches.as_task(SPEC)]


def test_where_forking_is_not_safe_a_fresh_process_gets_its_task_by_standard_input(tmp_path):
    apps, wait = launcher.Apps(), threading.Event()
    threading.Thread(target=wait.wait).start()
    port = processes.free_port()
    try:
        apps.start(Task("no such app", f"127.0.0.1:{port}", None, "abc", quiet=True))
    finally:
        wait.set()
    ((number, process),) = apps.fresh.items()
    assert process.args[1:] == ["-m", "fedjigsaw.flower.launcher", "app"]
    assert list(apps.tasks) == [number]
    deadline = time.monotonic() + 60
    while apps.tasks:
        apps.end_tasks()  # nobody listens at the port, which is no error
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert process.returncode == 1


def test_a_starter_takes_what_flower_gives_and_no_more():
    words = ["--runtime-api-address", "a:1", "--parent-pid", "7"]
    words += ["--superexec-auth-secret-file", "file"]
    assert launcher._parser().parse_args([*words, "--insecure"]).parent_pid == 7
    for more in ([], ["--insecure", "--allow-runtime-dependency-installation"]):
        with pytest.raises(SystemExit):
            launcher._parser().parse_args([*words, *more])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux processes are forked")
def test_a_starter_has_one_thread_when_it_asks_for_tasks(tmp_path):
    """All that apps use is loaded then, and nothing has started a thread: it can be forked."""
    (tmp_path / "secret").write_bytes(b"secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(90)
        words = ["--runtime-api-address", f"127.0.0.1:{server.getsockname()[1]}", "--insecure"]
        words += ["--parent-pid", str(os.getpid())]
        words += ["--superexec-auth-secret-file", str(tmp_path / "secret")]
        process = subprocess.Popen(
            [sys.executable, "-m", "fedjigsaw.flower.launcher", "flower-superexec", *words],
            env=processes.environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with server.accept()[0] as connection:
                assert b"acquire-task" in connection.recv(1000)
                assert len(os.listdir(f"/proc/{process.pid}/task")) == 1
                maps = Path(f"/proc/{process.pid}/maps").read_text()
                assert "/sklearn/" in maps
                assert "/pandas/" not in maps
        finally:
            process.kill()
            process.wait()
