"""Cells that all sites share: public, even, the same everywhere; tables that add up."""

import numpy as np
import pytest

from fedjigsaw import Privacy, Summary
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import CELL_NOISE, CELLS
from fedjigsaw.privacy.cells import Box, nearest_cell
from fedjigsaw.privacy.dp import GRID, Noise
from fedjigsaw.privacy.summaries import add_up, check_cells, shared_cells, shared_summary

BOX = Box.within(np.array([0.0, 0.0]), np.array([10.0, 10.0]))


def table(rows, unit="row", multiplier=1e-9, rows_per_site=1, n_cells=4):
    privacy = Privacy(1, bounds=(0, 10), unit=unit, cells="shared", rows_per_site=rows_per_site)
    placed, _ = BOX.inside(np.array(rows, dtype=float))
    noise = Noise(np.random.default_rng(0))
    return shared_summary(placed, BOX, n_cells, multiplier, privacy, noise)


def test_cells_depend_on_the_bounds_alone_and_are_even():
    centers, radius = shared_cells((1.0, 0.5), 32)
    assert (centers == np.rint(centers * GRID) / GRID).all()
    assert (np.abs(centers) <= [1.0, 0.5]).all()
    even = np.random.default_rng(0).uniform(-1, 1, (20_000, 2)) * [1.0, 0.5]
    labels, squared = nearest_cell(np.rint(even * GRID) / GRID, centers)
    assert np.bincount(labels, minlength=32).min() > 300  # 625 on average
    assert np.mean(squared <= radius**2) == pytest.approx(0.99, abs=0.01)
    shared_cells.cache_clear()
    assert np.array_equal(shared_cells((1.0, 0.5), 32)[0], centers)


def test_tables_add_up_to_that_of_all_rows():
    rows = np.random.default_rng(1).uniform(0, 10, (400, 2))
    whole = add_up([table(rows)])
    parts = add_up([table(rows[:100]), table(rows[100:])])
    assert parts.counts.tolist() == whole.counts.tolist()
    assert parts.centers == pytest.approx(whole.centers, abs=1e-4)
    assert whole.counts.sum() == 400


def test_a_cell_is_the_mean_of_its_rows():
    summary = add_up([table([[2.0, 2.0], [2.5, 2.0]] * 50)])
    assert summary.counts.tolist() == [100]
    assert summary.centers == pytest.approx(np.array([[2.25, 2.0]]), abs=1e-4)
    assert summary.sse == pytest.approx([100 * 0.25**2], abs=0.01)


@pytest.mark.parametrize(("n_rows", "mass"), [(2, 0.5), (4, 1.0), (400, 1.0)])
def test_a_site_counts_for_at_most_its_rows_per_site(n_rows, mass):
    summary = table([[2.0, 2.0]] * n_rows, unit="site", rows_per_site=4)
    assert summary.tensors[CELLS][:, 0].sum() == pytest.approx(4 * mass, abs=1e-3)


def test_what_is_below_the_noise_is_dropped():
    rows = [[2.0, 2.0]] * 1000 + [[8.0, 8.0]] * 3
    summary = add_up([table(rows, multiplier=10.0)])
    assert len(summary.centers) == 1
    with pytest.raises(MessageError, match="No cell stands out from the noise"):
        add_up([table(rows[-3:], multiplier=10.0)])


def test_tables_of_other_cells_are_refused():
    other = table([[2.0, 2.0]], n_cells=5)
    with pytest.raises(MessageError, match="use different shared cells"):
        add_up([table([[2.0, 2.0]]), other])
    plain = Summary(5, [[0.0, 0.0]], counts=[5], client="bern")
    with pytest.raises(MessageError, match="cells of client 'bern'"):
        add_up([table([[2.0, 2.0]]), plain])


@pytest.mark.parametrize(
    ("name", "value"),
    [(CELLS, np.zeros((4, 3))), (CELLS, np.full((4, 4), np.nan)), (CELL_NOISE, np.zeros(3))],
)
def test_bad_tables_are_refused(name, value):
    good = table([[2.0, 2.0]])
    check_cells(good)
    bad = Summary(1, good.centers, tensors={**good.tensors, name: value}, client="oslo")
    with pytest.raises(MessageError, match=f"{name} of client 'oslo'"):
        check_cells(bad)
