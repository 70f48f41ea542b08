import json
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import FeCA, datasets, metrics, partition
from fedjigsaw.bench import cells
from fedjigsaw.bench.cells import Cell, deal, over_seeds, run
from fedjigsaw.errors import ParameterError

CELL = Cell(
    "gaussian-grid", "feca", 15, seed=4, n_clients=6, split="dirichlet", alpha=1.0, min_size=20
)


@pytest.fixture(scope="module")
def data():
    return datasets.gaussian_grid(1200, rng=2)


def test_a_row_says_what_anyone_can_compute_again(data):
    method, row = run(CELL, data)
    ids = partition.dirichlet(data.y, 6, alpha=1.0, rng=4, min_size=20)
    again = FeCA(15, random_state=4).fit(data.X, clients=ids)
    assert again.model_ == method.model_
    assert row["l2"] == metrics.center_l2(again.cluster_centers_, data.centers)
    assert row["purity"] == metrics.purity(again.labels_, data.y)
    assert row["bytes_per_client"] == again.transcript_.bytes_up / 6
    assert {"seed", "version", "commit", "backend", "params"} <= set(row)
    assert json.loads(json.dumps(row)) == row


def test_raw_rows_are_counted_where_they_leave(data):
    _, row = run(replace(CELL, method="central"), data)
    assert row["bytes_per_client"] == data.X.nbytes / 6


@pytest.mark.parametrize("split", cells.SPLITS)
def test_splits(data, split):
    cell = replace(CELL, split=split)
    ids = deal(data.y, cell)
    assert set(ids) == set(range(6))
    assert (ids == deal(data.y, replace(cell, method="central"))).all()
    assert (ids != deal(data.y, replace(cell, seed=5))).any()
    assert ("alpha" in cell.describe(), "shards" in cell.describe()) == (
        split == "dirichlet",
        split == "shards",
    )


def test_shards_are_as_many_as_asked_for(data):
    cell = replace(CELL, split="shards", n_clients=5, shards=1)
    few, many = (deal(data.y, replace(cell, shards=n)) for n in (1, 6))
    seen = [np.mean([len(set(data.y[ids == m])) for m in range(5)]) for ids in (few, many)]
    assert seen[0] < seen[1]


def test_unknown_split():
    with pytest.raises(ParameterError, match="split of a simulation must be one of 'iid'"):
        replace(CELL, split="random")


def test_without_true_centers_there_is_no_l2():
    digits = datasets.load("digits")
    _, row = run(replace(CELL, dataset="digits", n_clusters=10, params={"n_init": 1}), digits)
    assert "l2" not in row
    assert 0 < row["nmi"] < 1
    assert over_seeds([row])["nmi"] == (row["nmi"], 0.0)


def test_over_seeds():
    rows = [{"l2": 1.0, "nmi": 0.5}, {"l2": 3.0, "nmi": 0.5}]
    assert over_seeds(rows) == {"l2": (2.0, 1.0), "nmi": (0.5, 0.0)}


def test_commit_is_none_outside_a_checkout(monkeypatch):
    def no_git(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(cells.subprocess, "run", no_git)
    assert cells._commit() is None
    assert np.isscalar(cells.origin()["version"])
