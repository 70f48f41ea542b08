"""A server for operators alone, in this process, on a real port: gate, door and desk, no Flower."""

import socket
import ssl
import sys
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import uvicorn

from fedjigsaw.flower import folders, founding, operator_desk, operators
from fedjigsaw.flower.doors import SiteDoor
from fedjigsaw.flower.gate import Gate, Listener
from fedjigsaw.flower.keys import Keys
from fedjigsaw.flower.operator_desk import OperatorDesk
from fedjigsaw.flower.operator_door import OperatorDoor
from fedjigsaw.flower.operator_protocol import PATH, sign
from fedjigsaw.flower.processes import free_port

# what a run leaves, by a process that needs no Flower
FINISHES = """
import json, sys, pathlib
folder = pathlib.Path(sys.argv[1]) / "runs" / sys.argv[2]
(folder / "events.jsonl").write_text('{"time": 1, "event": "asked", "site": "bern", "detail": ""}\\n')
(folder / "model").write_bytes(b"a model" * 1000000)
(folder / "secret").write_bytes(b"not for others")
(folder / "result.json").write_text(json.dumps({"transcript": {"rounds": []}}))
"""
WAITS = "import time; time.sleep(60)"


async def flower(scope, receive, send):
    """What is behind the desk."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Office:
    """Folders of a federation whose server is this process."""

    def __init__(self, folder):
        self.port = free_port()
        self.clinic = folder / "clinic"
        self.home = self.clinic / "server"
        founding.init(self.clinic, ["bern", "lyon"], "127.0.0.1", self.port, b"an app")

    @contextmanager
    def open(self):
        """Serve until the end of the block."""
        known = operators.Operators(self.home)
        self.listener = listener = Listener(socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        sites = SiteDoor(
            Keys(self.home, folders.ServerSettings.load(self.home).sites), listener.welcome
        )
        self.door = OperatorDoor(known, listener.welcome, sites)
        self.desk = OperatorDesk(flower, self.home, known)
        server = uvicorn.Server(
            uvicorn.Config(
                Gate(self.desk, {self.port: self.door}),
                ssl_certfile=self.home / "server.crt",
                ssl_keyfile=self.home / "server.key",
                loop="asyncio",
                lifespan="off",
                ws="none",
                log_level="error",
                timeout_graceful_shutdown=1,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield self
        finally:
            server.should_exit = True
            thread.join()
            listener.close()
            for run in self.desk.runs.values():
                run.process.kill()
                run.process.wait()

    def cut(self):
        """End all connections."""
        for connection, _ in self.listener.visitors.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def add(self, name):
        """The folder of a new operator."""
        return operators.add(self.home, name)

    def post(self, verb, headers=None, body=b"{}", **more):
        """Send a request as it is."""
        context = ssl.create_default_context(cafile=self.home / "ca.crt")
        with httpx.Client(verify=context, trust_env=False, timeout=20) as client:
            url = f"https://127.0.0.1:{self.port}{PATH}{verb}"
            return client.request(more.pop("method", "POST"), url, headers=headers, content=body)

    def signed(self, folder, verb, body=b"{}", word=None):
        word = self.desk.word if word is None else word
        return sign(operators.load_key(folder), PATH + verb, body, word)


def runs_are(monkeypatch, program):
    """Let the process of a run do something else."""
    assert sys.executable
    monkeypatch.setattr(operator_desk, "MODULE", ("-c", program))
