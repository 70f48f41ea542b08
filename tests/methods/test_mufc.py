"""MUFC: bins with numbers of rows."""

import numpy as np
import pytest

from fedjigsaw import Broadcast, Client, Mufc, Summary
from fedjigsaw.errors import MessageError
from fedjigsaw.methods.mufc import own_bin_width, to_bins


def aggregate(*answers, k=2):
    summaries = [
        Summary(n_samples=sum(n), centers=c, counts=n, client=str(i))
        for i, (c, n) in enumerate(answers)
    ]
    return Mufc(k).aggregate(summaries, Broadcast(0, 0), np.random.default_rng(0)).centers


def test_bins_count_as_many_times_as_they_have_rows():
    found = aggregate(([[0.0], [10.0]], [30, 5]), ([[4.0], [10.0]], [10, 5]))
    assert sorted(found.ravel()) == [1.0, 10.0]


def test_all_clients_share_a_grid(rng):
    """Whatever a client holds, its centers are multiples of the width."""
    for m in range(3):
        X = rng.normal(m, 1 + m, size=(50, 3))
        sent = Client(str(m), X, Mufc(4, bin_width=0.25)).answer(Broadcast(0, 0))
        assert (sent.centers / 0.25 == np.round(sent.centers / 0.25)).all()
        assert sent.counts.sum() == 50
        assert sent.sse is sent.radii is None


def test_a_bin_is_at_most_half_a_width_off(rng):
    X = rng.normal(size=(20, 4))
    assert np.abs(to_bins(X, 0.1) - X).max() <= 0.05 + 1e-12
    assert to_bins(X, 0.0) is X


def test_the_own_width_follows_units_and_numbers_of_rows(rng):
    X = rng.normal(size=(400, 2))
    width = own_bin_width(X)
    assert width == 2.0 ** round(np.log2(X.std(axis=0).max() / 20))
    assert own_bin_width(1024 * X) == 1024 * width
    assert own_bin_width(np.repeat(X, 16, axis=0)) == width / 4
    assert own_bin_width(np.ones((5, 2))) == 0


def test_wide_bins_cost_accuracy_and_fine_ones_do_not(grid):
    data, clients = grid
    fine, wide = (
        Mufc(15, bin_width=width, max_iter=300, random_state=0).fit(data.X, clients=clients)
        for width in (1.0, 150_000.0)
    )
    assert fine.inertia_ < wide.inertia_ / 1.5


def test_counts_are_needed():
    bare = Summary(n_samples=3, centers=[[0.0]], client="a")
    with pytest.raises(MessageError, match="Client 'a' sent no counts, which MUFC needs"):
        Mufc(2).check_answer(bare, Broadcast(0, 0))
    empty = Summary(n_samples=3, centers=[[0.0]], counts=[0], client="a")
    with pytest.raises(MessageError, match="counts of client 'a'"):
        Mufc(2).aggregate([empty], Broadcast(0, 0), np.random.default_rng(0))
