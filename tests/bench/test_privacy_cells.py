"""Cells of the study of privacy, and how a study does without a missing package."""

from dataclasses import replace
from itertools import pairwise

import pytest

from fedjigsaw.bench import privacy_cells, runner
from fedjigsaw.bench.privacy_cells import PrivacyCell, cost_plans, peer_plans
from fedjigsaw.bench.privacy_peers import PEERS
from fedjigsaw.bench.reproduction import Reproduction
from fedjigsaw.bench.study import Plan, Study, Task
from fedjigsaw.cli.reproduce import _compute
from fedjigsaw.io.rows import read_rows

S1 = PrivacyCell("jigsaw", 2, "s1", "iid", 4.0)


def without_seconds(row):
    return {name: value for name, value in row.items() if name != "seconds"}


def test_plans_cover_every_method_on_the_same_data():
    cost = {replace(plan.cell, method="") for plan in cost_plans()}
    peers = [plan.cell for plan in peer_plans()]
    assert {cell.method for cell in peers} == set(PEERS)
    assert {replace(cell, method="") for cell in peers} <= cost  # ours has the same cells
    assert len(cost_plans()) == 3 * 3 * 2 * 4 + 2 * 2 * 2
    names = [plan.name for plan in privacy_cells.plans()]
    assert len(set(names)) == len(names) == len(cost_plans()) + len(peer_plans())


def test_plans_on_the_same_rows_follow_one_another():
    rows = [(plan.cell.n_columns, plan.cell.width) for plan in privacy_cells.plans()]
    changes = sum(one != other for one, other in pairwise(rows))
    assert changes == len(set(rows)) - 1


@pytest.mark.parametrize("method", ["jigsaw", "laplace"])
def test_a_cell_gives_the_same_row_again(load_or_skip, method):
    load_or_skip("s1")
    cell = replace(S1, method=method)
    row = cell.compute()
    assert without_seconds(row) == without_seconds(cell.compute())
    assert Task("privacy", "name", cell).made(row)
    assert not Task("privacy", "name", replace(cell, epsilon=2.0)).made(row)
    assert row["ratio"] != replace(cell, seed=1).compute()["ratio"]
    assert 1.0 <= row["ratio"] < 1.2 if method == "jigsaw" else row["ratio"] > 1


def test_generated_rows_are_clustered_almost_as_without_privacy(monkeypatch):
    small = privacy_cells.mixture(2, "mid", 100, n_rows=20_000)
    monkeypatch.setattr(privacy_cells, "mixture", lambda *_: small)
    cell = PrivacyCell("jigsaw", 2, "mid", "dirichlet", 4.0)
    assert cell.compute()["ratio"] < 1.1


@pytest.mark.filterwarnings("ignore::fedjigsaw.errors.NoiseWarning")
@pytest.mark.filterwarnings("error")
def test_a_cell_that_is_hardly_more_than_noise_has_a_row(load_or_skip):
    load_or_skip("s1")
    assert replace(S1, epsilon=0.1).compute()["ratio"] > 1.2


@pytest.mark.usefixtures("in_this_process")
def test_without_a_package_its_cells_are_left_out_and_named(
    monkeypatch, tmp_path, load_or_skip, capsys
):
    load_or_skip("s1")
    absent = replace(PEERS["laplace"], label="X", module="no_such_module", install="pip install x")
    monkeypatch.setitem(PEERS, "absent", absent)
    cells = {"a": replace(S1, method="laplace"), "b": replace(S1, method="absent")}
    plans = tuple(Plan(name, cell) for name, cell in cells.items())
    work = Reproduction([Study("toy", "a toy", plans, ("ratio",), ("line",), runs=1)], tmp_path)
    text = "X requires the module no_such_module: pip install x"
    assert work.lacking() == {text: 1}
    _compute(work, 1)
    assert f"1 cells are left out. {text}" in " ".join(capsys.readouterr().err.split())
    assert [row["cell"] for row in read_rows(tmp_path / "toy.jsonl")] == ["a"]
    assert [task.name for task in work.missing()] == ["b"]
    assert runner.computable(work.tasks, tmp_path) == []
    _compute(work, 1)  # nothing to do is no error
