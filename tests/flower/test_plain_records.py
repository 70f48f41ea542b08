"""Messages that are small on the way and would take gigabytes when they are read."""

from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedjigsaw.flower import app_patches

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
