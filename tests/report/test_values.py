"""`inspect --json` has a field for everything that `inspect` prints."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Privacy, datasets, sites
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.report.inspection import describe
from fedjigsaw.report.values import file_values

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@pytest.fixture(scope="module")
def contents():
    """A file of every kind, with a scaler, an unknown number of clusters and a profile."""
    data = datasets.gaussian_grid(600, overlap=0.0, rng=3)
    tables = {name: from_array(data.X[i::2], ["x", "y"]) for i, name in enumerate("ab")}
    stats = {name: sites.measure(table, client=name) for name, table in tables.items()}
    scaler = sites.common_scaler(stats)
    summaries = {n: sites.summarize(t, "auto", client=n, scaler=scaler) for n, t in tables.items()}
    model = replace(sites.aggregate(summaries, "auto"), partly=("b",))
    score = sites.score(tables["a"], model, client="a", profile=True)
    privacy = Privacy(epsilon=5.0, cells="own", bounds=([0, 0], [1e6, 1e6]), insecure_seed=0)
    noisy = sites.summarize(tables["a"], 3, client="a", privacy=privacy)
    feca = sites.summarize(tables["a"], 3, client="a", method="feca")
    return {
        "statistics": stats["a"],
        "scaler": scaler,
        "summary": summaries["a"],
        "model": model,
        "score": score,
        "private summary": noisy,
        "feca": feca,
    }


KINDS = ["statistics", "scaler", "summary", "model", "score", "private summary", "feca"]


def values_of(content):
    lines = describe(content, 1000, most=10**9)
    return file_values(content, lines), lines


def numbers_in(value):
    """All numbers among JSON values, also within texts."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, str):
        yield from (float(n.replace(",", "")) for n in NUMBER.findall(value))
    else:
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)
        if isinstance(value, dict):
            for name in value:
                yield from numbers_in(name)
        yield float(len(value))


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def test_it_is_json(self, kind, contents):
        found, _ = values_of(contents[kind])
        text = json.dumps(found, allow_nan=False)
        assert json.loads(text) == found
        assert found["kind"] == {"private summary": "summary", "feca": "summary"}.get(kind, kind)

    def test_every_number_that_is_printed_is_a_value(self, kind, contents):
        found, lines = values_of(contents[kind])
        known = np.array(sorted(set(numbers_in(found))))
        for line in lines:
            if re.match(r"  \(|Size:|Scaled by|A scaler", line):  # explanations, fingerprints
                continue
            for text in NUMBER.findall(re.sub(r"^  \d+: ", "", line)):  # places in the list
                shown = float(text.replace(",", ""))
                digits, _, power = text.partition("e")
                width = 0.51 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
                near = np.abs(np.abs(known) - abs(shown)).min()
                assert near <= width, (line, text)

    def test_inferences_are_those_that_are_printed(self, kind, contents):
        found, lines = values_of(contents[kind])
        for text in found["inferences"]:
            assert any(text in line for line in lines)
        assert bool(found["inferences"]) == any("could be inferred" in line for line in lines)


def test_a_summary(contents):
    found, _ = values_of(contents["feca"])
    file = contents["feca"]
    assert found["client"] == "a"
    assert found["rows"] == file.summary.n_samples
    assert found["guard"] == {"min_cluster_size": 5, "counts": "none"}
    assert [c["radius"] for c in found["clusters"]] == file.summary.radii.tolist()
    assert found["clusters"][0]["center"] == dict(
        zip("xy", file.summary.centers[0].tolist(), strict=True)
    )
    assert found["sent"] == ["radius"]


def test_a_model(contents):
    found, _ = values_of(contents["model"])
    file = contents["model"]
    assert found["partly"] == ["b"]
    assert found["k"]["confidence"] == pytest.approx(0.9, abs=0.1)
    assert len(found["clusters"]) == found["n_clusters"] == len(file.model.centers)
    centers = file.scaler.unscale(file.model.centers)
    assert found["clusters"][0]["center"]["x"] == pytest.approx(centers[0, 0])
    assert found["clusters"][0]["support"].keys() >= {"clients", "points", "spread", "margin"}
    assert [site["client"] for site in found["sites"]] == ["a", "b"]
    assert found["labels"]["recommended"] == "nearest"


def test_files_of_the_command(contents, run, tmp_path):
    for kind in ("summary", "model", "score", "statistics"):
        formats.save(contents[kind], tmp_path / kind)
        found = json.loads(run("inspect", tmp_path / kind, "--json").stdout)
        assert found["kind"] == kind
        assert found["bytes"] == (tmp_path / kind).stat().st_size
        assert found["lines"] == run("inspect", tmp_path / kind, "--all").stdout.splitlines()
