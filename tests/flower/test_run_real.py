"""A real federation: scaler, scores and labels without a file that is carried, and a lost site."""

import json

import numpy as np
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from fedjigsaw import cli, sites
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array
from fedjigsaw.records.journal import Journal
from flower_clinic import BACKEND, NAMES, Clinic, make_shards

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    clinic = Clinic(tmp_path_factory.mktemp("run"), make_shards())
    clinic.options["bern"] = ("--labels", clinic.folder / "bern-labels.csv")
    try:
        yield clinic
    finally:
        clinic.end()


@pytest.fixture(autouse=True)
def restored(clinic, monkeypatch):
    monkeypatch.setenv(*BACKEND)
    clinic.restore()


def test_a_run_scales_scores_labels_and_asks_a_lost_site_again(clinic, tmp_path):
    clinic.behave("oslo", "die")  # once, while it works on its summary
    options = ["--scale", "--score", tmp_path / "scores", "--assign", "--retries", 2, "--json"]
    code, printed = clinic.run("model", *options)
    assert code == 0, clinic.story(printed)
    assert "asking again: oslo (attempt 2 of 3)" in printed
    file = formats.load(clinic.folder / "model", ModelFile)
    assert (file.clients, file.n_samples) == (NAMES, 360)
    rows = np.concatenate(list(clinic.shards.values()))
    assert np.allclose(file.scaler.mean, rows.mean(axis=0))  # these sites have no guard
    assert np.allclose(file.scaler.deviation, rows.std(axis=0))
    paths = {path.stem: path for path in (tmp_path / "scores").iterdir()}
    assert sorted(paths) == sorted(NAMES)
    for name, path in paths.items():
        exact = sites.score(from_array(clinic.shards[name], file.columns), file, client=name)
        found = formats.load(path, formats.Score)
        assert (found.model, found.counts.tolist()) == (exact.model, exact.counts.tolist())
    words = ["score", "--merge", *map(str, paths.values()), "--model", str(clinic.folder / "model")]
    assert "3 sites: 360 rows" in CliRunner().invoke(cli.app, words).output
    values = json.loads(printed[printed.index("{\n") :])
    assert (values["labeled"], sum(values["score"]["cluster_sizes"])) == (["bern"], 360)
    labels = pyarrow.csv.read_csv(clinic.folder / "bern-labels.csv")["label"].to_pylist()
    [part] = sites.assign(clinic.folder / "bern.csv", file)
    assert labels == part.labels.to_pylist()
    kept = formats.load(clinic.home / "bern" / "last.model", ModelFile)
    assert formats.encode(kept) == formats.encode(file)
    records = list(Journal(clinic.home / "lyon" / "journal.jsonl").records())
    kinds = [(record["kind"], record.get("task")) for record in records]
    assert [kind for kind, _ in kinds] == ["question", "answer"] * 3 + ["question", "refusal"]
    assert [task for _, task in kinds[::2]] == ["statistics", None, "score of jigsaw", "labels"]
