"""Runs that take kept summaries instead of asking: late joiners, leavers, nobody asked."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import FeCA, Jigsaw
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import QuorumError
from fedjigsaw.flower import engine, jobs, members, processes, work
from fedjigsaw.flower.rounds import federate
from fedjigsaw.io import formats
from fedjigsaw.sites.keeping import Kept
from flower_doubles import NAMES, LocalGrid, engine_of, grid_of, site_app

METHODS = [Jigsaw(3, random_state=0), Jigsaw("auto", random_state=0), FeCA(3, random_state=0)]


def kept_of(shards, method, names):
    run = engine_of(grid_of(shards), method, names=names)
    federate(run)
    return run.files


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_late_joiner_gives_the_model_of_a_run_with_all(shards, method):
    first = kept_of(shards, method, NAMES[:2])
    grid = grid_of(shards)
    joined, transcript = federate(engine_of(grid, method, kept=first))
    assert len(grid.sent) == 1
    whole, _ = federate(engine_of(grid_of(shards), method))
    assert formats.encode(joined) == formats.encode(whole)
    sent = transcript.rounds[0].bytes_up
    assert (sent["bern"], sent["lyon"]) == (0, 0)
    assert sent["oslo"] > 0


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_leaver_leaves_the_model_of_a_run_without_it(shards, method):
    kept = kept_of(shards, method, NAMES)
    del kept["lyon"]
    left, _ = federate(engine_of(None, method, names=sorted(kept), kept=kept))
    without, _ = federate(engine_of(grid_of(shards), method, names=("bern", "oslo")))
    assert formats.encode(left) == formats.encode(without)


def test_a_kept_summary_that_cannot_be_used_is_a_failure_of_that_site(shards):
    method = Jigsaw(3, random_state=0)
    kept = kept_of(shards, method, NAMES)
    other = kept_of(shards, Jigsaw(4, random_state=0), NAMES)
    stolen = replace(kept["bern"], summary=replace(kept["bern"].summary, client="oslo"))
    for bad in (other["lyon"], stolen):
        run = engine_of(None, method, kept={**kept, "lyon": bad})
        file, transcript = federate(run, min_sites=2)
        assert file.clients == ("bern", "oslo")
        assert transcript.failures[0].reason == engine.INVALID_KEPT


@pytest.mark.parametrize("asked", [None, 3.0])
def test_a_run_with_another_scaler_than_the_kept_summaries_says_so(shards, asked):
    """As `--ask new` without --scaler after a run with --scale, or with that of another model."""
    columns, method = ("a", "b", "c"), Jigsaw(3, random_state=0)
    apps = {name: site_app(name, shards[name], order=list(columns)) for name in NAMES}
    scaler = Scaler(columns, np.zeros(3), np.full(3, 2.0))
    other = None if asked is None else Scaler(columns, np.zeros(3), np.full(3, asked))
    run = engine_of(LocalGrid(apps), method, names=NAMES[:2], scaler=scaler)
    federate(run)
    again = engine_of(LocalGrid(apps), method, kept=run.files, scaler=other)
    words = (
        "oslo.*run with --scaler OLD-MODEL" if asked is None else f"bern.*{engine.KEPT_UNSCALED}"
    )
    with pytest.raises(QuorumError, match=words):
        federate(again)
    joined = engine_of(LocalGrid(apps), method, kept=run.files, scaler=scaler)
    assert federate(joined)[0].clients == NAMES


@pytest.fixture
def server(clinic, shards, monkeypatch):
    """Do a job at a server with sites bern and lyon; job -> its model, and the sites asked."""
    home = clinic / "server"
    monkeypatch.setenv(processes.FOLDER, str(home))

    def do(job, grid=None):
        folder = jobs.new_job_folder(home)
        job.save(folder)
        work.do(home, folder, grid)
        result = jobs.read_result(folder)
        if "error" in result:
            raise jobs.error_of(result)
        return (folder / "model").read_bytes()

    do.home = home
    do.grid = lambda: grid_of({name: shards[name] for name in ("bern", "lyon")})
    return do


def test_a_run_keeps_what_its_sites_sent(server):
    job = jobs.Job("jigsaw", 3, wait=0.0)
    first = server(job, server.grid())
    assert Kept(server.home / "kept").sites() == {"bern", "lyon"}
    assert server(replace(job, ask="none")) == first
    grid = server.grid()
    assert server(replace(job, ask="new"), grid) == first
    assert not grid.sent
    Kept(server.home / "kept").forget("lyon")
    alone = server(replace(job, ask="none"))
    assert alone == server(replace(job, without=["lyon"], keep=False), server.grid())
    assert server(replace(job, ask="new"), grid) == first
    assert len(grid.sent) == 1


def test_a_kept_summary_of_a_site_that_is_revoked_takes_no_part(server):

    job = jobs.Job("jigsaw", 3, wait=0.0)
    server(job, server.grid())
    members.revoke(server.home, "lyon")
    path = server.home.parent / "m"
    path.write_bytes(server(replace(job, ask="none")))
    assert formats.load(path, formats.ModelFile).clients == ("bern",)


def test_a_run_that_asks_nobody_needs_no_server(server):
    job = jobs.Job("jigsaw", 3, wait=0.0)
    first = server(job, server.grid())
    events = []
    model, transcript = jobs.run_job(server.home, replace(job, ask="none"), events.append)
    assert model.read_bytes() == first
    assert [event["event"] for event in events] == ["kept", "kept"]
    assert set(transcript["rounds"][0]["bytes_up"].values()) == {0}
