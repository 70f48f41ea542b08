"""A real federation: scaler, scores and labels without a file that is carried, and a lost site.

Then a run and a status from an operator's machine.
"""

import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from fedjigsaw import cli, sites
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import from_array
from fedjigsaw.privacy.journal import Journal
from flower_clinic import BACKEND, COMMAND, NAMES, PATIENCE, Clinic, make_shards, members, wait_for

pytestmark = [pytest.mark.federation, pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    clinic = Clinic(tmp_path_factory.mktemp("operator"), make_shards())
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


def command(*words):
    done = CliRunner().invoke(cli.app, ["federation", *map(str, words)])
    error = done.exception if isinstance(done.exception, FedJigsawError) else None
    return (error or done).exit_code, f"{done.output} {error or ''}"


def test_runs_and_status_from_another_machine(clinic, tmp_path):
    """Added while the server runs; the same bits as at the server; stopped; removed."""
    assert command("operator", "add", clinic.home, "anna")[0] == 0
    anna = shutil.move(clinic.home / "anna", tmp_path / "anna")
    code, printed = command("status", anna, "--json")
    assert code == 0, clinic.story(printed)
    assert json.loads(printed)["connected"] == dict.fromkeys(NAMES, True)
    assert "oslo: connected" in command("status", anna)[1]

    options = ["-k", 3, "--wait", 60, "--timeout", PATIENCE]
    more = ["--score", tmp_path / "scores"]
    code, printed = command("run", anna, *options, *more, "-o", tmp_path / "far")
    assert code == 0, clinic.story(printed)
    assert "answered oslo" in printed
    assert "3 sites, 360 rows -> 3 centers" in " ".join(printed.split())
    assert clinic.run("near")[0] == 0
    assert (tmp_path / "far").read_bytes() == (clinic.folder / "near").read_bytes()
    assert sorted(path.stem for path in (tmp_path / "scores").iterdir()) == list(NAMES)

    # an error is that of `run` at the server
    code, printed = command("run", anna, *options, "-o", tmp_path / "no", "--min-sites", 9)
    assert (code, "--min-sites is 9, but this run has 3 sites" in printed) == (2, True)
    assert command("run", anna, *options, "-o", tmp_path / "no", "--without", "rome")[0] == 2

    # Ctrl-C here stops the run there
    clinic.behave("bern", "hang")
    words = [COMMAND, "federation", "run", anna, "-k", "4", "-o", tmp_path / "no"]
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(words, stderr=out, env=os.environ | dict([BACKEND]))
    wait_for(lambda: b"asked oslo" in (tmp_path / "out").read_bytes(), "the sites to be asked")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130

    def runners():
        return [n for n in members(clinic.home / "server") if b"operator_run" in cmdline(n)]

    wait_for(lambda: not runners(), "the run to end at the server")
    latest = max((clinic.home / "server" / "runs").iterdir())
    assert json.loads((latest / "result.json").read_text())["exit_code"] == 130

    # and so does `stop`, later, also if nobody follows the run any more
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.Popen(words, stderr=out, env=os.environ | dict([BACKEND]))
    wait_for(lambda: b"asked oslo" in (tmp_path / "out").read_bytes(), "the sites to be asked")
    process.kill()
    process.wait()
    (name,) = json.loads(command("status", anna, "--json")[1])["runs"]
    code, printed = command("stop", anna, name)
    assert (code, f"Run {name} is stopped." in " ".join(printed.split())) == (0, True), printed
    wait_for(lambda: not runners(), "the run to end at the server")
    latest = clinic.home / "server" / "runs" / name
    result = json.loads((latest / "result.json").read_text())
    assert (result["exit_code"], result["stopped_by"]) == (130, "operator anna")
    assert command("stop", anna, name)[0] == 0

    # a stolen key that was removed opens nothing
    assert command("operator", "remove", clinic.home, "anna")[0] == 0
    for words in (["status", anna], ["run", anna, *options, "-o", tmp_path / "no"]):
        code, printed = command(*words)
        assert code == 8
        assert "does not know the key of operator anna" in " ".join(printed.split())
    assert not (tmp_path / "no").exists()
    log = (clinic.home / "server" / "server.log").read_text()
    assert "operator anna started run" in log


def cmdline(number):
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
