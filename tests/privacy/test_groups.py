"""Whatever is asked, answers together tell sums over groups of enough rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedjigsaw import Broadcast, Client, FeCA, Jigsaw, KFed, MatchAveraging, Model, Summary
from fedjigsaw.privacy.guard import Guard, Memory, RememberingGuard, merge_small, refine, settle


@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_no_group_is_ever_smaller_than_the_guards_size(seed, size, n_answers):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(int(rng.integers(size, 80)), 2))
    groups = np.zeros(len(rows), dtype=np.int64)
    for _ in range(n_answers):
        k = int(rng.integers(1, 7))
        labels = rng.integers(-1, k, size=len(rows))
        groups = refine(groups, settle(labels, groups, size, rows, rng.normal(size=(k, 2))))
        assert np.unique(groups, return_counts=True)[1].min() >= size


def test_something_leaves_even_if_all_rows_were_left_out():
    """Cells that only describe rows may be left out, but a site that answers sends a center."""
    rows = np.arange(12.0)[:, None]
    labels = np.array([-1] * 8 + [0] * 4)
    summary = Summary(12, [[9.5]], counts=[4], sse=[5.0], client="bern", tensors={"labels": labels})
    memory = Memory(np.zeros(12, dtype=np.int64))
    settled, _ = RememberingGuard(5, memory=memory).settle(summary, rows)
    assert settled.counts.tolist() == [12]
    assert settled.centers.tolist() == [[5.5]]
    assert settled.tensors["left_out"].tolist() == [12]


def test_a_large_part_of_a_group_may_leave_it():
    rows = np.arange(10.0)[:, None]
    labels = np.array([0] * 4 + [1] * 6)
    zeros = np.zeros(10, dtype=np.int64)
    assert settle(labels, zeros, 4, rows, np.array([[1.5], [6.5]])).tolist() == labels.tolist()


def test_a_small_part_goes_to_the_nearest_cluster_of_its_group():
    rows = np.array([[0.0]] * 3 + [[10.0]] * 3 + [[8.0]] + [[99.0]] * 3)
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    groups = np.array([0] * 7 + [1] * 3)
    centers = np.array([[0.0], [10.0], [80.0]])
    assert settle(labels, groups, 3, rows, centers).tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]


def test_rows_in_no_cluster_count_as_a_cluster():
    rows, zeros = np.arange(8.0)[:, None], np.zeros(8, dtype=np.int64)
    few = np.array([-1] * 2 + [0] * 6)
    assert settle(few, zeros, 3, rows, np.array([[5.0]])).tolist() == [0] * 8
    many = np.array([-1] * 6 + [0] * 2)
    assert settle(many, zeros, 3, rows, np.array([[5.0]])).tolist() == [-1] * 8


@pytest.mark.parametrize(
    ("labels", "settled"),
    [
        ([0, 0, 0, 1, 1, 2], [0, 0, 0, -1, -1, -1]),
        ([0, 0, 0, 0, 1, 2], [-1] * 6),  # two rows are too few to be left out alone
        ([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]),
        ([0, 0, 0, -1, -1, 1], [0, 0, 0, -1, -1, -1]),
        ([0, 1, 2, 3, 4, 5], [-1] * 6),
    ],
)
def test_small_parts_of_rows_that_were_left_out_are_left_out_again(labels, settled):
    """They may be anywhere: no cluster is theirs because others of them are in it."""
    rows, centers = np.arange(6.0)[:, None], np.zeros((6, 1))
    found = settle(np.array(labels), np.full(6, -1), 3, rows, centers)
    assert found.tolist() == settled


def test_few_rows_that_the_first_answer_leaves_out_distort_no_cluster():
    rows = np.append(np.arange(30.0), [900.0, -900.0])[:, None]
    labels = np.repeat([0, 1, 2, -1], [10, 8, 12, 2])
    centers = [[4.5], [13.5], [23.5]]
    tensors = {"labels": labels, "left_out": np.array([2])}
    summary = Summary(
        32, centers, counts=[10, 8, 12], sse=[82.5, 42.0, 143.0], client="bern", tensors=tensors
    )
    memory = Memory()
    settled, _ = RememberingGuard(5, memory=memory).settle(summary, rows)
    assert settled.centers.tolist() == [[4.5], [23.5]]  # the smallest one is left out, too
    assert np.unique(memory.groups, return_counts=True)[1].tolist() == [10, 10, 12]


def test_rows_that_were_left_out_once_may_be_a_cluster_later():
    rows, centers = np.arange(8.0)[:, None], np.zeros((2, 1))
    groups = refine(np.zeros(8, dtype=np.int64), np.array([-1] * 6 + [0] * 2))
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    assert settle(labels, groups, 3, rows, centers).tolist()[:6] == [0, 0, 0, 1, 1, 1]
    assert (refine(groups, labels) >= 0).all()


@pytest.mark.parametrize("method", [Jigsaw(9), FeCA(9), KFed(9), MatchAveraging(9)])
@pytest.mark.parametrize("size", [1, 5, 30])
def test_labels_are_those_that_the_centers_are_means_of(method, size):
    """What a guard remembers is exact, merged clusters included."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(120, 2)), rng.uniform(-9, 9, size=(30, 2))])
    found = merge_small(method.summarize(X, Broadcast(0, 0, client="a"), rng), size)
    labels = found.tensors["labels"]
    assert np.bincount(labels[labels >= 0]).tolist() == found.counts.tolist()
    means = [X[labels == j].mean(axis=0) for j in range(len(found.centers))]
    np.testing.assert_allclose(found.centers, means)


@pytest.mark.parametrize("method", [Jigsaw(6), FeCA(6), KFed(6), MatchAveraging(6)])
def test_the_first_answer_is_that_of_a_plain_guard(method):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(100, 2)), 30 + rng.normal(size=(40, 2)), [[99.0, 9.0]]])
    plain = Client("a", X, method, Guard()).answer(Broadcast(0, 0))
    memory = Memory()
    found = Client("a", X, method, RememberingGuard(memory=memory)).answer(Broadcast(0, 0))
    assert found == plain
    assert np.bincount(memory.groups).min() >= 5


@pytest.mark.parametrize("method", [Jigsaw, FeCA, KFed, MatchAveraging])
def test_answers_for_other_numbers_of_clusters_move_rows_in_groups(method):
    """Every cluster that leaves is a union of groups, after any number of answers."""
    X = np.random.default_rng(1).normal(size=(150, 2))
    memory, sent = Memory(), []
    for k in range(2, 12):
        guard = RememberingGuard(counts="exact", memory=memory)
        summary = Client("a", X, method(k), guard).answer(Broadcast(0, 0))
        assert summary.counts.min() >= 5
        sent.append(sorted(summary.counts.tolist()))
    sizes = np.bincount(memory.groups)
    assert sizes.min() >= 5
    assert len(sizes) > 12  # finer than any single answer


def test_a_border_that_moves_over_one_row_moves_no_row():
    X = np.arange(20.0)[:, None]
    memory = Memory()

    def ask(border):
        model = Model([[border - 100.0], [border + 100.0]])
        guard = RememberingGuard(memory=memory)
        return Client("a", X, Jigsaw(2, n_rounds=2), guard).answer(Broadcast(1, 0, model))

    first = ask(9.5)
    assert ask(10.5) == first  # one row
    assert ask(14.5) != first  # five rows
    assert first.counts.tolist() == [10, 10]
