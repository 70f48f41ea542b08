"""No site alone decides the number of clusters; each lie is one that worked before."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.engine import Client, aggregate_round
from fedjigsaw.errors import UncertainNumberWarning
from fedjigsaw.messages import Broadcast, Summary
from fedjigsaw.trust.counting import MANY_CELLS, for_counting
from fedjigsaw.trust.received import receive

PLACES = 12.0 * np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2], [1, 2]])


@pytest.fixture(scope="module")
def honest():
    rng = np.random.default_rng(3)
    rows = PLACES[rng.integers(0, 8, 3000)] + rng.normal(size=(3000, 2))
    return [
        Client(f"site{m}", rows[m::10], Jigsaw("auto")).answer(Broadcast(0, 0)) for m in range(10)
    ]


def found(summaries):
    return len(aggregate_round(Jigsaw("auto"), summaries, Broadcast(0, 0)).centers)


def test_honest_sites(honest):
    assert found(honest) == 8


@pytest.mark.parametrize("n_rows", [10_000, 2**30])
def test_a_copy_of_a_summary_with_very_many_rows(honest, n_rows):
    assert found([*honest, replace(honest[0], client="liar", n_samples=n_rows)]) == 8


@pytest.mark.parametrize("n_rows", [10**6, 2**40])
def test_one_cell_of_very_many_rows(honest, n_rows):
    liar = Summary(n_rows, PLACES[:1], counts=[n_rows], sse=[0.0], client="liar")
    assert found([*honest, liar]) == 8


def test_no_cell_counts_for_more_than_twenty_typical_ones(honest):
    liar = Summary(2000, PLACES[:1], counts=[2000], sse=[0.0], client="liar")
    received = receive([*honest, liar])
    used = for_counting(received, limited=True)
    assert used.counts.max() == 20 * np.median(received.counts)
    assert (for_counting(received, limited=False).counts == received.counts).all()


def test_a_crowd_of_cells_hides_nobody(honest):
    rng = np.random.default_rng(0)
    cells = PLACES[0] + rng.normal(size=(20_000, 2))
    ones = np.ones(20_000, dtype=np.int64)
    liar = Summary(20_000, cells, counts=ones, sse=np.zeros(20_000), client="liar")
    used = for_counting(receive([*honest, liar]), limited=True)
    assert np.bincount(used.owners).max() <= MANY_CELLS
    assert used.per_site(used.counts)[-1] == pytest.approx(8 * 300)
    assert found([*honest, liar]) == 8


def test_rows_left_out_by_one_site(honest):
    liar = replace(honest[0], tensors={**honest[0].tensors, "left_out": np.array([299])})
    assert receive([liar, *honest[1:]]).left_out == 0


def test_one_liar_among_sites_of_unlike_rows():
    """All others are mixed, and the liar is set aside: what is left is used."""
    tensors = {"left_out": np.array([12])}
    mixed = [
        Summary(12, [[float(m)]], counts=[12], sse=[9.0], client=str(m), tensors=tensors)
        for m in range(4)
    ]
    liar = Summary(12, [[1e50]], counts=[12], sse=[0.0], client="liar")
    with pytest.warns(UncertainNumberWarning):
        assert found([*mixed, liar]) == 1


def test_a_site_alone_does_not_set_the_grain(honest):
    unknown = {"grain": np.array([-1.0, -1.0])}
    silent = [replace(s, tensors=unknown) for s in honest]
    liar = replace(honest[0], client="liar", tensors={"grain": np.array([1e9, 1e9])})
    assert receive([*silent, liar]).grain.tolist() == [0.0, 0.0]
