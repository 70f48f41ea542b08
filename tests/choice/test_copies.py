"""Rows that repeat, by copies or by weights, are not clusters."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from fedjigsaw import Jigsaw
from fedjigsaw.choice.copies import without_copies
from fedjigsaw.choice.sizes import n_cells
from fedjigsaw.errors import UncertainNumberWarning
from fedjigsaw.kernels.kmeans import Problem
from fedjigsaw.messages import Broadcast

BLOBS = make_blobs(300, centers=4, n_features=3, random_state=1)[0]
SITES = np.arange(300) % 3
RNG = np.random.default_rng(0)


def n_found(X, clients, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncertainNumberWarning)
        fitted = Jigsaw("auto", random_state=0).fit(X, clients=clients, sample_weight=weights)
    return len(fitted.cluster_centers_)


@pytest.mark.parametrize("times", [2, 5, 100])
def test_copies_and_equal_weights_change_no_number(times):
    assert n_found(BLOBS, SITES) == 4
    assert n_found(BLOBS, SITES, np.full(300, times)) == 4
    assert n_found(BLOBS.repeat(times, axis=0), SITES.repeat(times)) == 4
    assert n_found(np.tile(BLOBS, (times, 1)), np.tile(SITES, times)) == 4


def test_large_weights_change_no_number():
    assert n_found(BLOBS, SITES, np.random.default_rng(0).integers(1, 200, 300)) == 4


def test_copies_of_rows_without_structure_are_one_cluster():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    assert n_found(rows.repeat(20, axis=0), SITES.repeat(20)) == 1


def n_looked_for(X, weights=None):
    n = X.shape[0] if weights is None else int(weights.sum())
    return without_copies(Problem(X, n_cells(n), RNG, weights)).n_clusters


def test_columns_of_steps_repeat_without_being_copies():
    rng = np.random.default_rng(0)
    ages = rng.integers(20, 90, (5000, 1)).astype(float)
    assert n_looked_for(ages) == n_cells(5000)
    assert n_looked_for(np.hstack([ages, 1.8 * ages + 32])) == n_cells(5000)
    irregular = rng.normal(size=(70, 1))[rng.integers(0, 70, 5000)]
    assert n_looked_for(irregular) == n_cells(70)


def test_few_values_and_some_repeated_rows_are_left_alone():
    rng = np.random.default_rng(0)
    dilutions = np.array([1.0, 2, 5, 10, 20, 50])[rng.integers(0, 6, (2000, 1))]
    assert n_looked_for(dilutions) == n_cells(2000)
    half = rng.normal(size=(400, 2))
    half[:199] = 0.0
    assert n_looked_for(half) == n_cells(400)
    half[:202] = 0.0
    assert n_looked_for(half) == n_cells(199)
    many = rng.normal(size=(1500, 2)).repeat(30, axis=0)
    assert n_looked_for(many) == n_cells(45_000)


def test_weights_of_sparse_rows_are_seen():
    rows = sparse.csr_array(RNG.normal(size=(60, 2)))
    assert n_looked_for(rows) == n_cells(60)
    assert n_looked_for(rows, np.full(60, 50.0)) == n_cells(60)


def test_a_number_of_cells_that_is_given_is_kept():
    rows = BLOBS[:100].repeat(5, axis=0)
    for params, n in (({}, n_cells(100)), ({"n_local_clusters": 70}, 70)):
        method = Jigsaw("auto", **params)
        summary = method.summarize(rows, Broadcast(round=0, seed=0), np.random.default_rng(0))
        assert len(summary.centers) == n


def test_clusters_that_are_single_rows_are_in_doubt():
    rows = np.random.default_rng(0).normal(size=(15, 2)).repeat(100, axis=0)
    with pytest.warns(UncertainNumberWarning, match="a single row that repeats"):
        fitted = Jigsaw("auto", random_state=0).fit(rows)
    assert len(fitted.cluster_centers_) == 15
    assert fitted.k_confidence_ < 0.5
