"""Profiles that leave a site: what the guard hides, and how far noise protects a row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as tests

from fedjigsaw import Privacy
from fedjigsaw.columns.profiles import Collector, Profile
from fedjigsaw.columns.schema import OTHER
from fedjigsaw.errors import ParameterError
from fedjigsaw.privacy.dp import GRID, multiplier_for
from fedjigsaw.privacy.statistics import Sums, guard_distances, guard_profile, release_profile

LEVELS = {"sex": ("f", "m"), "ward": ("a", "b", "c")}
ages = st.one_of(st.floats(-50, 200), st.sampled_from([0.0, 120.0, 60.0, np.nan]))
person = st.tuples(st.integers(0, 2), ages, ages, st.integers(-1, 1), st.integers(-1, 2))


def profile_of(sizes, values=None):
    """A profile of one column in which every row of cluster c has the value c, or the one given."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = labels.astype(float)[:, None] if values is None else np.array(values, float)[:, None]
    collector = Collector(len(sizes), ("age",), {})
    collector.add(labels, rows)
    return collector.profile()


# ----------------------------------------------------------------------------------------- guard


def test_no_guard_changes_nothing():
    profile = profile_of([1, 2, 3])
    assert guard_profile(profile, np.array([1, 2, 3]), 1) is profile


def test_small_clusters_are_left_out():
    found = guard_profile(profile_of([9, 3, 2, 8]), np.array([9, 3, 2, 8]), 5)
    assert found.count.ravel().tolist() == [9, 0, 0, 8]
    assert found.mean.ravel().tolist() == [0.0, 0.0, 0.0, 3.0]
    assert found.min_cluster_size == 5


def test_all_rows_minus_those_shown_are_never_few():
    found = guard_profile(profile_of([9, 1, 20, 8]), np.array([9, 1, 20, 8]), 5)
    assert found.count.ravel().tolist() == [9, 0, 20, 0]  # else the one row were all minus the rest


def test_a_column_with_few_values_in_a_cluster_is_left_out_there_and_in_one_more():
    values = [1.0] * 2 + [np.nan] * 8 + [2.0] * 7 + [3.0] * 6
    found = guard_profile(profile_of([10, 7, 6], values), np.array([10, 7, 6]), 5)
    assert found.count.ravel().tolist() == [0, 7, 0]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(2, 9), st.randoms())
@settings(max_examples=60, deadline=None)
def test_every_number_of_a_guarded_profile_is_about_enough_rows(sizes, least, random):
    n = sum(sizes)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.array([[random.choice([1.0, 5.0, np.nan])] for _ in range(n)]).reshape(n, 1)
    codes = np.array([[random.choice([-1, 0, 0, 0, 1])] for _ in range(n)]).reshape(n, 1)
    collector = Collector(len(sizes), ("age",), {"sex": ("f", "m")})
    collector.add(labels, rows, codes)
    exact = collector.profile()
    found = guard_profile(exact, np.array(sizes), least)
    shown = found.count > 0
    assert (found.count[shown] >= least).all()
    hidden = exact.count.sum() - found.count.sum()
    assert hidden == 0 or hidden >= least or not shown.any()
    counts, true = found.level_counts["sex"], exact.level_counts["sex"]
    assert (counts % least == 0).all()
    there = counts.any(axis=1)
    assert (np.abs(counts - true)[there] <= least / 2).all()
    assert (counts <= 2 * true).all()  # so levels never add up to more than twice the rows


def of_levels(counts, levels):
    none = np.zeros((len(counts), 0))
    return Profile((), none.astype(int), none, none, {"ward": levels}, {"ward": counts})


def test_rows_of_levels_are_rounded_by_hand():
    counts = [[90, 3, 4, 0], [91, 2, 1, 0], [0, 2, 6, 8], [1, 1, 1, 1], [8, 1, 0, 0]]
    exact = of_levels(counts, ("a", "b", "c", OTHER))
    found = guard_profile(exact, np.array([97, 94, 50, 1, 9]), 5)
    assert found.levels == exact.levels
    assert found.level_counts["ward"].tolist() == [
        [90, 5, 5, 0],
        [90, 0, 0, 0],
        [0, 0, 5, 10],
        [0, 0, 0, 0],
        [0, 0, 0, 0],  # hidden beside the one row before
    ]


def test_all_rows_minus_the_profile_do_not_tell_the_category_of_one_row():
    exact = of_levels([[60, 39, 1, 0], [30, 0, 70, 0]], ("E10", "I50", "J44", OTHER))
    seen = set()
    for lone in (0, 1, 2):  # rows of J44 in the first cluster, of 71 in all
        true = of_levels([[61 - lone, 39, lone, 0], [30, 0, 71 - lone, 0]], exact.levels["ward"])
        found = guard_profile(true, np.array([100, 101 - lone]), 5).level_counts["ward"]
        seen.add(str(found.tolist()))
    assert len(seen) == 1
    assert guard_profile(exact, np.array([100, 100]), 5).level_counts["ward"].tolist() == [
        [60, 40, 0, 0],
        [30, 0, 70, 0],
    ]


def two_valued(yes, n):
    return guard_profile(profile_of([n], [1.0] * yes + [0.0] * (n - yes)), np.array([n]), 5)


@given(st.integers(5, 400), st.data())
@settings(max_examples=80, deadline=None)
def test_zeros_and_ones_are_counted_in_fives(n, data):
    yes = data.draw(st.integers(0, n))
    found = two_valued(yes, n)
    rounded = [round(rows / 5) * 5 for rows in (yes, n - yes)]
    share = rounded[0] / sum(rounded)
    assert found.mean.item() == share
    assert found.sum_of_squares.item() == pytest.approx(n * share * (1 - share))
    if yes < 3 or n - yes < 3:
        assert found.mean.item() == float(yes >= 3)  # no spread either
        assert not found.sum_of_squares.any()


def test_few_ones_cannot_be_counted():
    profiles = [two_valued(yes, 100) for yes in (0, 1, 2)]
    assert all(found == profiles[0] for found in profiles)
    assert two_valued(3, 100) == two_valued(7, 100) != profiles[0]


def test_means_are_rounded_to_their_sampling_error(rng):
    values = np.concatenate([rng.normal(70, 10, 400), rng.normal(20, 10, 25)])
    exact = profile_of([400, 25], values)
    found = guard_profile(exact, np.array([400, 25]), 5)
    error = np.sqrt(exact.sum_of_squares / exact.count / exact.count)
    off = np.abs(found.mean - exact.mean)
    assert (off > 0).all()
    assert (off <= error).all()
    assert found.sum_of_squares == pytest.approx(exact.sum_of_squares, rel=0.13)
    assert (found.sum_of_squares != exact.sum_of_squares).all()


def test_distances_of_small_clusters_leave_together_only():
    found = guard_distances(np.array([50.0, 16.0, 4.0]), np.array([20, 1, 9]), 5)
    assert found.tolist() == [50.0, 2.0, 18.0]
    alone = np.array([3.0, 0.0])
    assert guard_distances(alone, np.array([1, 0]), 1) is alone


# ----------------------------------------------------------------------------------------- noise


def promise(**changes):
    return Privacy(**{"epsilon": 1.0, "bounds": (0, 120), "insecure_seed": 1, **changes})


def sums_of(people):
    found = Sums(3, ("age", "size"), LEVELS, promise())
    if people:
        table = np.array(people, dtype=float)
        codes = np.nan_to_num(table[:, 3:]).astype(np.int64)
        found.add(table[:, 0].astype(np.int64), table[:, 1:3], codes)
    return found


def test_the_sums_by_hand():
    found = sums_of([(1, 0.0, np.nan, 1, -1), (1, 999.0, 60.0, 0, 2)])
    first = [2, *(0, 1), *(0, 0), *(2, -1), *(1, 1), *(0, 0, 1)]  # missing, u, its squares, levels
    assert (found.table[1] / GRID).tolist() == first
    assert not found.table[[0, 2]].any()


@pytest.mark.slow
@given(st.lists(person, min_size=1, max_size=9), st.integers(0, 8))
@settings(max_examples=200, deadline=None)
def test_one_row_changes_the_sums_by_at_most_the_sensitivity(people, which):
    people, which = list(people), which % len(people)
    with_it = sums_of(people)
    without = sums_of(people[:which] + people[which + 1 :])
    length = np.linalg.norm((with_it.table - without.table).astype(float))
    assert length <= with_it.sensitivity
    assert with_it.sensitivity == pytest.approx(GRID * np.sqrt(1 + 2 * 2 + 2))


def test_a_row_on_the_bounds_needs_all_of_the_sensitivity():
    found = sums_of([(0, 0.0, 120.0, 0, 0)])
    assert np.linalg.norm(found.table.astype(float)) == pytest.approx(found.sensitivity)


def test_the_noise_is_that_of_the_promise():
    people = [(0, 60.0, 60.0, 0, 0)] * 2000
    sums, drawn = sums_of(people), []
    for seed in range(300):
        sums.privacy = promise(insecure_seed=seed)
        sizes, profile = release_profile(sums, "a")
        moved = (profile.mean[0, 0] - 60) / 60 * profile.count[0, 0]
        drawn.append([sizes[0] - 2000, moved])
    noise = multiplier_for(1.0, 1e-6) * 7**0.5
    sizes, moved = np.array(drawn).T
    assert tests.kstest(sizes / noise, "norm").pvalue > 0.01
    assert tests.kstest(moved / noise, "norm").pvalue > 0.01


def test_many_rows_give_their_profile(rng):
    n = 30_000
    labels = rng.integers(0, 2, n)
    rows = np.column_stack([rng.normal(40 + 30 * labels, 8), rng.uniform(0, 120, n)])
    rows[rng.random(n) < 0.3, 1] = np.nan
    codes = np.column_stack([labels, rng.integers(0, 3, n)])
    sums, exact = Sums(3, ("age", "size"), LEVELS, promise()), Collector(3, ("a", "b"), LEVELS)
    for collector in (sums, exact):
        collector.add(labels, rows, codes)
    sizes, found = release_profile(sums, "a")
    true = exact.profile()
    assert sizes[:2] == pytest.approx(np.bincount(labels), rel=0.01)
    assert found.count[:2] == pytest.approx(true.count[:2], rel=0.01)
    assert found.mean[:2] == pytest.approx(true.mean[:2], abs=0.5)
    deviation, expected = (np.sqrt(p.sum_of_squares[:2] / p.count[:2]) for p in (found, true))
    assert deviation == pytest.approx(expected, rel=0.05)
    assert found.level_counts["sex"][0, 0] == pytest.approx(
        true.level_counts["sex"][0, 0], rel=0.01
    )
    assert not found.count[2].any()  # nothing but noise


def test_a_whole_site_cannot_be_protected():
    with pytest.raises(ParameterError, match="protects each row, not a whole site"):
        Sums(3, ("age",), {}, promise(unit="site"))
