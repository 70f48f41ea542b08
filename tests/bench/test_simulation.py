"""Simulations and the demo from Python."""

import pytest

from fedjigsaw import datasets
from fedjigsaw.bench.cells import Cell, run_cell
from fedjigsaw.bench.simulation import SHOWN, run_demo, simulate


def test_rows_are_those_of_their_cells():
    rows = simulate("digits", 4, "iid", methods=["match"], params={"n_init": 1}, runs=2, seed=3)
    cell = Cell("digits", "match", 10, 4, 4, "iid", params={"n_init": 1})
    _, again = run_cell(cell, datasets.load("digits"))
    assert [row["seed"] for row in rows] == [3, 4]
    assert rows[1] | {"seconds": 0} == again | {"seconds": 0}


@pytest.mark.slow
def test_the_demo_runs_the_methods_of_the_paper_on_the_same_clients():
    demo = run_demo()
    assert list(demo.fitted) == list(SHOWN) == [row["method"] for row in demo.rows]
    assert len(set(demo.clients)) == 10
    assert demo.fitted["jigsaw"].n_clusters_ == 15
