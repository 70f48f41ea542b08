import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from fedjigsaw import sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import DataError
from fedjigsaw.io.formats import encode
from fedjigsaw.io.tables import from_array, open_table


def test_the_common_scaler_equals_that_of_the_pooled_rows(grid_sites):
    paths, data, _ = grid_sites
    scaler = sites.common_scaler({path.name: sites.measure(path) for path in paths})
    pooled = StandardScaler().fit(data.X)
    assert scaler.mean == pytest.approx(pooled.mean_, rel=1e-9)
    assert scaler.deviation == pytest.approx(pooled.scale_, rel=1e-9)


def test_a_table_is_measured_as_its_file(grid_sites):
    path = grid_sites[0][0]
    table = open_table(path, columns=["y"])
    stats, direct = sites.measure(table), sites.measure(path, columns=["y"])
    assert encode(stats) == encode(direct)
    assert stats.columns == ("y",)


def test_python_has_the_least_rows_of_the_command_line():
    with pytest.raises(DataError, match="min_rows=5"):
        sites.measure(from_array([[1.0]], ["x"]), client="bern")
    assert sites.measure(from_array([[1.0]] * 5, ["x"]), client="bern").n_samples == 5


def test_a_column_that_is_empty_is_named(tmp_path):
    path = tmp_path / "bern.csv"
    path.write_text("a,b,c\n" + "".join(f"{i}.5,{i},\n" for i in range(9)))
    with pytest.raises(DataError, match=r"bern\.csv .*'c'"):
        sites.measure(path, drop_missing=True)


@pytest.mark.parametrize(("n", "least"), [(262_400, 1300), (2**19, 2600), (3000, 2000), (99, 7)])
def test_no_group_of_a_sketch_is_smaller_than_the_guard(n, least):
    values = np.random.default_rng(0).normal(size=(n, 1))
    schema = Schema((Column("x", scale="robust"),))
    found = sites.measure(from_array(values, ["x"]), client="bern", schema=schema, min_rows=least)
    sizes = found.sketches["x"].sizes
    assert sizes.sum() == n
    assert sizes.min() >= least
    assert len(sizes) >= min(200, n // least) // 2
