"""Which requests each port serves, and to whom, before their bodies are read."""

from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedjigsaw.flower import folders, members, patches
from fedjigsaw.flower.certificates import make_site_key
from fedjigsaw.flower.doors import PrivateDoor, SiteDoor
from fedjigsaw.flower.gate import MAX_REQUEST, SMALL_REQUEST, RefusedError
from fedjigsaw.flower.keys import Keys


def scope(path, headers=(), size=5):
    length = (b"content-length", str(size).encode())
    return {
        "type": "http",
        "path": path,
        "client": ("10.0.0.7", 5),
        "headers": [length, *dict(headers).items()],
    }


def signed(private):
    """The headers that Flower's own client adds to a request."""
    key = load_ssh_private_key(private, None)
    request = SimpleNamespace(headers={})
    NodeAuthHttpInterceptor(key, key.public_key()).intercept(
        SimpleNamespace(request=request), lambda context: None
    )
    return {name.encode(): value.encode() for name, value in request.headers.items()}


def outcome(door, *request, **options):
    """The name of the sender, or the status of the refusal."""
    try:
        return door.admit(scope(*request, **options)).sender
    except RefusedError as refusal:
        return refusal.status


@pytest.fixture
def site_door(clinic):
    home = clinic / "server"
    keys = Keys(home, folders.ServerSettings.load(home).sites)
    return SiteDoor(keys, lambda address, sender: None)


@pytest.fixture
def bern(clinic):
    return signed((clinic / "bern" / "site.key").read_bytes())


def test_a_site_is_known_by_its_signature(site_door, bern):
    path = "/v1/fleet/pull-messages"
    assert outcome(site_door, path, bern) == "bern"
    assert outcome(site_door, path) == 401
    assert outcome(site_door, path, signed(make_site_key()[0])) == 412
    for name in bern:
        assert outcome(site_door, path, {**bern, name: b"x"}) == 401
        assert outcome(site_door, path, {n: v for n, v in bern.items() if n != name}) == 401
    old = {**bern, b"flwr-timestamp": b"2020-01-01T00:00:00+00:00"}
    assert outcome(site_door, path, old) == 401


def test_only_objects_may_be_large(site_door, bern):
    push, pull = "/v1/fleet/push-object", "/v1/fleet/pull-messages"
    assert outcome(site_door, push, bern, size=MAX_REQUEST) == "bern"
    assert outcome(site_door, push, bern, size=MAX_REQUEST + 1) == 413
    assert outcome(site_door, pull, bern, size=SMALL_REQUEST) == "bern"
    assert outcome(site_door, pull, bern, size=SMALL_REQUEST + 1) == 413


def refresh(door, gone):
    """Let a door see what has changed, and note which sites lose their connection."""
    door.keys.refresh(lambda name, key: None, lambda name, key: gone.append(name))


def test_a_new_key_takes_the_place_of_the_old_one_also_of_a_revoked_site(site_door, bern, clinic):
    path, home = "/v1/fleet/pull-messages", clinic / "server"
    members.revoke(home, "bern")
    refresh(site_door, [])
    new = signed(members.rekey(home, "bern").read_bytes())
    refresh(site_door, [])
    assert [outcome(site_door, path, of) for of in (new, bern)] == ["bern", 410]
    door = SiteDoor(Keys(home, folders.ServerSettings.load(home).sites), site_door.welcome)
    assert [outcome(door, path, of) for of in (new, bern)] == ["bern", 410]  # after a restart


def private_door(secret):
    return PrivateDoor(lambda token: token == "a token", secret)


@pytest.mark.parametrize(
    ("path", "headers", "who"),
    [
        ("/v1/control/start-run", {b"fedjigsaw-secret": b"right"}, "control"),
        ("/v1/control/start-run", {b"fedjigsaw-secret": b"wrong"}, 401),
        ("/v1/control/start-run", {b"fedjigsaw-secret": b""}, 401),
        ("/v1/control/start-run", {}, 401),
        ("/v1/control/start-run", {patches.TOKEN_HEADER: b"a token"}, 401),
        ("/v1/runtime/pull-task-input", {patches.TOKEN_HEADER: b"a token"}, "app a token"),
        ("/v1/runtime/pull-task-input", {patches.TOKEN_HEADER: b"another \xff"}, 401),
        ("/v1/runtime/pull-task-input", {b"fedjigsaw-secret": b"right"}, 401),
        ("/v1/runtime/acquire-task", {}, "processes that start apps"),
        ("/v1/fleet/pull-messages", {b"fedjigsaw-secret": b"right"}, 404),
        ("/docs", {}, 404),
        ("/health", {}, 404),
    ],
)
def test_the_private_port_serves_who_has_a_secret(path, headers, who):
    assert outcome(private_door("right"), path, headers) == who
    if path.startswith("/v1/control/"):
        assert outcome(private_door(None), path, headers) == 404  # a site controls no runs
