"""Which method is best, and which are not significantly worse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from fedjigsaw import compare
from fedjigsaw.comparison.significance import LEVEL, holm, judge, paired_p

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8)


def by_seed(*numbers):
    return dict(enumerate(numbers))


def test_a_toy_solved_by_hand():
    """Differences 1, 2, 3: t = 2 / (1 / sqrt(3)), and p = 1 - t / sqrt(t^2 + 2) for three seeds."""
    found = judge({"a": by_seed(0, 0, 0), "b": by_seed(1, 2, 3)}, least=True)
    t = 2 * np.sqrt(3)
    assert found.best == ("a",)
    assert found.p_values == {"b": pytest.approx(1 - t / np.sqrt(t**2 + 2))}
    assert found.close == ("b",)
    assert judge({"a": by_seed(0, 0, 0), "b": by_seed(1, 2, 3)}, least=False).best == ("b",)


def test_a_clear_difference_is_significant_and_a_small_one_is_not():
    found = judge(
        {
            "best": by_seed(1.00, 1.01, 0.99, 1.00, 1.02),
            "close": by_seed(1.01, 1.00, 1.00, 1.01, 1.01),
            "bad": by_seed(1.20, 1.22, 1.18, 1.21, 1.23),
        },
        least=True,
    )
    assert found.best == ("best",)
    assert found.close == ("close",)
    assert found.p_values["bad"] < LEVEL


@given(NUMBERS, st.integers(0, 7))
def test_identical_methods_are_never_worse(numbers, other):
    twins = {"a": by_seed(*numbers), "b": by_seed(*numbers), "c": by_seed(*[other] * len(numbers))}
    for least in (True, False):
        found = judge(twins, least=least)
        assert ("a" in found.best) == ("b" in found.best)
        assert (found.p_values or {}).get("a") == (found.p_values or {}).get("b")
    assert paired_p(np.array(numbers), np.array(numbers)) == 1.0


def test_identical_methods_of_a_real_comparison(grid):
    data, _ = grid
    methods = {"a": "jigsaw", "b": "jigsaw", "bad": "match"}
    found = compare(
        methods, data.X, clients="dirichlet", y=data.y, n_clients=5, n_clusters=15, seeds=4
    )
    for verdict in found.verdicts().values():
        assert ("a" in verdict.best) == ("b" in verdict.best)
        assert ("a" in verdict.close) == ("b" in verdict.close)
    assert found.verdicts()["objective_ratio"].best == ("a", "b")


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=2, max_size=9))
def test_parity_with_scipy(pairs):
    first, second = np.array(pairs).T
    differences = first - second
    if np.abs(differences).max() < 1e-3 or differences.std() < 1e-3:
        return
    assert paired_p(first, second) == pytest.approx(ttest_rel(first, second).pvalue, abs=1e-7)


def test_rounding_is_no_difference_and_a_constant_one_is_certain():
    ones = np.ones(5)
    assert paired_p(ones, ones + 1e-15) == 1.0
    assert paired_p(ones, ones + 0.1) == 0.0


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=6))
def test_the_correction_keeps_the_order_and_never_helps(p_values):
    corrected = holm(p_values)
    assert list(corrected) == list(p_values)
    assert all(p <= corrected[label] <= 1 for label, p in p_values.items())
    order = sorted(p_values, key=p_values.get)
    assert [corrected[label] for label in order] == sorted(corrected.values())


def test_the_correction_by_hand():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )


def test_too_little_to_tell():
    assert judge({"a": by_seed(1)}, least=True).best == ()
    assert judge({}, least=True).best == ()
    found = judge({"a": by_seed(1), "b": by_seed(2)}, least=True)
    assert (found.best, found.p_values, found.close) == (("a",), {"b": None}, ())
    apart = judge({"a": {0: 1.0, 1: 1.0}, "b": {1: 2.0, 2: 2.0}}, least=True)
    assert apart.p_values == {"b": None}
