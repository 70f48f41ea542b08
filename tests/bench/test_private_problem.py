"""The generated data of the studies of privacy."""

import numpy as np

from fedjigsaw.bench.private_problem import (
    N_CLUSTERS,
    N_SITES,
    SERVER_POINTS,
    SERVER_ROWS,
    Problem,
    mixture,
    site_of_rows,
)


def test_rows_depend_on_the_seed_and_are_within_bounds() -> None:
    drawn = mixture(2, "wide", 3, n_rows=2000)
    again = mixture.__wrapped__(2, "wide", 3, n_rows=2000)
    other = mixture.__wrapped__(2, "wide", 4, n_rows=2000)
    assert np.array_equal(drawn.X, again.X)
    assert drawn.best == again.best
    assert not np.array_equal(drawn.X, other.X)
    assert np.abs(drawn.X).max() <= 1
    assert len(drawn.server_rows) == N_CLUSTERS * SERVER_ROWS + SERVER_POINTS


def test_the_ratio_of_pooled_centers_is_one_and_of_others_more() -> None:
    drawn = mixture(8, "tight", 0, n_rows=3000)
    means = np.array([drawn.X[drawn.y == j].mean(axis=0) for j in range(N_CLUSTERS)])
    assert abs(drawn.ratio(means) - 1) < 1e-3
    assert drawn.ratio(means + 0.05) > 1.5


def test_each_row_is_at_one_of_ten_sites() -> None:
    y = np.arange(5000) % N_CLUSTERS
    for split in ("iid", "dirichlet"):
        ids = site_of_rows(y, split, 0)
        assert len(ids) == 5000
        assert np.bincount(ids, minlength=N_SITES).min() >= 100
        assert not np.array_equal(ids, site_of_rows(y, split, 1))


def test_bounds_are_mapped_to_the_unit_box_and_back() -> None:
    problem = Problem((np.zeros((1, 1)),), 1, 1.0, 1e-6, 0, low=10.0, high=30.0)
    assert problem.unit(np.array([[10.0], [25.0], [99.0]])).ravel().tolist() == [-1.0, 0.5, 1.0]
    assert problem.from_unit(np.array([[-1.0], [0.5]])).ravel().tolist() == [10.0, 25.0]
