"""A job says what a run is to do; it survives in its folder and is checked before it is submitted."""

import pytest

from fedjigsaw.errors import DataError, FedJigsawError, ParameterError, QuorumError
from fedjigsaw.flower import jobs


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


def test_a_run_cannot_wait_for_more_sites_than_there_are(server):
    with pytest.raises(ParameterError, match="--min-sites is 3, but this run has 2 sites"):
        jobs.run_job(server(finishes).home, jobs.Job("feca", 3, min_sites=3))
