"""Comparing methods from Python, on data in memory and on files."""

import numpy as np
import pytest

from fedjigsaw.bench.comparison import (
    compare,
    params_by_method,
    pool_files,
    supporting,
    without_classes,
)
from fedjigsaw.errors import ParameterError
from fedjigsaw.io.tables import Tally
from fedjigsaw.methods import CLUSTERERS


def test_one_row_for_each_method_relative_to_the_best(grid):
    rows = compare(*grid, 15, methods=["jigsaw", "feca"], params={"refine": False})
    assert [row["method"] for row in rows] == ["jigsaw", "feca"]
    assert [row["params"] for row in rows] == [{}, {"refine": False}]
    assert min(row["ratio"] for row in rows) == 1.0
    assert "purity" in rows[0]
    assert "purity" not in without_classes(rows)[0]


def test_progress_is_followed_by_any_wrapper(grid):
    seen = []

    def track(items):
        for item in items:
            seen.append(item[0])
            yield item

    compare(*grid, 15, methods=["central", "match"], track=track)
    assert seen == ["central", "match"]


def test_only_some_methods_find_the_number_of_clusters():
    assert supporting(3) == list(CLUSTERERS)
    assert supporting("auto") == ["jigsaw"]


def test_a_parameter_that_no_method_has():
    with pytest.raises(ParameterError, match="None of feca, kfed has a parameter 'speed'"):
        params_by_method(["feca", "kfed"], {"speed": 1}, 3)


def test_files_are_pooled_with_the_client_of_each_row(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,kind\n1,2,u\n3,4,v\n")
    (tmp_path / "b.csv").write_text("y,x,kind\n6,5,u\n")
    data, clients = pool_files([tmp_path / "a.csv", tmp_path / "b.csv"], label="kind")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [0, 1, 0]
    assert clients.tolist() == [0, 0, 1]
    assert data.name == "a.csv, b.csv"
    tally = Tally()
    (tmp_path / "c.csv").write_text("x,y\n1,2\n,2\n3,\n")
    paths = [tmp_path / "c.csv", tmp_path / "a.csv"]
    data, _ = pool_files(paths, ["x", "y"], drop_missing=True, tally=tally)
    assert (len(data.X), tally) == (3, Tally(rows=5, skipped=2))
    scaled, _ = pool_files([tmp_path / "a.csv"], ["x", "y"], scale=True)
    assert np.allclose(scaled.X, [[-1, -1], [1, 1]])
