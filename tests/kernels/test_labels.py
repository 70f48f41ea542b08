"""Nearest centers: the same as all distances tell, whatever the blocks and the threads."""

import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from fedjigsaw.kernels import labels as module
from fedjigsaw.kernels.kmeans import nearest_centers


@pytest.mark.parametrize("k", [1, 2, 255, 256, 257, 300])
def test_ties_go_to_the_first_of_the_nearest(rng, k):
    """On a small grid, most rows have several nearest centers, and distances are exact."""
    X, centers = rng.integers(0, 4, (500, 2)) * 1.0, rng.integers(0, 4, (k, 2)) * 1.0
    labels, distances = nearest_centers(X, centers)
    every = cdist(X, centers)
    assert (labels == every.argmin(axis=1)).all()
    assert (distances == every.min(axis=1)).all()


def test_near_ties_far_from_the_origin_are_decided_by_exact_distances(rng):
    X = 1e6 + rng.normal(size=(2000, 3))
    centers = X[:40] + rng.normal(size=(40, 3)) * 1e-9
    assert (nearest_centers(X, centers)[0] == cdist(X, centers).argmin(axis=1)).all()


def test_labels_are_those_of_scikit_learn(rng):
    X = rng.normal(size=(5000, 6))
    fitted = KMeans(12, n_init=1, random_state=0).fit(X)
    labels, _ = nearest_centers(X, fitted.cluster_centers_)
    assert (labels == fitted.predict(X)).all()


@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 8, 100])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_neither_blocks_nor_threads_change_a_bit(rng, monkeypatch, n_rows, n_threads):
    X, centers = rng.normal(size=(n_rows, 3)), rng.normal(size=(4, 3))
    whole = nearest_centers(X, centers)
    monkeypatch.setattr(module, "block_rows", lambda k, d: 7)
    parts = nearest_centers(X, centers, n_threads=n_threads)
    assert (whole[0] == parts[0]).all()
    assert (whole[1] == parts[1]).all()
