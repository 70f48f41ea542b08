import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from fedjigsaw import Model, sites
from fedjigsaw.cli import _shared as cli
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import FedJigsawError, MessageError
from fedjigsaw.io import formats
from fedjigsaw.io.schemas import schema_to_toml
from fedjigsaw.records.journal import Journal


def test_very_many_centers_do_not_fill_the_memory_as_json(run, tmp_path):
    """The largest file that is read would need several gigabytes."""
    model = Model(np.zeros((600_000, 2)), "jigsaw", {}, ("x", "y"))
    score = formats.Score("bern", "m", np.ones(600_000, dtype=np.int64), np.ones(600_000))
    for content in (formats.ModelFile(model, None, ("bern",), 9), score):
        formats.save(content, tmp_path / "file", replace=True)
        with pytest.raises(MessageError, match="JSON"):
            run("inspect", tmp_path / "file", "--json")
    assert len(run("inspect", tmp_path / "file").output) < 10_000


def test_weights_are_not_printed_and_may_be_many(run, tmp_path):
    weights = {"weights.a": np.zeros(3 * 2**20, dtype=np.float32)}
    model = Model(np.zeros((1, 1)), "deepfeca", {}, ("p",), weights)
    formats.save(formats.ModelFile(model, None, ("bern",), 9), tmp_path / "model")
    assert json.loads(run("inspect", tmp_path / "model", "--json").output)["n_weights"] == 3 * 2**20


ESCAPE = "\x1b[2J\x1b[1A\r\x07\x9b31m\u202e"


def strings_of(value, path=()):
    """Yield the path of every string in JSON, keys included."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from strings_of(item, (*path, i))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key, None)
            yield from strings_of(item, (*path, key))


def spoiled(value, path):
    """Return the JSON with escape sequences in the string, or the key, at a path."""
    if not path:
        return value + ESCAPE
    head, *rest = path
    if rest == [None]:
        return {key + ESCAPE * (key == head): item for key, item in value.items()}
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[head] = spoiled(value[head], rest)
    return copy


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory, grid_sites):
    """One file of every kind that `inspect` shows, with every optional field."""
    folder = tmp_path_factory.mktemp("kinds")
    path = grid_sites[0][0]
    stats = sites.measure(path)
    scaler = sites.common_scaler({"a": stats})
    summary = sites.summarize(path, "auto", scaler=scaler)
    model = replace(sites.aggregate({"a": summary}, "auto"), partly=("0",))
    tensors = {"support": np.ones(3), "weights.a": np.ones(2)}
    summary = replace(summary, summary=replace(summary.summary, tensors=tensors))
    for content in (stats, summary, model, sites.score(path, model)):
        formats.save(content, folder / type(content).__name__)
    formats.save_scaler(scaler, folder / "scaler")
    return folder


@pytest.mark.parametrize("kind", ["Stats", "SummaryFile", "ModelFile", "Score", "scaler"])
def test_no_string_of_a_file_reaches_the_terminal_as_an_escape(every_kind, kind, run, tmp_path):
    """Whatever a file says, nobody can erase or repaint what `inspect` prints."""
    content = (every_kind / kind).read_bytes()
    if kind == "scaler":
        texts = json.loads(content)
        crafted = [json.dumps(spoiled(texts, path)).encode() for path in strings_of(texts)]
    else:
        arrays = safetensors.numpy.load(content)
        header = json.loads(safetensors.safe_open(every_kind / kind, "np").metadata()["fedjigsaw"])
        pairs = [(arrays, spoiled(header, path)) for path in strings_of(header)]
        for name in arrays:
            renamed = {n + ESCAPE * (n == name): array for n, array in arrays.items()}
            pairs.append((renamed, header))
        crafted = [
            safetensors.numpy.save(some, metadata={"fedjigsaw": json.dumps(text)})
            for some, text in pairs
        ]
    assert len(crafted) >= 5
    refused = 0
    for bad in crafted:
        (tmp_path / "file").write_bytes(bad)
        try:
            text = run("inspect", tmp_path / "file", "--all").output
        except FedJigsawError as error:
            refused += 1
            text = cli.escape(str(error))
        assert not set(ESCAPE) & set(text) - set("[2J1Am3")
    assert refused


def test_nor_does_a_journal(run, tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    for kind in ("question", "answer", "refusal", "note", ESCAPE):
        names = ("to", "method", "seed", "params", "reason", "text", "answer", "round")
        journal.add(kind, **dict.fromkeys(names, ESCAPE))
    for words in ([], ["--json"]):
        text = run("inspect", journal.path, *words).output
        assert not set(ESCAPE) & set(text) - set("[2J1Am3")


def test_nor_does_the_name_of_a_file(shell, tmp_path):
    done = shell("inspect", tmp_path / "a\x1b[2Jb")
    assert done.returncode == 3
    assert "\\x1b[2J" in done.stderr
    assert "\x1b" not in done.stderr


class TestJournal:
    @pytest.fixture
    def journal(self, tmp_path):
        journal = Journal(tmp_path / "journal.jsonl")
        asked = {"method": "jigsaw\x1b[2J", "params": "{}", "seed": 1, "round": 1, "model": "ab"}
        journal.add("question", **asked)
        journal.add("refusal", to=0, reason="2 rounds are more than 1")
        journal.add("question", **{**asked, "method": "feca", "model": None})
        journal.add("answer", to=2, centers=4, bytes=900, answer="ab" * 32, repeated=True)
        return journal.path

    def test_it_is_shown_and_checked(self, run, journal):
        words = " ".join(run("inspect", journal).stdout.split())
        assert "round 1 of jigsaw\\x1b[2J, with a model" in words
        assert "to 0: 2 rounds are more than 1" in words
        assert "2 questions, 1 answers, 1 refusals, 0 failures" in words
        last = json.loads(journal.read_text().splitlines()[-1])["hash"]
        assert f"holds. The last record is number 3, with the hash {last}" in words

    def test_what_was_changed_is_named(self, shell, journal):
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join([lines[0], *lines[2:]]))
        done = shell("inspect", journal)
        assert done.returncode == 4
        assert "Record 2 does not follow record 0" in " ".join(done.stdout.split())

    def test_as_json(self, run, journal):
        done = json.loads(run("inspect", journal, "--json").output)
        assert [record["kind"] for record in done["records"]][:2] == ["question", "refusal"]
        assert not done["problems"]
        assert done["last_hash"] == json.loads(journal.read_text().splitlines()[-1])["hash"]


def test_a_schema(run, tmp_path):
    path = tmp_path / "schema.toml"
    schema = Schema((Column("age", unit="years"), Column("sex", "category", categories=("f", "m"))))
    path.write_text(schema_to_toml(schema))
    shown = run("inspect", path).output
    assert all(part in shown for part in ("years", "category", "'f'", schema.fingerprint))
    assert json.loads(run("inspect", path, "--json").output)["kind"] == "schema"
