"""Jobs on real worker processes and real files, interrupted and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from fedjigsaw.bench import runner
from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.studies import Job
from fedjigsaw.errors import DataError

CELL = Cell("gaussian-grid", "feca", 15, seed=0, n_clients=3, params={"n_init": 1})
JOBS = [
    Job("toy", f"a/{m}", replace(CELL, seed=s, n_clients=m), ()) for s in (0, 1) for m in (2, 3)
]


def without_seconds(path):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in runner.read_rows(path)]


def test_one_row_for_each_job_in_their_order(tmp_path):
    done = []
    runner.run_jobs(JOBS, tmp_path, n_jobs=2, progress=lambda: done.append(1))
    rows = runner.read_rows(tmp_path / "toy.jsonl")
    assert [runner.key_of(row) for row in rows] == [job.key for job in JOBS]
    assert len(done) == 4
    needed = {"table", "cell", "seed", "params", "l2", "bytes_per_client", "seconds", "version", "commit", "backend"}  # fmt: skip
    assert needed <= set(rows[0])
    assert rows[0]["table"] == "toy"
    assert rows[0]["cell"] == "a/2"


def test_nothing_is_computed_twice(tmp_path):
    runner.run_jobs(JOBS[1:3], tmp_path, n_jobs=1)
    before = {runner.key_of(row): row for row in runner.read_rows(tmp_path / "toy.jsonl")}
    assert [job.key for job in runner.missing(JOBS, tmp_path)] == [JOBS[0].key, JOBS[3].key]
    runner.run_jobs(JOBS, tmp_path, n_jobs=1)
    after = runner.read_rows(tmp_path / "toy.jsonl")
    assert [runner.key_of(row) for row in after] == [job.key for job in JOBS]
    assert [before[job.key] for job in JOBS[1:3]] == after[1:3]  # with their seconds: not made anew


def test_a_torn_last_line_is_made_again(tmp_path):
    path = tmp_path / "toy.jsonl"
    runner.run_jobs(JOBS[:2], tmp_path, n_jobs=1)
    whole = without_seconds(path)
    path.write_text(path.read_text()[:-25])
    assert len(runner.read_rows(path)) == 1
    runner.run_jobs(JOBS[:2], tmp_path, n_jobs=1)
    assert without_seconds(path) == whole


def test_a_broken_line_inside_is_named(tmp_path):
    path = tmp_path / "toy.jsonl"
    path.write_text('{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(DataError, match=r"toy.jsonl, line 2 must be one JSON object"):
        runner.read_rows(path)


def test_a_failing_job_stops_no_other(tmp_path):
    bad = Job("toy", "bad", replace(CELL, dataset="nowhere"), ())
    with pytest.raises(DataError, match=r"1 of 3 cells failed. The first: toy/bad/0: "):
        runner.run_jobs([JOBS[0], bad, JOBS[1]], tmp_path, n_jobs=2)
    assert len(runner.read_rows(tmp_path / "toy.jsonl")) == 2


def test_interrupted_and_resumed_equals_a_run_in_one_go(tmp_path, load_or_skip):
    load_or_skip("s1")
    command = [sys.executable, "-c", "from fedjigsaw.cli import main; main()", "reproduce", "varying-k", "--runs", "1"]  # fmt: skip
    path = tmp_path / "one" / "varying-k.jsonl"
    started = subprocess.Popen([*command, "--out", str(path.parent)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
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
    kept = [json.dumps(row) for row in runner.read_rows(path)]
    assert 2 <= len(kept) < 12
    subprocess.run([*command, "--out", str(path.parent)], check=True, capture_output=True)
    other = tmp_path / "two"
    subprocess.run([*command, "--out", str(other)], check=True, capture_output=True)
    assert without_seconds(path) == without_seconds(other / "varying-k.jsonl")
    assert set(kept) <= set(path.read_text().splitlines())
