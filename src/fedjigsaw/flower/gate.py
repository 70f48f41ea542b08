"""The gate in front of Flower's HTTP servers: who may ask for what, and how much at a time.

Flower 1.41 serves the sites, the control of runs and the processes of apps on one port, and reads
the body of a request before it asks who sent it. The last two are open to anybody who reaches the
port, and whoever can start a run can run code. So each port has a door of its own
(:mod:`fedjigsaw.flower.doors`), which decides by the head of a request alone. The gate reads the
body of a request that may pass, within limits on size, time and memory.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from fedjigsaw.flower.records import MAX_MESSAGE_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

MAX_REQUEST = MAX_MESSAGE_BYTES + 2**20  # size limit of an HTTP request: a message and its envelope
SMALL_REQUEST = 2**20  # size limit of requests that carry no message
MAX_LARGE = 2 * MAX_REQUEST  # bytes of large requests that are in memory at once
MAX_AT_ONCE = 16  # requests of one sender at a time, and its connections
MAX_STRANGERS = 64  # connections that have not yet shown a key
BODY_SECONDS = 300.0  # for a body to arrive, and to wait until there is memory for it
STRANGER = ""


class RefusedError(Exception):
    """A request that may not pass, with the HTTP status that says so."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Visit:
    """A request that may pass.

    Parameters
    ----------
    sender : whose request it is; limits hold for each sender.
    size : length of the body in bytes.
    headers : to be added to the answer.
    """

    sender: str
    size: int
    headers: Headers = ()


class Door(Protocol):
    """The rule of a port."""

    def admit(self, scope: Scope) -> Visit:
        """Admit a request, or raise a RefusedError."""


def body_size(scope: Scope, most: int) -> int:
    """Return the length of a body. One over the limit, or without a reliable length, is refused."""
    sizes = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
    chunked = any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"])
    if chunked or len(sizes) != 1 or not sizes[0].isdigit():
        raise RefusedError(411)
    if len(sizes[0]) > 18 or int(sizes[0]) > most:
        raise RefusedError(413)
    return int(sizes[0])


class Gate:
    """An ASGI app that passes on what the door of the request's port admits.

    Parameters
    ----------
    app : the ASGI app behind the gate.
    doors : port -> door. All other ports are closed.
    """

    def __init__(self, app: Any, doors: Mapping[int, Door]) -> None:
        self.app = app
        self.doors = doors
        self.room = Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            visit = self.admit(scope)
            async with self.room.of(visit):
                body = await read_body(receive)
                await self.app(scope, replay(body, receive), adding(visit.headers, send))
        except RefusedError as refusal:
            if scope["type"] == "http":
                # a stranger's body is not read: the connection cannot be used again
                headers = [(b"connection", b"close"), (b"content-length", b"0")]
                start = {"type": "http.response.start", "status": refusal.status}
                await send({**start, "headers": headers})
                await send({"type": "http.response.body", "body": b""})

    def admit(self, scope: Scope) -> Visit:
        """Admit a request by its head, or raise a RefusedError."""
        door = self.doors.get(scope["server"][1])
        if door is None or scope["type"] != "http":
            raise RefusedError(404)
        return door.admit(scope)


class Room:
    """Memory for requests: how many a sender may have at once, and how many bytes there may be.

    Small requests never wait for large ones, so heartbeats pass while summaries arrive.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.large: Counter[str] = Counter()
        self.left = asyncio.Condition()

    @asynccontextmanager
    async def of(self, visit: Visit) -> AsyncIterator[None]:
        """Hold a place for a request; too many of one sender are refused."""
        if self.requests[visit.sender] >= MAX_AT_ONCE:
            raise RefusedError(503)
        size = visit.size if visit.size > SMALL_REQUEST else 0
        self.requests[visit.sender] += 1
        try:
            await self._enter(visit.sender, size)
            try:
                yield
            finally:
                self.large -= Counter({visit.sender: size})
                async with self.left:
                    self.left.notify_all()
        finally:
            self.requests -= Counter([visit.sender])

    async def _enter(self, sender: str, size: int) -> None:
        def fits() -> bool:
            mine, others = self.large[sender], self.large.total()
            return not size or (mine + size <= MAX_REQUEST and others + size <= MAX_LARGE)

        try:
            async with asyncio.timeout(BODY_SECONDS), self.left:
                await self.left.wait_for(fits)
                self.large[sender] += size
        except TimeoutError as error:
            raise RefusedError(503) from error


async def read_body(receive: Receive) -> bytes:
    """Read a body, whose length the door has limited; one that takes too long is refused."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedError(400)
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError as error:
        raise RefusedError(408) from error


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a function that gives a body that was already read, and then what comes after it."""
    bodies = [body]

    async def again() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await receive()

    return again


def adding(headers: Headers, send: Send) -> Send:
    """Return a function that sends an answer with more headers."""

    async def more(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *headers]}
        await send(message)

    return more if headers else send


class Listener(socket.socket):
    """A listening socket that keeps few connections of strangers, and few of each sender.

    If there are too many, the oldest of them is closed. So connections that do nothing cannot keep
    a site out. This works with the event loops of asyncio, which accept connections through here.
    """

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.visitors: dict[tuple[str, int], tuple[socket.socket, str]] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self.visitors = {a: v for a, v in self.visitors.items() if v[0].fileno() >= 0}
        self.visitors[address[:2]] = connection, STRANGER
        self._limit(STRANGER, MAX_STRANGERS)
        return connection, address

    def welcome(self, address: tuple[str, int], sender: str) -> None:
        """Note who a connection belongs to."""
        found = self.visitors.pop((address[0], address[1]), None)
        if found is not None:  # the latest comes last
            self.visitors[address[0], address[1]] = found[0], sender
            self._limit(sender, MAX_AT_ONCE)

    def _limit(self, sender: str, most: int) -> None:
        of_sender = [connection for connection, whose in self.visitors.values() if whose == sender]
        for connection in of_sender[:-most]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
