"""What a comparison clusters."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedjigsaw.comparison.problems import deal_dataset, make_problem
from fedjigsaw.errors import DataError


def test_a_named_set_is_split_among_clients_by_each_seed():
    problem = deal_dataset("gaussian-grid", 7)
    first, second = problem.clients(1), problem.clients(2)
    assert len(first) == len(problem.data.X)
    assert set(first) == set(second) == set(range(7))
    assert first.tolist() == problem.clients(1).tolist() != second.tolist()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_of_all_kinds_are_matched_by_name(make):
    first = make({"x": [1.0, 2.0], "kind": ["a", "b"], "z": [3.0, 4.0]})
    second = make({"z": [7.0], "x": [5.0], "kind": ["b"]})
    problem = make_problem([first, second], None, "kind", None, {})
    assert problem.data.X.tolist() == [[1, 3], [2, 4], [5, 7]]
    assert problem.data.y.tolist() == [0, 1, 1]
    alone = make_problem(first, "kind", None, None, {})
    assert alone.columns == ["x", "z"]
    assert alone.clients(0).tolist() == ["a", "b"]
    with pytest.raises(DataError, match="Client '1' has the columns .*'more', unlike client '0'"):
        make_problem([make({"x": [1.0]}), make({"x": [1.0], "more": [1.0]})], None, None, None, {})
