"""What privacy costs: rows by hand and by an independent fit, and the words that sum them up."""

import numpy as np
import pytest

from fedjigsaw import Jigsaw, Privacy
from fedjigsaw.comparison.cost import by_epsilon, clipped_rows, privacy_cost
from fedjigsaw.datasets import Dataset
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.metrics import ari
from fedjigsaw.report import pictures


def two_groups(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.where(y[:, None] == 0, -0.5, 0.5) + 0.1 * rng.standard_normal((n, 2))
    return Dataset(X, y, None, "two"), np.arange(n) // 2 % 3


def promises(*epsilons, **options):
    return [Privacy(epsilon, bounds=(-1, 1), **{"cells": "own", **options}) for epsilon in epsilons]


def row(epsilon, ratio=1.0, noisy=0, **more):
    return {"epsilon": epsilon, "ratio": ratio, "agreement": 1.0, "noisy_sites": noisy, **more}


def failed(epsilon):
    return {"epsilon": epsilon, "failed": "No cell stands out.", "noisy_sites": 0}


def test_rows_are_those_of_fits_with_the_same_seeds():
    data, clients = two_groups()
    rows = privacy_cost(data, clients, 2, promises(2, 0.5), runs=2, seed=3)
    assert [(r["epsilon"], r["seed"]) for r in rows] == [
        (None, 3), (None, 4), (0.5, 3), (0.5, 4), (2.0, 3), (2.0, 4),
    ]  # fmt: skip
    plain = Jigsaw(2, random_state=4).fit(data.X, clients=clients)
    noisy = Jigsaw(2, random_state=4).fit(
        data.X, clients=clients, privacy=Privacy(0.5, cells="own", bounds=(-1, 1), insecure_seed=4)
    )

    def objective(method):
        squared = ((data.X[:, None] - method.cluster_centers_) ** 2).sum(axis=2)
        return squared.min(axis=1).sum()

    assert rows[3]["ratio"] == pytest.approx(objective(noisy) / objective(plain), rel=1e-12)
    assert rows[3]["ratio"] > rows[5]["ratio"] > 1
    assert rows[3]["agreement"] == ari(noisy.labels_, plain.labels_)
    assert rows[3]["purity"] > 0.99
    assert [r["ratio"] for r in rows[:2]] == [1.0, 1.0]
    assert [r["agreement"] for r in rows[:2]] == [1.0, 1.0]


def test_mean_and_range_over_runs_leave_out_runs_without_clusters():
    none, half, one = by_epsilon(
        [row(None), row(0.5, 1.1), row(0.5, 1.4), failed(0.5), failed(1.0)]
    )
    assert half["ratio"] == {"mean": pytest.approx(1.25), "least": 1.1, "greatest": 1.4}
    assert (half["runs"], half["failed"]) == (3, 1)
    assert one == {"epsilon": 1.0, "runs": 1, "failed": 1}
    assert none["epsilon"] is None


@pytest.mark.filterwarnings("error")  # all warnings of single sites are summed up
def test_noisy_and_clipped_sites_are_counted():
    data, clients = two_groups(60)
    data.X[:5] = 7.0
    rows = privacy_cost(data, clients, 2, promises(0.1), runs=1)
    assert rows[1]["noisy_sites"] == 3
    assert clipped_rows(data.X, promises(1)[0]) == 5 + int((np.abs(data.X[5:]) > 1).any(1).sum())


def test_a_run_that_finds_nothing_does_not_stop_the_others():
    data, clients = two_groups(60)
    rows = privacy_cost(data, clients, 2, promises(0.01, 50, cells="shared"), runs=1)
    assert "No cell stands out from the noise" in rows[1]["failed"]
    assert "ratio" not in rows[1]
    assert rows[2]["ratio"] < 2
    figure = pictures.privacy_cost(rows)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{rows[2]['ratio']:.3f}", "no clusters found"]


def test_what_cannot_be_compared():
    data, clients = two_groups(60)
    with pytest.raises(ParameterError, match="'feca' has no differential privacy"):
        privacy_cost(data, clients, 2, promises(1), method="feca")
    with pytest.raises(ParameterError, match="An epsilon is given twice: 1.0, 2.0, 1.0"):
        privacy_cost(data, clients, 2, promises(1, 2, 1))
    with pytest.raises(ParameterError, match="Unknown method 'x'"):
        privacy_cost(data, clients, 2, promises(1), method="x")
    same = Dataset(np.ones((60, 2)), data.y, None, "same")
    with pytest.raises(DataError, match="Without privacy, every row is at its center"):
        privacy_cost(same, clients, 1, promises(1), runs=1)


def test_the_picture_has_every_run_every_mean_and_the_line_without_privacy():
    rows = [{"method": "jigsaw", **r} for r in (row(None), row(1, 1.2), row(1, 1.4), row(4, 1.1))]
    left, right = pictures.privacy_cost(rows).axes
    (dots,) = left.collections
    assert dots.get_offsets().tolist() == [[1, 1.2], [1, 1.4], [4, 1.1]]
    without, means = left.lines
    assert list(without.get_ydata()) == [1, 1]
    assert means.get_xydata().tolist() == [[1, pytest.approx(1.3)], [4, 1.1]]
    assert left.get_xscale() == "log"
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "without privacy",
        "run",
        "mean",
    ]
    assert right.get_ylim()[0] < 0.95 < 1 < right.get_ylim()[1]
