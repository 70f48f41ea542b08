import shutil
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import FeCA, FewerClustersWarning, Jigsaw, metrics, sites
from fedjigsaw.errors import (
    ForgottenSiteWarning,
    MessageError,
    ParameterError,
    SameRowsWarning,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import SummaryFile, encode
from fedjigsaw.io.tables import open_table
from fedjigsaw.kernels import scaling
from fedjigsaw.privacy.guard import Guard

OFF = Guard(min_cluster_size=1)


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
def test_by_file_equals_in_memory_bit_for_bit(grid_sites, tmp_path):
    paths, data, ids = grid_sites
    files = {}
    for path in paths:
        out = tmp_path / f"{path.stem}.summary"
        formats.save(sites.summarize(path, 15, method="feca", guard=OFF, seed=7), out)
        files[str(out)] = formats.load(out, SummaryFile)
    model = sites.aggregate(files, 15, seed=7)
    memory = FeCA(15, random_state=7).fit_clients({str(m): data.X[ids == m] for m in range(5)})
    assert model.model.centers.tobytes() == memory.cluster_centers_.tobytes()
    assert model.clients == ("0", "1", "2", "3", "4")
    assert model.n_samples == 1500


def test_jigsaw_by_file_equals_in_memory_bit_for_bit(grid_sites):
    paths, data, ids = grid_sites
    summaries = {p.stem: sites.summarize(p, 15, method="jigsaw", guard=OFF, seed=7) for p in paths}
    model = sites.aggregate(summaries, 15, seed=7)
    shards = {str(m): data.X[ids == m] for m in range(5)}
    memory = Jigsaw(15, random_state=7).fit_clients(shards)
    assert model.model.centers.tobytes() == memory.cluster_centers_.tobytes()
    assert memory.support_["points"].tolist() == model.model.tensors["support_points"].tolist()


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
    with pytest.warns(ForgottenSiteWarning) as caught:
        sites.aggregate(files, 15, without=["2"])
    (told,) = caught
    for part in (scaler.fingerprint, "--without 2", "summarize"):
        assert part in str(told.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ForgottenSiteWarning)
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
    with pytest.warns(SameRowsWarning, match=f"{first.stem!r} and 'bruno-clean'"):
        sites.aggregate(files, k)
    stats = {p.name: sites.measure(p) for p in paths}
    with pytest.warns(SameRowsWarning, match="'bruno-clean'"):
        sites.common_scaler(stats)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SameRowsWarning)
        sites.aggregate(files, k, without=["bruno-clean"])
        sites.common_scaler(stats, without=["bruno-clean"])


class TestFitTogether:
    @pytest.fixture
    def two(self, grid_sites):
        a, b = grid_sites[0][:2]
        return (
            a,
            b,
            sites.summarize(a, 3, method="feca"),
            partial(sites.summarize, b, 3, method="feca"),
        )

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"columns": ["y"]}, "A has the columns 'x', 'y'; B has 'y'. Use the same columns"),
            (
                {"params": {"radius": "theoretical"}},
                "A was made with radius='empirical', B with radius='theoretical'. Use the same",
            ),
            ({"client": "0"}, "A and B are both from client '0'. Give one file per client"),
            (
                {"scaler": scaling.Scaler(("x", "y"), np.zeros(2), np.ones(2))},
                r"A is not scaled, but B is scaled \(scaler \w+\). Summarize all",
            ),
        ],
    )
    def test_both_files_are_named(self, two, options, words):
        _, _, first, second = two
        with pytest.raises(MessageError, match=words):
            sites.aggregate({"A": first, "B": second(**options)}, 3)

    def test_columns_in_another_order_are_put_in_order(self, two):
        _, _, first, second = two
        swapped = second(columns=["y", "x"])
        turned = sites.reorder(swapped, ("x", "y"))
        assert (turned.summary.centers == swapped.summary.centers[:, ::-1]).all()
        model = sites.aggregate({"A": first, "B": swapped}, 3)
        assert model.columns == ("x", "y")
        straight = sites.aggregate({"A": first, "B": second()}, 3)
        assert metrics.center_l2(model.model.centers, straight.model.centers) < 1e-6

    @pytest.mark.parametrize("columns", [("x", "z"), ("x",), ("x", "y", "y"), ("x", "x")])
    def test_an_order_names_each_column_once(self, two, columns):
        with pytest.raises(MessageError, match="of '1' has the columns 'x', 'y', which cannot be"):
            sites.reorder(two[3](), columns)

    def test_other_methods(self, two):
        other = replace(two[3](), method="jigsaw")
        with pytest.raises(
            MessageError, match="A was made with feca, B with jigsaw. Use the same method"
        ):
            sites.aggregate({"A": two[2], "B": other}, 3)

    def test_how_hard_a_site_searches_is_its_own_affair(self, two):
        _, _, first, second = two
        assert sites.aggregate({"A": first, "B": second(params={"n_init": 2})}, 3)

    def test_without(self, two):
        with pytest.raises(ParameterError, match="No summary is from 'x'. Sites: '0'"):
            sites.aggregate({"A": two[2]}, 3, without=["x"])
        with pytest.raises(ParameterError, match="Without '0', no summary is left"):
            sites.aggregate({"A": two[2]}, 3, without=["0"])

    def test_fewer_clusters(self, two):
        with pytest.warns(FewerClustersWarning, match="3 of 9 clusters"):
            sites.aggregate({"A": two[2]}, 9)
