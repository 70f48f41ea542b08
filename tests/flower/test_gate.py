"""A gate decides by the head of a request, and keeps memory, time and connections within limits."""

import socket

import pytest

from fedjigsaw.flower import gate
from fedjigsaw.flower.gate import Listener, RefusedError, body_size


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
