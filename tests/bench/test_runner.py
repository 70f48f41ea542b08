"""Tasks on real worker processes and real files, interrupted and resumed."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fedjigsaw.bench import runner
from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.studies import studies
from fedjigsaw.bench.study import Task, tasks_of
from fedjigsaw.errors import DataError, FedJigsawError
from fedjigsaw.io.rows import read_rows, write_rows

pytestmark = pytest.mark.slow

CELL = Cell("gaussian-grid", "feca", 15, seed=0, n_clients=3, params={"n_init": 1})
TASKS = [
    Task("toy", f"a/{m}", replace(CELL, seed=s, n_clients=m), ()) for s in (0, 1) for m in (2, 3)
]


def without_seconds(path):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_rows(path)]


def test_one_row_for_each_task_in_their_order_whatever_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")  # the quickest to import in each worker
    bad = Task("toy", "bad", replace(CELL, dataset="nowhere"), ())
    done = []
    with pytest.raises(DataError, match=r"1 of 5 cells failed. The first: toy/bad/0: "):
        runner.run_tasks(
            [TASKS[0], bad, *TASKS[1:]], tmp_path, n_jobs=2, progress=lambda: done.append(1)
        )
    rows = read_rows(tmp_path / "toy.jsonl")
    assert [runner.key_of(row) for row in rows] == [task.key for task in TASKS]
    assert len(done) == 5
    needed = {"table", "cell", "seed", "params", "l2", "bytes_per_client", "seconds", "version", "commit", "backend"}  # fmt: skip
    assert needed <= set(rows[0])
    assert rows[0]["table"] == "toy"
    assert rows[0]["cell"] == "a/2"


@pytest.mark.usefixtures("in_this_process")
def test_nothing_is_computed_twice(tmp_path):
    runner.run_tasks(TASKS[1:3], tmp_path, n_jobs=1)
    before = {runner.key_of(row): row for row in read_rows(tmp_path / "toy.jsonl")}
    assert [task.key for task in runner.missing(TASKS, tmp_path)] == [TASKS[0].key, TASKS[3].key]
    runner.run_tasks(TASKS, tmp_path, n_jobs=1)
    after = read_rows(tmp_path / "toy.jsonl")
    assert [runner.key_of(row) for row in after] == [task.key for task in TASKS]
    assert [before[task.key] for task in TASKS[1:3]] == after[
        1:3
    ]  # with their seconds: not made anew


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("other", [{"params": {"n_init": 2}}, {"n_clusters": 14}, {"share": 0.5}])
def test_a_row_of_another_cell_with_the_same_name_is_made_again(tmp_path, other):
    path = tmp_path / "toy.jsonl"
    runner.run_tasks(TASKS[:2], tmp_path, n_jobs=1)
    right, untouched = read_rows(path)
    write_rows(path, [{**right, **other, "l2": -1}, untouched])
    assert runner.missing(TASKS[:2], tmp_path) == TASKS[:1]
    runner.run_tasks(TASKS[:2], tmp_path, n_jobs=1)
    made, kept = read_rows(path)
    assert made == {**right, "seconds": made["seconds"]}
    assert kept == untouched


def test_every_committed_row_is_of_a_cell_as_it_is_today():
    results = Path(__file__).parents[2] / "results"
    for study in studies().values():
        wanted = tasks_of(study)
        assert len(runner.finished(wanted, results)) == len(wanted), study.name


@pytest.mark.usefixtures("in_this_process")
def test_two_runs_at_once_on_one_file(tmp_path):
    with (tmp_path / ".toy.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for action in (runner.run_tasks, runner.delete_rows):
            with pytest.raises(DataError, match=r"Another run is writing .*toy.jsonl. Wait"):
                action(TASKS[:1], tmp_path)
        other = Task("other", "a", CELL, ())
        runner.run_tasks([other], tmp_path, n_jobs=1)  # another table in the same folder goes on
    runner.run_tasks(TASKS[:1], tmp_path, n_jobs=1)
    assert len(read_rows(tmp_path / "toy.jsonl")) == 1


@pytest.mark.usefixtures("in_this_process")
def test_a_run_holds_its_lock_until_its_rows_are_in_order(tmp_path):
    refused = []

    def start_another():
        with pytest.raises(DataError) as caught:
            runner.run_tasks(TASKS, tmp_path, n_jobs=1)
        refused.append(caught.value)

    runner.run_tasks(TASKS[:2], tmp_path, n_jobs=1, progress=start_another)
    assert len(refused) == 2


def test_rows_are_forgotten_only_if_new_ones_can_be_made(tmp_path):
    path = tmp_path / "toy.jsonl"
    path.write_text('{"table": "toy"}\n')
    with pytest.raises(FedJigsawError, match="Unknown data set 'nowhere'"):
        runner.delete_rows([Task("toy", "bad", replace(CELL, dataset="nowhere"), ())], tmp_path)
    assert path.exists()
    runner.delete_rows(TASKS, tmp_path)
    assert not path.exists()


@pytest.mark.usefixtures("in_this_process")
def test_finished_rows_need_no_folder_that_can_be_written_to(tmp_path):
    runner.run_tasks(TASKS[:1], tmp_path, n_jobs=1)
    before = {path.name for path in tmp_path.iterdir()}
    assert before == {"toy.jsonl", ".toy.lock"}
    (tmp_path / ".toy.lock").unlink()
    runner.run_tasks(TASKS[:1], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"toy.jsonl"}


def test_rows_in_the_order_of_the_tasks_whoever_was_first(tmp_path):
    path = tmp_path / "toy.jsonl"
    rows = [{"table": "toy", "cell": task.name, "seed": task.cell.seed} for task in TASKS]
    stranger = {"table": "toy", "cell": "a/9", "seed": 0}
    newer = {**rows[1], "l2": 1.0}
    write_rows(path, [stranger, rows[3], rows[1], rows[0], newer, rows[2]])
    runner._sort_rows(path, TASKS)
    assert read_rows(path) == [rows[0], newer, rows[2], rows[3], stranger]


@pytest.mark.usefixtures("in_this_process")
def test_a_torn_last_line_is_made_again(tmp_path):
    path = tmp_path / "toy.jsonl"
    runner.run_tasks(TASKS[:2], tmp_path, n_jobs=1)
    whole = without_seconds(path)
    path.write_text(path.read_text()[:-25])
    assert len(read_rows(path)) == 1
    runner.run_tasks(TASKS[:2], tmp_path, n_jobs=1)
    assert without_seconds(path) == whole


def listen_to_interrupts():
    """A shell may have switched them off for these tests, as for a job in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.usefixtures("in_this_process")  # all but what is interrupted
def test_interrupted_and_resumed_equals_a_run_in_one_go(tmp_path, load_or_skip, run, monkeypatch):
    load_or_skip("s1")
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")
    words = ["reproduce", "varying-k", "--runs", "1", "--jobs", "1", "--out"]
    command = [sys.executable, "-c", "from fedjigsaw.cli import main; main()", *words]
    path = tmp_path / "one" / "varying-k.jsonl"
    started = subprocess.Popen([*command, str(path.parent)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True, preexec_fn=listen_to_interrupts)  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not (path.exists() and path.read_text().count("\n") >= 2):
            assert time.monotonic() < deadline, "no row came"
            assert started.poll() is None, "it ended before it could be interrupted"
            time.sleep(0.02)
        os.killpg(started.pid, signal.SIGINT)
        assert started.wait(60) != 0
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    kept = [json.dumps(row) for row in read_rows(path)]
    assert 2 <= len(kept) < 12
    other = tmp_path / "two"
    for folder in (path.parent, other):
        assert run(*words, folder).exit_code == 0
    assert without_seconds(path) == without_seconds(other / "varying-k.jsonl")
    assert set(kept) <= set(path.read_text().splitlines())
