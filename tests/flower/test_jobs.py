"""A job is checked before it is submitted; a run that was stopped stays so."""

import pytest

from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.flower import jobs, stopping

NO_OPTIONS = [
    *({"seed": seed} for seed in (-1, 2**53 + 1)),
    *({"timeout": seconds} for seconds in (0, float("inf"), 1e9)),
    *({"method": method} for method in ("none", "central")),
    *({"params": params} for params in ({"color": "red"}, {"n_clusters": 3}, {"random_state": 3})),
    *({"min_sites": 0}, {"wait": -1.0}, {"retries": -1}, {"n_clusters": "auto"}),
    # that do not go together
    *({"scale": True, "scaler": {}}, {"scale": True, "ask": "new"}, {"score": True, "ask": "none"}),
    {"scale": True, "method": "deepfeca"},
]


@pytest.mark.parametrize("options", NO_OPTIONS)
def test_bad_parameters(options):
    with pytest.raises(ParameterError):
        jobs.Job(**{"method": "feca", "n_clusters": 4} | options).make_method()


@pytest.mark.parametrize("name", ["", "..", "../../etc", "20260101-000000-0000000g", "a"])
def test_a_job_is_a_folder_of_its_own(clinic, name):
    with pytest.raises(ParameterError, match="name of a job"):
        jobs.job_folder(clinic / "server", name)


def test_a_run_cannot_wait_for_more_sites_than_there_are(control):
    with pytest.raises(ParameterError, match="--min-sites is 3, but this run has 2 sites"):
        jobs.run_job(control.home, jobs.Job("feca", 3, min_sites=3))


STOPPED = {"error": stopping.STOPPED, "exit_code": 130}


def new_run(clinic):
    folder = jobs.new_job_folder(clinic / "server")
    jobs.Job("feca", 3).save(folder)
    return folder


def test_a_run_of_a_server_that_is_gone_can_be_stopped(clinic):
    folder = new_run(clinic)
    assert stopping.stop(clinic / "server", folder.name)["stopped"]
    assert jobs.read_result(folder) == STOPPED


def test_whoever_follows_the_run_learns_that_it_was_stopped(clinic, control, run, tmp_path):
    def stop(folder):
        control.alive[7] = folder.name
        stopping.stop(control.home, folder.name)

    control.work = stop
    with pytest.raises(FedJigsawError, match="stopped") as caught:
        run("federation", "run", clinic, "-k", 3, "-o", tmp_path / "model")
    assert caught.value.exit_code == 130
    assert not control.alive
    assert not (tmp_path / "model").exists()


def test_the_first_result_counts(clinic):
    """What still computes when a run is stopped cannot say afterwards that there is a model."""
    folder = new_run(clinic)
    assert jobs.write_result(folder, **STOPPED)
    assert not jobs.write_result(folder, transcript={})
    assert jobs.read_result(folder) == STOPPED
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
