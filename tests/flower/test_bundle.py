"""The app that sites pin by its fingerprint, and what its two halves do."""

import json
from hashlib import sha256

import pytest

from fedjigsaw import FeCA
from fedjigsaw.errors import QuorumError
from fedjigsaw.flower import bundle, folders, jobs, processes, work
from fedjigsaw.flower.rounds import federate
from flower_doubles import LocalGrid, context, engine_of

# of every federation that was made so far: sites refuse any other app


def test_sites_know_the_app():
    assert sha256(bundle.build()).hexdigest() == folders.OWN_APP


@pytest.fixture
def result_of(clinic, monkeypatch):
    """Have the server's half do a job with no site connected; its result."""
    home = clinic / "server"
    monkeypatch.setenv(processes.FOLDER, str(home))

    def run(job):
        folder = jobs.new_job_folder(home)
        job.save(folder)
        asked = context()
        asked.run_config["job"] = folder.name
        bundle.make_server_app()(LocalGrid({}), asked)
        return jobs.read_result(folder)

    return run


def test_the_servers_half_writes_why_there_is_no_model(result_of):
    result = result_of(jobs.Job("feca", 4, wait=0.0))
    assert result["exit_code"] == 5
    assert "bern" in result["error"]
    assert "lyon" in result["error"]


def test_even_if_it_fails_unexpectedly(result_of, monkeypatch):
    monkeypatch.setattr(work, "federate", lambda *a, **k: 1 / 0)
    assert result_of(jobs.Job("feca", 4, wait=0.0)) == {
        "error": "The run failed (ZeroDivisionError); flower.log at the server says more.",
        "exit_code": 1,
    }


def test_a_site_whose_folder_is_gone_answers_nothing(clinic, monkeypatch, tmp_path):
    """Flower makes the folder anew: without policy and journal, only defaults would hold."""
    home = clinic / "bern"
    (tmp_path / "rows.csv").write_text("x\n" + "1\n2\n8\n9\n" * 9)
    options = {"kind": "rows", "name": "bern", "data": f"{tmp_path}/rows.csv", "folder": str(home)}
    monkeypatch.setenv(processes.FOLDER, str(home))
    monkeypatch.setenv(processes.OPTIONS, json.dumps(options))
    app = bundle.make_client_app()
    engine = engine_of(LocalGrid({"bern": app}), FeCA(2, random_state=0), names=["bern"])
    assert len(federate(engine)[0].model.centers) == 2
    kept = (home / "journal.jsonl").read_bytes()
    home.rename(clinic / "elsewhere")
    home.mkdir()
    engine = engine_of(LocalGrid({"bern": app}), FeCA(2, random_state=0), names=["bern"])
    with pytest.raises(QuorumError, match="its policy refuses this question"):
        federate(engine)
    assert not (home / "journal.jsonl").exists()
    assert (clinic / "elsewhere" / "journal.jsonl").read_bytes() == kept
