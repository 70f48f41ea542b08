"""The study "shapes": its rows and its table."""

import json

from fedjigsaw.bench.shape_cells import OPTIONS, SETS, ShapeCell, plans, shapes_table
from fedjigsaw.bench.studies import studies


def test_a_row_says_how_good_the_labels_are():
    row = ShapeCell("noise5-2d", "iid", "noise=True").compute()
    assert json.loads(json.dumps(row)) == row
    assert row["n_found"] == row["true_k"] == 5
    assert row["ari"] > 0.95
    assert 0.02 < row["noise"] < 0.08
    assert ShapeCell("noise5-2d", "iid", 'shape="round"').compute()["ari"] < row["ari"] - 0.02


def test_every_option_is_tried_on_every_set_and_split():
    assert len(plans()) == len(SETS) * 3 * len(OPTIONS)
    assert studies()["shapes"].plans == plans()


def test_the_table_has_means_and_counts():
    rows = [
        {"dataset": "moons-2d", "option": 'shape="any"', "ari": ari, "n_found": k, "true_k": 2}
        for ari, k in ((1.0, 2), (0.5, 3))
    ]
    lines = [line for line in shapes_table(rows).splitlines() if line.startswith("| moons-2d")]
    assert lines[0].split("|")[4] == " 0.750, 1 of 2 "
