"""The process that starts the apps of a site: light while idle, warm while there is work."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedjigsaw.flower import processes, warm
from fedjigsaw.flower.app_patches import CLIENT_APP, Task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux processes are forked"),
]
LIGHT, WARM = 40, 100  # MB: surely less, surely more


@pytest.fixture
def site():
    """The local port of a site that refuses every app, some of them only when it is told to."""
    tokens, go = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            token = self.headers["flwr-task-token"]
            if token not in tokens:
                tokens.append(token)
            if token.startswith("wait"):
                go.wait(60)
            self.send_error(401)

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.tokens, server.address = tokens, f"127.0.0.1:{server.server_port}"
    yield server
    go.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def kind():
    """What the site holds."""
    return "rows"


@pytest.fixture
def starter(tmp_path, kind):
    more = {warm.IDLE_SECONDS: "2", processes.OPTIONS: json.dumps({"kind": kind})}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedjigsaw.flower.warm", str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            env=processes.environment(tmp_path, **more),
        )  # fmt: skip
    yield process
    process.kill()
    process.wait()


def memory(process):
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / 2**20


def children(process):
    return [
        int(n) for n in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]


def send(process, number, address, token):
    task = Task(CLIENT_APP, address, None, token, quiet=False)
    process.stdin.write(json.dumps([number, asdict(task)]).encode() + b"\n")
    process.stdin.flush()


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_apps_are_started_and_missed_and_memory_is_given_back(starter, site, tmp_path):
    send(starter, 17, site.address, "ends")
    assert starter.stdout.readline() == b"17\n", (tmp_path / "log").read_text()
    assert memory(starter) > WARM
    maps = Path(f"/proc/{starter.pid}/maps").read_text()
    assert "/sklearn/" in maps
    assert "/pandas/" not in maps  # no app uses it
    assert "/torch/" not in maps  # the site has no images
    send(starter, 18, site.address, "wait-1")
    send(starter, 19, site.address, "wait-2")
    wait_for(lambda: len(site.tokens) == 3)
    assert site.tokens[0] == "ends"
    first, _ = children(starter)
    for number in (starter.pid, *children(starter)):
        assert b"wait" not in Path(f"/proc/{number}/cmdline").read_bytes()
        assert b"wait" not in Path(f"/proc/{number}/environ").read_bytes()
    assert len(os.listdir(f"/proc/{starter.pid}/task")) == 1
    os.kill(first, signal.SIGKILL)  # it ends abruptly
    assert starter.stdout.readline() in (b"18\n", b"19\n")
    time.sleep(3)
    assert memory(starter) > WARM  # one is still running
    os.kill(*children(starter), signal.SIGKILL)
    starter.stdout.readline()
    wait_for(lambda: memory(starter) < LIGHT)
    assert not children(starter)
    send(starter, 20, site.address, "again")
    assert starter.stdout.readline() == b"20\n"
    assert "again" in site.tokens


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["images"])
def test_apps_for_images_find_torch_loaded_and_are_forked_all_the_same(starter, site, tmp_path):
    pytest.importorskip("torch")
    send(starter, 17, site.address, "wait")
    wait_for(lambda: site.tokens)
    assert "/torch/" in Path(f"/proc/{starter.pid}/maps").read_text()
    assert len(os.listdir(f"/proc/{starter.pid}/task")) == 1
    (app,) = children(starter)
    assert Path(f"/proc/{app}/comm").read_text() == f"{CLIENT_APP}\n"
