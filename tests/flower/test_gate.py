"""A gate decides by the head of a request, and keeps memory, time and connections within limits."""

import asyncio
import socket

import pytest

from fedjigsaw.flower import gate
from fedjigsaw.flower.gate import MAX_REQUEST, Gate, Listener, RefusedError, Room, Visit, body_size


def scope(path="/a", port=9092, headers=((b"content-length", b"5"),), kind="http"):
    return {"type": kind, "path": path, "server": ("0.0.0.0", port), "headers": list(headers)}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"content-length", b"5")], None),
        ([(b"Content-Length", b"100")], None),
        ([(b"content-length", b"101")], 413),
        ([(b"content-length", b"9" * 5000)], 413),
        ([(b"transfer-encoding", b"chunked")], 411),
        ([(b"content-length", b"5"), (b"Transfer-Encoding", b"chunked")], 411),
        ([(b"content-length", b"-5")], 411),
        ([(b"content-length", b"5")] * 2, 411),
        ([], 411),
    ],
)
def test_a_body_has_a_length_within_the_limit(headers, status):
    if status is None:
        assert body_size(scope(headers=headers), 100) in (5, 100)
    else:
        with pytest.raises(RefusedError) as refusal:
            body_size(scope(headers=headers), 100)
        assert refusal.value.status == status


class Open:
    """A door for everybody."""

    def admit(self, scope):
        return Visit("anybody", body_size(scope, MAX_REQUEST), ((b"more", b"yes"),))


class Shut:
    def admit(self, scope):
        raise RefusedError(401)


async def echo(scope, receive, send):
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": message["body"]})


def ask(app, scope, *parts):
    """Status, headers and body of the answer, and how many parts of the body were read."""
    sent, waiting = [], list(parts)

    async def receive():
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    head, body = sent
    return head["status"], dict(head["headers"]), body["body"], len(parts) - len(waiting)


def test_what_a_door_admits_arrives_whole():
    app = Gate(echo, {9092: Open()})
    head = {b"a": b"b", b"more": b"yes"}
    assert ask(app, scope(), b"ab", b"cde") == (200, head, b"abcde", 2)


@pytest.mark.parametrize(
    ("options", "status"), [({}, 401), ({"port": 1}, 404), ({"kind": "websocket"}, None)]
)
def test_what_is_refused_is_not_read(options, status):
    app = Gate(None, {9092: Shut()})
    if status is None:
        assert asyncio.run(app(scope(**options), None, None)) is None
        return
    got, headers, body, read = ask(app, scope(**options), b"abcde")
    assert (got, body, read) == (status, b"", 0)
    assert headers[b"connection"] == b"close"


def test_a_body_must_arrive_in_time(monkeypatch):
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.05)
    sent = []

    async def never():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    asyncio.run(Gate(echo, {9092: Open()})(scope(), never, send))
    assert sent[0]["status"] == 408


def test_large_requests_wait_for_one_another_and_small_ones_do_not():
    """One large body of each sender at a time, and two in all."""
    large = MAX_REQUEST

    async def story():
        room, log, go = Room(), [], asyncio.Event()

        async def send(sender, size, name):
            async with room.of(Visit(sender, size)):
                log.append(name)
                await go.wait()

        wanted = [("a", large, "a1"), ("a", large, "a2"), ("b", large, "b1"), ("c", large, "c1")]
        wanted.append(("a", 9, "small"))
        tasks = [asyncio.create_task(send(*one)) for one in wanted]
        await asyncio.sleep(0.05)
        first = list(log)
        go.set()
        await asyncio.gather(*tasks)
        return first, sorted(log), room

    first, log, room = asyncio.run(story())
    assert first == ["a1", "b1", "small"]
    assert log == ["a1", "a2", "b1", "c1", "small"]
    assert not room.requests
    assert not room.large


def test_too_many_at_once_are_refused():
    async def story():
        room = Room()
        room.requests["a"] = gate.MAX_AT_ONCE
        async with room.of(Visit("b", 1)):
            pass
        async with room.of(Visit("a", 1)):
            pass

    with pytest.raises(RefusedError) as refusal:
        asyncio.run(story())
    assert refusal.value.status == 503


def test_there_is_no_waiting_for_memory_without_end(monkeypatch):
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.05)

    async def story():
        room = Room()
        room.large["a"] = MAX_REQUEST
        async with room.of(Visit("a", MAX_REQUEST)):
            pass

    with pytest.raises(RefusedError) as refusal:
        asyncio.run(story())
    assert refusal.value.status == 503


def test_idle_strangers_do_not_keep_a_site_out(monkeypatch):
    """The oldest connection without a key makes place; one with a key stays."""
    monkeypatch.setattr(gate, "MAX_STRANGERS", 3)
    monkeypatch.setattr(gate, "MAX_AT_ONCE", 2)
    with Listener(socket.AF_INET) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ends, accepted = [], []

        def connect(sender=None):
            ends.append(socket.create_connection(listener.getsockname()))
            accepted.append(listener.accept()[0])
            if sender:
                listener.welcome(ends[-1].getsockname(), sender)

        def is_open(end):
            end.settimeout(0.1)
            try:
                return end.recv(1) != b""
            except TimeoutError:
                return True

        connect("bern")
        for _ in range(4):
            connect()
        connect("bern")
        connect("bern")
        # the oldest of three connections of bern, and two strangers that made place
        assert [is_open(end) for end in ends] == [False] * 3 + [True] * 4
        for one in (*ends, *accepted):
            one.close()
        connect()
        assert len(listener.visitors) == 1  # closed ones are forgotten
        for one in (*ends, *accepted):
            one.close()
