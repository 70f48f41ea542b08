"""Numbers leave rounded to their sampling error: what that costs, and what it hides."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fedjigsaw import Broadcast, Client, FeCA, Jigsaw, Summary
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.privacy.rounding import (
    columns_of,
    grid_errors,
    power_of_two,
    round_summary,
    rounded_moments,
    to_bits,
)
from fedjigsaw.validation import MAX_COUNT

GUARD = Guard()


def of(*clusters, **more):
    """The exact summary of clusters of rows."""
    centers = [rows.mean(axis=0) for rows in clusters]
    sse = [((rows - c) ** 2).sum() for rows, c in zip(clusters, centers, strict=True)]
    counts = [len(rows) for rows in clusters]
    return Summary(sum(counts), centers, counts=counts, sse=sse, **more)


def rounded(summary):
    return round_summary(summary, summary.counts)


def told(exact, rows=None, guard=GUARD):
    """What leaves of an exact summary."""
    return guard.apply(exact, client="a", needed=("counts", "sse"), rows=rows)


samples = st.tuples(
    st.integers(0, 10**6),
    st.integers(5, 300),
    st.integers(1, 6),
    st.floats(-60, 60),
    st.floats(-60, 60),
)


def draw(seed, n, d, scale, offset):
    rng = np.random.default_rng(seed)
    return 10.0**offset * rng.normal(size=d) + 10.0**scale * rng.normal(size=(n, d))


@pytest.mark.slow
@given(samples)
@settings(max_examples=200, deadline=None)
def test_the_error_is_at_most_the_sampling_error(sample):
    exact = of(draw(*sample))
    found = rounded(exact)
    n, d = exact.n_samples, exact.centers.shape[1]
    spread = np.sqrt(exact.sse[0] / n / d)
    moved = np.abs(found.centers - exact.centers)
    digits = 4 * np.finfo(float).eps * np.abs(exact.centers)
    assert (moved <= 0.55 * spread / np.sqrt(n) + digits).all()
    # the objective: n |c - c'|^2, a small part of what one row adds on average
    assert n * (moved**2).sum() <= 0.31 * exact.sse[0] / n + n * (digits**2).sum()
    assert abs(found.sse[0] - exact.sse[0]) <= max(0.2, 1 / np.sqrt(n)) * exact.sse[0]


@given(samples)
@settings(max_examples=100, deadline=None)
def test_rounding_twice_is_rounding_once(sample):
    once = rounded(of(draw(*sample)))
    assert rounded(once) == once


@given(st.integers(0, 10**6), st.sampled_from([None, "exact", "rounded"]))
@settings(max_examples=30, deadline=None)
def test_a_guarded_summary_passes_its_guard_unchanged(seed, counts):
    guard = Guard(5, counts)
    X = np.random.default_rng(seed).normal(size=(60, 2))
    once = Client("a", X, Jigsaw(6), guard).answer(Broadcast(0, 0))
    again = told(once, guard=guard)
    assert replace(again, merged=once.merged) == once


@pytest.mark.parametrize("scale", [1e-90, 1e-9, 1.0, 1e9, 1e49])
def test_the_same_digits_at_every_scale(scale):
    X = np.random.default_rng(0).normal(size=(50, 3))
    factor = 2.0 ** round(np.log2(scale))
    assert rounded(of(X * factor)).centers.tolist() == (rounded(of(X)).centers * factor).tolist()


class TestEqualRows:
    """Without a spread of their own, clusters get the typical one of the site."""

    spread = np.random.default_rng(0).normal(size=(40, 2))

    def test_they_are_rounded_as_others_are(self):
        steps = power_of_two(grid_errors(*parts(of(np.full((40, 2), 90.1), self.spread))))
        assert steps[0].tolist() == steps[1].tolist()
        assert (steps > 0).all()
        found = rounded(of(np.full((40, 2), 90.1), self.spread)).centers[0]
        assert found.tolist() != [90.1, 90.1]
        assert found == pytest.approx([90.1, 90.1], abs=0.1)

    def test_if_all_rows_are_equal_there_is_nothing_to_go_by(self):
        exact = of(np.full((7, 2), 90.1), np.full((9, 2), 3.3))
        assert rounded(exact).centers.tolist() == exact.centers.tolist()

    @pytest.mark.parametrize("large", [20240101000000.0, 1e30])
    def test_a_large_constant_column_does_not_make_rows_equal(self, large):
        exact = of(*(np.c_[np.full(40, large), rows] for rows in (self.spread, self.spread + 9)))
        exact = replace(exact, sse=of(self.spread, self.spread + 9).sse)
        assert (rounded(exact).centers[:, 1:] != exact.centers[:, 1:]).all()


def parts(summary):
    return summary.centers, summary.counts, summary.sse


def test_a_method_without_sums_is_rounded_by_the_spread_of_its_centers():
    summary = Summary(60, [[0.0], [10.01], [20.0]], counts=[20, 20, 20])
    assert rounded(summary).centers.ravel().tolist() == [0.0, 10.0, 20.0]
    alone = Summary(20, [[1.23]], counts=[20])
    assert rounded(alone) == alone


class TestColumns:
    """Columns of other units: each has steps of its own."""

    def clients(self, seed, n=400):
        """Income, age and dose, unscaled; only income decides who is in which cluster."""
        rng = np.random.default_rng(seed)
        X = np.c_[rng.normal(60_000, 15_000, n), rng.normal(50, 10, n), rng.normal(3, 1, n)]
        return np.array_split(X[X[:, 0].argsort()], 4)

    def test_small_ones_keep_their_digits(self):
        for seed in range(20):
            exact = of(*self.clients(seed))
            found = rounded(exact).centers
            assert found[:, 1] == pytest.approx(exact.centers[:, 1], abs=1)
            assert found[:, 2] == pytest.approx(exact.centers[:, 2], abs=0.1)

    def test_no_column_of_an_added_row_is_found(self):
        """Within a tenth of a deviation; guessing the mean finds 8 %."""
        hits = np.zeros(3)
        for seed in range(200):
            *others, last = self.clients(seed)
            before = rounded(of(*others, last[1:])).centers[3]
            row = len(last) * rounded(of(*others, last)).centers[3] - (len(last) - 1) * before
            hits += np.abs(row - last[0]) < [0.1 * 15_000, 1, 0.1]
        assert (hits / 200 <= 0.15).all()

    @pytest.mark.parametrize("k", [1, 2])
    def test_centers_that_agree_in_a_small_column_keep_its_digits(self, k):
        """Ages beside account numbers: they were rounded to 0, where the centers agreed."""
        rng = np.random.default_rng(1)
        X = np.c_[rng.normal(1e7, 1e6, 300), rng.normal(50, 12, 300)]
        X[:150, 0] += 1e8
        parts = np.array_split(X, k)
        sent = told(of(*parts), X)
        assert np.abs(sent.centers[:, 1] - 50).max() < 3

    def finest(self, rows, tell):
        """The sum of the second column, by the clustering whose centers agree most in it."""
        found = []
        for cut in np.quantile(rows[:, 0], np.linspace(0.1, 0.9, 11)):
            centers, sizes = tell(rows, (rows[:, 0] > cut).astype(np.int64))
            found.append((np.ptp(centers[:, 1]) or np.inf, sizes @ centers[:, 1]))
        return min(found)[1]

    def guarded(self, rows, labels):
        exact = of(rows[labels == 0], rows[labels == 1])
        sent = told(exact, rows)
        return sent.centers, sent.counts

    def unscaled(self, rows, labels):
        """What leaves where the server chose the scaler, and with it the clusters."""
        sent = rounded_moments(rows, labels, 2)
        return sent.means, sent.counts

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("tell", "large"), [("guarded", 1), ("guarded", 1000), ("unscaled", 1)]
    )
    def test_centers_that_agree_by_chance_do_not_tell_an_added_row(self, tell, large):
        """An attacker asks for many clusterings; a guess at the mean finds 8 %."""
        hits = 0
        for seed in range(60):
            rows = np.random.default_rng(seed).normal(size=(61, 2)) * [large, 1]
            after, before = (self.finest(some, getattr(self, tell)) for some in (rows, rows[:-1]))
            hits += abs(after - before - rows[-1, 1]) < 0.1
        assert hits / 60 <= 0.12


class TestShares:
    """A column of zeros and ones: centers of clusters in which all rows agree."""

    @given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0.1, 3))
    @settings(max_examples=100, deadline=None)
    def test_no_center_is_beyond_the_rows(self, seed, offset, scale):
        rng = np.random.default_rng(seed)
        X = np.c_[rng.normal(size=90), (np.arange(90) % 3 > 0) / scale - offset]
        once = told(of(X[::3], X[1::3], X[2::3]), X)
        assert (once.centers >= X.min(axis=0)).all()
        assert (once.centers <= X.max(axis=0)).all()
        again = told(once, X)
        assert again == once

    def clusters(self, n_rare, common=0.0, n=60):
        """A number that differs by cluster, and a column in which only few rows differ."""
        X = np.c_[np.arange(3 * n) // n * 9 + np.linspace(-1, 1, 3 * n), np.full(3 * n, common)]
        X[: 2 * n_rare : 2, 1] += 1
        return X, np.arange(3 * n) // n

    @pytest.mark.parametrize("n_rare", [1, 4])
    def test_no_center_tells_of_a_category_that_few_rows_have(self, n_rare):
        """One patient of 60 has it: a share of 1/60 in one center would say so."""
        X, labels = self.clusters(n_rare)
        exact = of(*(X[labels == i] for i in range(3)))
        for form in (np.asarray, csr_array):
            sent = told(exact, form(X))
            assert (sent.centers[:, 1] == 0).all()
        sent = rounded_moments(X, labels, 3, 5)
        assert (sent.means[:, 1] == 0).all()
        assert (sent.squares[:, 1] == 0).all()

    def test_one_that_enough_rows_have_is_told(self):
        X, labels = self.clusters(5)
        exact = of(*(X[labels == i] for i in range(3)))
        sent = told(exact, X)
        assert sent.centers[0, 1] > 0
        assert rounded_moments(X, labels, 3, 5).means[0, 1] > 0

    def test_nor_where_the_others_lack_the_value(self):
        """A column that is filled in for all rows but one is the value that fills it in."""
        X, labels = self.clusters(1, common=50.0)
        exact = of(*(X[labels == i] for i in range(3)))
        sent = told(exact, X)
        assert len(np.unique(sent.centers[:, 1])) == 1
        X[0, 1] = 99
        exact = of(*(X[labels == i] for i in range(3)))
        again = told(exact, X)
        assert (again.centers[:, 1] == sent.centers[:, 1]).all()

    @pytest.mark.parametrize("n_rows", [1, 5, 8, 9, 30])
    def test_a_few_rows_are_few_beside_enough_others_only(self, n_rows):
        rows = np.zeros((n_rows, 5))
        for j in range(5):
            rows[n_rows - j :, j] = 7  # none, one, ..., four rows differ
        common = columns_of(rows, 5).common
        few = [j for j in range(1, 5) if n_rows - j >= 5]
        assert np.flatnonzero(common == 0).tolist() == few
        assert np.isnan(np.delete(common, few)).all()


class TestScaledRows:
    """Scaled rows are rounded in their units before: there, 0 and 1 are on every grid."""

    def answer(self, X, scaler, clusters):
        """The centers that leave of clusters (lists of rows), in the units before."""
        rows, guard = scaler.scale(X), Guard(scaled_by=scaler)
        exact = of(*(rows[i] for i in clusters))
        found = told(exact, rows, guard=guard)
        return scaler.unscale(found.centers)

    def draw(self, seed, n=90):
        """A number, and the share of something that some sites have and this one may have."""
        rng = np.random.default_rng(seed)
        mean = np.array([rng.normal() * 10.0 ** rng.integers(-3, 4), rng.uniform(0, 0.3)])
        scaler = Scaler(("x", "x: (missing)"), mean, np.array([10.0 ** rng.integers(-3, 4), 1.0]))
        rows = scaler.unscale(rng.normal(size=(n, 2)) + 3 * (np.arange(n) % 3)[:, None])
        rows[:, 1] = 0.0
        return rows, scaler, [np.arange(n)[i::3] for i in range(3)]

    @pytest.mark.parametrize("seed", range(50))
    def test_what_no_row_has_is_told_of_none(self, seed):
        rows, scaler, clusters = self.draw(seed)
        centers = self.answer(rows, scaler, clusters)
        assert centers[:, 1] == pytest.approx(0, abs=1e-15)
        # nor is what every row has told of fewer
        rows[:, 1] = 1.0
        assert self.answer(rows, scaler, clusters)[:, 1] == pytest.approx(1, abs=1e-15)

    @given(st.integers(0, 10**6), st.floats(0, 1), st.sampled_from([0.2, 1.0, 5.0]))
    @settings(max_examples=100, deadline=None)
    def test_shares_stay_between_0_and_1(self, seed, share, weight):
        rows, scaler, clusters = self.draw(seed)
        scaler = replace(scaler, deviation=np.array([scaler.deviation[0], 1 / weight]))
        rows[:, 1] = np.random.default_rng(seed).random(len(rows)) < share
        centers = self.answer(rows, scaler, clusters)
        if np.ptp(rows[:, 1]):  # else a step may be too wide for any to be inside
            assert (centers[:, 1] >= -1e-12).all()
            assert (centers[:, 1] <= 1 + 1e-12).all()

    @pytest.mark.slow
    @given(st.integers(0, 10**6), st.floats(-20, 40))
    @settings(max_examples=200, deadline=None)
    def test_the_error_is_at_most_the_sampling_error(self, seed, offset):
        """Also where the mean is so far away that its digits are wider than the steps."""
        _, scaler, _ = self.draw(seed)
        scaler = replace(scaler, mean=scaler.mean * 10.0**offset)
        exact = of(np.random.default_rng(seed).normal(size=(90, 2)))
        found = round_summary(exact, exact.counts, None, scaler)
        spread = np.sqrt(exact.sse[0] / 90 / 2)
        assert (np.abs(found.centers - exact.centers) <= 0.55 * spread / np.sqrt(90)).all()
        assert (found.centers != exact.centers).all()
        assert round_summary(found, found.counts, None, scaler) == found

    @pytest.mark.slow
    def test_an_added_row_is_not_found(self):
        scaler = Scaler(("x", "y"), np.array([5.3, 0.017]), np.array([3.7, 0.11]))
        for n in (5, 20, 100):
            hits = 0
            for seed in range(150):
                X = np.random.default_rng(seed).normal(size=(n + 1, 2))
                before, after = (
                    round_summary(of(rows), of(rows).counts, None, scaler) for rows in (X[:-1], X)
                )
                row = (n + 1) * after.centers[0] - n * before.centers[0]
                hits += np.linalg.norm(row - X[-1]) < 0.1 * np.sqrt(2)
            assert hits / 150 <= 0.05


class TestRadii:
    def farthest(self, seed, n, answer):
        """How far a row is that is read off as center plus radius."""
        rng = np.random.default_rng(seed)
        X = np.round(rng.normal(50, 10, (n, 1)))
        X[7] = np.round(X.max() + rng.uniform(5, 40))
        sent = Client("a", X, FeCA(1), Guard(answer)).answer(Broadcast(0, 0))
        return abs(np.round(sent.centers[0, 0] + sent.radii[0]) - X[7, 0])

    @pytest.mark.parametrize("n", [400, 2000])
    def test_a_radius_does_not_give_the_farthest_row(self, n):
        found = [self.farthest(seed, n, 5) == 0 for seed in range(40)]
        assert np.mean(found) <= 0.1
        assert self.farthest(0, n, 1) == 0  # without a guard it does

    def test_one_far_row_does_not_set_it(self):
        one = Summary(400, [[0.0]], radii=[900.0], counts=[400], sse=[400.0])
        assert rounded(one).radii.tolist() == [4.0]

    def test_one_for_all_is_a_distance_of_centers(self):
        both = Summary(80, [[0.0], [100.0]], radii=[50.0, 50.0], counts=[40, 40], sse=[40.0, 10.0])
        assert rounded(both).radii.tolist() == [48.0, 48.0]  # steps of 4


def test_radii_and_the_sums_of_fuzzy_methods_are_rounded_too():
    tensors = {"support": [33.3333], "sum_of_squares": [48.8, 1.2345], "other": [1.2345]}
    found = rounded(Summary(40, [[0.0, 0.0]], [3.21], [40], [40.0], tensors))
    assert found.radii.tolist() == [3.25]
    assert found.tensors["support"].tolist() == [32.0]
    assert found.tensors["sum_of_squares"].tolist() == [48.0, 1.25]
    assert found.tensors["other"].tolist() == [1.2345]


def test_huge_numbers_of_rows_keep_their_digits():
    assert to_bits(np.array([1.2345678]), np.array([MAX_COUNT])) == pytest.approx(1.2345678, 1e-7)


class TestDifferencing:
    """Summaries of n rows and of the same and one more: the row by subtraction."""

    def recovered(self, guard, n, d, trials=150):
        """Share of rows that are found within a tenth of the spread."""
        hits = 0
        for seed in range(trials):
            X = np.random.default_rng(seed).normal(size=(n + 1, d))
            before, after = (told(of(rows), guard=guard) for rows in (X[:-1], X))
            row = (n + 1) * after.centers[0] - n * before.centers[0]
            hits += np.linalg.norm(row - X[-1]) < 0.1 * np.sqrt(d)
        return hits / trials

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d"), [(5, 2), (20, 2), (100, 2), (5, 8), (1000, 8)])
    def test_a_row_is_not_found(self, n, d):
        assert self.recovered(Guard(), n, d) <= 0.05

    @pytest.mark.parametrize("n", [20, 100])
    def test_in_one_dimension_it_is_found_no_more_often_than_by_a_blind_guess(self, n):
        assert self.recovered(Guard(), n, 1) <= 0.15  # a guess at the mean: 0.08

    def test_it_is_always_found_without_a_guard(self):
        assert self.recovered(Guard(1), 20, 2) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d"), [(5, 17), (5, 64), (20, 64), (100, 300)])
    def test_nor_a_column_that_varies_more_than_many_others(self, n, d):
        """Such as a salary beside categories: its digits must not be those of the others."""
        hits = 0
        for seed in range(200):
            X = np.random.default_rng(seed).normal(size=(n + 1, d)) * [1000, *[1] * (d - 1)]
            before, after = (told(of(rows), rows) for rows in (X[:-1], X))
            found = (n + 1) * after.centers[0, 0] - n * before.centers[0, 0]
            hits += abs(found - X[-1, 0]) < 100
        assert hits / 200 <= 0.2  # a guess at the mean: 0.08; a single column of five rows: 0.14

    @pytest.mark.slow
    @pytest.mark.parametrize("n", [20, 100, 1000])
    def test_sums_of_squares_do_not_give_its_distance(self, n):
        hits = 0
        for seed in range(150):
            X = np.random.default_rng(seed).normal(size=(n + 1, 2))
            before, after = rounded(of(X[:-1])).sse[0], rounded(of(X)).sse[0]
            found = np.sqrt(max(0.0, (after - before) * (n + 1) / n))
            hits += abs(found - np.linalg.norm(X[-1] - X[:-1].mean(axis=0))) < 0.1
        assert hits / 150 <= 0.1


@pytest.mark.parametrize("method", [Jigsaw(5, random_state=0), FeCA(5, random_state=0)])
def test_the_objective_hardly_changes(method):
    rng = np.random.default_rng(3)
    groups = rng.uniform(0, 50, (5, 2))
    shards = {n: groups[rng.integers(5, size=200)] + rng.normal(size=(200, 2)) for n in "abcd"}
    exact = method.fit_clients(shards).inertia_
    assert method.fit_clients(shards, guard=Guard()).inertia_ <= 1.01 * exact
