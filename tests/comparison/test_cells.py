import json
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import FeCA, datasets, metrics, partition
from fedjigsaw.comparison.simulation import Cell, run_cell, split_rows
from fedjigsaw.errors import ParameterError

CELL = Cell(
    "gaussian-grid", "feca", 15, seed=4, n_clients=6, split="dirichlet", alpha=1.0, min_size=20
)


@pytest.fixture(scope="module")
def data():
    return datasets.gaussian_grid(1200, rng=2)


def test_a_row_says_what_anyone_can_compute_again(data):
    method, row = run_cell(CELL, data)
    ids = partition.dirichlet(data.y, 6, alpha=1.0, rng=4, min_size=20)
    again = FeCA(15, random_state=4).fit(data.X, clients=ids)
    assert again.model_ == method.model_
    assert row["l2"] == metrics.center_l2(again.cluster_centers_, data.centers)
    assert row["purity"] == metrics.purity(labels_true=data.y, labels_pred=again.labels_)
    assert row["bytes_per_client"] == again.transcript_.bytes_up / 6
    assert {"seed", "version", "commit", "backend", "params"} <= set(row)
    assert json.loads(json.dumps(row)) == row


def test_raw_rows_are_counted_where_they_leave(data):
    _, row = run_cell(replace(CELL, method="central"), data)
    assert row["bytes_per_client"] == data.X.nbytes / 6


@pytest.mark.parametrize("split", partition.SPLITS)
def test_splits(data, split):
    data = replace(data, clients=np.arange(len(data.X)) % 6)
    cell = replace(CELL, split=split)
    ids = split_rows(data.y, cell, data)
    assert set(ids) == set(range(6))
    assert (ids == split_rows(data.y, replace(cell, method="central"), data)).all()
    if split not in ("features", "column"):  # those depend on the rows alone
        assert (ids != split_rows(data.y, replace(cell, seed=5), data)).any()
    row = cell.as_row()
    assert ("alpha" in row, "shards" in row, "mix" in row) == (
        split in ("dirichlet", "quantity"),
        split == "shards",
        split == "features",
    )


def test_a_column_can_decide_who_has_which_region(data):
    named = replace(data, columns=("east", "north"))
    for by, column in (("east", 0), ("north", 1)):
        ids = split_rows(data.y, replace(CELL, split="features", by=by), named)
        assert (ids == partition.features(data.X, 6, rng=CELL.seed, direction=column)).all()
    with pytest.raises(ParameterError, match="has no column 'west'. It has 'east', 'north'"):
        split_rows(data.y, replace(CELL, split="features", by="west"), named)


def test_unknown_split():
    with pytest.raises(ParameterError, match="split of a simulation"):
        replace(CELL, split="random")


def test_without_true_centers_there_is_no_l2():
    digits = datasets.load("digits")
    _, row = run_cell(replace(CELL, dataset="digits", n_clusters=10, params={"n_init": 1}), digits)
    assert "l2" not in row
    assert 0 < row["nmi"] < 1


class TestShare:
    def test_only_a_part_takes_part_and_all_rows_are_measured(self, data):
        method, row = run_cell(replace(CELL, share=0.5, split="iid"), data)
        assert len(method.labels_) == 600
        assert row["share"] == 0.5
        assert row["purity"] == metrics.purity(
            labels_true=data.y, labels_pred=method.predict(data.X)
        )
        assert row["inertia"] == method.inertia_

    @pytest.mark.parametrize("share", [0.0, 1.1, -0.5])
    def test_bad(self, share):
        with pytest.raises(ParameterError, match="share of a simulation"):
            replace(CELL, share=share)
