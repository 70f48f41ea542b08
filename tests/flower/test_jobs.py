"""A job says what a run is to do; it survives in its folder and is checked before it is submitted."""

import itertools
import signal

import httpx
import pytest

from fedjigsaw.errors import DataError, FederationError, FedJigsawError, ParameterError, QuorumError
from fedjigsaw.flower import jobs, members, work
from fedjigsaw.io.atomic import write_json


def test_a_job_survives(tmp_path):
    job = jobs.Job("feca", 4, {"refine": False}, 7, 2, 5.0, 0.0, ["bern"])
    job.save(tmp_path)
    assert jobs.Job.load(tmp_path) == job
    assert job.make_method().get_params()["refine"] is False


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1},
        {"seed": 2**53 + 1},
        {"min_sites": 0},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"timeout": 1e9},
        {"wait": -1.0},
        {"method": "none"},
        {"method": "central"},
        {"n_clusters": "auto"},
        {"params": {"color": "red"}},
        {"params": {"n_clusters": 3}},
        {"params": {"random_state": 3}},
    ],
)
def test_bad_parameters(options):
    with pytest.raises(ParameterError):
        jobs.Job(**{"method": "feca", "n_clusters": 4} | options).make_method()


@pytest.mark.parametrize("name", ["", "..", "../../etc", "20260101-000000-0000000g", "a"])
def test_a_job_is_a_folder_of_its_own(clinic, name):
    with pytest.raises(ParameterError, match="name of a job"):
        jobs.job_folder(clinic / "server", name)


class FakeControl:
    """A server whose run is over after the first question about it; its half does `work`."""

    def __init__(self, home, work):
        self.home, self.work, self.stopped = home, work, []

    def start_run(self, app, config):
        assert app == (self.home / "app.fab").read_bytes()
        folder = jobs.job_folder(self.home, config["job"])
        return self.work(folder)

    def status(self, run):
        return "finished"

    def stop_run(self, run):
        self.stopped.append(run)

    def online(self):
        return {"lyon", "a node without a name of ours"}

    def close(self):
        pass


@pytest.fixture
def server(clinic, monkeypatch):
    """Folder of a server that runs, by the work of its half."""
    home = clinic / "server"
    (home / "running.json").write_text('{"control_port": 9, "secret": "s"}')
    monkeypatch.setattr(jobs, "sleep", lambda seconds: None)

    def start(work):
        control = FakeControl(home, work)
        monkeypatch.setattr(jobs, "Control", lambda port, authority, headers: control)
        return control

    return start


def finishes(folder):
    jobs.append_event(folder, "asked", "bern", "round 0")
    jobs.append_event(folder, "answered", "bern", "8 bytes")
    (folder / "model").write_bytes(b"a model")
    jobs.write_result(folder, transcript={"rounds": []})
    return 7


def only_run(home):
    (folder,) = (home / "runs").iterdir()
    return folder


def test_a_run_gives_a_model_and_its_events(server):
    events = []
    model, transcript = jobs.run_job(server(finishes).home, jobs.Job("feca", 3), events.append)
    assert model.read_bytes() == b"a model"
    assert transcript == {"rounds": []}
    assert [(event["event"], event["site"]) for event in events] == [
        ("asked", "bern"),
        ("answered", "bern"),
    ]


@pytest.mark.parametrize(
    ("code", "kind"), [(5, QuorumError), (3, DataError), (1, FedJigsawError), (99, FedJigsawError)]
)
def test_an_error_at_the_server_is_raised_as_itself(server, code, kind):
    def fails(folder):
        jobs.write_result(folder, error="too few", exit_code=code)
        return 7

    with pytest.raises(FedJigsawError, match="too few") as caught:
        jobs.run_job(server(fails).home, jobs.Job("feca", 3))
    assert type(caught.value) is kind


def test_a_run_that_leaves_nothing_is_an_error(server, monkeypatch):
    now = iter(range(0, 1000, 3))
    monkeypatch.setattr(jobs, "monotonic", lambda: next(now))
    home = server(lambda folder: 7).home
    with pytest.raises(FederationError, match="ended without a result; see server.log"):
        jobs.run_job(home, jobs.Job("feca", 3))
    assert jobs.read_result(only_run(home)) == {"error": jobs.NO_RESULT, "exit_code": 8}


@pytest.mark.parametrize("status", ["pending", "starting"])
def test_a_run_that_the_server_does_not_start_is_stopped(server, monkeypatch, status):
    control = server(lambda folder: 7)
    monkeypatch.setattr(control, "status", lambda run: status)
    monkeypatch.setattr(jobs, "monotonic", itertools.count().__next__)
    with pytest.raises(FederationError, match="did not start the run within 600 s"):
        jobs.run_job(control.home, jobs.Job("feca", 3))
    assert control.stopped == [7]


def test_a_run_may_last_long(server, monkeypatch):
    control = server(lambda folder: 7)
    statuses = iter(["pending", *["running"] * 400])
    monkeypatch.setattr(control, "status", lambda run: next(statuses, "finished"))
    monkeypatch.setattr(jobs, "monotonic", itertools.count().__next__)
    with pytest.raises(FederationError, match="ended without a result"):
        jobs.run_job(control.home, jobs.Job("feca", 3))
    assert not control.stopped


def test_a_run_that_is_refused_is_an_error(server):
    with pytest.raises(FederationError, match="did not start the run"):
        jobs.run_job(server(lambda folder: None).home, jobs.Job("feca", 3))


def test_an_interrupted_run_is_stopped_at_the_server(server):
    def interrupt(event):
        raise KeyboardInterrupt

    control = server(finishes)
    with pytest.raises(KeyboardInterrupt):
        jobs.run_job(control.home, jobs.Job("feca", 3), interrupt)
    assert control.stopped == [7]


def test_a_run_that_was_stopped_has_ended(server, monkeypatch):
    """Without a result, it would count as active until the server ends."""

    def status(run):
        raise KeyboardInterrupt

    control = server(lambda folder: 7)
    monkeypatch.setattr(control, "status", status)
    monkeypatch.setattr(jobs, "monotonic", itertools.count(0, 3).__next__)
    with pytest.raises(KeyboardInterrupt):
        jobs.run_job(control.home, jobs.Job("feca", 3))
    assert control.stopped == [7]
    folder = only_run(control.home)
    assert jobs.read_result(folder) == {"error": "The run was stopped.", "exit_code": 130}


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError])
def test_a_server_that_was_killed_is_to_be_started_again(server, error):
    def killed(folder):
        raise error("gone")

    home = server(killed).home
    with pytest.raises(FederationError, match="It may have ended. Start it with `fedjigsaw fede"):
        jobs.run_job(home, jobs.Job("feca", 3))
    assert jobs.read_result(only_run(home))["exit_code"] == 8


def test_a_full_disk_is_named_where_the_server_could_not_write_the_result(
    server, monkeypatch, caplog
):
    def full(path, content, **more):
        if path.name == jobs.RESULT:
            raise DataError(f"Cannot write {path}: no space left on device.")
        write_json(path, content, **more)

    control = server(lambda folder: 7)
    monkeypatch.setattr(jobs, "monotonic", itertools.count(0, 3).__next__)
    monkeypatch.setattr(jobs, "write_json", full)
    with pytest.raises(DataError, match=r"result\.json: no space left on device"):
        jobs.run_job(control.home, jobs.Job("feca", 3))
    assert f"{jobs.RESULT}: is the disk full?" in caplog.text


def test_a_run_that_is_interrupted_while_it_is_submitted_does_nothing(server):
    """The server may have it, and nobody knows its number."""

    def interrupted(folder):
        raise KeyboardInterrupt

    control = server(interrupted)
    with pytest.raises(KeyboardInterrupt):
        jobs.run_job(control.home, jobs.Job("feca", 3))
    folder = only_run(control.home)
    work.do(control.home, folder, None)  # what the server does with it, later
    assert jobs.read_result(folder) == {"error": "The run was stopped.", "exit_code": 130}
    assert not (folder / "events.jsonl").exists()


def test_ctrl_c_may_be_pressed_twice(server, monkeypatch):
    def interrupt(event):
        raise KeyboardInterrupt

    def stop_run(run):
        signal.raise_signal(signal.SIGINT)
        control.stopped.append(run)

    control = server(finishes)
    monkeypatch.setattr(control, "stop_run", stop_run)
    with pytest.raises(KeyboardInterrupt):
        jobs.run_job(control.home, jobs.Job("feca", 3), interrupt)
    assert control.stopped == [7]


def test_a_run_cannot_wait_for_more_sites_than_there_are(server):
    with pytest.raises(ParameterError, match="--min-sites is 3, but this run has 2 sites"):
        jobs.run_job(server(finishes).home, jobs.Job("feca", 3, min_sites=3))


def test_which_sites_are_connected(server):
    control = server(finishes)
    sites = jobs.active_sites(control.home)
    assert jobs.connected_sites(control, sites) == {"bern": False, "lyon": True}
    assert jobs.active_sites(control.home, ["lyon"]) == ["bern"]
    with pytest.raises(ParameterError, match="There is no site 'oslo'. Sites: 'bern', 'lyon'."):
        jobs.active_sites(control.home, ["oslo"])
    members.revoke(control.home, "bern")
    assert jobs.active_sites(control.home) == ["lyon"]
