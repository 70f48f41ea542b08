"""Stop a run by its name."""

import json
import threading
import time

import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.flower import jobs, stopping
from fedjigsaw.flower.folders import OWNER

BY_COORDINATOR = {
    "error": "The run was stopped by the coordinator.",
    "exit_code": 130,
    "stopped_by": "the coordinator",
}


class Flower:
    """The control of a server that has a run for each job."""

    def __init__(self):
        self.stopped = []

    def runs_of(self, job):
        return [job]

    def stop_run(self, run):
        self.stopped.append(run)

    def start_run(self, app, config):
        return config["job"]

    def status(self, run):
        return "running"

    def close(self):
        pass


@pytest.fixture
def flower(clinic, monkeypatch):
    control = Flower()
    (clinic / "server" / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    monkeypatch.setattr(jobs, "Control", lambda port, authority, headers: control)
    return control


def new_run(clinic, owner=None, **job):
    folder = jobs.new_job_folder(clinic / "server")
    (folder / jobs.JOB).write_text(json.dumps({"method": "feca", "n_clusters": 3} | job))
    if owner:
        (folder / OWNER).write_text(json.dumps({"operator": owner, "key": f"key of {owner}"}))
    return folder


def command(*words):
    return CliRunner().invoke(cli.app, ["federation", *map(str, words)])


def test_a_run_of_a_server_that_is_gone_can_be_stopped(clinic):
    folder = new_run(clinic)
    assert stopping.stop(clinic / "server", folder.name, "the coordinator")["stopped"]
    assert jobs.read_result(folder) == BY_COORDINATOR


def test_whoever_follows_the_run_learns_who_stopped_it(clinic, flower, tmp_path):
    def stop():
        while not (runs := stopping.open_runs(clinic / "server")):
            time.sleep(0.01)
        stopping.stop(clinic / "server", *runs, "operator anna")

    threading.Thread(target=stop, daemon=True).start()
    error = command("run", clinic, "-k", 3, "-o", tmp_path / "model").exception
    assert isinstance(error, FedJigsawError)
    assert (error.exit_code, str(error)) == (130, "The run was stopped by operator anna.")
    assert not (tmp_path / "model").exists()


def test_the_first_result_counts(clinic):
    """What still computes when a run is stopped cannot say afterwards that there is a model."""
    folder = new_run(clinic)
    assert jobs.write_result(folder, **BY_COORDINATOR)
    assert not jobs.write_result(folder, transcript={})
    assert jobs.read_result(folder) == BY_COORDINATOR
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_runs_that_have_not_ended_are_listed_to_those_who_may_see_them(clinic, capsys):
    home = clinic / "server"
    own, annas, ended = new_run(clinic), new_run(clinic, "anna", n_clusters=[3, 4]), new_run(clinic)
    jobs.write_end(ended, "Too few.", 5)
    assert stopping.open_runs(home) == {
        own.name: {"method": "feca", "n_clusters": 3, "operator": None},
        annas.name: {"method": "feca", "n_clusters": [3, 4], "operator": "anna"},
    }
    assert list(stopping.open_runs(home, "key of anna")) == [annas.name]
    assert stopping.open_runs(home, "key of bob") == {}
    from fedjigsaw.cli.federation import print_status

    found = {"host": "h", "port": 1, "connected": {}, "revoked": {}, "twins": {}, "warnings": []}
    print_status({**found, "runs": stopping.open_runs(home)})
    words = " ".join(capsys.readouterr().out.split())
    assert f"Run {own.name} has not ended: feca, -k 3" in words
    assert f"Run {annas.name} of operator anna has not ended: feca, -k 3,4" in words
