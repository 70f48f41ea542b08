"""Cells of clients, and the units in which the server looks at them."""

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.kernels.backends import SklearnBackend
from fedjigsaw.kernels.kmeans import Problem, kmeans
from fedjigsaw.number.cells import MERGED_CELLS, Cells, condense, find_cells

ROWS = np.arange(20.0)[:, None]  # their variance is 33.25
ONE = np.ones(20)


def test_the_unit_is_the_spread_of_all_rows():
    for far in (30.0, 3e5):
        values = np.vstack([ROWS[:-1], [[far]]])
        cells = Cells(values, ONE, 0 * ONE)
        assert cells.scale == pytest.approx(values.std())


def test_a_few_absurd_numbers_are_not_the_unit():
    for far in (3e6, -1e9, 1e12):
        cells = Cells(np.vstack([ROWS[:-1], [[far]]]), ONE, 0 * ONE)
        # the rows are 0 to 18 and one more, so the middle one is about 9; the farthest are 9 off
        assert 8 <= cells.scale <= 10
        assert cells.in_units(cells.points)[:3, 0] == pytest.approx([0, 1, 2], abs=1e-3)


def test_rounding_is_not_the_unit():
    values = np.vstack([1e-16 * ROWS, ROWS[:2]])
    cells = Cells(values, np.ones(22), np.zeros(22))
    assert cells.scale == pytest.approx(values.std())


@pytest.mark.slow
@pytest.mark.parametrize("far", [1e7, 1e8, -1e9])
def test_one_absurd_row_hides_no_clusters(far):
    rng = np.random.default_rng(0)
    means = np.array([[0, 0], [10, 0], [0, 10]])
    X = means[rng.integers(3, size=900)] + rng.normal(size=(900, 2))
    X = np.vstack([X, [[far, 5.0]]])
    jigsaw = Jigsaw("auto", random_state=0).fit(X, clients=np.arange(901) % 3)
    assert jigsaw.n_clusters_ == 3
    assert jigsaw.k_confidence_ > 0.9


def test_cells_without_rows_are_left_out():
    cells = Cells(np.array([[0.0], [9.0], [1.0]]), np.array([1.0, 0.0, 1.0]), np.zeros(3))
    assert cells.points.ravel().tolist() == [-1.0, 1.0]


def test_condensing_keeps_all_moments(rng):
    n = 2 * MERGED_CELLS
    centers, counts, sse = rng.normal(size=(n, 2)), rng.integers(1, 9, n) * 1.0, rng.random(n)
    merged = condense(centers, counts, sse, MERGED_CELLS)
    assert len(merged[1]) <= MERGED_CELLS
    assert merged[1].sum() == counts.sum()
    assert merged[1] @ merged[0] == pytest.approx(counts @ centers)
    total = counts @ (centers**2).sum(axis=1) + sse.sum()
    assert merged[1] @ (merged[0] ** 2).sum(axis=1) + merged[2].sum() == pytest.approx(total)


def test_a_few_steps_are_enough(rng):
    """Compared with k-means that runs to its end, from the same seeds."""
    given = Problem(rng.normal(size=(1500, 4)), 100, np.random.default_rng(0))
    (found,) = find_cells([given], backend=SklearnBackend())
    end = kmeans(given.X, 100, rng=np.random.default_rng(0), n_init=1, backend=SklearnBackend())
    assert found.counts.sum() == len(given.X)
    assert end.inertia <= found.inertia < 1.02 * end.inertia
