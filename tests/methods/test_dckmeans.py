"""DC-k-means: k-means of k-means, without numbers of rows."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw import Broadcast, Client, DCKMeans, Summary


def aggregate(*sets, k=2):
    summaries = [Summary(n_samples=9, centers=c, client=str(i)) for i, c in enumerate(sets)]
    return DCKMeans(k).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0)).centers


def test_by_hand():
    found = aggregate([[0.0], [10.0]], [[12.0], [1.0]], [[2.0]])
    assert sorted(found.ravel()) == [1.0, 11.0]


def test_the_root_is_kmeans_of_the_leaves(grid):
    """The same as scikit-learn's k-means, at every client and over all their centers."""
    data, clients = grid
    found = DCKMeans(15, n_init=20, random_state=0).fit(data.X, clients=clients)
    leaves = [
        KMeans(15, n_init=20, random_state=0).fit(data.X[clients == m]).cluster_centers_
        for m in range(5)
    ]
    root = KMeans(15, n_init=10, random_state=0).fit(np.concatenate(leaves))
    theirs = float(((data.X[:, None] - root.cluster_centers_) ** 2).sum(axis=2).min(axis=1).sum())
    assert found.inertia_ == pytest.approx(theirs, rel=0.05)


def test_a_small_client_counts_as_much_as_a_large_one():
    """Its known weakness: 1 row at 4 moves the mean of 1,000 rows at 0 to 2."""
    large, small = np.zeros((1000, 1)), np.array([[4.0]])
    far = np.array([[100.0]])
    found = DCKMeans(2, random_state=0).fit_clients([np.concatenate([large, far]), small])
    assert sorted(found.cluster_centers_.ravel()) == [2.0, 100.0]


def test_only_centers_leave(grid):
    data, clients = grid
    sent = Client("0", data.X[clients == 0], DCKMeans(15)).answer(Broadcast(0, 0))
    assert sent.counts is sent.sse is sent.radii is None
    assert sent.nbytes == 8 * (15 * 2 + 2)  # and two numbers: of rows, and of merged centers


def test_labels_are_those_of_the_local_clusters_unless_asked_for():
    shards = [[[0.0], [4.9], [5.1]], [[0.0], [10.0]]]
    local = DCKMeans(2, random_state=0).fit_clients(shards)
    nearest = DCKMeans(2, assign="nearest", random_state=0).fit_clients(shards)
    assert (local.assign_, nearest.assign_) == ("local", "nearest")
    assert local.cluster_centers_.tolist() == nearest.cluster_centers_.tolist()
    with_fewer = DCKMeans(2, n_local_clusters=1, random_state=0).fit_clients(shards)
    assert len(set(with_fewer.labels_[:3])) == 1
