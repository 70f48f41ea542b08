"""Flower's SuperLink behind a gate: ``python -m fedjigsaw.flower.superlink FOLDER PRIVATE_PORT``.

Flower 1.41 serves three things on one port: sites (guarded by their keys), the control of runs and
the running of apps (both open to whoever reaches the port; who may start a run may run code). So
here it listens twice. The port that sites reach serves them and nothing else, and refuses messages
over the size limit before reading them. All else is served on a port of this machine's loopback.

The sites' public keys are known before the first of them can knock.
"""

import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

import uvicorn
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.superlink.main import create_app

from fedjigsaw.flower.folders import CA, CERTIFICATE, KEY, ServerSettings
from fedjigsaw.flower.processes import end_with_parent
from fedjigsaw.io.formats import MAX_BYTES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

FOR_SITES = "/v1/fleet/"
MAX_REQUEST = MAX_BYTES + 2**20  # a message in its envelope


class Gate:
    """An ASGI app that lets through what may pass from where it comes."""

    def __init__(self, app: Any, private_port: int) -> None:
        self.app = app
        self.private_port = private_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = self.refusal(scope)
        if status is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    def refusal(self, scope: Scope) -> int | None:
        """The HTTP status of a refusal; None lets a request through."""
        if scope["type"] == "lifespan" or scope["server"][1] == self.private_port:
            return None
        if scope["type"] != "http" or not scope["path"].startswith(FOR_SITES):
            return 404
        sizes = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
        chunked = any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"])
        if chunked or len(sizes) != 1 or not sizes[0].isdigit():
            return 411  # without a length that counts there would be no limit
        return 413 if int(sizes[0]) > MAX_REQUEST else None


def main(folder: Path, private_port: int, listen: str) -> None:
    """Serve until the parent process ends or a signal comes."""
    end_with_parent()
    settings = ServerSettings.load(folder)
    sys.argv = ["flower-superlink", "--enable-supernode-auth", "--host", "127.0.0.1"]
    sys.argv += ["--port", str(private_port), "--disable-runtime-dependency-installation"]
    sys.argv += ["--ssl-ca-certfile", str(folder / CA)]
    sys.argv += ["--ssl-certfile", str(folder / CERTIFICATE), "--ssl-keyfile", str(folder / KEY)]
    command: Any = import_module("flwr.superlink.cli.flower_superlink")
    # one process group for all, so that all of it can be ended
    command.get_popen_detach_kwargs = dict
    config = command._parse_superlink_lifespan_config()
    app = create_app(config, command.SuperLinkLifespan)
    state = app.state.linkstate_factory.state()
    take_over(state)
    deliver_until_confirmed(state)
    for name, key in settings.sites.items():
        state.create_node(
            NOOP_FLWR_AID,
            NOOP_ACCOUNT_NAME,
            key.encode(),
            HEARTBEAT_DEFAULT_INTERVAL,
            name=name,
        )
    server = uvicorn.Server(
        uvicorn.Config(
            Gate(app, private_port),
            ssl_certfile=config.ssl_certfile,
            ssl_keyfile=config.ssl_keyfile,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
    )
    server.run(sockets=[_listen("127.0.0.1", private_port), _listen(listen, settings.port)])


def take_over(state: Any) -> None:
    """Let a site in that comes back with its key while it still counts as connected.

    A site that was killed would else be refused until its last heartbeat is a minute old.
    """
    activate = state.activate_node

    def activate_anyway(node: int, interval: float) -> bool:
        state.deactivate_node(node)
        return bool(activate(node, interval))

    state.activate_node = activate_anyway


def deliver_until_confirmed(state: Any) -> None:
    """Give a site its question again if it asks for another without having confirmed that one.

    A site takes one question at a time, so it was lost on the way, or the site was started anew.
    """
    deliver = state.get_message_ins

    def deliver_again(node_id: int, limit: int | None, **more: Any) -> Any:
        with state.lock:
            for question in state.message_ins_store.values():
                sent = question.metadata
                # what is confirmed is no longer in the store
                if sent.dst_node_id == node_id and sent.message_id in state.object_store:
                    sent.delivered_at = ""
        return deliver(node_id=node_id, limit=limit, **more)

    state.get_message_ins = deliver_again


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
