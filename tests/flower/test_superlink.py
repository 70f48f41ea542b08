"""The server's process: Flower's app behind the gate, with all sites known from the start."""

from functools import partial

import pytest

from fedjigsaw.flower import answer_patches, patches, superlink
from fedjigsaw.flower.doors import PrivateDoor, SiteDoor
from fedjigsaw.flower.folders import ServerSettings, new_task_secret
from fedjigsaw.flower.gate import Gate
from fedjigsaw.flower.processes import free_port


@pytest.fixture
def served(clinic, monkeypatch):
    """Run the server's program up to the point where it would serve: config, sockets."""
    calls, patched = [], []
    monkeypatch.setattr("sys.argv", ["pytest"])
    monkeypatch.setattr(superlink, "end_with_parent", lambda: None)
    for module, name in (
        (patches, "keep_in_process_group"),
        (answer_patches, "accept_own_answers_only"),
    ):
        monkeypatch.setattr(module, name, partial(patched.append, name))
    monkeypatch.setattr(
        superlink.uvicorn.Server, "run", lambda self, sockets: calls.append((self.config, sockets))
    )
    port = free_port()
    settings = ServerSettings.load(clinic / "server")
    monkeypatch.setattr(
        superlink.ServerSettings,
        "load",
        lambda folder: ServerSettings(settings.host, port, settings.sites),
    )
    private = free_port()
    monkeypatch.setattr(superlink, "log_to", lambda path: None)
    monkeypatch.setattr(superlink, "watch_keys", lambda keys, state: None)
    new_task_secret(clinic / "server")
    superlink.main(clinic / "server", private, "127.0.0.1", "a secret")
    ((config, sockets),) = calls
    assert patched == ["keep_in_process_group", "accept_own_answers_only"]
    yield config, sockets, private, port
    for listener in sockets:
        listener.close()


def test_everything_passes_the_gate(served, clinic):
    config, sockets, private, port = served
    assert isinstance(config.app, Gate)
    doors = config.app.doors
    assert {number: type(door) for number, door in doors.items()} == {
        private: PrivateDoor,
        port: SiteDoor,
    }
    assert doors[private].secret == "a secret"
    assert [listener.getsockname() for listener in sockets] == [
        ("127.0.0.1", private),
        ("127.0.0.1", port),
    ]
    assert config.ssl_certfile == clinic / "server" / "server.crt"
    assert not config.proxy_headers


def test_all_sites_are_known_before_the_first_can_connect(served, clinic):
    state = patches.link_state(served[0].app.app)
    for key in ServerSettings.load(clinic / "server").sites.values():
        assert state.get_node_id_by_public_key(key.encode())
