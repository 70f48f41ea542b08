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


class TestShare:
    def test_only_a_part_takes_part_and_all_rows_are_measured(self, data):
        method, row = run(replace(CELL, share=0.5, split="iid"), data)
        assert len(method.labels_) == 600
        assert row["share"] == 0.5
        assert row["purity"] == metrics.purity(method.predict(data.X), data.y)
        assert row["inertia"] == method.inertia_

    def test_rows_depend_on_the_seed_alone(self, data):
        first, again, other = (
            run(replace(CELL, share=0.5, split="iid", seed=s), data)[0].labels_ for s in (1, 1, 2)
        )
        assert (first == again).all()
        assert first.tolist() != other.tolist()

    @pytest.mark.parametrize("share", [0.0, 1.1, -0.5])
    def test_bad(self, share):
        with pytest.raises(ParameterError, match="share of a simulation must be above 0"):
            replace(CELL, share=share)


class TestMeasures:
    """Two clients, two clusters; the row 40 of the second lies nearer to the first's."""

    DATA = datasets.Dataset(
        X=np.array([[0.0], [2.0], [40.0], [98.0], [102.0], [160.0]]),
        y=np.array([0, 0, 1, 1, 1, 1]),
        centers=np.array([[0.0], [110.0]]),
        name="toy",
    )
    CLIENTS = np.array([0, 0, 1, 1, 1, 1])

    @pytest.fixture
    def method(self):
        feca = FeCA(2, n_local_clusters=1, random_state=0)
        return feca.fit(self.DATA.X, clients=self.CLIENTS)

    def test_label_rules(self, method):
        found = cells.MEASURES["label_rules"](method, self.DATA, self.CLIENTS)
        assert found["purity_nearest"] == pytest.approx(5 / 6)
        assert found["purity_local"] == found["nmi_local"] == 1.0

    def test_after_lloyd(self, method):
        """Means of the nearest: 14 and 120; the row 40 still goes to the first."""
        found = cells.MEASURES["after_lloyd"](method, self.DATA, self.CLIENTS)
        assert found["purity_lloyd"] == pytest.approx(5 / 6)

    def test_sigma(self, method):
        """Centers 1 and 100 with radii 1 and 60 lie 1 and 10 from the true ones."""
        found = cells.MEASURES["sigma"](method, self.DATA, self.CLIENTS)
        assert found["sigma"] == [1.0, pytest.approx(10 / 60, abs=1e-4)]
        assert found["true_center"] == [0, 1]

    def test_centers_and_truth(self, data):
        method, row = run(CELL, data, ("centers", "truth"))
        assert np.allclose(row["centers"], method.cluster_centers_, atol=0.5)
        assert np.sum(row["density"]) == len(data.X)
        assert row["true_centers"] == data.centers.tolist()
        assert json.loads(json.dumps(row)) == row
