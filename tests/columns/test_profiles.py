"""Profiles of clusters: checked as data of others, and merged as if rows had been pooled."""

import pickle

import numpy as np
import pytest

from fedjigsaw.columns.profiles import Profile, merge_profiles
from fedjigsaw.errors import MessageError
from fedjigsaw.io.formats import Score, decode, encode


def toy(**changes):
    """Two clusters: rows 1, 3 of two women, and nothing about the other."""
    fields = {
        "numbers": ("age",),
        "count": [[2], [0]],
        "mean": [[2.0], [0.0]],
        "sum_of_squares": [[2.0], [0.0]],
        "levels": {"sex": ("f", "m")},
        "level_counts": {"sex": [[2, 0], [0, 0]]},
        "min_cluster_size": 2,
    }
    return Profile(**(fields | changes))


def test_merging_two_sites_by_hand():
    other = toy(
        count=[[1], [4]],
        mean=[[5.0], [7.0]],
        sum_of_squares=[[0.0], [1.0]],
        levels={"sex": ("m", "x")},
        level_counts={"sex": [[1, 0], [3, 1]]},
        min_cluster_size=1,
    )
    both = merge_profiles([toy(), other])
    assert both.count.tolist() == [[3], [4]]
    assert both.mean.tolist() == [[3.0], [7.0]]
    assert both.sum_of_squares.tolist() == [[8.0], [1.0]]
    assert both.levels["sex"] == ("f", "m", "x")
    assert both.level_counts["sex"].tolist() == [[2, 1, 0], [0, 3, 1]]
    assert both.min_cluster_size == 1


def test_merging_puts_columns_into_the_order_of_the_first():
    count, squares = [[1, 1]], [[0.0, 0.0]]
    first = Profile(("a", "b"), count, [[1.0, 10.0]], squares, {}, {})
    other = Profile(("b", "a"), count, [[20.0, 3.0]], squares, {}, {})
    both = merge_profiles([first, other])
    assert both.numbers == ("a", "b")
    assert both.mean.tolist() == [[2.0, 15.0]]


def test_profiles_of_other_columns_or_clusters_are_not_merged():
    renamed = toy(numbers=("years",))
    told = "other columns cannot be merged: 'age', 'sex'; 'years', 'sex'"
    with pytest.raises(MessageError, match=told):
        merge_profiles([toy(), renamed])
    three = Profile(("age",), [[1]] * 3, [[0.0]] * 3, [[0.0]] * 3, {}, {})
    with pytest.raises(MessageError, match="Profiles of 2 and 3 clusters"):
        merge_profiles([toy(), three])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": [[-1], [0]]}, "count of a profile"),
        ({"count": [[2.0], [0.0]]}, "whole numbers"),
        ({"count": [[2, 2], [0, 0]]}, "of shape"),
        ({"count": np.zeros((0, 1), dtype=int)}, "n_clusters >= 1"),
        ({"count": [[2**60], [0]]}, "finite, from 0"),
        ({"mean": [[np.nan], [0.0]]}, "mean of a profile"),
        ({"mean": [["2"], ["0"]]}, "mean of a profile"),
        ({"mean": [[2.0], [1.0]]}, "0 where there are no values"),
        ({"sum_of_squares": [[-1.0], [0.0]]}, "sum_of_squares of a profile"),
        ({"sum_of_squares": [[2.0], [1.0]]}, "0 where there are no values"),
        ({"numbers": ("a\x1b[2J",)}, "short printable"),
        ({"numbers": ("a" * 1001,)}, "short printable"),
        ({"numbers": ("sex",)}, "'sex' twice"),
        ({"numbers": tuple(map(str, range(10_001)))}, "1 to 10000"),
        ({"levels": {"sex": ("f", "f")}}, "'f' twice"),
        ({"levels": {"sex": tuple(map(str, range(1003)))}}, "1 to 1002"),
        ({"levels": {"sex": ("f", "m", "x")}}, "of shape"),
        ({"levels": {}}, "one array for each column of levels"),
        ({"level_counts": {"sex": [[2, -1], [0, 0]]}}, "from 0"),
        ({"level_counts": {"sex": [[2.5, 0], [0, 0]]}}, "whole numbers"),
        ({"min_cluster_size": True}, "min_cluster_size"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(change, words):
    with pytest.raises(MessageError, match=words):
        toy(**change)


def test_a_profile_cannot_be_changed_and_survives_a_pickle():
    profile = toy()
    with pytest.raises(ValueError, match="read-only"):
        profile.mean[0, 0] = 1
    with pytest.raises(TypeError):
        profile.levels["sex"] = ()
    assert pickle.loads(pickle.dumps(profile)) == profile


def test_a_score_with_a_profile_comes_back_from_its_bytes():
    score = Score("bern", "m", np.array([2, 1]), np.array([0.5, 0.0]), toy())
    again = decode(encode(score))
    assert again.profile == toy()
    assert encode(again) == encode(score)


def test_a_score_without_a_profile_says_nothing_of_one():
    plain = encode(Score("bern", "m", np.array([2, 1]), np.array([0.5, 0.0])))
    assert b"profile" not in plain
    assert b"privacy" not in plain
    assert decode(plain).profile is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"column\\"', b'"colunm\\"', "header field 'column'"),
        (b'\\"categories\\"', b'\\"cathegoris\\"', "header field 'categories'"),
        (b'\\"min_cluster_size\\": 2', b'\\"min_cluster_size\\": x', "another program"),
        (b"profile.levels.0", b"profile.levels.1", "no array 'profile.levels.0'"),
        (b'\\"f\\", \\"m\\"', b'\\"f\\", \\"f\\"', "'f' twice"),
    ],
)
def test_a_file_with_a_bad_profile_is_refused(old, new, words):
    content = encode(Score("bern", "m", np.array([2, 1]), np.array([0.5, 0.0]), toy()))
    assert old in content
    with pytest.raises(MessageError, match=words):
        decode(content.replace(old, new))


def test_a_profile_of_other_clusters_or_of_more_rows_than_the_score_is_refused():
    with pytest.raises(MessageError, match="profile of client 'b'"):
        Score("b", "m", np.array([2, 1, 1]), np.zeros(3), toy())
    with pytest.raises(MessageError, match="about no more rows than the clusters have"):
        Score("b", "m", np.array([1, 1]), np.zeros(2), toy())
    many = toy(level_counts={"sex": [[2, 3], [0, 0]]})
    with pytest.raises(MessageError, match="about no more rows than the clusters have"):
        Score("b", "m", np.array([2, 1]), np.zeros(2), many)
