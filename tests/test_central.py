import numpy as np
import pytest
from sklearn.cluster import KMeans

from fedjigsaw import CentralKMeans


def test_ignores_who_holds_which_row(grid):
    data, ids = grid
    split = CentralKMeans(15, random_state=0).fit(data.X, clients=ids)
    whole = CentralKMeans(15, random_state=0).fit(data.X)
    assert split.model_ == whole.model_
    assert split.transcript_.clients == ("pooled",)


def test_is_as_good_as_scikit_learn(grid):
    data, _ = grid
    ours = CentralKMeans(15, n_init=20, random_state=0).fit(data.X)
    theirs = KMeans(15, n_init=20, random_state=0).fit(data.X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert np.bincount(ours.labels_).sum() == len(data.X)
