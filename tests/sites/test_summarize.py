import warnings

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import Jigsaw, sites
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io.formats import encode
from fedjigsaw.io.tables import from_array, open_table
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.centers import centers_table
from fedjigsaw.report.inspection import describe

OFF = Guard(min_cluster_size=1)


@pytest.mark.parametrize("guard", [None, 5, "none"])
def test_a_guard_is_a_guard_everywhere(grid_sites, guard):
    path = grid_sites[0][0]
    model = sites.aggregate({"a": sites.summarize(path, 3)}, 3)
    for call in (
        lambda: sites.summarize(path, 3, guard=guard),
        lambda: sites.score(path, model, profile=True, guard=guard),
        lambda: Jigsaw(3).fit(np.eye(9), guard=guard),
    ):
        with pytest.raises(ParameterError, match="Guard"):
            call()


def test_every_site_takes_its_own_number_of_local_clusters(grid_sites):
    params = {"n_local_clusters": {"0": 2, "1": 3}}
    for path, n_local in zip(grid_sites[0][:2], (2, 3), strict=True):
        file = sites.summarize(path, 15, method="kfed", params=params, guard=OFF)
        assert len(file.summary.centers) == n_local
    with pytest.raises(ParameterError, match="has no entry for client '2'"):
        sites.summarize(grid_sites[0][2], 15, method="kfed", params=params)


def test_same_data_and_seed_give_the_same_bytes(grid_sites):
    path = grid_sites[0][0]
    assert encode(sites.summarize(path, 15)) == encode(sites.summarize(path, 15))
    assert encode(sites.summarize(path, 15)) != encode(sites.summarize(path, 15, seed=1))


def test_default_guard_lets_no_row_out(grid_sites):
    paths, data, _ = grid_sites
    rows = {tuple(row) for row in data.X}
    guarded = [sites.summarize(path, 60) for path in paths]
    bare = [sites.summarize(path, 60, guard=OFF) for path in paths]
    leaked = [{tuple(c) for c in f.summary.centers} & rows for f in bare]
    assert any(leaked)
    assert not any({tuple(c) for c in f.summary.centers} & rows for f in guarded)
    assert all(f.summary.merged > 0 for f in guarded)


def test_a_large_file_is_sampled_and_says_so(grid_sites):
    path = grid_sites[0][0]
    file = sites.summarize(path, 15, max_rows=50)
    assert file.n_used == 50 < file.summary.n_samples
    assert any("random sample of 50" in line for line in describe(file, 0))


def test_an_open_table_gives_the_same_bytes_as_its_file(grid_sites):
    path = grid_sites[0][1]
    options = {"columns": ["y", "x"], "max_rows": 50}
    assert encode(sites.summarize(open_table(path), 3, **options)) == encode(
        sites.summarize(path, 3, **options)
    )


def test_a_scaler_of_other_columns(grid_sites):
    path = grid_sites[0][0]
    other = Scaler(("x", "z"), np.zeros(2), np.ones(2))
    with pytest.raises(DataError, match="has no column 'z'. It has 'x', 'y'"):
        sites.summarize(path, 3, scaler=other)
    with pytest.raises(ParameterError, match="those of the scaler"):
        sites.summarize(path, 3, scaler=other, columns=["x", "y"])


@pytest.mark.parametrize("options", [{"method": "central"}, {"params": {"n_rounds": 2}}])
def test_methods_that_cannot_run_by_file(grid_sites, options):
    with pytest.raises(ParameterError, match="'central'|'jigsaw' needs 2 rounds"):
        sites.summarize(grid_sites[0][0], 3, **options)


@pytest.mark.parametrize("k", [3, "auto"])
def test_progress_counts_all_rows_and_then_tells_how_many_are_clustered(grid_sites, k):
    path, read, clustered = grid_sites[0][0], [], []
    sites.summarize(path, k, max_rows=50, progress=read.append, clustering=clustered.append)
    n_rows = sum(len(batch.rows) for batch in open_table(path).batches())
    assert (sum(read), clustered) == (n_rows, [50])


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.2, 0.3])
def test_a_site_without_missing_values_shows_none(tmp_path, share):
    """Though there is an indicator of missing values, since another site has some."""
    ward = Column("ward", "category", categories=("east", "west"))
    schema = Schema((Column("age"), Column("dose", weight=0.5), ward))
    rng = np.random.default_rng(0)
    paths = {name: tmp_path / f"{name}.csv" for name in ("full", "gaps")}
    for name, path in paths.items():
        age = 30 + 20 * rng.integers(0, 3, 150) + rng.normal(0, 4, 150)
        frame = pd.DataFrame({"age": age, "dose": rng.normal(5, 1, 150), "ward": "east"})
        if name == "gaps":
            frame[rng.random((150, 3)) < 3 * share] = None
        frame.to_csv(path, index=False)
    stats = {name: sites.measure(path, schema=schema) for name, path in paths.items()}
    scaler = sites.common_scaler(stats, schema=schema)
    assert {"age: (missing)", "dose: (missing)", "ward: (missing)"} < set(scaler.columns)
    for n_clusters in (1, 3, 8):
        file = sites.summarize(paths["full"], n_clusters, scaler=scaler)
        for center in centers_table(file):
            assert [one.missing for one in center.values()] == pytest.approx([0, 0, 0], abs=1e-12)
            assert not [one.text for one in center.values() if "missing" in one.text]
    (center,) = centers_table(sites.summarize(paths["gaps"], 1, scaler=scaler))
    assert [one.missing for one in center.values()] == pytest.approx([3 * share] * 3, abs=0.12)


@pytest.mark.parametrize(("n", "rows"), [(1, "1 row"), (4, "4 rows")])
def test_a_site_of_very_few_rows_gets_one_error_and_no_advice_to_send_them(n, rows):
    """It was warned that few rows are fine, and told to lower the limit that protects them."""
    table = from_array(np.arange(n)[:, None] / 8, ["age"])
    with warnings.catch_warnings(action="error"), pytest.raises(DataError) as raised:
        sites.summarize(table, 6, client="bern")
    text = str(raised.value)
    assert f"'bern' has {rows}, fewer than min_cluster_size = 5, so its guard blocks" in text
    assert "Leave this client out" in text
    assert "Lower" not in text
    with pytest.raises(DataError, match=f"has {rows};"):
        sites.measure(table, min_rows=5)
    with pytest.raises(DataError, match=f"has {rows};"):
        sites.propose_schema(table)


def test_a_column_without_numbers_is_told_to_need_a_schema(tmp_path):
    (tmp_path / "t.csv").write_text("seen,age\n01.02.2023,61\n02.02.2023,50.5\n")
    with pytest.raises(DataError, match=r"'seen': .* leave this column out.* schema init\)\.$"):
        sites.summarize(tmp_path / "t.csv", 1)
    (tmp_path / "t.csv").write_text("seen,age\n1,61\n2,50.5\n4,old\n")
    with pytest.raises(DataError, match=r"'age': 'old' .* leave this column out\.$"):
        sites.summarize(tmp_path / "t.csv", 1)
