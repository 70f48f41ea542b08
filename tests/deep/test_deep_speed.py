"""The benchmark of training on a GPU, with settings that a CPU is done with in a moment."""

import pytest

from pages_as_code import ROOT


def test_a_row_adds_up(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from deep_speed import train

    row = train(20, 2, False, 5, 1, n_images=80, n_clients=2, network="small", height=8, n_rounds=3)
    seconds = 2 * 40 * 2 / row["views_per_second"]  # clients, images, views
    assert row["train_seconds"] == pytest.approx(seconds)
    assert row["round_seconds"] == pytest.approx(row["cluster_seconds"] + seconds)
    assert 0 < row["cluster_share"] < 1
    assert row["rounds_measured"] == 2
