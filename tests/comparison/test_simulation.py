"""Simulations and the demo from Python."""

from pathlib import Path

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import FederatedClusterer, Summary, datasets, methods, register
from fedjigsaw.comparison.simulation import SHOWN, Cell, run_cell, run_demo, simulate
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io.rows import read_rows


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
    committed = read_rows(Path(__file__).parents[2] / "results" / "demo.jsonl")
    if demo.rows[0]["backend"].startswith("numba"):  # others draw other random numbers
        for name in ("n_found", "l2", "purity", "nmi", "bytes_per_client"):
            today = {row["method"]: row[name] for row in demo.rows}
            assert {row["method"]: row[name] for row in committed} == pytest.approx(today, rel=1e-3)


class Halves(FederatedClusterer):
    """Two centers: the means of the lower and the upper half of the first column."""

    def summarize(self, X, broadcast, rng):
        order = np.argsort(X[:, 0], kind="stable")
        parts = np.array_split(X[order], 2)
        centers = np.array([part.mean(axis=0) for part in parts])
        return Summary(n_samples=len(X), centers=centers, counts=np.array(list(map(len, parts))))

    def aggregate(self, summaries, broadcast, rng):
        return self.make_model(np.mean([summary.centers for summary in summaries], axis=0))


def test_own_methods_take_part_by_name_by_class_and_as_estimators(monkeypatch):
    monkeypatch.setattr(methods, "_registered", {})
    options = {"n_clients": 4, "split": "iid", "n_clusters": 2, "runs": 2}
    by_class = simulate("iris", methods=["feca", Halves], params={"n_init": 1}, **options)
    estimator = simulate("iris", methods=[Halves(7)], **options)
    register(Halves)
    by_name = simulate("iris", methods=["halves"], **options)
    assert [row["method"] for row in by_class] == ["feca", "feca", "halves", "halves"]
    assert [row["params"] for row in by_class[1:3]] == [{"n_init": 1}, {}]
    same = [[{**row, "seconds": 0} for row in rows] for rows in (by_class[2:], estimator, by_name)]
    assert same[0] == same[1] == same[2]
    with pytest.raises(ParameterError, match="Two methods are called 'halves'"):
        simulate("iris", methods=[Halves(7), Halves], **options)


def test_a_file_is_split_by_its_column(tmp_path):
    rng = np.random.default_rng(0)
    towns = np.array(["Bern", "Lyon", "Oslo"])[rng.integers(3, size=90)]
    write_table(tmp_path / "rows.csv", x=rng.normal(size=90), y=rng.normal(size=90), town=towns)
    options = {"n_clusters": 2, "methods": ["match"], "runs": 1, "split": "column", "by": "town"}
    (row,) = simulate(tmp_path / "rows.csv", **options)
    assert (row["n_clients"], row["dataset"], row["by"]) == (3, "rows.csv", "town")
    assert "purity" not in row  # nobody knows the classes
    with pytest.raises(ParameterError, match="'column' needs a file, and by"):
        simulate("iris", split="column")
    with pytest.raises(DataError, match="classes of rows.csv are not known, and .*'dirichlet' nee"):
        simulate(tmp_path / "rows.csv", columns=["x", "y"])
    with pytest.raises(ParameterError, match="number of clusters of rows.csv is not known"):
        simulate(tmp_path / "rows.csv", columns=["x", "y"], split="iid")


@pytest.mark.parametrize("split", ["quantity", "features"])
def test_new_splits_have_their_options_in_the_rows(split):
    (row,) = simulate("iris", 4, split, methods=["match"], runs=1, alpha=0.7, mix=0.25)
    assert row["split"] == split
    assert (row.get("alpha"), row.get("mix")) == (
        (0.7, None) if split == "quantity" else (None, 0.25)
    )
