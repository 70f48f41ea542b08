"""The commands of docs/tables.md run in order, print what the page shows, and find the groups."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.metrics import adjusted_rand_score

from fedjigsaw import sites
from fedjigsaw.choice.findings import DOUBTFUL, KFindings
from fedjigsaw.errors import UncertainNumberWarning
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score
from fedjigsaw.report.profiles import describe_clusters
from pages_as_code import ROOT, blocks, page

PAGE = page("docs/tables.md")
FILES = {"bern": "bern.csv", "lyon": "lyon.parquet", "oslo": "oslo.tsv.gz"}
sys.path.insert(0, str(ROOT / "examples"))
messy = pytest.importorskip("messy_hospitals")


def run_line(line, run):
    """Run one line of the page; `|| true` says that it ends with an error code."""
    line, _, fails = line.partition(" || ")
    program, *words = shlex.split(line)
    if program == "fedjigsaw":
        done = run(*words)
        assert (done.exit_code == 0) == (not fails), (words, done.output)
        return done.stdout
    command = [sys.executable if program == "python" else program, *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode(
        "cp1252" if "lyon.csv" in words else "utf-8-sig"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture
def printed(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    lines = "".join(blocks(PAGE, "sh")).splitlines()
    return "".join(run_line(line, run) for line in lines)


def plain(text):
    """Text without fingerprints, sizes of files, and the white space of the screen."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", text)
    text = re.sub(r" \([\d,]+ bytes\)", "", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_page_is_true_and_finds_the_groups(printed, folder):
    shown = [line for line in plain("".join(blocks(PAGE, "text"))) if line not in ("...", "")]
    rest = iter(plain(printed))
    assert len(shown) > 25
    assert [line for line in shown if line not in rest] == []

    groups = messy.write_exports(folder)  # the same again, for what is true
    model = formats.load(folder / "model", ModelFile)
    labels = [part.labels for name in FILES.values() for part in sites.assign(folder / name, model)]
    found = np.concatenate([part.to_numpy(zero_copy_only=False) for part in labels])
    assert adjusted_rand_score(messy.labels_of(groups), found) >= 0.9

    scaler = formats.load_scaler(folder / "scaler.json")
    files = {n: sites.summarize(folder / file, "auto", scaler=scaler) for n, file in FILES.items()}
    with pytest.warns(UncertainNumberWarning):
        auto = KFindings.from_model(sites.aggregate(files, "auto").model)
    assert auto.confidence < DOUBTFUL
    assert "says that this number is in doubt." in PAGE
    assert len(auto.separation) == 4

    scores = {name: formats.load(folder / f"{name}.score", Score) for name in FILES}
    described = describe_clusters(model, sites.merge_scores(scores), list(scores.values()))
    named = [{contrast.column for contrast in cluster.apart} for cluster in described]
    made_by = {"age", "bmi", "glucose", "smoker", "diagnosis", "severity"}
    assert all(columns <= made_by for columns in named)
    assert {"age", "diagnosis"} <= set.union(*named)

    (code,) = blocks(PAGE, "python")
    exec(compile(code, "docs/tables.md", "exec"), {})

    page = (folder / "report.html").read_text()
    assert "diagnosis" in page
    assert "üller" not in page  # a note of a patient
    assert not re.search(r"\b[BLO]\d{5}\b", page)  # an identifier
    assert pa.csv.read_csv(folder / "lyon-labels.csv").num_rows == messy.ROWS["lyon"]
