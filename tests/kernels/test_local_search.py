import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.local_search import Search

TIGHT = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])


def line(*places):
    """Five points around each place on a line."""
    return np.concatenate([place + TIGHT for place in places])[:, None]


class TestPoorOptima:
    """Poor local optima of Lloyd's iterations."""

    @pytest.mark.parametrize(
        "start",
        [
            [-0.15, 0.1, 15],  # two share the cluster at 0, one lies between those at 10 and 20
            [5, 19.85, 20.1],
            [-0.05, 0.15, 15],
        ],
    )
    def test_one_fit_many_is_split_and_many_fit_one_merged(self, start):
        X = line(0, 10, 20)
        search = Search(X.copy(), np.ones(15), np.random.default_rng(0), 300, 1e-4)
        stuck = search.settle(np.array(start, dtype=float)[:, None] - X.mean())
        again = KMeans(3, init=np.array(start, dtype=float)[:, None], n_init=1).fit(X)
        assert stuck.objective == pytest.approx(
            again.inertia_
        )  # a fixed point of Lloyd's iterations
        assert stuck.objective > 50
        found = search.improve(stuck, 20)
        assert found.objective == pytest.approx(3 * (TIGHT**2).sum())

    def test_gain_of_a_split_and_loss_of_a_center_by_hand(self):
        """Points -1, 1 | 10 | 12: splitting the first gains 2, merging the others costs 2."""
        X = np.array([[-1.0], [1.0], [10.0], [12.0]])
        search = Search(X.copy(), np.ones(4), np.random.default_rng(0), 300, 1e-4)
        moves = search._moves(search.settle(np.array([[0.0], [10.0], [12.0]]) - X.mean()))
        assert moves.gains == pytest.approx([2, 0, 0])
        # without 0, its rows move to 10: (11^2 - 1) + (9^2 - 1); merging 0 and 10 costs 2/3 * 100
        assert moves.losses == pytest.approx([200 / 3, 2, 2])
        assert moves.partners.tolist() == [1, 2, 1]

    def test_the_center_of_an_empty_cluster_is_moved(self):
        X = line(0, 10, 20)
        search = Search(X.copy(), np.ones(15), np.random.default_rng(0), 300, 1e-4)
        state = search.settle(np.array([[0.0], [15.0], [1e6]]) - X.mean())
        assert np.bincount(state.labels, minlength=3).min() == 0
        found = search.improve(state, 20)
        assert found.objective == pytest.approx(3 * (TIGHT**2).sum())


def test_updating_what_has_moved_is_enough(rng):
    """The update after some centers have moved agrees with all distances."""
    X, w = rng.uniform(0, 100, (500, 3)), rng.integers(1, 30, 500).astype(float)
    search = Search(X.copy(), w, rng, 300, 0.0)
    state = search.start(20)
    centers = state.centers + np.where(np.arange(20) % 7 == 3, 4.0, 0.0)[:, None]
    labels, squared = state.labels.copy(), state.squared.copy()
    search._reassign(centers, labels, squared, np.arange(20) % 7 == 3)
    distances = ((search.X[:, None] - centers) ** 2).sum(axis=2)
    assert (labels == distances.argmin(axis=1)).all()
    assert squared == pytest.approx(distances.min(axis=1))
    assert (labels != state.labels).any()


@pytest.mark.skipif(not installed(), reason="needs numba")
def test_compiled_code_settles_as_numpy_does(rng):
    X = rng.uniform(0, 100, (12, 3))[rng.integers(12, size=1000)] + rng.normal(0, 5, (1000, 3))
    w = rng.integers(1, 30, 1000).astype(float)
    start = X[rng.choice(1000, 12, replace=False)]
    given = (np.random.default_rng(0), 300, 1e-4, 12)
    plain, fast = (Search(X.copy(), w, *given, fast=fast) for fast in (False, True))
    before = [search.settle(start - search.middle) for search in (plain, fast)]
    assert before[0].settled
    steps = []
    for search, state in zip((plain, fast), before, strict=True):
        moved = state.centers.copy()
        moved[:3] = start[:3] - search.middle
        steps.append(search.settle(moved, state, 2))
    for expected, found in (before, steps):
        assert found.centers == pytest.approx(expected.centers)
        assert found.labels.tolist() == expected.labels.tolist()
        assert found.squared == pytest.approx(expected.squared, abs=1e-9)
        assert found.objective == pytest.approx(expected.objective)
        assert found.settled == expected.settled
    assert fast.work == plain.work  # which limits the search
