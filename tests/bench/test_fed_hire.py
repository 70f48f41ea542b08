"""Fed-HIRE, as far as it is compared."""

import numpy as np
import pytest

from fedjigsaw import Broadcast, Client
from fedjigsaw.bench.fed_hire import FedHIRE, column_weights, compete, granularities, weighted_modes

PLACES = np.array([[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]])


@pytest.fixture
def apart(rng):
    """Three clusters, far apart in the unit square: rows and their clusters."""
    y = np.repeat(np.arange(3), 40)
    return PLACES[y] + rng.normal(scale=0.02, size=(120, 2)), y


def test_clusterlets_are_fewer_than_seeds_and_have_several_rows(apart, rng):
    X, _ = apart
    labels = compete(X, 60, 0.05, rng)
    counts = np.bincount(labels)
    assert 2 <= len(counts) < 60
    assert counts.min() > 1


def test_each_competition_leaves_fewer(apart, rng):
    X, _ = apart
    levels = granularities(X, 0.05, rng)
    numbers = [int(level.max()) + 1 for level in levels]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers)


def test_a_column_that_tells_clusters_apart_weighs_more(rng):
    """Two clusters that differ in the first column alone."""
    X = rng.normal(scale=0.1, size=(80, 2))
    X[40:, 0] += 1
    labels = np.repeat([0, 1], 40)
    weights = column_weights(X, labels, 3)
    assert (weights[:2, 0] > 0.7).all()
    assert weights[:2].sum(axis=1) == pytest.approx([1, 1])
    assert np.isnan(weights[2]).all()  # without rows


def test_weights_of_a_clusterlet_by_hand(rng):
    """The formula, column by column, as the paper states it."""
    X = rng.uniform(size=(30, 3))
    labels = rng.integers(0, 4, 30)
    told = np.zeros((4, 3))
    for j in range(4):
        own, rest = X[labels == j], X[labels != j]
        close = np.exp(-0.5 * (own - own.mean(axis=0)) ** 2).mean(axis=0)
        s, t = own.var(axis=0, ddof=1), rest.var(axis=0, ddof=1)
        gap = (own.mean(axis=0) - rest.mean(axis=0)) ** 2
        overlap = np.sqrt(2 * np.sqrt(s * t) / (s + t)) * np.exp(-gap / (4 * (s + t)))
        told[j] = close * np.sqrt(1 - overlap)
    assert column_weights(X, labels, 4) == pytest.approx(told / told.sum(axis=1, keepdims=True))


def test_rows_of_equal_labels_are_grouped(rng):
    levels = np.array([[0, 0], [0, 0], [1, 0], [5, 3], [5, 3], [6, 3]])
    groups = weighted_modes(levels, 2, rng)
    assert sorted(np.bincount(groups)) in ([3, 3], [2, 4], [1, 5])
    assert groups[0] == groups[1]
    assert groups[3] == groups[4]


def test_some_seed_finds_clear_clusters(apart):
    """It depends on its seed: k-modes starts from random groupings."""
    X, y = apart
    clients = np.arange(120) % 3
    ends = [
        FedHIRE(3, random_state=seed).fit(X, clients=clients).inertia_
        for seed in range(3)
    ]  # fmt: skip
    least = sum(((X[y == j] - X[y == j].mean(axis=0)) ** 2).sum() for j in range(3))
    assert min(ends) < 2 * least


def test_centers_leave_and_nothing_else(apart):
    X, _ = apart
    sent = Client("a", X, FedHIRE(3)).answer(Broadcast(0, 0))
    assert sent.counts is sent.sse is sent.radii is None
    assert not sent.tensors
