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
    words = ["--tiny", "--device", "cpu", "--images", "80", "--epochs", "1", "--rounds", "3"]
    rows = []
    for variant in ("20x1", "20x2"):
        benchmark["main"]([*words, "--here", variant])
        rows.append(json.loads(capsys.readouterr().out))
    for row in rows:
        train = 2 * 40 * 2 / row["views_per_second"]  # clients, images, views
        assert row["train_seconds"] == pytest.approx(train)
        assert row["round_seconds"] == pytest.approx(row["cluster_seconds"] + train)
        assert 0 < row["cluster_share"] < 1
        assert row["rounds_measured"] == 2
    assert rows[0]["loss"] == rows[1]["loss"]


def test_the_first_round_warms_up(benchmark, capsys):
    with pytest.raises(SystemExit):
        benchmark["main"](["--tiny", "--rounds", "1"])
    assert "at least 2" in capsys.readouterr().err


def test_a_variant_that_is_none(benchmark):
    with pytest.raises(SystemExit, match="written like 128x1"):
        benchmark["main"](["--tiny", "--here", "many"])


@pytest.mark.parametrize(
    ("words", "limit", "reason"), [([], 0.01, "not done"), (["--heads", "x"], 60, "invalid int")]
)
def test_what_fails_is_a_row(benchmark, words, limit, reason):
    row = benchmark["in_its_own_process"]("20x1", words, limit)
    assert row["variant"] == "20x1"
    assert reason in row["error"]
