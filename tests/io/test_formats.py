"""Summaries, models, statistics and scores as files: round trip, limits, and 10,000 broken ones."""

import json
import random
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from fedjigsaw.columns.profiles import Profile
from fedjigsaw.columns.scaling import Scaler, Stats
from fedjigsaw.errors import DataError, FedJigsawError, MessageError
from fedjigsaw.io import _codec, formats
from fedjigsaw.io.formats import ModelFile, Score, SummaryFile, decode, encode, load, load_any, save
from fedjigsaw.messages import Model, Summary
from fedjigsaw.privacy import Privacy
from raising import check_place, raises

COLUMNS = ("age", "dose")
SCALER = Scaler(COLUMNS, np.array([40.0, 2.0]), np.array([10.0, 0.5]))


def summary_file(**changes):
    centers, tensors = [[0.0, 1.0], [2.0, 3.0]], {"w": np.arange(3.0)}
    fields = {
        "summary": Summary(9, centers, [1.0, 2.0], [4, 5], [0.5, 0.25], tensors, "bern", 1),
        "method": "feca",
        "params": {"n_init": 10, "refine": True},
        "columns": COLUMNS,
        "scaler": SCALER,
        "guard": {"min_cluster_size": 5, "counts": "none"},
        "seed": 3,
        "n_used": 9,
    }
    return SummaryFile(**{**fields, **changes})


MODEL = ModelFile(Model([[0.0, 1.0]], "feca", {"n_init": 10}, COLUMNS), None, ("bern", "lyon"), 20)
STATS = Stats("bern", COLUMNS, 4, np.array([1.0, 2.0]), np.array([3.0, 0.0]))
SCORE = Score("bern", "0123456789abcdef", np.array([3, 0]), np.array([1.5, 0.0]))
MOMENTS = np.array([[3], [0]]), np.array([[1.5], [0.0]]), np.array([[2.0], [0.0]])
PROFILE = Profile(("age",), *MOMENTS, {"sex": ("f", "m")}, {"sex": np.array([[2, 1], [0, 0]])}, 2)
PROFILED = replace(SCORE, profile=PROFILE)
WEIGHTS = {"weights.a": np.array([[0.1, 0.2]], np.float32), "loss": np.array(0.5)}
ALL = {
    "summary": summary_file(),
    "plain": summary_file(scaler=None),
    "private": summary_file(privacy=Privacy(0.5, bounds=([0, 0.1], [120, 9.5]))),
    "model": MODEL,
    "private model": replace(MODEL, privacy=Privacy(2, 1e-9, (0, 1), unit="site")),
    "stats": STATS,
    "score": SCORE,
    "profile": PROFILED,
    "private profile": replace(PROFILED, privacy=Privacy(1.0, bounds=(0, 120))),
    "weights": ModelFile(Model([[1.0]], "deepfeca", {}, ("p",), WEIGHTS), None, ("bern",), 2),
}
each = pytest.mark.parametrize("content", ALL.values(), ids=ALL.keys())


@each
class TestRoundTrip:
    def test_content(self, content, tmp_path):
        save(content, tmp_path / "file")
        again = load(tmp_path / "file", type(content))
        assert encode(again) == encode(content)

    def test_the_same_content_gives_the_same_bytes(self, content):
        assert len({encode(content) for _ in range(20)}) == 1

    def test_any_safetensors_reader_can_open_it(self, content):
        assert all(
            array.dtype in (np.float64, np.int64) or name == "tensor.weights.a"
            for name, array in safetensors.numpy.load(encode(content)).items()
        )


def test_weights_survive_to_the_last_bit():
    """Half as many bytes as other numbers, and a number alone stays one."""
    assert decode(encode(ALL["weights"])).model == ALL["weights"].model


def test_scaler_survives_to_the_last_bit(tmp_path, rng):
    scaler = Scaler(COLUMNS, rng.normal(size=2), rng.random(2) + 0.1)
    formats.save_scaler(scaler, tmp_path / "s.json")
    assert formats.load_scaler(tmp_path / "s.json").fingerprint == scaler.fingerprint


def nested(depth):
    return [nested(depth - 1)] if depth else []


def with_header(content, **changes):
    """The bytes of a file whose header was changed."""
    data = encode(content)
    length = int.from_bytes(data[:8], "little")
    outer = json.loads(data[8 : 8 + length])
    header = {**json.loads(outer["__metadata__"]["fedjigsaw"]), **changes}
    arrays = safetensors.numpy.load(data)
    return safetensors.numpy.save(arrays, metadata={"fedjigsaw": json.dumps(header)})


def with_arrays(content, **changes):
    """The bytes of a file whose arrays were changed; None takes one out."""
    data = encode(content)
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    arrays = {**safetensors.numpy.load(data), **changes}
    return safetensors.numpy.save(
        {k: v for k, v in arrays.items() if v is not None}, metadata=metadata
    )


SUMMARY = summary_file()
TRUNCATED = "not a fedjigsaw file, or it is truncated"
TOO_MANY = "than any data can have"
ALONE = {"centers": np.eye(2), "tensor.lone_sites": np.array([9])}
BAD_GUARDS = [
    {}, {"min_cluster_size": "x", "counts": "none"}, {"min_cluster_size": 10**30, "counts": "exact"},
    {"min_cluster_size": 5, "counts": "\x1b[2Jexact"},
]  # fmt: skip
TWICE = {"categories": [{"column": "a", "levels": ["b"]}] * 2}
PROFILES = [["age"], {}, {"categories": ["sex"]}, TWICE]
BOUNDS = Privacy(1.0, bounds=([0, 0], [1, 1])).to_dict()
# a header with changes of a file, and a part of what is told
HEADERS = [
    *((SUMMARY, {"format": value}, "format") for value in (0, 2, True)),
    (SUMMARY, {"kind": "poem"}, "kind"),
    (SUMMARY, {"client": None}, "'client'"),
    (SUMMARY, {"client": ""}, "name of a client"),
    (SUMMARY, {"n_samples": -3}, "n_samples"),
    (SUMMARY, {"n_samples": "9"}, "'n_samples'"),
    (SUMMARY, {"n_samples": 2**53, "n_used": 2**53}, "n_samples of client 'bern'"),
    (STATS, {"n_samples": 2**40 + 1}, "n_samples of client 'bern'"),
    (STATS, {"n_samples": 10**400}, "'n_samples'"),
    *((SUMMARY, {"columns": value}, "columns") for value in (["age"], ["age", "age"])),
    (SUMMARY, {"columns": [1, 2]}, "printable"),
    (SUMMARY, {"columns": ["age", "\ud800"]}, "printable"),
    (SUMMARY, {"columns": ["age", "q\x1b[2K\nAll is well."]}, "printable"),
    *((SUMMARY, {"guard": value}, "guard|counts") for value in BAD_GUARDS),
    *((PROFILED, {"profile": value}, "profile|categories|'a' twice") for value in PROFILES),
    (PROFILED, {"privacy": BOUNDS}, "bounds"),
    (SUMMARY, {"n_skipped": 2**53}, "n_skipped of client 'bern'"),
    (SUMMARY, {"n_used": 10}, "n_used of client 'bern'"),
    (SUMMARY, {"seed": -1}, "'seed'"),
    # a line of the sender's own on the screen of whoever is told that parameters differ
    (SUMMARY, {"params": {"a\nAll is well": 1}}, "'params'"),
    (MODEL, {"params": {"a\n": 1}}, "printable"),
    (MODEL, {"params": {"a": nested(400)}}, "nested too deeply"),
    (MODEL, {"clients": ["a", "a"]}, "'a'"),
    (MODEL, {"clients": "bern"}, "'clients'"),
    (MODEL, {"clients_column": 3}, "'clients_column'"),
    (SUMMARY, {"scaler": "beef"}, "scaler"),
]
ARRAYS = [
    (SUMMARY, {"tensor.w": np.zeros(3, np.int8)}, "F32"),
    (SUMMARY, {"centers": np.zeros((2, 2), np.float32)}, "F64"),
    (SUMMARY, {"tensor.\x1b[1A\x1b[2K": np.zeros(1)}, "printable"),
    (SUMMARY, {"tensor.w": np.zeros((2**40, 0))}, "more rows or columns"),
    (SUMMARY, {"centers": None}, "'centers'"),
    (SUMMARY, {"centers": np.full((2, 2), np.nan)}, "NaN"),
    (SUMMARY, {"centers": np.zeros(4)}, "centers"),
    *((SUMMARY, {"radii": np.array(r)}, "radii") for r in ([1.0, np.inf], [-1.0, 1.0], [0.0] * 3)),
    (SUMMARY, {"counts": np.array([-1, 1])}, "counts"),
    (SCORE, {"counts": np.array([2**53, 2**53])}, TOO_MANY),
    (SCORE, {"sse": np.array([1e300, 0.0])}, TOO_MANY),
    (SCORE, {"counts": np.array(3)}, "counts"),
    (SCORE, {"counts": np.array([-3, 0])}, "counts"),
    (SCORE, {"counts": np.array([0, 0])}, "no rows"),
    (PROFILED, {"profile.count": np.array([[4], [0]])}, "profile of client 'bern'"),
    (PROFILED, {"profile.mean": None}, "'profile.mean'"),
    (PROFILED, {"profile.mean": np.array([[np.nan], [0.0]])}, "mean of a profile"),
    (MODEL, ALONE, "lone_sites"),
    (STATS, {"sum_of_squares": np.array([-1.0, 0.0])}, "sum_of_squares"),
]
BROKEN = [
    *((content, TRUNCATED) for content in (b"", b"\x07" * 100, encode(SUMMARY)[:60])),
    ((2**40).to_bytes(8, "little") + encode(SUMMARY)[8:], TRUNCATED),
    (encode(SUMMARY)[:-5], "do not match its header"),
    (safetensors.numpy.save({"a": np.zeros(1)}), "of another program"),
    *((with_header(content, **changes), told) for content, changes, told in HEADERS),
    *((with_arrays(content, **changes), told) for content, changes, told in ARRAYS),
]


@pytest.mark.parametrize(("content", "told"), BROKEN, ids=range(len(BROKEN)))
def test_a_file_that_is_not_in_order_is_refused_by_name(content, told, tmp_path):
    (tmp_path / "a.summary").write_bytes(content)
    with raises(MessageError, told) as caught:
        load_any(tmp_path / "a.summary")
    check_place(caught.value, tmp_path / "a.summary")


def test_kinds_are_not_mixed_up(tmp_path):
    save(MODEL, tmp_path / "m")
    with raises(MessageError, "model, not a summary", file="m"):
        load(tmp_path / "m", SummaryFile)


def test_a_file_that_is_too_large_is_not_even_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(_codec, "MAX_BYTES", 100)
    (tmp_path / "a.summary").write_bytes(b"0" * 101)
    with raises(MessageError, "larger", file="a.summary"):
        load_any(tmp_path / "a.summary")


@pytest.mark.parametrize(
    "changes",
    ["", "[]", "{", "[" * 100_000, {"columns": None}, {"format": 9}, {"mean": ["x"]},
     {"mean": [float("inf")]}, {"fingerprint": "x"}],
)  # fmt: skip
def test_broken_scalers(tmp_path, changes):
    fields = {"kind": "scaler", "format": 1, "columns": ["a"], "mean": [1], "deviation": [1]}
    text = changes if isinstance(changes, str) else json.dumps(fields | changes)
    (tmp_path / "s.json").write_text(text)
    with raises(MessageError, file="s.json"):
        formats.load_scaler(tmp_path / "s.json")


class TestReadBack:
    """What is about to be written is read first: an old file is never lost to an unreadable one."""

    NAMES = tuple(f"column {j} {'x' * 200}" for j in range(30_000))
    WIDE = Model(np.zeros((1, 30_000)), "feca", {}, NAMES)

    @pytest.mark.parametrize(
        ("save", "readable", "other"),
        [
            (save, MODEL, ModelFile(MODEL.model, None, ("bern",), 2**53 + 1)),
            (save, MODEL, ModelFile(WIDE, None, ("bern",), 2)),
            (formats.save_scaler, SCALER, Scaler(NAMES, np.zeros(30_000), np.ones(30_000))),
        ],
        ids=["a field", "a long header", "a scaler"],
    )
    def test_what_nobody_could_read_replaces_nothing(self, tmp_path, save, readable, other):
        save(readable, tmp_path / "m")
        before = (tmp_path / "m").read_bytes()
        with raises(MessageError, "Nothing was written", file="m"):
            save(other, tmp_path / "m")
        assert (tmp_path / "m").read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["m"]

    def test_a_result_that_is_there_is_kept(self, tmp_path):
        for write, content in ((save, MODEL), (formats.save_scaler, SCALER)):
            (tmp_path / "old").write_bytes(b"old")
            with raises(DataError, file="old", parameter="replace"):
                write(content, tmp_path / "old", replace=False)
            assert (tmp_path / "old").read_bytes() == b"old"


def test_a_scaler_of_nested_lists_is_not_even_parsed(tmp_path):
    (tmp_path / "s.json").write_bytes(b'{"kind":' + b"[" + b"[]," * 20_000_000 + b"[]]}")
    tracemalloc.start()
    with raises(MessageError, "4194304 bytes", file="s.json"):
        formats.load_scaler(tmp_path / "s.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def mutate(data, dice):
    """One to four small accidents: bits, bytes, cuts, repeats, numbers in the header."""
    data = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        if not data:
            break
        kind, at = dice.randrange(7), dice.randrange(len(data))
        if kind == 0:
            data[at] ^= 1 << dice.randrange(8)
        elif kind == 1:
            data[at] = dice.randrange(256)
        elif kind == 2:
            del data[at : at + dice.randint(1, 40)]
        elif kind == 3:
            data[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 20)))
        elif kind == 4:
            data[at:at] = data[at : at + dice.randint(1, 60)]
        elif kind == 5:
            data[at : at + 8] = dice.choice([b"\xff" * 8, b"\x00" * 8, b"\x00" * 6 + b"\xf0\x7f"])
        else:
            digits = [i for i, byte in enumerate(data[:600]) if chr(byte).isdigit()]
            if digits:
                data[dice.choice(digits)] = dice.choice(b"0123456789-e.")
    return bytes(data)


@pytest.mark.slow
def test_ten_thousand_broken_files():
    """Only errors of our own, bounded memory, no hang; and most of them are noticed."""
    originals = [encode(content) for content in ALL.values()]
    dice = random.Random(0)
    refused, started = 0, time.monotonic()
    tracemalloc.start()
    for i in range(10_000):
        try:
            decode(mutate(originals[i % len(originals)], dice))
        except FedJigsawError:
            refused += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > 6_000  # a flipped bit inside a number is still a number
    assert peak < 50e6
    assert time.monotonic() - started < 120
