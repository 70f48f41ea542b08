"""Attacks on the door for operators: what is not signed by a known key, now and once, is refused."""

from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedjigsaw.errors import ParameterError
from fedjigsaw.flower import folders, operator_protocol, operators
from fedjigsaw.flower.doors import SiteDoor
from fedjigsaw.flower.gate import RefusedError
from fedjigsaw.flower.keys import Keys
from fedjigsaw.flower.operator_door import OperatorDoor
from fedjigsaw.flower.operator_protocol import PATH, TOLERANCE, fingerprint, sign

START = PATH + "start"


@pytest.fixture
def anna(clinic):
    return operators.load_key(operators.add(clinic / "server", "anna"))


@pytest.fixture
def door(clinic):
    home = clinic / "server"
    keys = Keys(home, folders.ServerSettings.load(home).sites)
    sites = SiteDoor(keys, lambda address, sender: None)
    return OperatorDoor(operators.Operators(home), lambda address, sender: None, sites)


def head(key, path=START, body=b"{}", word="w"):
    return {name.encode(): v.encode() for name, v in sign(key, path, body, word).items()}


def outcome(door, headers, path=START, size=2, method="POST"):
    """The name of the sender, or the status of the refusal."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "client": ("10.0.0.7", 5),
        "headers": [(b"content-length", str(size).encode()), *dict(headers).items()],
    }
    try:
        return door.admit(scope).sender
    except RefusedError as refusal:
        return refusal.status


def test_an_operator_is_known_by_the_signature(door, anna):
    assert outcome(door, head(anna)) == "operator anna"
    assert outcome(door, head(Ed25519PrivateKey.generate())) == 412
    assert outcome(door, {}) == 401


def test_a_request_counts_once(door, anna):
    headers = head(anna)
    assert outcome(door, headers) == "operator anna"
    assert outcome(door, headers) == 401
    assert outcome(door, {**headers, b"fedjigsaw-nonce": b"0" * 32}) == 401  # it is signed


def test_whatever_was_signed_may_not_be_changed(door, anna):
    for name in head(anna):
        headers = head(anna)
        value = headers[name]
        for other in (b"", b"x", b"\xff", b"9" * 5000, value[:-1], value + b"0", b"0" + value):
            assert outcome(door, {**headers, name: other}) in (401, 412), (name, other)
        assert outcome(door, {n: v for n, v in headers.items() if n != name}) in (401, 412)
    assert outcome(door, head(anna), PATH + "stop") == 401  # for another path
    # a known key's name over the signature of another
    stranger = Ed25519PrivateKey.generate()
    assert (
        outcome(door, {**head(stranger), b"fedjigsaw-operator": head(anna)[b"fedjigsaw-operator"]})
        == 401
    )


@pytest.mark.parametrize("seconds", [-3600, -TOLERANCE - 5, TOLERANCE + 5, 1e6])
def test_a_request_is_of_now(door, anna, monkeypatch, seconds):
    now = operator_protocol.time()
    monkeypatch.setattr(operator_protocol, "time", lambda: now + seconds)
    headers = head(anna)
    monkeypatch.undo()
    assert outcome(door, headers) == 401


def test_an_operators_key_is_no_key_of_a_site(door, anna):
    """Neither in the way operators sign, nor in that of sites."""
    from base64 import b64encode

    from flwr.common.constant import TIMESTAMP_HEADER
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
    from flwr.supercore.date import now

    path = "/v1/fleet/pull-messages"
    assert outcome(door, head(anna, path), path) == 401
    moment = now().isoformat()
    public = anna.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    headers = {
        FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public),
        FLEET_HTTP_SIGNATURE_HEADER: b64encode(anna.sign(moment.encode())),
        TIMESTAMP_HEADER: moment.encode(),
    }
    assert outcome(door, {name.encode(): v for name, v in headers.items()}, path) == 401


def test_a_sites_key_is_no_key_of_an_operator(door, clinic, anna):
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    key = load_ssh_private_key((clinic / "bern" / "site.key").read_bytes(), None)
    request = SimpleNamespace(headers={})
    NodeAuthHttpInterceptor(key, key.public_key()).intercept(
        SimpleNamespace(request=request), lambda context: None
    )
    signed = {name.encode(): value.encode() for name, value in request.headers.items()}
    assert outcome(door, signed, "/v1/fleet/pull-messages") == "bern"  # it is right for a site
    assert outcome(door, signed) == 401
    assert outcome(door, {**signed, **head(Ed25519PrivateKey.generate())}) == 412


def test_a_running_server_notices_who_is_added_and_removed(clinic):
    home = clinic / "server"
    known = operators.Operators(home)
    key = fingerprint(operators.load_key(operators.add(home, "anna")).public_key())
    assert known.find(key).name == "anna"
    assert known.find("0" * 64) is None
    operators.remove(home, "anna")
    assert known.find(key) is None
    (clinic / "anna").rename(clinic / "old")
    operators.add(home, "anna")  # the same name with another key
    assert known.find(key) is None


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/b", "bern", "BERN", "server", "Authority", "a b", "x" * 65, "ä"]
)
def test_names_that_are_none(clinic, name):
    with pytest.raises(ParameterError, match="name of an operator"):
        operators.add(clinic / "server", name)
    assert not (clinic / "server" / "operators.json").exists()
