"""Messages of a liar: neither taken, nor unpacked, nor stored beyond the limits."""

import json
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.superlink.federation import NoOpFederationManager

from fedjigsaw import Summary, sites
from fedjigsaw.errors import (
    DataError,
    MessageError,
)
from fedjigsaw.flower import answer_patches, app_patches, records, tasks
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import Model
from fedjigsaw.privacy.guard import Guard
from flower_doubles import numbered_question

MODEL = Model([[1.0, 2.0]], "feca", {"n_clusters": 1}, ("x0", "x1"), {"t": np.arange(3.0)})
ROWS = np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture
def file():
    return sites.summarize(from_array(ROWS), 2, client="bern", guard=Guard(5, "exact"))


def test_an_answer_over_the_limit_stays_at_home(file, monkeypatch):
    monkeypatch.setattr(records, "MAX_MESSAGE_BYTES", len(formats.encode(file)))
    assert not isinstance(records.unpack_answer(records.pack_answer(file)), str)
    packed = records.pack_answer(file)
    monkeypatch.setattr(records, "MAX_MESSAGE_BYTES", len(formats.encode(file)) - 1)
    assert "size limit" in records.unpack_answer(records.pack_answer(file))
    with pytest.raises(MessageError, match="size of a message"):  # a site that does not care
        records.unpack_answer(packed)


def with_head(**changes):
    head = {"format": 1, "round": 0, "seed": 0, "method": "feca", "params": {}, "timeout": 1.0}
    text = json.dumps({k: v for k, v in (head | changes).items() if v is not ...})
    return RecordDict({"fedjigsaw": ConfigRecord({"head": text})})


NO_HEADS = {
    "format": [2, ...],
    "round": [-1, True],
    "seed": ["0"],
    "method": [...],
    "params": [[]],
    "timeout": [0.0, float("nan"), "long", 1e9],
    "columns": ["a", [1]],
}
NO_RECORDS = [{}, {"head": 3}, *({"head": text} for text in ("{", "[" * 100_000, "[]"))]
NO_RECORDS.append({"head": '{"format": 1}', "body": "text"})


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"fedjigsaw": ArrayRecord([np.zeros(3)])}),
        *(RecordDict({"fedjigsaw": ConfigRecord(record)}) for record in NO_RECORDS),
        *(with_head(**{name: value}) for name in NO_HEADS for value in NO_HEADS[name]),
    ],
)
def test_what_is_no_question(content):
    with pytest.raises(MessageError):
        records.unpack_question(content)


@pytest.mark.parametrize(
    ("unpack", "limit"),
    [
        (records.unpack_answer, records.MAX_ANSWER_HEAD),
        (records.unpack_question, records.MAX_QUESTION_HEAD),
        (partial(tasks.unpack_task, "statistics"), records.MAX_QUESTION_HEAD),
        (partial(tasks.unpack_result, tasks.Statistics(), "bern"), records.MAX_ANSWER_HEAD),
    ],
)
def test_a_long_head_is_not_even_read(unpack, limit, monkeypatch):
    """JSON such as [{},{},...] takes thirty times its bytes in memory."""
    content = with_head(failure="data", more=" " * limit)
    monkeypatch.setattr(records.json, "loads", lambda text: pytest.fail("it was read"))
    with pytest.raises(MessageError, match=f"size of a message must be at most {limit} bytes"):
        unpack(content)


def answer(body):
    return RecordDict({"fedjigsaw": ConfigRecord({"head": '{"format": 1}', "body": body})})


def tamper(file, **header):
    """The same file with another header, as a site with other code might send it."""
    raw = formats.encode(file)
    length = int.from_bytes(raw[:8], "little")
    outer = json.loads(raw[8 : 8 + length])
    inner = json.loads(outer["__metadata__"]["fedjigsaw"]) | header
    outer["__metadata__"]["fedjigsaw"] = json.dumps(inner)
    text = json.dumps(outer).encode()
    return len(text).to_bytes(8, "little") + text + raw[8 + length :]


def poison(file, value):
    """The same file with another number in place of the first coordinate."""
    old = file.summary.centers[0, :1].tobytes()
    return formats.encode(file).replace(old, np.array([value]).tobytes())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: b"",
        lambda file: b"\0" * 100,
        lambda file: formats.encode(file)[:-1],
        lambda file: poison(file, np.nan),
        lambda file: poison(file, 1e300),
        lambda file: tamper(file, format=99),
        lambda file: tamper(file, n_samples=2**60),
        lambda file: tamper(file, n_samples=1, n_used=1),
        lambda file: tamper(file, n_samples=-1),
        lambda file: tamper(file, columns=["x0"]),
        lambda file: tamper(file, client=""),
        lambda file: tamper(file, client="a\nb"),
        lambda file: records.pack_model(MODEL),
        lambda file: formats.encode(
            replace(file, summary=replace(file.summary, counts=[2**50, 2**50]))
        ),
        lambda file: formats.encode(
            replace(file, summary=replace(file.summary, tensors={"t": np.array([np.nan])}))
        ),
    ],
)
def test_what_is_no_answer(file, spoil):
    assert records.unpack_answer(answer(formats.encode(file)))
    with pytest.raises((MessageError, DataError)):
        records.unpack_answer(answer(spoil(file)))


def test_the_sum_of_counts_does_not_begin_anew(file):
    """2,048 times 2^53 is 0 in 64 bits."""
    k = 2048
    lie = Summary(k, np.arange(2.0 * k).reshape(k, 2), counts=[2**53] * k, client="bern")
    assert lie.counts.sum() == 0
    with pytest.raises(MessageError, match="sum to 18446744073709551616, which exceeds twice"):
        records.unpack_answer(answer(formats.encode(replace(file, summary=lie))))


def announced(state, question, *contents):
    """Have a site announce an answer; return the message, its session, and what is wanted of it."""
    record = RecordDict({str(i): ConfigRecord({"x": c}) for i, c in enumerate(contents)})
    answer = Message(record, reply_to=question)
    answer.metadata.__dict__["_message_id"] = answer.object_id
    session = state.start_session(1)
    return answer, session, announce(state, answer, get_object_tree(answer), session)


def announce(state, answer, tree, session):
    return state.store_message_and_object_tree(answer, tree, session)[1]


@pytest.fixture
def limited():
    """Flower's own memory, without its checks of runs, and a question."""
    state = InMemoryLinkState(NoOpFederationManager(), InMemoryObjectStore())
    question = numbered_question(7)

    def store(answer):
        about = answer.metadata
        state.message_res_store[about.message_id] = answer
        number = about.reply_to_message_id
        state.message_ins_id_to_message_res_id.setdefault(number, about.message_id)
        return about.message_id

    state.store_message_res = store
    answer_patches.limit_answers(state, 1000)
    return state, question


def test_many_small_objects_are_no_way_around_the_size_limit(limited):
    state, question = limited
    answer, session, wanted = announced(state, question, *(c * 400 for c in "abc"))
    parts = get_all_nested_objects(answer)
    assert set(wanted) == set(parts)
    assert not state.store_object(1, "", *next((n, p.deflate()) for n, p in parts.items()))
    stored = []
    for number, part in sorted(parts.items()):  # each of them in a session of its own
        stored.append(state.store_object(1, session, number, part.deflate()))
        session = state.start_session(1)
        announce(state, answer, get_object_tree(answer), session)
    assert stored.count(True) >= 2
    assert False in stored


pytest.importorskip("flwr")


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


def test_an_answer_cannot_grow_after_it_was_announced(limited):
    state, question = limited
    answer, _, wanted = announced(state, question, "a")
    assert wanted
    assert not announced(state, question, "another answer")[2]
    tree = get_object_tree(answer)
    assert set(announce(state, answer, tree, state.start_session(1))) == set(wanted)
    other = get_object_tree(Message(RecordDict({"x": ConfigRecord({"x": "b"})}), reply_to=question))
    tree.children.extend(other.children)
    assert announce(state, answer, tree, state.start_session(1)) == []


def test_nobody_can_announce_a_part_that_never_comes_in_the_answers_of_others(limited):
    """An object that all sites send, announced by a liar with a part of its own."""
    state, question = limited
    answer_patches.take_parts_from_contents(state)
    usual = ConfigRecord({"x": "what all sites send"})
    lie = get_object_tree(Message(RecordDict({"x": usual}), reply_to=numbered_question(8)))
    (record,) = (node for node in nodes_of(lie) if node.object_id == usual.object_id)
    never = record.children.add()
    never.object_id = "0" * 64
    state.object_store.preregister(1, lie)
    answer, _, wanted = announced(state, question, "what all sites send", "own")
    assert usual.object_id in wanted
    session = state.start_session(1)  # as after a lost connection
    assert set(announce(state, answer, get_object_tree(answer), session)) == set(wanted)
    for number, part in get_all_nested_objects(answer).items():
        assert state.store_object(1, session, number, part.deflate())
    tree = state.object_store.get_object_tree(answer.object_id)
    assert {one.object_id for one in nodes_of(tree)} == set(get_all_nested_objects(answer))
    state.object_store.delete_objects_in_run(1)
    assert len(state.object_store) == 0


def nodes_of(tree):
    yield tree
    for child in tree.children:
        yield from nodes_of(child)
