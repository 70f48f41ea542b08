"""Harm and influence, solved by hand."""

import numpy as np
import pytest

from fedjigsaw import Summary
from fedjigsaw.trust.influence import MOST, harm, influences, objective, ratio
from fedjigsaw.trust.plausibility import unexamined
from fedjigsaw.trust.received import Received, receive


def sites(*lists) -> Received:
    """Return the summaries of sites that have one row at each place."""
    return receive(
        [
            Summary(
                len(c), [[x] for x in c], counts=[1] * len(c), sse=[0.0] * len(c), client=str(i)
            )
            for i, c in enumerate(lists)
        ]
    )


def last_apart(*lists):
    """Return all sites but the last, and the last one."""
    everyone = sites(*lists)
    last = np.arange(len(lists)) == len(lists) - 1
    return everyone.of_sites(~last), everyone.of_sites(last)


def by_table(table):
    """Return a function that finds the centers written down for a number of rows and a k."""
    return lambda received, k: np.array(table[len(received.centers), k])[:, None]


def test_the_objective():
    assert objective(sites([0.0, 2.0], [22.0]), np.array([[1.0], [20.0]])) == 6.0


def test_a_site_that_takes_a_center_from_two_clusters_harms():
    """Two pairs 2 apart: objective 4 with two centers, 404 with the one that a liar leaves."""
    others, liar = last_apart([0.0, 2.0], [20.0, 22.0], [900.0, 901.0])
    found = {(6, 2): [11.0, 900.5], (4, 2): [1.0, 21.0], (4, 3): [0.0, 2.0, 21.0]}
    # excused: three quarters of 404, which halving the one cluster could gain
    assert harm(others, liar, lambda _: 2, by_table(found)) == pytest.approx(0.25 * 404 / 4)


def test_a_site_that_alone_holds_a_cluster_is_excused():
    """The others lose 4, of which halving their only cluster would gain three quarters."""
    others, lone = last_apart([0.0, 2.0], [0.0, 2.0], [900.0, 900.5, 901.0])
    found = {(7, 2): [1.0, 900.5], (4, 2): [0.5, 1.5], (4, 3): [0.0, 1.5, 2.0]}
    assert harm(others, lone, lambda _: 2, by_table(found)) <= 1.02


def test_influence_of_a_site_that_makes_no_difference():
    received = sites([0.0, 20.0], [0.0, 20.0], [0.0, 20.0])
    centers = np.array([[0.0], [20.0]])
    found = influences(unexamined(received), centers, lambda part, start: start)
    assert found.tolist() == [1.0, 1.0, 1.0]


def test_influence_by_hand():
    """Without the third site, the center at 5 would be at 1: the others' 36 becomes 4."""
    received = sites([0.0, 2.0], [0.0, 2.0], [13.0])
    found = influences(
        unexamined(received),
        np.array([[4.0]]),
        lambda part, start: np.array([part.centers.mean(axis=0)]),
    )
    assert found[2] == pytest.approx((2 * 16 + 2 * 4) / 4)


def test_a_single_site_has_none():
    assert influences(unexamined(sites([0.0])), np.array([[0.0]]), None).tolist() == [1.0]


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(4, 2, 2), (0, 0, 1), (1, 0, MOST), (1e99, 1, MOST)]
)
def test_ratios_are_finite(a, b, expected):
    assert ratio(a, b) == expected
