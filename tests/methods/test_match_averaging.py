import itertools

import numpy as np
import pytest

from fedjigsaw import Broadcast, FewerClustersWarning, MatchAveraging, Summary
from fedjigsaw.errors import MessageError


def aggregate(*sets, k=2, most_rows=None):
    summaries = [
        Summary(n_samples=10 if i == most_rows else 9, centers=c, client=str(i))
        for i, c in enumerate(sets)
    ]
    method = MatchAveraging(k)
    return method.aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0)).centers


def test_by_hand():
    """Pairs (0, 1), (10, 12), whatever the order in which they were sent."""
    found = aggregate([[0.0], [10.0]], [[12.0], [1.0]])
    assert sorted(found.ravel()) == [0.5, 11.0]


def test_a_second_look_mends_the_first_pairing():
    """The start pairs 3 with 0 and 100 with 10; with the means of all, 3 and 4 belong together."""
    sets = [[[0.0], [10.0]], [[3.0], [100.0]], [[4.0], [100.0]], [[5.0], [100.0]]]
    assert sorted(aggregate(*sets).ravel()) == [3.0, 77.5]


@pytest.mark.parametrize(
    ("most_rows", "expected"),
    [
        (0, [[11, 4], [6, 7]]),  # (4, 1) (4, 1) (3, 2), and (1, 3) (1, 0) (4, 4)
        (1, [[12, 6], [5, 5]]),  # (4, 1) (4, 1) (4, 4), and (1, 0) (1, 3) (3, 2)
        (2, [[9, 8], [8, 3]]),  # (4, 4) (1, 3) (4, 1), and (3, 2) (4, 1) (1, 0)
    ],
)
def test_of_clients_with_as_many_centers_that_with_the_most_rows_comes_first(most_rows, expected):
    """Each start ends at pairs of its own."""
    sets = [[[4.0, 1.0], [1.0, 3.0]], [[4.0, 1.0], [1.0, 0.0]], [[4.0, 4.0], [3.0, 2.0]]]
    assert 3 * aggregate(*sets, most_rows=most_rows) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("seed", range(5))
def test_no_other_pairing_of_the_same_means_is_better(seed):
    rng = np.random.default_rng(seed)
    sets = rng.normal(size=(4, 3, 2))
    means = aggregate(*sets, k=3)
    cost = 0.0
    for centers in sets:
        every = [((centers[list(p)] - means) ** 2).sum() for p in itertools.permutations(range(3))]
        cost += min(every)
    recomputed = np.zeros_like(means)
    for centers in sets:
        best = min(
            itertools.permutations(range(3)), key=lambda p: ((centers[list(p)] - means) ** 2).sum()
        )
        recomputed += centers[list(best)] / len(sets)
    assert np.allclose(recomputed, means)
    assert cost <= sum(((centers - means) ** 2).sum() for centers in sets)


def test_order_and_names_of_clients_do_not_matter():
    rng = np.random.default_rng(1)
    sets = list(rng.normal(size=(5, 4, 3)))
    first, second = aggregate(*sets, k=4), aggregate(*sets[::-1], k=4)
    assert np.allclose(np.sort(first, axis=0), np.sort(second, axis=0))


def test_a_client_with_fewer_centers_is_paired_as_far_as_it_goes():
    found = aggregate([[0.0], [10.0]], [[11.0]])
    assert sorted(found.ravel()) == [0.0, 10.5]


def test_skewed_clients_are_averaged_across_clusters():
    """The known weakness: each client has one of two clusters, and both means lie in between."""
    shards = [[[0.0], [2.0]], [[100.0], [102.0]]]
    found = MatchAveraging(2, random_state=0).fit_clients(shards)
    assert sorted(found.cluster_centers_.ravel()) == [50.0, 52.0]


def test_fewer_distinct_rows_than_clusters():
    with pytest.warns(FewerClustersWarning, match="2 of 3"):
        MatchAveraging(3, random_state=0).fit_clients([[[0.0], [1.0], [1.0]], [[0.0], [0.0]]])


def test_more_centers_than_clusters_are_refused_not_dropped():
    with pytest.raises(MessageError, match="client '1'"):
        aggregate([[0.0], [1.0]], [[0.0], [1.0], [50.0]])
