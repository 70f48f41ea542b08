"""The benchmark of lying clients, with a few images and one round."""

import argparse
import runpy
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "deep_liars.py"


@pytest.mark.parametrize("lie", ["honest", "random weights, 2^40 images"])
def test_a_row(lie):
    benchmark = runpy.run_path(str(BENCHMARK))
    row = benchmark["measure"]("mean", lie, 0, argparse.Namespace(images=120, rounds=1))
    assert "error" not in row
    assert row["conspicuous"] == (["0", "1", "2"] if row["n_liars"] else [])
    assert 0 < row["knn_accuracy"] <= 1
