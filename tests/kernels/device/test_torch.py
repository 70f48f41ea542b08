"""k-means on the device, here the CPU: the same answers as the package's own."""

import numpy as np
import pytest
import torch

from doubles import OneByOne
from fedjigsaw import FeCA, Jigsaw, SerialEngine
from fedjigsaw.kernels import gaussians
from fedjigsaw.kernels import torch as device
from fedjigsaw.kernels.backends import HoldingBackend, default_backend, hold
from fedjigsaw.kernels.kmeans import (
    Problem,
    kmeans,
    kmeans_many,
    nearest_centers,
)
from fedjigsaw.kernels.nearest import HostRows
from fedjigsaw.kernels.solver import solve
from fedjigsaw.kernels.torch import DeviceBackend, lloyd, nearest, seed

BACKEND = DeviceBackend(torch.device("cpu"))
QUICK = DeviceBackend(torch.device("cpu"), quick_seeds=True)


@pytest.fixture
def small_too(monkeypatch):
    """Let the device take problems of any size, as FEDJIGSAW_BACKEND=torch does large ones."""
    monkeypatch.setattr(device, "LEAST", 0)
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "torch")


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


@pytest.mark.parametrize("backend", [BACKEND, QUICK])
@pytest.mark.parametrize("k", [10, 100])
def test_as_good_as_the_packages_own(k, backend):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 8)) + 6 * rng.integers(3, size=(2000, 8))
    own = kmeans(X, k, rng=np.random.default_rng(0), n_init=3).inertia
    found = kmeans(X, k, rng=np.random.default_rng(0), n_init=3, backend=backend).inertia
    assert found < (1.02 if backend is BACKEND else 1.05) * own


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
    monkeypatch.setattr(device, "DRAWS", at_once)
    rows = torch.arange(10.0)[:, None]
    for k in (1, 2, 5, 10):
        chosen = seed(rows, k, torch.ones(10), torch.Generator().manual_seed(0)).flatten().tolist()
        assert len(set(chosen)) == k
        assert set(chosen) <= set(range(10))


@pytest.mark.parametrize("growth", [1 / 16, 1.0])
def test_seeds_drawn_together_are_rows_and_different(growth):
    rows = torch.randn(130, 3, generator=torch.Generator().manual_seed(1))
    for k in (1, 2, 40, 130):
        chosen = seed(rows, k, torch.ones(130), torch.Generator().manual_seed(k), growth=growth)
        places = [int((rows == one).all(dim=1).nonzero()[0, 0]) for one in chosen]
        assert len(set(places)) == k


def test_seeds_spread_over_groups_of_rows():
    """Of rows in 20 groups far apart, greedy seeds take one of each; uniform draws would not."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 30)
    rows = torch.from_numpy(100.0 * np.eye(20)[groups] + rng.normal(size=(600, 20))).float()
    for start in range(5):
        chosen = seed(rows, 20, torch.ones(600), torch.Generator().manual_seed(start))
        assert len(set(chosen.argmax(dim=1).tolist())) == 20


def local_clusters(rng):
    """40 Gaussians, some of them points, two on the very border; and five centers to start from."""
    centers = rng.normal(size=(40, 3)) + 1e3
    start = centers[:5].copy()
    centers[5:7] = (start[0] + start[1]) / 2
    sse = rng.uniform(size=40) * (np.arange(40) % 4 > 0)
    return centers, rng.integers(1, 9, 40).astype(float), sse, start


@pytest.mark.parametrize("n_steps", [1, 4, 100])
def test_gaussians_end_where_the_packages_own_do(rng, monkeypatch, n_steps):
    monkeypatch.setattr(device, "LEAST", 0)
    given = local_clusters(rng)
    own = gaussians.lloyd(*given, max_iter=n_steps)
    for block in (2**26, 35):  # all at once, or seven at a time
        monkeypatch.setattr(device, "BLOCK", block)
        found = gaussians.lloyd(*given, max_iter=n_steps, backend=BACKEND)
        np.testing.assert_allclose(found, own, rtol=0, atol=1e-9)


def test_lloyd_in_blocks_is_the_same(rng, monkeypatch):
    X = rng.normal(size=(60, 2)) + 20 * rng.integers(3, size=(60, 1))
    whole = find_labels(X, 3)
    monkeypatch.setattr(device, "BLOCK", 21)
    np.testing.assert_array_equal(find_labels(X, 3), whole)


def test_sets_of_centers_side_by_side_end_where_each_would_alone(monkeypatch):
    """One has settled at once, one moves for long, and one has a center without rows."""
    rows = torch.arange(0.0, 128)[:, None]
    starts = torch.tensor([[31.5, 95.5], [0.0, 1.0], [50.0, 9e9]])[:, :, None]
    assert seen_steps(monkeypatch, rows, starts[:1]) < seen_steps(monkeypatch, rows, starts[1:2])
    weights, stop = torch.ones(len(rows)), torch.tensor(0.0)
    together = lloyd(rows, starts, weights, 50, stop)
    ends = together[0].sort(dim=1).values.flatten(1)
    torch.testing.assert_close(ends, torch.tensor([[31.5, 95.5]] * 3), rtol=0, atol=1)
    for one in range(3):
        alone = lloyd(rows, starts[one : one + 1], weights, 50, stop)
        for mine, theirs in zip(together, alone, strict=True):
            assert mine[one].tolist() == theirs[0].tolist()


def seen_steps(monkeypatch, rows, starts):
    """Count the iterations until all sets have settled."""
    step, seen = device._step, []
    with monkeypatch.context() as patched:
        patched.setattr(device, "_step", lambda *given: seen.append(1) or step(*given))
        lloyd(rows, starts, torch.ones(len(rows)), 50, torch.tensor(0.0))
    return len(seen)


@pytest.mark.parametrize("n_init", [1, 4])
def test_several_searches_of_the_same_rows(rng, monkeypatch, n_init):
    """Each as if it were alone; rows with other weights, or other numbers of clusters, between."""
    X, w = rng.integers(-9, 9, size=(90, 2)).astype(float), rng.uniform(1, 2, 90)
    kinds = [(4, None), (4, None), (6, None), (4, w), (4, w), (4, None)]

    def problems(places):
        return [Problem(X, kinds[i][0], np.random.default_rng(i), kinds[i][1]) for i in places]

    searches = []
    search = DeviceBackend._search
    monkeypatch.setattr(
        DeviceBackend,
        "_search",
        lambda self, *given, **more: searches.append(len(given[3])) or search(self, *given, **more),
    )
    together = kmeans_many(problems(range(6)), n_init=n_init, backend=BACKEND)
    assert searches[:2] == [2, 1]
    assert sum(searches) == 6
    for i, found in enumerate(together):
        (alone,) = kmeans_many(problems([i]), n_init=n_init, backend=BACKEND)
        assert found.labels.tolist() == alone.labels.tolist()
        np.testing.assert_allclose(found.centers, alone.centers)
        assert found.inertia == pytest.approx(alone.inertia)
    assert together[0].labels.tolist() != together[1].labels.tolist()


def test_fewer_distinct_rows_than_clusters():
    found = kmeans(
        np.repeat([[1.0], [5.0]], 4, axis=0), 7, rng=np.random.default_rng(0), backend=BACKEND
    )
    assert found.centers.tolist() == [[1.0], [5.0]]
    assert found.counts.tolist() == [4.0, 4.0]
    assert found.inertia == 0.0


@pytest.mark.parametrize("block", [2**26, 12])
def test_rows_held_by_the_device_answer_as_those_of_the_host(rng, monkeypatch, block):
    monkeypatch.setattr(device, "BLOCK", block)
    X, w, centers = rng.normal(size=(50, 3)), rng.uniform(1, 9, 50), rng.normal(size=(6, 3))
    held, host = BACKEND.hold(X, w, 10**9), HostRows(X, w, 6)
    for some in (None, np.array([7, 3]), np.array([], dtype=np.int64)):
        np.testing.assert_array_equal(
            held.nearest(centers, some)[0], host.nearest(centers, some)[0]
        )
        np.testing.assert_allclose(held.nearest(centers, some)[1], host.nearest(centers, some)[1])
    for mine, theirs in zip(held.nearest_two(centers), host.nearest_two(centers), strict=True):
        np.testing.assert_allclose(mine, theirs)
    for mine, theirs in zip(held.lloyd(centers), host.lloyd(centers), strict=True):
        np.testing.assert_allclose(mine, theirs)


def test_labels_of_rows_do_not_depend_on_rounding(small_too):
    """Far from the origin, halfway between two centers: the first one, as without a device."""
    centers = np.array([[3.0], [1.0], [7.0]]) + 1e8
    X = np.array([[2.0], [5.0], [6.9]]) + 1e8
    labels, distances = nearest_centers(X, centers)
    assert hold(X, None, 3) is not None
    assert labels.tolist() == [0, 0, 2]
    np.testing.assert_allclose(distances, [1, 2, 0.1], rtol=1e-6)


class TestFromTheEnvironment:
    def test_small_problems_stay_on_the_host(self, monkeypatch):
        auto = default_backend()
        monkeypatch.setenv("FEDJIGSAW_BACKEND", "torch")
        chosen = default_backend()
        assert isinstance(chosen, HoldingBackend)
        assert chosen.name == f"torch+{auto.name}"
        assert chosen.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
        X = np.random.default_rng(0).normal(size=(40, 2))
        assert chosen.hold(X, None, 3) is None
        own, theirs = (
            kmeans(X, 3, rng=np.random.default_rng(0), backend=b) for b in (auto, chosen)
        )
        assert own.labels.tolist() == theirs.labels.tolist()

    def test_large_and_small_problems_in_one_call(self, monkeypatch):
        """Each as if it were alone, in any order."""
        monkeypatch.setenv("FEDJIGSAW_BACKEND", "torch")
        monkeypatch.setattr(device, "LEAST", 2 * 3 * 100)
        rng = np.random.default_rng(0)
        sets = [rng.normal(size=(n, 2)) for n in (30, 200, 40, 150)]

        def problems(order):
            return [Problem(sets[i], 3, np.random.default_rng(i)) for i in order]

        assert [default_backend().suits(*X.shape, 3) for X in sets] == [False, True, False, True]
        together = kmeans_many(problems([3, 0, 1, 2]))
        for i, found in zip([3, 0, 1, 2], together, strict=True):
            (alone,) = kmeans_many(problems([i]))
            assert found.centers.tobytes() == alone.centers.tobytes()
            assert found.labels.tolist() == alone.labels.tolist()

    @pytest.mark.usefixtures("small_too")
    def test_engines_give_the_same_bits(self):
        X = np.random.default_rng(1).normal(size=(300, 4))
        ids = np.arange(300) % 5
        fits = [
            Jigsaw(6, random_state=0).fit(X, clients=ids, engine=engine)
            for engine in (SerialEngine, OneByOne, SerialEngine)
        ]
        for fit in fits[1:]:
            assert fit.cluster_centers_.tobytes() == fits[0].cluster_centers_.tobytes()
            assert fit.labels_.tolist() == fits[0].labels_.tolist()

    @pytest.mark.parametrize("n_rows", [400, 2500])
    def test_the_server_solves_as_well_on_a_device(self, monkeypatch, n_rows):
        """With moves, and by samples where there are many rows."""
        monkeypatch.setattr("fedjigsaw.kernels.solver.SAMPLE", 500)
        monkeypatch.setattr("fedjigsaw.kernels.solver.PER_CENTER", 10)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, 4)) + 8 * rng.integers(2, size=(n_rows, 4))
        weights = rng.uniform(1, 5, n_rows)
        own = solve(X, weights, 16, rng=np.random.default_rng(0))
        monkeypatch.setattr(device, "LEAST", 0)
        monkeypatch.setenv("FEDJIGSAW_BACKEND", "torch")
        asked = []
        hold_rows = DeviceBackend.hold
        monkeypatch.setattr(
            DeviceBackend, "hold", lambda self, *a: asked.append(1) or hold_rows(self, *a)
        )
        found = solve(X, weights, 16, rng=np.random.default_rng(0))
        assert asked
        assert found.inertia == pytest.approx(own.inertia, rel=1e-6)
