"""Only what sites need passes the port that sites reach."""

import asyncio

import pytest

from fedjigsaw.flower.gate import MAX_REQUEST, Gate


def scope(path, port=9092, headers=((b"content-length", b"5"),), kind="http"):
    return {"type": kind, "path": path, "server": ("0.0.0.0", port), "headers": headers}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/fleet/pull-messages", [(b"content-length", b"5")], None),
        ("/v1/fleet/push-object", [(b"Content-Length", str(MAX_REQUEST).encode())], None),
        ("/v1/fleet/push-object", [(b"content-length", str(MAX_REQUEST + 1).encode())], 413),
        ("/v1/fleet/push-object", [(b"transfer-encoding", b"chunked")], 411),
        (
            "/v1/fleet/push-object",
            [(b"content-length", b"5"), (b"Transfer-Encoding", b"chunked")],
            411,
        ),
        ("/v1/fleet/push-object", [(b"content-length", b"-5")], 411),
        ("/v1/fleet/push-object", [(b"content-length", b"5")] * 2, 411),
        ("/v1/control/start-run", [(b"content-length", b"5")], 404),
        ("/v1/control/register-node", [(b"content-length", b"5")], 404),
        ("/v1/runtime/acquire-task", [(b"content-length", b"5")], 404),
        ("/docs", [], 404),
        ("/health", [], 404),
        ("//v1/fleet/x", [], 404),
    ],
)
def test_which_requests_pass(path, headers, status):
    gate = Gate(None, private_port=1)
    assert gate.refusal(scope(path, headers=headers)) == status
    assert gate.refusal(scope(path, port=1, headers=headers)) is None


def test_nothing_but_http():
    gate = Gate(None, private_port=1)
    assert gate.refusal(scope("/v1/fleet/x", kind="websocket")) == 404
    assert gate.refusal({"type": "lifespan"}) is None


def test_a_refusal_is_an_answer():
    sent = []

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        sent.append("through")

    gate = Gate(app, private_port=1)
    asyncio.run(gate(scope("/v1/control/start-run"), None, send))
    assert [message.get("status") for message in sent] == [404, None]
    asyncio.run(gate(scope("/v1/control/start-run", port=1), None, send))
    assert sent[-1] == "through"
