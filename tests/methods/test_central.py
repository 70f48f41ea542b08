import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw import CentralKMeans
from fedjigsaw.kernels.kmeans import kmeans
from fedjigsaw.methods import central


def test_ignores_who_holds_which_row(grid):
    data, ids = grid
    split = CentralKMeans(15, random_state=0).fit(data.X, clients=ids)
    whole = CentralKMeans(15, random_state=0).fit(data.X)
    assert split.model_ == whole.model_
    assert split.transcript_.clients == ("pooled",)


def test_parameters_reach_the_search(monkeypatch):
    seen = {}

    def spy(X, n_clusters, **options):
        seen.update(options, n_clusters=n_clusters)
        return kmeans(X, n_clusters, **options)

    monkeypatch.setattr(central, "kmeans", spy)
    CentralKMeans(2, n_init=3, max_iter=7, tol=0.5).fit([[0.0], [1.0], [9.0]])
    del seen["rng"], seen["backend"]
    assert seen == {"n_clusters": 2, "n_init": 3, "max_iter": 7, "tol": 0.5}


def test_min_clients_means_nothing_here(grid):
    data, ids = grid
    assert CentralKMeans(3).fit(data.X, clients=ids, min_clients=4).n_clusters_ == 3


def test_is_as_good_as_scikit_learn(grid):
    data, _ = grid
    ours = CentralKMeans(15, n_init=20, random_state=0).fit(data.X)
    theirs = KMeans(15, n_init=20, random_state=0).fit(data.X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert np.bincount(ours.labels_).sum() == len(data.X)
