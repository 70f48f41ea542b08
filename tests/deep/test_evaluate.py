"""The probe beside scikit-learn's logistic regression, neighbors by hand."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fedjigsaw.deep.evaluate import DECAY, linear_probe, neighbors
from fedjigsaw.errors import DataError


def test_the_probe_is_logistic_regression(rng):
    X = rng.normal(size=(400, 10))
    y = (X @ rng.normal(size=(10, 3)) + rng.normal(size=(400, 3))).argmax(1)
    train, test = slice(0, 300), slice(300, 400)
    scaler = StandardScaler().fit(X[train])
    reference = LogisticRegression(C=1 / (300 * DECAY), max_iter=5000, tol=1e-8)
    reference.fit(scaler.transform(X[train]), y[train])
    expected = reference.score(scaler.transform(X[test]), y[test])
    assert linear_probe(X[train], y[train], X[test], y[test]) == pytest.approx(expected, abs=0.011)


def test_chance_for_labels_without_meaning(rng):
    X, y = rng.normal(size=(2000, 5)), rng.integers(10, size=2000)
    assert linear_probe(X[:1000], y[:1000], X[1000:], y[1000:]) < 0.2
    assert neighbors(X[:1000], y[:1000], X[1000:], y[1000:]) < 0.2


def test_neighbors_go_by_angle_and_weigh():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    assert neighbors(X, [0, 1, 1], [[5.0, 0.1]], [0]) == 1.0
    assert neighbors(X, [0, 1, 1], [[0.1, 5.0]], [0]) == 0.0


@pytest.mark.parametrize("judge", [linear_probe, neighbors])
def test_bad_input(judge):
    with pytest.raises(DataError, match="labels of an evaluation must be one per row"):
        judge([[1.0]], [0, 1], [[1.0]], [0])
    with pytest.raises(DataError, match="labels of an evaluation"):
        judge([[1.0]], [0], np.zeros((0, 1)), [])
    with pytest.raises(DataError, match="features of an evaluation must be finite"):
        judge([[np.nan]], [0], [[1.0]], [0])
