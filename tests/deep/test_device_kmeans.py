"""k-means on the device, here the CPU: the same answers as the package's own."""

import numpy as np
import pytest
import torch

from fedjigsaw import FeCA, Jigsaw
from fedjigsaw.deep import device_kmeans
from fedjigsaw.deep.device_kmeans import DeviceBackend, nearest, seed
from fedjigsaw.kernels.clouds import settle_clouds
from fedjigsaw.kernels.kmeans import kmeans, nearest_centers

BACKEND = DeviceBackend(torch.device("cpu"))


def find_labels(X, k, *, dtype=float, weights=None, n_init=5, init=None):
    return BACKEND.labels(
        np.asarray(X, dtype),
        k,
        weights=weights,
        n_init=n_init,
        max_iter=50,
        tol=1e-4,
        rng=np.random.default_rng(0),
        init=init,
    )


def test_two_pairs():
    labels = find_labels([[0.0], [1.0], [10.0], [11.0]], 2)
    assert labels[0] == labels[1] != labels[2] == labels[3]


@pytest.mark.filterwarnings("error")
def test_read_only_arrays():
    X, w = np.array([[0], [1], [10], [11]]), np.ones(4, dtype=np.int64)
    for array in (X, w):
        array.setflags(write=False)
    labels = find_labels(X, 2, dtype=None, weights=w)
    assert labels[0] == labels[1] != labels[2] == labels[3]


def test_far_from_the_origin():
    labels = find_labels([[1e6], [1e6 + 1], [1e6 + 10], [1e6 + 11]], 2)
    assert labels[0] == labels[1] != labels[2] == labels[3]


def test_weights_count_as_repetitions():
    X = np.array([[0.0], [4.0], [6.0]])
    light, heavy = (find_labels(X, 2, weights=np.array(w)) for w in ([1.0, 1, 1], [1.0, 10, 10]))
    assert light[1] == light[2]  # 0.5 * 4 < 0.5 * 16
    assert heavy[0] == heavy[1]  # 10/11 * 16 < 5 * 4


def test_given_centers_are_where_it_starts():
    X = [[0.0], [1.0], [10.0], [11.0], [20.0]]
    labels = find_labels(X, 2, init=np.array([[0.0], [20.0]]))
    assert labels.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("k", [10, 100])
def test_as_good_as_the_packages_own(k):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 8)) + 6 * rng.integers(3, size=(2000, 8))
    own = kmeans(X, k, rng=np.random.default_rng(0), n_init=3).inertia
    found = kmeans(X, k, rng=np.random.default_rng(0), n_init=3, backend=BACKEND).inertia
    assert found < 1.05 * own


def test_no_cluster_is_left_empty():
    rng = np.random.default_rng(2)
    X = np.concatenate([np.zeros((500, 2)), rng.normal(size=(80, 2)) + 50])
    assert len(np.unique(find_labels(X, 70, n_init=1))) >= 60  # 81 different rows


def test_a_method_clusters_with_its_backend():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + 50 * rng.integers(2, size=(300, 1))
    found = FeCA(2, random_state=0)
    found.backend = BACKEND
    found.fit(X, clients=np.arange(300) % 3)
    own = FeCA(2, random_state=0).fit(X, clients=np.arange(300) % 3)
    np.testing.assert_allclose(found.cluster_centers_, own.cluster_centers_)


def test_nearest_agrees_with_nearest_centers(rng):
    X, centers = rng.normal(size=(50, 4)), rng.normal(size=(7, 4))
    labels, squared = nearest(torch.from_numpy(X).float(), torch.from_numpy(centers).float())
    expected, distances = nearest_centers(X, centers)
    np.testing.assert_array_equal(labels.numpy(), expected)
    np.testing.assert_allclose(squared.numpy(), distances**2, rtol=1e-4)


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_seeds_are_rows_and_different(monkeypatch, at_once):
    monkeypatch.setattr(device_kmeans, "DRAWS", at_once)
    rows = torch.arange(10.0)[:, None]
    for k in (1, 2, 5, 10):
        chosen = seed(rows, k, torch.ones(10), torch.Generator().manual_seed(0)).flatten().tolist()
        assert len(set(chosen)) == k
        assert set(chosen) <= set(range(10))


def test_seeds_spread_over_groups_of_rows():
    """Of rows in 20 groups far apart, greedy seeds take one of each; uniform draws would not."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 30)
    rows = torch.from_numpy(100.0 * np.eye(20)[groups] + rng.normal(size=(600, 20))).float()
    for start in range(5):
        chosen = seed(rows, 20, torch.ones(600), torch.Generator().manual_seed(start))
        assert len(set(chosen.argmax(dim=1).tolist())) == 20


def clouds(rng):
    """40 clouds, some of them points, two on the very border; and five centers to start from."""
    centers = rng.normal(size=(40, 3)) + 1e3
    start = centers[:5].copy()
    centers[5:7] = (start[0] + start[1]) / 2
    sse = rng.uniform(size=40) * (np.arange(40) % 4 > 0)
    return centers, rng.integers(1, 9, 40).astype(float), sse, start


@pytest.mark.parametrize("n_steps", [1, 4, 100])
def test_clouds_settle_where_the_packages_own_do(rng, monkeypatch, n_steps):
    monkeypatch.setattr(device_kmeans, "LOOK_EVERY", 1)
    given = clouds(rng)
    own = settle_clouds(*given, max_iter=n_steps)
    for block in (2**26, 35):  # all at once, or seven clouds at a time
        monkeypatch.setattr(device_kmeans, "_BLOCK", block)
        found = settle_clouds(*given, max_iter=n_steps, backend=BACKEND)
        np.testing.assert_allclose(found, own, rtol=0, atol=1e-9)


def test_lloyd_in_blocks_is_the_same(rng, monkeypatch):
    X = rng.normal(size=(60, 2)) + 20 * rng.integers(3, size=(60, 1))
    whole = find_labels(X, 3)
    monkeypatch.setattr(device_kmeans, "_BLOCK", 21)
    np.testing.assert_array_equal(find_labels(X, 3), whole)


def test_a_server_without_patience_solves_with_its_backend(rng):
    X = rng.normal(size=(600, 8)) + 6 * rng.integers(3, size=(600, 8))
    calls = []

    class Counting(DeviceBackend):
        def labels(self, X, n_clusters, *, weights, **options):
            calls.append(weights is not None)
            return super().labels(X, n_clusters, weights=weights, **options)

    def fit(patience, backend=None, seed=0):
        jigsaw = Jigsaw(40, patience=patience, random_state=seed)
        jigsaw.backend = backend
        return jigsaw.fit(X, clients=np.arange(600) % 3).objective_

    counting = Counting(torch.device("cpu"))
    found = fit(0, counting)
    assert calls == [False] * 3 + [True]  # three clients, and the server's weighted centers
    assert fit(0, counting) == found
    fit(5, counting)
    assert sum(calls) == 2  # only the server's own search leaves local optima
    seeds = range(6)
    theirs = sum(fit(0, counting, seed) for seed in seeds)
    assert theirs < 1.02 * sum(fit(0, seed=seed) for seed in seeds)
