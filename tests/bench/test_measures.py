import json

import numpy as np
import pytest

from fedjigsaw import FeCA, datasets
from fedjigsaw.bench.cells import Cell, run_cell
from fedjigsaw.bench.measures import MEASURES
from fedjigsaw.comparison.measures import mean_and_std


def test_mean_and_std_of_the_numbers_that_all_rows_have():
    rows = [{"l2": 1.0, "nmi": 0.5, "mse": 2.0}, {"l2": 3.0, "nmi": 0.5}]
    assert mean_and_std(rows) == {"l2": (2.0, 1.0), "nmi": (0.5, 0.0)}


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
        found = MEASURES["label_rules"](method, self.DATA, self.CLIENTS)
        assert found["purity_nearest"] == pytest.approx(5 / 6)
        assert found["purity_local"] == found["nmi_local"] == 1.0

    def test_after_lloyd(self, method):
        """Means of the nearest: 14 and 120; the row 40 still goes to the first."""
        found = MEASURES["after_lloyd"](method, self.DATA, self.CLIENTS)
        assert found["purity_lloyd"] == pytest.approx(5 / 6)

    def test_sigma(self, method):
        """Centers 1 and 100 with radii 1 and 60 lie 1 and 10 from the true ones."""
        found = MEASURES["sigma"](method, self.DATA, self.CLIENTS)
        assert found["sigma"] == [1.0, pytest.approx(10 / 60, abs=1e-4)]
        assert found["true_center"] == [0, 1]

    def test_centers_and_truth(self):
        data = datasets.gaussian_grid(1200, rng=2)
        method, row = run_cell(Cell("gaussian-grid", "feca", 15, 4), data, ("centers", "truth"))
        assert np.allclose(row["centers"], method.cluster_centers_, atol=0.5)
        assert np.sum(row["density"]) == len(data.X)
        assert row["true_centers"] == data.centers.tolist()
        assert json.loads(json.dumps(row)) == row
