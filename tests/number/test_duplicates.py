"""Rows that repeat, by copies or by weights, are not clusters."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from fedjigsaw import Jigsaw
from fedjigsaw.errors import UncertainNumberWarning
from fedjigsaw.messages import Broadcast
from fedjigsaw.number.cells import n_cells

BLOBS = make_blobs(300, centers=4, n_features=3, random_state=1)[0]
SITES = np.arange(300) % 3


def n_found(X, clients, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncertainNumberWarning)
        fitted = Jigsaw("auto", random_state=0).fit(X, clients=clients, sample_weight=weights)
    return len(fitted.cluster_centers_)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 30])
def test_copies_and_equal_weights_change_no_number(times):
    assert n_found(BLOBS, SITES) == 4
    assert n_found(BLOBS, SITES, np.full(300, times)) == 4
    assert n_found(BLOBS.repeat(times, axis=0), SITES.repeat(times)) == 4
    assert n_found(np.tile(BLOBS, (times, 1)), np.tile(SITES, times)) == 4


@pytest.mark.filterwarnings("ignore::fedjigsaw.UncertainNumberWarning")  # it may be in doubt
def test_large_weights_change_no_number():
    weights = np.random.default_rng(2).integers(1, 200, 300)
    fitted = Jigsaw("auto", random_state=0).fit(BLOBS, clients=SITES, sample_weight=weights)
    assert fitted.n_clusters_ == 4


def test_copies_of_rows_without_structure_are_one_cluster():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    assert n_found(rows.repeat(20, axis=0), SITES.repeat(20)) == 1


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
