"""The probe beside scikit-learn's logistic regression, neighbors by hand."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fedjigsaw.deep import evaluate as module
from fedjigsaw.deep.evaluate import DECAYS, choose_decay, linear_probe, neighbors
from fedjigsaw.errors import DataError


@pytest.mark.parametrize("decay", [DECAYS[0], DECAYS[-1]])
def test_the_probe_is_logistic_regression(rng, decay):
    X = rng.normal(size=(400, 10))
    y = (X @ rng.normal(size=(10, 3)) + rng.normal(size=(400, 3))).argmax(1)
    train, test = slice(0, 300), slice(300, 400)
    scaler = StandardScaler().fit(X[train])
    reference = LogisticRegression(C=1 / (300 * decay), max_iter=5000, tol=1e-8)
    reference.fit(scaler.transform(X[train]), y[train])
    expected = reference.score(scaler.transform(X[test]), y[test])
    found = linear_probe(X[train], y[train], X[test], y[test], decay=decay)
    assert found.accuracy == pytest.approx(expected, abs=0.011)
    assert found.converged
    assert not found.at_edge  # nothing was chosen


def test_the_penalty_suits_the_features(rng):
    """What is clear wants little of it; four columns among very many of noise want a lot."""
    y = np.arange(4000) % 4
    clear = 10 * np.eye(4)[y] + rng.normal(size=(4000, 4))
    assert choose_decay(clear, y) == (DECAYS[0], 1.0)
    noisy = np.hstack(
        [2 * np.eye(4)[y] + rng.normal(size=(4000, 4)), rng.normal(size=(4000, 1500))]
    )
    parts = noisy[:2000], y[:2000], noisy[2000:], y[2000:]
    assert choose_decay(*parts[:2]).decay == DECAYS[-1]
    strong, weak = (linear_probe(*parts, decay=DECAYS[i]).accuracy for i in (-1, 0))
    assert linear_probe(*parts).accuracy == strong > weak


def test_a_probe_that_did_not_converge_is_told(rng, monkeypatch):
    X, y = rng.normal(size=(300, 20)), rng.integers(10, size=300)
    assert linear_probe(X, y, X, y, decay=0.01).converged
    monkeypatch.setattr(module, "STEPS", 3)
    assert not linear_probe(X, y, X, y, decay=0.01).converged


@pytest.mark.parametrize("by_class", [False, True])
def test_the_choice_is_made_on_all_classes(rng, by_class):
    """Rows that repeat ten classes in turn, or are sorted by them: a tenth could be all of one."""
    y = np.arange(2000) % 10
    X = np.hstack([3 * np.eye(10)[y] + rng.normal(size=(2000, 10)), rng.normal(size=(2000, 1500))])
    order = np.argsort(y, kind="stable") if by_class else np.arange(2000)
    assert choose_decay(X[order], y[order]).decay > DECAYS[0]


def test_chance_for_labels_without_meaning(rng):
    X, y = rng.normal(size=(2000, 5)), rng.integers(10, size=2000)
    assert linear_probe(X[:1000], y[:1000], X[1000:], y[1000:]).accuracy < 0.2
    assert neighbors(X[:1000], y[:1000], X[1000:], y[1000:]) < 0.2


@pytest.mark.parametrize("judge", [linear_probe, neighbors])
def test_bad_input(judge):
    with pytest.raises(DataError, match="needs training and test rows with a label each"):
        judge([[1.0]], [0, 1], [[1.0]], [0])
    with pytest.raises(DataError, match="with a label each"):
        judge([[1.0]], [0], np.zeros((0, 1)), [])
    with pytest.raises(DataError, match="features to evaluate contain NaN"):
        judge([[np.nan]], [0], [[1.0]], [0])


def test_a_choice_from_bad_input():
    with pytest.raises(DataError, match="needs training and test rows with a label each"):
        choose_decay([[1.0]] * 200, [0, 1])
