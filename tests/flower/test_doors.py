"""Which requests each port serves, and to whom, before their bodies are read."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import (
    load_ssh_private_key,
)
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedjigsaw.errors import FederationError
from fedjigsaw.flower import folders, gate, keys, members
from fedjigsaw.flower.certificates import make_site_key
from fedjigsaw.flower.doors import SiteDoor
from fedjigsaw.flower.gate import (
    MAX_REQUEST,
    SMALL_REQUEST,
    Listener,
    RefusedError,
    Room,
    Visit,
    body_size,
)
from fedjigsaw.flower.keys import Keys, read_twins


def scope(path, headers=(), size=5):
    length = (b"content-length", str(size).encode())
    return {
        "type": "http",
        "method": "POST",
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


@pytest.fixture
def home(clinic):
    return clinic / "server"


@pytest.fixture
def known(home):
    return Keys(home, {"bern": "a key", "lyon": "another"})


def test_a_site_that_restarts_has_no_twin(known, home):
    for process in (b"1", b"1", b"2", b"2", b"3", b"3"):
        assert not known.note("bern", process, "10.0.0.1")
    assert read_twins(home) == {}


def test_a_thief_who_sends_no_word_is_a_twin_too(known):
    notes = [known.note("bern", word, "10.0.0.1") for word in (b"1", b"", b"1", b"", b"1")]
    assert notes == [False, False, False, True, True]


def test_words_that_never_come_back_fill_no_memory(known):
    for number in range(100):
        known.note("bern", b"%d" % number, "10.0.0.1")
    assert len(known.uses["bern"].hosts) == keys.MAX_PROCESSES


@pytest.mark.parametrize("content", ["", "[]", '{"bern": 1}', "[" * 100_000])
def test_revocations_that_cannot_be_read_stop_the_server(home, content):
    (home / "revoked.json").write_text(content)
    with pytest.raises(FederationError, match="revoked"):
        Keys(home, {})


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
        assert body_size({"headers": headers}, 100) in (5, 100)
    else:
        with pytest.raises(RefusedError) as refusal:
            body_size({"headers": headers}, 100)
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
