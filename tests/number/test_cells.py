"""The units in which the server looks at cells."""

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.number.cells import Cells

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
