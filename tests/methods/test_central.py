import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw import CentralKMeans
from fedjigsaw.comparison.measures import standard_measures
from fedjigsaw.errors import ParameterError


def test_ignores_who_holds_which_row(grid):
    data, ids = grid
    split = CentralKMeans(15, random_state=0).fit(data.X, clients=ids)
    whole = CentralKMeans(15, random_state=0).fit(data.X)
    assert split.model_ == whole.model_
    assert [s.client for s in split.summaries_] == ["pooled"]


def test_counts_the_rows_that_every_client_sends(grid):
    data, ids = grid
    central = CentralKMeans(15, random_state=0).fit(data.X, clients=ids)
    (only,) = central.transcript_.rounds
    n_columns = data.X.shape[1]
    assert only.bytes_up == {str(c): 8 * n_columns * int((ids == c).sum()) for c in np.unique(ids)}
    assert central.transcript_.bytes_up == data.X.nbytes
    whole = CentralKMeans(15, random_state=0).fit(data.X)
    assert whole.transcript_.bytes_up == data.X.nbytes
    measured = standard_measures(central, data, n_clients=6)
    assert measured["bytes_per_client"] == data.X.nbytes / 6


def test_min_clients_means_nothing_here(grid):
    data, ids = grid
    assert CentralKMeans(3).fit(data.X, clients=ids, min_clients=4).n_clusters_ == 3


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "all", True, 7])
def test_a_wrong_min_clients_is_an_error_all_the_same(grid, wrong):
    data, ids = grid
    assert len(np.unique(ids)) < 7
    with pytest.raises(ParameterError, match="min_clients of a run"):
        CentralKMeans(3).fit(data.X, clients=ids, min_clients=wrong)


def test_is_as_good_as_scikit_learn(grid):
    data, _ = grid
    ours = CentralKMeans(15, n_init=20, random_state=0).fit(data.X)
    theirs = KMeans(15, n_init=20, random_state=0).fit(data.X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert np.bincount(ours.labels_).sum() == len(data.X)
