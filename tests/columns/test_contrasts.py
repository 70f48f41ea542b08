"""What sets clusters apart: differences by hand, and against pandas on the pooled rows."""

import numpy as np
import pytest

from fedjigsaw.columns.contrasts import contrasts, profile_frame, sets_apart
from fedjigsaw.columns.profiles import Collector, Profile
from fedjigsaw.columns.schema import OTHER


def profile_of(labels, rows, codes=None, numbers=("age",), levels=None):
    collector = Collector(int(labels.max()) + 1, numbers, levels or {})
    collector.add(labels, rows, codes)
    return collector.profile()


def test_differences_by_hand():
    # ages 10, 20 and 30, 40: mean 25, variance 125; three of four women in all
    profile = profile_of(
        np.array([0, 0, 1, 1]),
        np.array([[10.0], [20.0], [30.0], [40.0]]),
        np.array([[0], [0], [0], [1]]),
        levels={"sex": ("f", "m")},
    )
    age, f, m, *_ = contrasts(profile)
    assert (age.column, age.category, age.rows, age.mean, age.std) == ("age", None, 2, 15.0, 5.0)
    assert (age.all_mean, age.all_std) == (25.0, pytest.approx(125**0.5))
    assert age.difference == pytest.approx(-10 / 125**0.5)
    assert (f.category, f.rows, f.share, f.all_share) == ("f", 2, 1.0, 0.75)
    assert f.difference == pytest.approx(0.25 / (0.75 * 0.25) ** 0.5)
    assert m.difference == pytest.approx(-f.difference)


def test_the_frame_equals_what_pandas_makes_of_the_pooled_rows(rng):
    pd = pytest.importorskip("pandas")
    labels, rows = rng.integers(0, 3, 200), rng.normal(5, 2, (200, 2))
    rows[rng.random((200, 2)) < 0.2] = np.nan
    codes = rng.integers(0, 2, (200, 1))
    levels = {"sex": ("f", "m")}
    frame = profile_frame(profile_of(labels, rows, codes, ("a", "b"), levels))
    names = ["cluster", "column", "kind", "category", "rows", "mean", "std", "share", "difference"]
    assert list(frame) == names
    assert len(frame) == 3 * (2 + 2)
    numbers = frame[frame.kind == "number"].set_index(["cluster", "column"])
    raw = pd.DataFrame(rows, columns=["a", "b"]).groupby(labels)
    for (cluster, column), row in numbers.iterrows():
        group = raw.get_group(cluster)[column]
        assert row["rows"] == group.count()
        assert row["mean"] == pytest.approx(group.mean())
        assert row["std"] == pytest.approx(group.std(ddof=0))
    women = frame[frame.category == "f"].set_index("cluster")["share"]
    expected = pd.Series(codes[:, 0] == 0).groupby(labels).mean()
    assert women.tolist() == pytest.approx(expected.tolist())


def test_the_clearest_columns_come_first_and_each_once(rng):
    labels = np.repeat([0, 1], 200)
    rows = rng.normal(size=(400, 3)) + labels[:, None] * [0.0, 3.0, 1.0]
    codes = np.column_stack([labels, rng.integers(0, 2, 400)])
    levels = {"sex": ("f", "m"), "ward": ("x", "y")}
    profile = profile_of(labels, rows, codes, ("noise", "large", "small"), levels)
    own = [one for one in contrasts(profile) if one.cluster == 1]
    found = [(one.column, one.category) for one in sets_apart(own, 3)]
    assert sorted(found[:2]) == [("large", None), ("sex", "m")]
    assert found[2] == ("small", None)


def test_a_difference_of_few_rows_must_be_larger_to_be_sure():
    numbers = ("many", "few")
    count, mean = [[1000, 2], [1000, 1000]], [[5.0, 6.0], [0.0, 0.0]]
    squares = [[1000.0, 0.0], [1000.0, 1000.0]]
    profile = Profile(numbers, count, mean, squares, {}, {})
    many, few, *_ = contrasts(profile)
    assert abs(few.difference) > abs(many.difference)
    assert [one.column for one in sets_apart([few, many])] == ["few", "many"]
    one_row = Profile(numbers, [[1000, 1], [1000, 1000]], mean, squares, {}, {})
    assert [one.column for one in sets_apart(list(contrasts(one_row))[:2])] == ["few", "many"]
    by_chance = Profile(("a",), [[1], [1000]], [[1.5], [0.0]], [[0.0], [1000.0]], {}, {})
    assert sets_apart(list(contrasts(by_chance))[:1]) == []


def test_hidden_cells_and_constant_columns_set_nothing_apart():
    profile = Profile(
        ("a", "b"), [[0, 5], [9, 5]], [[0.0, 7.0], [3.0, 7.0]], [[0.0, 0.0]] * 2, {}, {}
    )
    first, *_ = contrasts(profile)
    assert np.isnan([first.mean, first.std, first.difference]).all()
    assert first.at_least == 0
    assert sets_apart(contrasts(profile)) == []


def test_rare_levels_together_are_not_named():
    none = np.zeros((2, 0))
    levels, counts = {"ward": ("a", OTHER)}, {"ward": [[90, 10], [10, 90]]}
    profile = Profile((), none.astype(int), none, none, levels, counts)
    assert [o.category for o in sets_apart(o for o in contrasts(profile) if o.cluster)] == ["a"]


def test_noise_makes_differences_less_sure():
    profile = Profile(("a",), [[100], [100]], [[1.0], [0.0]], [[100.0], [100.0]], {}, {})
    exact, noisy = (next(contrasts(profile, noise, np.array([50.0]))) for noise in (0.0, 2.0))
    assert noisy.difference == exact.difference
    assert 0 == noisy.at_least < exact.at_least
    levels, counts = {"sex": ("f", "m")}, {"sex": [[60, 40], [40, 60]]}
    none = np.zeros((2, 0))
    people = Profile((), none.astype(int), none, none, levels, counts)
    exact, noisy = (next(contrasts(people, noise)) for noise in (0.0, 20.0))
    assert 0 == noisy.at_least < exact.at_least


def test_a_small_difference_sets_nothing_apart_however_sure_it_is():
    n, squares = 10**6, [[1e6], [1e6]]
    for shift, named in ((0.1, []), (0.4, ["a"])):
        profile = Profile(("a",), [[n], [n]], [[shift], [0.0]], squares, {}, {})
        found = list(contrasts(profile))[:1]
        assert found[0].at_least > 0
        assert [one.column for one in sets_apart(found)] == named
