"""Reproducing studies from Python: what is missing, what others computed, what is outdated."""

import pytest

from fedjigsaw.bench.cells import Cell
from fedjigsaw.bench.reproduction import Reproduction
from fedjigsaw.bench.study import Plan, Study
from fedjigsaw.io.rows import append_row, read_rows, write_rows

CELL = Cell("gaussian-grid", "feca", 15, seed=0, n_clients=3, params={"n_init": 1})
STUDY = Study("toy", "a toy", (Plan("a", CELL),), layout=("line",), runs=2)


@pytest.mark.usefixtures("in_this_process")
def test_from_nothing_to_rows(tmp_path):
    work = Reproduction([STUDY], tmp_path)
    assert len(work.missing()) == len(work.tasks) == 2
    assert work.rows() == {"toy": []}
    work.run(n_jobs=1)
    assert work.missing() == []
    assert work.rows() == {"toy": read_rows(tmp_path / "toy.jsonl")}
    assert work.other_provenances() == work.outdated() == []
    work.delete_rows()
    assert len(work.missing()) == 2


def test_rows_of_other_code_and_of_other_cells(tmp_path):
    work = Reproduction([STUDY], tmp_path, runs=1)
    row = {"table": "toy", "cell": "a", **CELL.as_row(), "commit": "abc", "backend": "sklearn"}
    append_row(tmp_path / "toy.jsonl", row)
    assert work.missing() == []
    assert work.other_provenances() == ["abc (sklearn)"]
    write_rows(tmp_path / "toy.jsonl", [{**row, "n_clusters": 3}])
    assert work.outdated() == ["toy/a/0"]
