"""Messages that are small on the way and would take gigabytes when they are read."""

from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedjigsaw.flower import app_patches, plain_records

N = 2**21
utils = import_module("flwr.supercore.inflatable.inflatable_utils")


@pytest.fixture
def inflate(monkeypatch):
    """Read the objects of a message as an app of a federation does."""
    for kind in dict(utils.inflatable_class_registry).values():
        monkeypatch.setattr(kind, "inflate", kind.inflate)
    monkeypatch.setattr(utils, "inflatable_class_registry", {**utils.inflatable_class_registry})
    app_patches.read_plain_records_only()

    def read(content):
        contents = {
            number: one.deflate() for number, one in get_all_nested_objects(content).items()
        }
        return utils.inflate_object_from_contents(content.object_id, contents)

    return read


def message(**records):
    return Message(RecordDict(records), dst_node_id=1, message_type="query.summary")


def record(value):
    """A record of one item, whose value has these bytes."""
    body = field(1, field(1, b"x") + field(2, value))
    return b"ConfigRecord  %d\0" % len(body) + body


def field(number, content):
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_apps_read_no_others(monkeypatch):
    done = []
    monkeypatch.setattr(app_patches, "load", lambda app: lambda **options: done.append("run"))
    monkeypatch.setattr(app_patches, "install_whole", lambda: None)
    monkeypatch.setattr(app_patches, "read_plain_records_only", lambda: done.append("limit"))
    monkeypatch.setattr("flwr.supercore.exit.exit_handler.registered_exit_handlers", [])
    app_patches.run_app(app_patches.Task(app_patches.CLIENT_APP, "", None, "", quiet=True))
    assert done == ["limit", "run"]


def test_own_messages_pass(inflate):
    few = ConfigRecord({"head": "{}", "body": bytes(2**20), "n": -3, "x": 0.5, "yes": True})
    shown = ConfigRecord({"files": [bytes(600)] * 5_000, "before": b""})
    sent = message(fedjigsaw=few, shown=shown)
    assert inflate(sent).content == sent.content


@pytest.mark.parametrize(
    "content",
    [
        ConfigRecord({"x": [300] * 10}),
        ConfigRecord({"x": [0.5] * 10}),
        ConfigRecord({"x": ["a"] * 10}),
        ConfigRecord({"x": [True] * 10}),
        MetricRecord({"x": [1] * 10}),
        ArrayRecord({"x": Array(np.zeros(3))}),
    ],
)
def test_others_do_not(inflate, content):
    with pytest.raises((ValueError, KeyError)):
        inflate(message(fedjigsaw=content))


@pytest.mark.parametrize(
    "content",
    [
        record(field(8, field(1, b"\xfe\x7f" * N))),  # numbers
        record(field(11, b"\x0a\x00" * N)),  # texts
        record(field(12, b"\x0a\x00" * N)),  # bytes
        record(field(6, b"") * N),  # one value over and over
        record(b"")[:-2] + b"\x0a\x00" * N,  # items
    ],
)
def test_nothing_is_made_of_a_bomb(inflate, content, monkeypatch):
    """Each would take over thirty times its bytes."""
    module = import_module("flwr.app.message.configrecord")
    monkeypatch.setattr(module, "ProtoConfigRecord", None)
    with pytest.raises(ValueError, match="A record has"):
        utils.inflatable_class_registry["ConfigRecord"].inflate(content, {})


@pytest.mark.parametrize("cut", [b"\x0b", b"\x0a\x05abc", b"\x0a", b"\xff" * 11, b"\x09abc"])
def test_what_is_no_record(cut):
    with pytest.raises(ValueError, match="record"):
        plain_records.check_record(b"ConfigRecord  9\0" + cut, {1, 2}, 12)


@pytest.mark.parametrize("names", [1, 1000])
def test_what_is_around_records_is_short(inflate, names):
    sent = message(**{f"{i} {'x' * 2**16 * (names == 1)}": ConfigRecord({}) for i in range(names)})
    with pytest.raises(ValueError, match="around the records"):
        inflate(sent)
