import shutil
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import FeCA, Jigsaw, metrics, sites
from fedjigsaw.columns import scaling
from fedjigsaw.errors import MessageError, ParameterError, SiteWarning
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile, encode
from fedjigsaw.io.tables import open_table
from fedjigsaw.privacy.guard import Guard

OFF = Guard(min_cluster_size=1)


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
@pytest.mark.parametrize("method", [FeCA, Jigsaw])
def test_by_file_equals_in_memory_bit_for_bit(grid_sites, tmp_path, method):
    paths, data, ids = grid_sites
    files = {}
    for path in paths:
        out, name = tmp_path / f"{path.stem}.summary", method.__name__.lower()
        formats.save(sites.summarize(path, 15, method=name, guard=OFF, seed=7), out)
        files[str(out)] = formats.load(out, SummaryFile)
    model = sites.aggregate(files, 15, seed=7)
    memory = method(15, random_state=7).fit_clients({str(m): data.X[ids == m] for m in range(5)})
    assert model.model.centers.tobytes() == memory.cluster_centers_.tobytes()
    assert (model.clients, model.n_samples) == (("0", "1", "2", "3", "4"), 1500)
    if method is Jigsaw:
        support = model.model.tensors["support_points"].tolist()
        assert memory.support_["points"].tolist() == support


def test_forgetting_a_site_is_exact(grid_sites):
    files = {p.name: sites.summarize(p, 15) for p in grid_sites[0]}
    without = sites.aggregate(files, 15, without=["2", "4"])
    never = sites.aggregate({n: f for n, f in files.items() if f.summary.client not in "24"}, 15)
    assert encode(without) == encode(never)
    assert without.clients == ("0", "1", "3")


def test_the_scaler_of_a_site_that_is_forgotten_is_told(grid_sites, tmp_path):
    stats = {p.stem: sites.measure(p) for p in grid_sites[0]}
    scaler = sites.common_scaler(stats)
    files = {p.name: sites.summarize(p, 15, scaler=scaler) for p in grid_sites[0]}
    with pytest.warns(SiteWarning, match=scaler.fingerprint):
        sites.aggregate(files, 15, without=["2"])
    with warnings.catch_warnings(action="error", category=SiteWarning):
        sites.aggregate(files, 15)
        plain = {p.name: sites.summarize(p, 15) for p in grid_sites[0]}
        sites.aggregate(plain, 15, without=["2"])


@pytest.mark.parametrize(("k", "step"), [(4, 1), (4, -1), ("auto", 1)])
def test_a_site_under_two_names_is_told(grid_sites, tmp_path, k, step):
    first, second, *_ = grid_sites[0]
    first = Path(shutil.copy(first, tmp_path / f"bruno{first.suffix}"))
    table = open_table(first)
    rows = np.concatenate([batch.rows for batch in table.batches()])[::step]
    pd.DataFrame(rows, columns=table.columns).to_parquet(tmp_path / "bruno-clean.parquet")
    paths = [first, second, tmp_path / "bruno-clean.parquet"]
    files = {p.name: sites.summarize(p, k) for p in paths}
    with pytest.warns(SiteWarning, match=f"{first.stem!r} and 'bruno-clean'"):
        sites.aggregate(files, k)
    stats = {p.name: sites.measure(p) for p in paths}
    with pytest.warns(SiteWarning, match="'bruno-clean'"):
        sites.common_scaler(stats)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SiteWarning)
        sites.aggregate(files, k, without=["bruno-clean"])
        sites.common_scaler(stats, without=["bruno-clean"])


class TestFitTogether:
    @pytest.fixture
    def two(self, grid_sites):
        """A summary, and a function that makes one of another site."""
        a, b = grid_sites[0][:2]
        return sites.summarize(a, 3, method="feca"), partial(sites.summarize, b, 3, method="feca")

    @pytest.mark.parametrize(
        "options",
        [
            {"columns": ["y"]},
            {"params": {"radius": "theoretical"}},
            {"client": "0"},
            {"scaler": scaling.Scaler(("x", "y"), np.zeros(2), np.ones(2))},
            {"method": "jigsaw"},
        ],
    )
    def test_both_files_are_named(self, two, options):
        first, second = two
        with pytest.raises(MessageError, match=r"\bA\b.*\bB\b"):
            sites.aggregate({"A": first, "B": second(**options)}, 3)

    def test_columns_in_another_order_are_put_in_order(self, two):
        first, second = two
        swapped = second(columns=["y", "x"])
        turned = sites.reorder(swapped, ("x", "y"))
        assert (turned.summary.centers == swapped.summary.centers[:, ::-1]).all()
        model = sites.aggregate({"A": first, "B": swapped}, 3)
        assert model.columns == ("x", "y")
        straight = sites.aggregate({"A": first, "B": second()}, 3)
        assert metrics.center_l2(model.model.centers, straight.model.centers) < 1e-6

    @pytest.mark.parametrize("columns", [("x", "z"), ("x",), ("x", "y", "y"), ("x", "x")])
    def test_an_order_names_each_column_once(self, two, columns):
        with pytest.raises(MessageError, match="'x', 'y'"):
            sites.reorder(two[0], columns)

    def test_how_hard_a_site_searches_is_its_own_affair(self, two):
        first, second = two
        assert sites.aggregate({"A": first, "B": second(params={"n_init": 2})}, 3)

    @pytest.mark.parametrize("without", ["x", "0"])  # no site; the only one
    def test_without(self, two, without):
        with pytest.raises(ParameterError, match=f"'{without}'"):
            sites.aggregate({"A": two[0]}, 3, without=[without])
