"""The demo from Python, and data sets that are split by a column of theirs."""

from pathlib import Path

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import datasets, partition
from fedjigsaw.comparison.demo import SHOWN, run_demo
from fedjigsaw.comparison.problems import deal_dataset
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io.rows import read_rows


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


def test_a_file_is_split_by_its_column(tmp_path):
    rng = np.random.default_rng(0)
    towns = np.array(["Bern", "Lyon", "Oslo"])[rng.integers(3, size=90)]
    write_table(tmp_path / "rows.csv", x=rng.normal(size=90), y=rng.normal(size=90), town=towns)
    problem = deal_dataset(str(tmp_path / "rows.csv"), split="column", by="town")
    ids = problem.clients(0)
    assert {tuple(set(towns[ids == number])) for number in set(ids)} == {(t,) for t in set(towns)}
    assert list(problem.columns) == ["x", "y"]
    assert not problem.has_classes
    with pytest.raises(ParameterError) as caught:
        deal_dataset("iris", split="column")
    assert caught.value.parameter == "by"
    with pytest.raises(DataError) as caught:
        deal_dataset(str(tmp_path / "rows.csv"), columns=["x", "y"])
    assert caught.value.parameter == "label"


def test_a_column_can_decide_who_has_which_region():
    data = datasets.load("wine")
    for column in (0, 3):
        ids = deal_dataset("wine", 6, split="features", by=data.columns[column]).clients(4)
        assert (ids == partition.features(data.X, 6, rng=4, direction=column)).all()
    with pytest.raises(ParameterError, match="has no column 'west'"):
        deal_dataset("wine", split="features", by="west")
