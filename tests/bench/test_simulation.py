"""Simulations and the demo from Python."""

import pytest

from fedjigsaw import datasets
from fedjigsaw.bench.cells import Cell, run_cell
from fedjigsaw.bench.simulation import SHOWN, deal_dataset, run_demo, simulate, smallest_client


def test_rows_are_those_of_their_cells():
    rows = simulate("digits", 4, "iid", methods=["match"], params={"n_init": 1}, runs=2, seed=3)
    cell = Cell("digits", "match", 10, 4, 4, "iid", params={"n_init": 1})
    _, again = run_cell(cell, datasets.load("digits"))
    assert [row["seed"] for row in rows] == [3, 4]
    assert rows[1] | {"seconds": 0} == again | {"seconds": 0}


def test_the_smallest_client_has_k_rows_or_a_tenth_of_the_average():
    data = datasets.load("gaussian-grid")
    assert smallest_client(data, 10, 20) == 20
    assert smallest_client(data, 10) == 15
    assert smallest_client(data, 100, 20) == 5


def test_a_named_set_is_split_among_clients():
    data, clients = deal_dataset("gaussian-grid", 7, seed=1)
    assert len(clients) == len(data.X)
    assert set(clients) == set(range(7))


@pytest.mark.slow
def test_the_demo_runs_the_methods_of_the_paper_on_the_same_clients():
    demo = run_demo()
    assert list(demo.fitted) == list(SHOWN) == [row["method"] for row in demo.rows]
    assert len(set(demo.clients)) == 10
    assert demo.fitted["jigsaw"].n_clusters_ == 15
