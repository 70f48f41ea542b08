"""Noise and promise, compared with an independent accountant (dp-accounting)."""

import math

import dp_accounting
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from fedjigsaw.errors import ExtraError, ParameterError
from fedjigsaw.privacy import dp
from fedjigsaw.privacy.cells import SHARES
from fedjigsaw.privacy.dp import composed, epsilon_of, multiplier_for

ORDERS = [1 + x / 20 for x in range(1, 400)] + list(range(21, 400))


def independent(multipliers, delta):
    accountant = rdp.RdpAccountant(ORDERS, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for multiplier in multipliers:
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
    return accountant.get_epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 4, 10])
@pytest.mark.parametrize("delta", [1e-5, 1e-6, 1e-9])
def test_a_multiplier_gives_the_epsilon_that_was_asked_for(epsilon, delta):
    found = independent([multiplier_for(epsilon, delta)], delta)
    assert epsilon * 0.995 < found <= epsilon * 1.001


def test_the_five_releases_keep_the_promise_together():
    total = multiplier_for(1.0, 1e-6)
    parts = [total / share**0.5 for share in SHARES]
    assert sum(SHARES) == pytest.approx(1)
    assert composed(parts) == pytest.approx(total)
    assert independent(parts, 1e-6) == pytest.approx(1.0, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.5, 50), min_size=1, max_size=6))
def test_composition_agrees_with_the_independent_accountant(multipliers):
    ours = epsilon_of(composed(multipliers), 1e-6)
    # orders of the other accountant are a grid, so it may be a little above
    assert ours == pytest.approx(independent(multipliers, 1e-6), rel=0.01)


def test_it_never_promises_more_than_the_exact_gaussian_needs():
    # the analytic bound of Balle and Wang is the least noise for epsilon 1: 4.2247
    assert 4.2247 < multiplier_for(1.0, 1e-6) < 4.2247 * 1.08


def test_more_privacy_is_more_noise():
    multipliers = [multiplier_for(epsilon, 1e-6) for epsilon in (4, 2, 1, 0.5, 0.1)]
    assert multipliers == sorted(multipliers)
    assert multiplier_for(1.0, 1e-9) > multiplier_for(1.0, 1e-6)
    assert math.isfinite(multiplier_for(1e-4, 1e-6))
    with pytest.raises(ParameterError, match="No noise is large enough"):
        multiplier_for(1e-10, 1e-12)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opendp.measurements", None)
    with pytest.raises(ExtraError, match=r"pip install 'fedjigsaw\[privacy\]'"):
        dp.load_opendp()
