"""The benchmark for a GPU, with settings that a CPU is done with in a moment."""

import json
import runpy
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "deep_speed.py"


@pytest.fixture(scope="module")
def benchmark():
    return runpy.run_path(str(BENCHMARK))


def test_a_row_adds_up(benchmark, capsys):
    words = ["--tiny", "--device", "cpu", "--images", "80", "--epochs", "1"]
    benchmark["main"]([*words, "--variant", "captured"])
    row = json.loads(capsys.readouterr().out)
    parts = [row[f"{name}_seconds"] for name in ("features", "local", "aggregate")]
    assert row["cluster_seconds"] == pytest.approx(sum(parts))
    train = 2 * 40 * 2 / row["views_per_second"]  # clients, images, views
    assert row["round_seconds"] == pytest.approx(row["cluster_seconds"] + train)
    assert 0 < row["cluster_share"] < 1


@pytest.mark.parametrize(
    ("words", "limit", "reason"), [([], 0.01, "not done"), (["--heads", "x"], 60, "invalid int")]
)
def test_what_fails_is_a_row(benchmark, words, limit, reason):
    row = benchmark["in_its_own_process"]("captured", words, limit)
    assert row["variant"] == "captured"
    assert reason in row["error"]
