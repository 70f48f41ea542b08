"""Fixtures of the tests of a federation."""

import socket
import ssl
import threading
from contextlib import suppress

import numpy as np
import pytest

from fedjigsaw.flower import engine, jobs
from flower_doubles import NAMES, Control


@pytest.fixture(scope="module")
def shards():
    """Rows of three sites with different shares of three groups."""
    rng = np.random.default_rng(1)
    groups = np.array([[0.0, 0.0, 0.0], [30.0, 0.0, 5.0], [0.0, 30.0, 9.0]])
    return {
        name: groups[rng.choice(3, 120, p=np.roll([0.6, 0.3, 0.1], i))] + rng.normal(size=(120, 3))
        for i, name in enumerate(NAMES)
    }


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Poll often: all sites are in this process."""
    monkeypatch.setattr(engine, "POLL_SECONDS", 0.01)


@pytest.fixture
def tls_server():
    """Serve TLS handshakes with a folder's certificate, on a free port; folder -> port."""
    listeners = []

    def start(folder, host="127.0.0.1"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "server.crt", folder / "server.key")
        listener = tls.wrap_socket(socket.create_server((host, 0)), server_side=True)
        listeners.append(listener)

        def serve():
            while listener.fileno() >= 0:
                with suppress(OSError):
                    listener.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    yield start
    for listener in listeners:
        listener.close()


@pytest.fixture
def control(clinic, monkeypatch):
    """A server that is said to run: see Control."""
    home = clinic / "server"
    (home / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    control = Control(home)
    monkeypatch.setattr(jobs, "Control", lambda port, authority, headers: control)
    return control
