"""The gate in front of Flower's server: what sites may reach, and how large a request may be.

Flower 1.41 serves three things on one port: the sites (protected by their keys), the control of
runs, and the processes of apps. The last two are open to anybody who reaches the port, and whoever
can start a run can run code. So the server listens on two ports. The port for sites serves sites
and nothing else, and refuses requests over the size limit before it reads them. Everything else is
served on a port of the loopback.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fedjigsaw.flower.patches import FLEET_PATH
from fedjigsaw.flower.records import MAX_MESSAGE_BYTES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_REQUEST = MAX_MESSAGE_BYTES + 2**20  # size limit of an HTTP request: a message and its envelope


class Gate:
    """An ASGI app that passes on what is allowed on the port of the request.

    Parameters
    ----------
    app : the ASGI app behind the gate.
    private_port : everything is allowed on this port.
    """

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
        """Return the HTTP status of a refusal, or None if the request is allowed."""
        if scope["type"] == "lifespan" or scope["server"][1] == self.private_port:
            return None
        if scope["type"] != "http" or not scope["path"].startswith(FLEET_PATH):
            return 404
        sizes = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
        chunked = any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"])
        if chunked or len(sizes) != 1 or not sizes[0].isdigit():
            return 411  # no limit can be kept without a reliable length
        return 413 if int(sizes[0]) > MAX_REQUEST else None
