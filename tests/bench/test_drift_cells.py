"""The study "drift": its populations, events and rows."""

import json

import numpy as np
import pytest

from fedjigsaw.bench import drift_cells
from fedjigsaw.bench.drift_cells import EVENTS, DriftCell, population


@pytest.mark.parametrize("name", EVENTS)
def test_events_leave_shares_at_every_site(name):
    before = population(3, 4.0, 0.5)
    after = EVENTS[name](before, np.random.default_rng(0))
    assert np.allclose(after.mix.sum(axis=1), 1)
    more = {"new": 1, "split": 1, "gone": -1, "merged": -1, "moved": 0}
    assert len(after.centers) - len(before.centers) == more[name]
    assert after.mix.shape[1] == len(after.centers) == len(after.deviation)


def test_a_cluster_moves_by_half_its_spread():
    before = population(3, 4.0, 0.0)
    after = drift_cells.move(before, np.random.default_rng(0))
    moved = np.linalg.norm(after.centers - before.centers, axis=1)
    (i,) = np.flatnonzero(moved)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 4)) * before.deviation[i]
    assert moved[i] == pytest.approx(np.sqrt((rows**2).sum(axis=1).mean()) / 2, rel=0.02)


def test_a_row_tells_alarms_and_events(monkeypatch):
    monkeypatch.setattr(drift_cells, "N_SITES", 6)
    monkeypatch.setattr(drift_cells, "N_ROWS", 80)
    row = DriftCell("alike", "far", 8, 2, 0).compute()
    assert json.loads(json.dumps(row)) == row
    assert (len(row["drifts"]), row["alarms"], row["unsettled"]) == (1, 0, 0)
    assert row["drift_gone"] > 2
    assert row["drift_gone"] > row["largest"]
