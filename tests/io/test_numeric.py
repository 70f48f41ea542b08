"""Values that are no numbers are errors that name their place, and can be read by people."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io.tables import open_table
from raising import raises


def test_a_date_that_python_does_not_know(tmp_path):
    dates = pa.array([10**15], pa.int64()).cast(pa.timestamp("ms"))
    pa.parquet.write_table(pa.table({"d": dates}), tmp_path / "t.parquet")
    with raises(DataError, file="t.parquet", row=1, column="d"):
        list(open_table(tmp_path / "t.parquet").batches())


def test_a_long_value_is_cut(tmp_path):
    (tmp_path / "t.csv").write_text("a\n" + "x" * 100_000 + "\n")
    with raises(DataError, "xxx", file="t.csv", row=1, column="a") as caught:
        list(open_table(tmp_path / "t.csv").batches())
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("bad", [1.1e100, -1.1e100, np.inf])
@pytest.mark.parametrize("n_columns", [1, 3, 150])
def test_one_number_too_large_among_missing_ones_is_found(tmp_path, bad, n_columns):
    X = np.ones((40, n_columns))
    X[3, 0], X[17, -1] = np.nan, bad
    names = [f"x{j}" for j in range(n_columns)]
    pa.parquet.write_table(pa.table(list(X.T.copy()), names=names), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet", columns=names, drop_missing=True)
    with raises(DataError, file="t.parquet", row=18, column=names[-1]):
        list(table.batches())
