import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
from joblib import parallel_config

from doubles import CountedRows, TellsWhereRowsAre
from fedjigsaw import Client, FeCA, FederatedMethod, ProcessEngine, SerialEngine
from fedjigsaw.errors import ParameterError
from fedjigsaw.messages import Broadcast, Failure, Summary
from fedjigsaw.parallel import WORKER_DIED

GOOD = [[0.0], [1.0], [9.0]]
BAD = [[0.0], [-1.0], [9.0]]


def clients(method, **shards):
    return [Client(name, np.asarray(rows, dtype=float), method) for name, rows in shards.items()]


def by_name(replies):
    return sorted(replies, key=lambda reply: reply.client)


def dies_on_negative():
    """Half of a method whose clients take their process down; workers load it in no time."""

    class Dies(FederatedMethod):
        def summarize(self, X, broadcast, rng):
            if (X < 0).any():
                os._exit(3)
            return Summary(n_samples=len(X), centers=X)

        def aggregate(self, summaries, broadcast, rng): ...

    return Dies()


def counted(method, n=6):
    CountedRows.pickles = 0
    rows = np.random.default_rng(0).normal(size=(n, 20, 2))
    return [Client(f"c{i}", rows[i].view(CountedRows), method) for i in range(n)]


class TestTheSameBits:
    @pytest.mark.slow
    def test_a_change_of_the_environment_reaches_workers_that_run_already(self, monkeypatch):
        people = clients(FeCA(2), a=GOOD, b=GOOD)
        with ProcessEngine(people, n_jobs=2) as engine:
            assert by_name(engine.ask(Broadcast(0, 0)))
            monkeypatch.setenv("FEDJIGSAW_BACKEND", "abacus")
            reply, _ = engine.ask(Broadcast(0, 0))
        assert isinstance(reply.cause, ParameterError)
        assert "abacus" in reply.reason


class TestRowsAreHandedOverOnce:
    def test_workers_map_them_from_one_file_in_all_rounds(self):
        with ProcessEngine(counted(TellsWhereRowsAre(2)), n_jobs=2) as engine:
            first, second = (by_name(engine.ask(Broadcast(i, 0))) for i in range(2))
            folder = Path(engine._folder.name)
            written = {path.stat().st_ino for path in folder.iterdir()}
            assert folder.stat().st_mode & 0o77 == 0  # rows are nobody else's business
        assert CountedRows.pickles == 6  # one per client, for two rounds
        mapped = [reply.tensors["file"][0] for reply in first]
        assert set(mapped) == written
        assert [reply.tensors["file"][0] for reply in second] == mapped
        assert not folder.exists()


class TestFailures:
    @pytest.mark.slow
    @pytest.mark.parametrize(("n_jobs", "n_others"), [(1, 1), (2, 15)])
    def test_a_dead_worker_fails_its_client_and_no_other(self, n_jobs, n_others):
        people = clients(dies_on_negative(), a=BAD, **{f"c{i:02}": GOOD for i in range(n_others)})
        with ProcessEngine(people, n_jobs=n_jobs) as engine:
            replies = by_name(engine.ask(Broadcast(0, 0)))
        assert replies[0] == Failure("a", WORKER_DIED)
        assert replies[1:] == SerialEngine(people[1:]).ask(Broadcast(0, 0))

    def test_what_cannot_travel_is_a_failure_with_its_reason(self):
        method = FeCA(2)
        method.extra = Lock()
        people = [*clients(method, a=GOOD), *clients(FeCA(2), b=GOOD)]
        with ProcessEngine(people, n_jobs=1) as engine:
            failed, summary = by_name(engine.ask(Broadcast(0, 0)))
        assert failed.client == "a"
        assert "pickle" in failed.reason.lower()
        assert summary == people[1].answer(Broadcast(0, 0))

    def test_bad_n_jobs(self):
        with pytest.raises(ParameterError, match="n_jobs of ProcessEngine"):
            ProcessEngine([], n_jobs=0)


@pytest.fixture(scope="module")
def cluster():
    """Two workers of Dask, on this machine only."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(**options, dashboard_address=None) as workers,
        distributed.Client(workers) as cluster,
    ):
        cluster.run(sys.path.append, str(Path(__file__).parent))
        yield cluster


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
class TestDask:
    def test_the_same_bits_and_rows_are_handed_over_once(self, cluster):
        people = counted(TellsWhereRowsAre(2))
        with parallel_config(backend="dask"), ProcessEngine(people) as engine:
            first, second = (by_name(engine.ask(Broadcast(0, 0))) for _ in range(2))
        assert CountedRows.pickles == 6  # one per client, for two rounds
        workers = {reply.tensors["process"][0] for reply in [*first, *second]}
        assert workers <= set(cluster.run(os.getpid).values())
        here = [reply.centers.tobytes() for reply in SerialEngine(people).ask(Broadcast(0, 0))]
        for there in (first, second):
            assert [reply.centers.tobytes() for reply in there] == here

    def test_a_dead_worker_fails_its_client_and_no_other(self, cluster):
        people = clients(dies_on_negative(), a=BAD, **{f"c{i:02}": GOOD for i in range(9)})
        with parallel_config(backend="dask"), ProcessEngine(people) as engine:
            replies = by_name(engine.ask(Broadcast(0, 0)))
        assert replies[0] == Failure("a", WORKER_DIED)
        assert replies[1:] == SerialEngine(people[1:]).ask(Broadcast(0, 0))


SCRIPT = """
import os, signal
import numpy as np
import fedjigsaw

class Own(fedjigsaw.FeCA):
    def summarize(self, X, broadcast, rng):
        return super().summarize(X + 1, broadcast, rng)

X = np.random.default_rng(0).normal(size=(40, 2))
names = np.arange(40) % 4
here = Own(3, random_state=0).fit(X, clients=names)
there = Own(3, random_state=0).fit(X, clients=names, engine=fedjigsaw.ProcessEngine)
assert here.model_ == there.model_

engine = fedjigsaw.ProcessEngine([fedjigsaw.Client("a", X, here)])
engine.ask(fedjigsaw.Broadcast(0, 0))
print(engine._folder.name, flush=True)
os.killpg(0, signal.SIGTERM)  # as a batch system ends a job
"""


@pytest.mark.slow
def test_a_script_needs_no_main_guard_and_leaves_no_rows_behind_when_it_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "JOBLIB_TEMP_FOLDER": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, script],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
    )
    folder = Path(ended.stdout.strip())
    assert ended.returncode == -15, ended.stderr
    assert folder.parent == tmp_path
    for _ in range(100):  # joblib's tracker removes it
        if not folder.exists():
            break
        time.sleep(0.1)
    assert not folder.exists()
