from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedjigsaw import Broadcast, Client, FeCA, Summary
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.methods import CLUSTERERS, build
from fedjigsaw.privacy.guard import Guard, RememberingGuard, merge_small

ALL = ("radii", "counts", "sse", "tensors")


def summary():
    """Clusters {0, 2} twice, {9}, and {20, 22, 24}."""
    return Summary(
        n_samples=8,
        centers=[[1.0], [9.0], [22.0]],
        radii=[1.0, 0.0, 2.0],
        counts=[4, 1, 3],
        sse=[4.0, 0.0, 8.0],
        client="a",
    )


def test_a_small_cluster_goes_into_its_nearest_neighbor():
    merged = merge_small(summary(), 2)
    rows = np.array([0, 2, 0, 2, 9.0])
    assert merged.centers.ravel().tolist() == [rows.mean(), 22.0]
    assert merged.counts.tolist() == [5, 3]
    assert merged.sse == pytest.approx([((rows - rows.mean()) ** 2).sum(), 8.0])
    assert merged.radii.tolist() == [1.0, 2.0]
    assert merged.merged == 1


def test_merging_goes_on_until_all_are_large_enough():
    assert merge_small(summary(), 4).counts.tolist() == [8]
    assert merge_small(summary(), 8).centers.ravel().tolist() == [(4 * 1 + 9 + 66) / 8]


def test_two_centers_without_rows_go_together():
    fuzzy = Summary(n_samples=6, centers=[[0.0], [1.0], [9.0]], counts=[0, 0, 6], client="a")
    merged = merge_small(fuzzy, 5)
    assert (merged.centers.tolist(), merged.counts.tolist()) == ([[9.0]], [6])


@given(st.integers(0, 10**6), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_merging_keeps_rows_mass_and_objective(seed, size):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    before = FeCA(9, refine=False).summarize(X, Broadcast(0, 0), rng)
    after = merge_small(before, size)
    assert after.counts.min() >= size
    assert after.counts.sum() == 40
    assert after.counts @ after.centers == pytest.approx(X.sum(axis=0))
    spread = ((X - X.mean(axis=0)) ** 2).sum()
    between = after.counts @ ((after.centers - X.mean(axis=0)) ** 2).sum(axis=1)
    assert after.sse.sum() + between == pytest.approx(spread)


def test_the_support_of_merged_centers_adds_up():
    """Nothing is told of a center that is too small, not even by how much it is supported."""
    tensors = {"support": np.array([3.0, 0.5, 7.0]), "other": np.arange(3.0)}
    summary = Summary(9, [[0.0], [1.0], [9.0]], counts=[4, 1, 4], tensors=tensors, client="a")
    merged = merge_small(summary, 2)
    assert merged.tensors["support"].tolist() == [3.5, 7.0]
    assert merged.tensors["other"].tolist() == [0, 1, 2]


def test_too_few_rows_for_anything_to_leave():
    with pytest.raises(DataError, match="Client 'a' has 8 rows, fewer than min_cluster_size = 9"):
        merge_small(summary(), 9)


def test_counts_of_more_rows_than_there_are_do_not_leave():
    boasting = replace(summary(), counts=[4, 2, 3])
    with pytest.raises(DataError, match="Client 'b' has 8 rows, but the counts .* sum to 9, so"):
        Client("b", np.zeros((8, 1)), FeCA(3), Guard(2)).leaving(boasting)
    fewer = replace(summary(), counts=[4, 1, 2])  # rows may be left out
    assert Client("b", np.zeros((8, 1)), FeCA(3), Guard(2)).leaving(fewer).client == "b"


def test_without_counts_a_guard_cannot_work():
    with pytest.raises(DataError, match="needs cluster sizes"):
        merge_small(replace(summary(), counts=None), 5)


@pytest.mark.parametrize(
    ("counts", "needed", "sent"),
    [
        ("exact", (), [4, 1, 3]),
        ("none", ALL, None),
        (None, ALL, [4, 1, 3]),
        (None, ("radii",), None),
    ],
)
def test_counts(counts, needed, sent):
    found = Guard(1, counts).apply(summary(), client="a", needed=needed).counts
    assert (found is None and sent is None) or found.tolist() == sent


def test_rounded_counts_are_multiples_of_the_guards_size():
    large = replace(summary(), counts=[4, 11, 23], n_samples=38)
    assert Guard(4, "rounded").apply(large, client="a", needed=ALL).counts.tolist() == [4, 12, 24]


def test_what_is_not_needed_does_not_leave():
    sent = Guard(1).apply(replace(summary(), tensors={"w": [1.0]}), client="a", needed=())
    assert sent.radii is sent.counts is sent.sse is None
    assert not sent.tensors


@pytest.mark.parametrize("guard", [Guard(1), Guard(), RememberingGuard()])
@pytest.mark.parametrize(
    "method", [name for name, entry in CLUSTERERS.items() if not entry.cls.pools_data]
)
def test_the_label_of_a_row_never_leaves(method, guard):
    X = np.random.default_rng(0).normal(size=(61, 2))
    sent = Client("a", X, build(method, {"n_clusters": 4}), guard).answer(Broadcast(0, 0))
    arrays = {name: t for name, t in vars(sent).items() if isinstance(t, np.ndarray)}
    assert "centers" in arrays
    assert not [name for name, t in {**arrays, **sent.tensors}.items() if len(X) in t.shape]


class TestNoRowLeaves:
    """The promise of the default guard, and that it is not kept without one.

    It is a promise about rows that stand for themselves: a value that five rows or more share may
    well be a center, and a mean of many rows may happen to equal one of them.
    """

    X = np.concatenate([np.random.default_rng(0).normal(size=(60, 2)), [[50.0, 50.0]]])

    def rows_sent(self, guard):
        sent = Client("a", self.X, FeCA(8), guard).answer(Broadcast(0, 0)).centers
        return {tuple(row) for row in self.X} & {tuple(center) for center in sent}

    def test_with_the_default_guard(self):
        assert not self.rows_sent(Guard())

    def test_what_five_rows_share_may_leave(self):
        X = np.concatenate([self.X[:-1], np.full((7, 2), 90.0)])
        sent = Client("a", X, FeCA(8), Guard()).answer(Broadcast(0, 0)).centers
        assert [90.0, 90.0] in sent.tolist()

    def test_without(self):
        assert (50.0, 50.0) in self.rows_sent(Guard(1))


@pytest.mark.parametrize(
    "bad",
    [{"min_cluster_size": 0}, {"counts": "some"}, {"min_cluster_size": 1, "counts": "rounded"}],
)
def test_bad_input(bad):
    with pytest.raises(ParameterError, match="of a guard"):
        Guard(**bad)


class TestWithoutCenters:
    """A summary of tensors alone, such as weights of a network, is about all rows of a client."""

    def summary(self, n_samples):
        return Summary(n_samples, np.empty((0, 2)), tensors={"weights": np.ones(3)})

    def test_it_passes_if_it_is_about_enough_rows(self):
        leaves = Guard(5).apply(self.summary(5), client="a", needed=("tensors",))
        assert leaves.tensors["weights"].tolist() == [1.0, 1.0, 1.0]

    def test_it_stays_if_it_is_about_fewer(self):
        with pytest.raises(DataError, match="has 4 rows, fewer than min_cluster_size = 5"):
            Guard(5).apply(self.summary(4), client="a", needed=("tensors",))
