"""The study "regions": its rows, its table, and the limit that its rows must keep."""

import json
from pathlib import Path

from fedjigsaw.bench.region_cells import (
    DIRICHLET,
    FACTORS,
    GROUPINGS,
    SETS,
    RegionCell,
    plans,
    regions_table,
)
from fedjigsaw.bench.studies import studies
from fedjigsaw.io.rows import read_rows

RESULTS = Path(__file__).parents[2] / "results" / "regions.jsonl"
LIMIT = 0.2  # percent of the objective, with four centers for each cluster


def test_a_row_has_the_loss_of_every_way():
    row = RegionCell("apart-2d", "iid", n_clients=40, rows_per_client=30).compute()
    assert json.loads(json.dumps(row)) == row
    losses = [row[f"loss_{grouping}_{factor}"] for grouping in GROUPINGS for factor in FACTORS]
    assert all(-0.1 < loss < 2 for loss in losses)
    assert row["bytes_4"] > row["bytes_1"]


def test_with_auto_it_has_the_numbers_found():
    row = RegionCell("apart-2d", "iid", 20, 60, "auto").compute()
    assert {row["found_flat"], row["found_random"], row["found_alike"]} == {15}


def test_all_sets_and_splits_are_tried():
    assert len(plans()) == 2 * len(SETS) * len(DIRICHLET)
    assert studies()["regions"].plans == plans()


def test_all_rows_are_within_the_limit():
    rows = [row for row in read_rows(RESULTS) if row["n_clusters"] is None]
    assert len(rows) == len(SETS) * len(DIRICHLET)
    assert max(row[f"loss_{grouping}_4"] for row in rows for grouping in GROUPINGS) <= LIMIT
    assert all(row["n_clients"] == 1000 for row in rows)


def test_the_table_has_ranges_and_counts():
    known = {"dataset": "apart-2d", "split": "iid", "n_clusters": None}
    losses = {f"loss_{g}_{f}": f / 10 for g in GROUPINGS for f in FACTORS}
    auto = {"n_clusters": "auto", "found_flat": 15, "found_random": 15, "found_alike": 14}
    rows = [{**known, **losses}, {**known, **losses, "loss_alike_4": 0.9}, {**known, **auto}]
    line = regions_table(rows).splitlines()[2]
    assert line.endswith("| 0.100 to 0.100 % | 0.200 to 0.200 % | 0.400 to 0.900 % | 1 of 2 |")
