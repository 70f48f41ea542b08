"""Noisy column statistics: the exact table, its sensitivity, its noise, what is read from it."""

import numpy as np
import pytest

from fedjigsaw import Privacy
from fedjigsaw.errors import ParameterError
from fedjigsaw.privacy import statistics
from fedjigsaw.privacy.dp import GRID
from fedjigsaw.privacy.statistics import exact_table, plain, release, sensitivity

LOW, HIGH = np.array([0.0, -5.0]), np.array([120.0, 5.0])


def promise(**changes):
    return Privacy(**{"epsilon": 1.0, "bounds": (LOW, HIGH), "insecure_seed": 0, **changes})


COLUMNS = plain(("age", "dose"), promise())


def test_the_table_by_hand():
    rows = np.array([[0.0, 0.0], [120.0, 99.0]])  # u = (-1, 0) and, clipped, (1, 1)
    expected = GRID * np.array([2, 0, 2, 1, 0])
    assert exact_table([rows], COLUMNS).tolist() == expected.tolist()
    assert exact_table([rows[:1], rows[1:]], COLUMNS).tolist() == expected.tolist()
    assert statistics.count_outside(rows, promise()) == 1


@pytest.mark.parametrize("n_columns", [1, 2, 40])
def test_one_row_changes_the_table_by_at_most_the_sensitivity(rng, n_columns):
    privacy = promise(bounds=(-3, 5))
    rows = rng.normal(0, 4, (300, n_columns))
    rows[:2] = [[-3.0], [5.0]]  # corners are the worst
    columns = plain([str(j) for j in range(n_columns)], privacy)
    whole = exact_table([rows], columns)
    changes = [whole - exact_table([np.delete(rows, i, 0)], columns) for i in range(300)]
    lengths = np.linalg.norm(np.array(changes, dtype=float), axis=1)
    assert lengths.max() <= sensitivity(columns)
    assert lengths.max() == pytest.approx(sensitivity(columns))  # so it is not too large either


def test_a_whole_site_cannot_be_protected():
    with pytest.raises(ParameterError, match="scaler from the bounds instead"):
        release(np.zeros(5, dtype=np.int64), promise(unit="site"), "a", COLUMNS)
