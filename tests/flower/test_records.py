"""Questions and answers survive the way through Flower's records; anything else is refused."""

import errno
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedjigsaw import Summary, sites
from fedjigsaw.errors import (
    DataError,
    DataTypeError,
    MessageError,
    ParameterError,
    QuorumError,
)
from fedjigsaw.flower import records, tasks
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import Model
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.journal import FullError

MODEL = Model([[1.0, 2.0]], "feca", {"n_clusters": 1}, ("x0", "x1"), {"t": np.arange(3.0)})
ROWS = np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture
def file():
    return sites.summarize(from_array(ROWS), 2, client="bern", guard=Guard(5, "exact"))


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (DataError("/home/ada"), "data"),
        (DataTypeError("/home/ada"), "data"),
        (ParameterError("x"), "parameter"),
        (MessageError("x"), "message"),
        (MemoryError("x"), "memory"),
        (FullError("x"), "disk"),
        (OSError(errno.ENOSPC, "x"), "disk"),
        (PermissionError(errno.EACCES, "x"), "error"),
        (TimeoutError("x"), "timeout"),
        (QuorumError("x"), "error"),
        (RuntimeError("/home/ada"), "error"),
        (KeyboardInterrupt(), "error"),
    ],
)
def test_a_failure_leaves_as_one_word(error, word):
    assert records.category(error) == word
    packed = records.pack_failure(word)
    assert json.loads(packed["fedjigsaw"]["head"]) == {"format": 1, "failure": word}
    assert list(packed["fedjigsaw"]) == ["head"]
    assert records.unpack_answer(packed) == records.REASONS[word] + records.SEE_LOG


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


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"fedjigsaw": ArrayRecord([np.zeros(3)])}),
        RecordDict({"fedjigsaw": ConfigRecord({})}),
        RecordDict({"fedjigsaw": ConfigRecord({"head": 3})}),
        RecordDict({"fedjigsaw": ConfigRecord({"head": "{"})}),
        RecordDict({"fedjigsaw": ConfigRecord({"head": "[" * 100_000})}),
        RecordDict({"fedjigsaw": ConfigRecord({"head": "[]"})}),
        RecordDict({"fedjigsaw": ConfigRecord({"head": '{"format": 1}', "body": "text"})}),
        with_head(format=2),
        with_head(format=...),
        with_head(round=-1),
        with_head(round=True),
        with_head(seed="0"),
        with_head(method=...),
        with_head(params=[]),
        with_head(timeout=0.0),
        with_head(timeout=float("nan")),
        with_head(timeout="long"),
        with_head(timeout=1e9),
        with_head(columns="a"),
        with_head(columns=[1]),
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
