"""Stop a run by its name."""

import json
import threading
import time

import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.flower import jobs, stopping

BY_COORDINATOR = {
    "error": "The run was stopped by the coordinator.",
    "exit_code": 130,
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


def new_run(clinic, **job):
    folder = jobs.new_job_folder(clinic / "server")
    (folder / jobs.JOB).write_text(json.dumps({"method": "feca", "n_clusters": 3} | job))
    return folder


def command(*words):
    return CliRunner().invoke(cli.app, ["federation", *map(str, words)])


def test_a_run_is_stopped_once(clinic, flower):
    folder, other = new_run(clinic), new_run(clinic)
    done = command("stop", clinic, folder.name)
    assert done.exit_code == 0, done.exception
    assert f"Run {folder.name} is stopped." in " ".join(done.output.split())
    assert (jobs.read_result(folder), flower.stopped) == (BY_COORDINATOR, [folder.name])
    again = json.loads(command("stop", clinic, folder.name, "--json").stdout)
    text = BY_COORDINATOR["error"]
    assert again == {"run": folder.name, "stopped": False, "error": text}
    words = " ".join(command("stop", clinic, folder.name).output.split())
    assert f"had ended before: {text}" in words
    assert not (other / jobs.RESULT).exists()


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"transcript": {}}, "had ended before: it has a model."),
        ({"error": "Too few.", "exit_code": 5}, "had ended before: Too few."),
    ],
)
def test_a_run_that_has_ended_stays_as_it_is(clinic, flower, result, text):
    folder = new_run(clinic)
    jobs.write_result(folder, **result)
    done = command("stop", clinic, folder.name)
    assert (done.exit_code, text in " ".join(done.output.split())) == (0, True)
    assert (jobs.read_result(folder), flower.stopped) == (result, [])


def test_an_unknown_name_is_answered_with_a_similar_one(clinic, flower):
    folder = new_run(clinic)
    error = command("stop", clinic, folder.name[:-1] + "x").exception
    assert isinstance(error, ParameterError)
    assert str(error).endswith(f"Did you mean {folder.name}?")
    for name in ("../../bern", "x", "20200101-000000-00000000"):
        stopping.stop(clinic / "server", folder.name)  # then there is none to stop
        with pytest.raises(ParameterError, match=r"There is no run .* status` lists"):
            stopping.stop(clinic / "server", name)


def test_a_run_of_a_server_that_is_gone_can_be_stopped(clinic):
    folder = new_run(clinic)
    assert stopping.stop(clinic / "server", folder.name)["stopped"]
    assert jobs.read_result(folder) == BY_COORDINATOR


def test_whoever_follows_the_run_learns_that_it_was_stopped(clinic, flower, tmp_path):
    def stop():
        while not (runs := stopping.open_runs(clinic / "server")):
            time.sleep(0.01)
        stopping.stop(clinic / "server", *runs)

    threading.Thread(target=stop, daemon=True).start()
    error = command("run", clinic, "-k", 3, "-o", tmp_path / "model").exception
    assert isinstance(error, FedJigsawError)
    assert error.exit_code == 130
    assert not (tmp_path / "model").exists()


def test_the_first_result_counts(clinic):
    """What still computes when a run is stopped cannot say afterwards that there is a model."""
    folder = new_run(clinic)
    assert jobs.write_result(folder, **BY_COORDINATOR)
    assert not jobs.write_result(folder, transcript={})
    assert jobs.read_result(folder) == BY_COORDINATOR
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_runs_that_have_not_ended_are_listed(clinic, capsys):
    home = clinic / "server"
    own, heads, ended = new_run(clinic), new_run(clinic, n_clusters=[3, 4]), new_run(clinic)
    jobs.write_end(ended, "Too few.", 5)
    assert stopping.open_runs(home) == {
        own.name: {"method": "feca", "n_clusters": 3},
        heads.name: {"method": "feca", "n_clusters": [3, 4]},
    }
    from fedjigsaw.cli.federation import print_status

    found = {"host": "h", "port": 1, "connected": {}, "revoked": {}, "twins": {}, "warnings": []}
    print_status({**found, "runs": stopping.open_runs(home)})
    words = " ".join(capsys.readouterr().out.split())
    assert f"Run {own.name} has not ended: feca, -k 3" in words
    assert f"Run {heads.name} has not ended: feca, -k 3,4" in words


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_files_that_are_none_hide_no_run(clinic, content):
    folder = new_run(clinic)
    (folder / jobs.JOB).write_text(content)
    assert list(stopping.open_runs(clinic / "server")) == [folder.name]


def test_work_is_ended_when_its_run_is_stopped_and_not_by_its_own_result(clinic, monkeypatch):
    monkeypatch.setattr(stopping, "WATCH_SECONDS", 0.01)
    for result, ends in ((BY_COORDINATOR, True), ({"error": "Too few.", "exit_code": 5}, False)):
        folder, ended = new_run(clinic), threading.Event()
        with stopping.watched(folder, ended.set):
            assert not ended.wait(0.1)
            jobs.write_result(folder, **result)
            assert ended.wait(10 if ends else 0.2) is ends


def test_the_log_of_the_server_says_that_a_run_was_stopped(clinic, flower):
    """The process that did the work may have ended before it could say."""
    log, first = clinic / "server" / "server.log", new_run(clinic)
    assert command("stop", clinic, first.name).exit_code == 0
    assert log.read_text().endswith(f"WARNING run {first.name} was stopped\n")
    assert log.stat().st_mode & 0o777 == 0o600
    running = {"control_port": 9, "secret": "s", "log": "json info "}
    (clinic / "server" / "running.json").write_text(json.dumps(running))
    second = new_run(clinic)
    assert command("stop", clinic, second.name).exit_code == 0
    assert command("stop", clinic, second.name).exit_code == 0  # it is said once
    (line,) = (json.loads(one) for one in log.read_text().splitlines()[1:])
    told = {name: line[name] for name in ("part", "event", "run", "exit_code")}
    assert told == {
        "part": "server",
        "event": "run_ended",
        "run": second.name,
        "exit_code": 130,
    }


def test_a_log_that_cannot_be_written_does_not_keep_a_run_going(clinic, flower):
    (clinic / "server" / "server.log").mkdir()
    folder = new_run(clinic)
    assert command("stop", clinic, folder.name).exit_code == 0
    assert jobs.read_result(folder) == BY_COORDINATOR
