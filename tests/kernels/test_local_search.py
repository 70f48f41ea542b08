import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw.kernels import local_search
from fedjigsaw.kernels.compiled import installed
from fedjigsaw.kernels.local_search import Moves, Search

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

    def test_several_moves_at_once(self):
        """Six clusters; two centers lie between pairs, two clusters have two centers each."""
        X = line(0, 10, 20, 100, 110, 120)
        search = Search(X.copy(), np.ones(30), np.random.default_rng(0), 300, 1e-4)
        start = np.array([[-0.15], [0.1], [15], [99.85], [100.1], [115]]) - X.mean()
        tried = []
        keep = search._try
        search._try = lambda state, moves, pairs: (
            tried.append(len(pairs)) or keep(state, moves, pairs)
        )
        found = search.improve(search.settle(start), 20)
        assert found.objective == pytest.approx(6 * (TIGHT**2).sum())
        assert tried[0] == 2

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


def test_the_best_move_is_tried_even_if_it_promises_no_gain(rng, monkeypatch):
    gains, losses = np.array([1.0, 2.0, 0.0]), np.array([5.0, 4.0, 3.0])
    moves = Moves(gains, np.zeros((3, 2, 1)), losses, np.array([1, 0, 1]))
    search = Search(line(0, 10, 20), np.ones(15), rng, 300, 1e-4)
    tried = []
    monkeypatch.setattr(search, "_moves", lambda state: moves)
    monkeypatch.setattr(search, "_try", lambda state, moves, pairs: tried.append(pairs[0]))
    search._step(search.settle(np.array([[-10.0], [0.0], [10.0]])), 3)
    assert tried[:2] == [(0, 2), (2, 1)]  # by gain less loss: -2, then -4


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


def test_the_work_is_bounded(rng, monkeypatch):
    X, w = rng.uniform(size=(2000, 4)), np.ones(2000)
    monkeypatch.setattr(local_search, "WORK", 1.0)
    search = Search(X.copy(), w, rng, 300, 1e-4)
    state = search.start(50)
    assert search.improve(state, 100) is state


def test_a_center_does_not_split_the_cluster_it_would_be_merged_with(rng):
    """Net gains: (1, 0) 8, already tried; (0, 1) 5, but 1 would be merged with 0; (0, 2) 1."""
    gains, losses = np.array([10.0, 8.0, 0.0]), np.array([0.0, 5.0, 9.0])
    moves = Moves(gains, np.zeros((3, 2, 1)), losses, partners=np.array([2, 0, 1]))
    search = Search(np.arange(3.0)[:, None], np.ones(3), rng, 300, 1e-4)
    assert search._candidates(moves, [(1, 0)], 1) == [(0, 2)]
    free = Moves(gains, moves.parts, losses, partners=np.array([2, 2, 1]))
    assert search._candidates(free, [(1, 0)], 1) == [(0, 1)]


def test_a_sample_has_rows_of_every_cluster():
    """A single row far from all others is at its center: no distance speaks for it."""
    X = np.append(np.zeros(999), 1e6)[:, None] + np.linspace(0, 1, 1000)[:, None]
    search = Search(X, np.ones(1000), np.random.default_rng(0), 300, 1e-4)
    state = search.settle(search.X[[0, -1]])
    assert state.squared[-1] == 0
    rows, w = search._sample(20, state.squared, state.labels)
    assert 999 in rows
    assert w[-1] == pytest.approx(1, rel=0.3)
    assert w.sum() == pytest.approx(1000, rel=0.3)


def test_lengthened_steps_end_lower():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(2000, 6)), np.ones(2000)
    search = Search(X.copy(), w, rng, 300, 1e-6)
    start = search.X[:30]
    plain = search.settle(start)
    quick = search.converge(start)
    assert quick.settled
    assert quick.objective < plain.objective


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
