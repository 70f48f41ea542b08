"""float32 in, float32 out; the computation between is in float64, so that labels are the same."""

import tracemalloc

import numpy as np
import pytest

from fedjigsaw import FuzzyCMeans, Jigsaw, KFed
from fedjigsaw._rows import BLOCK, in_blocks


@pytest.fixture
def both(grid):
    data, ids = grid
    return data.X.astype(np.float32), data.X.astype(np.float32).astype(np.float64), ids


@pytest.mark.slow
@pytest.mark.parametrize("cls", [Jigsaw, KFed, FuzzyCMeans])
def test_the_same_fit_in_the_type_of_the_rows(cls, both):
    single, double, ids = both
    narrow = cls(15, random_state=0).fit(single, clients=ids)
    wide = cls(15, random_state=0).fit(double, clients=ids)
    assert narrow.model_ == wide.model_
    assert narrow.cluster_centers_.dtype == np.float32
    assert wide.cluster_centers_.dtype == np.float64
    assert narrow.labels_.tolist() == wide.labels_.tolist()
    assert narrow.inertia_ == pytest.approx(wide.inertia_, rel=1e-12)
    assert narrow.score(single) == pytest.approx(wide.score(double), rel=1e-12)


def test_rows_decide_about_distances(both):
    single, double, ids = both
    fitted = Jigsaw(15, random_state=0).fit(single, clients=ids)
    assert fitted.transform(single).dtype == np.float32
    assert fitted.transform(double).dtype == np.float64
    assert (fitted.transform(single) == fitted.transform(double).astype(np.float32)).all()
    assert fitted.predict(single).tolist() == fitted.predict(double).tolist()


def test_other_types_become_float64():
    fitted = Jigsaw(2, random_state=0).fit(np.array([[0], [1], [9]], dtype=np.int16))
    assert fitted.cluster_centers_.dtype == fitted.transform([[1]]).dtype == np.float64
    half = Jigsaw(2, random_state=0).fit(np.array([[0], [1], [9]], dtype=np.float16))
    assert half.cluster_centers_.dtype == np.float64


def test_predict_and_score_do_not_double_the_rows(rng):
    X = rng.normal(size=(400_000, 20)).astype(np.float32)
    fitted = Jigsaw(3, random_state=0).fit(X[:300])
    for use in (fitted.predict, fitted.score):
        tracemalloc.start()
        use(X)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < X.nbytes  # in float64, a copy of the rows would have twice as many bytes


def test_rows_of_several_blocks_all_count(rng):
    X = rng.normal(size=(5 * BLOCK // 8, 2)).astype(np.float32)
    assert len(list(in_blocks(X))) == 2
    fitted = Jigsaw(3, random_state=0).fit(X[:300])
    squared = [((X - center) ** 2).sum(axis=1) for center in fitted.model_.centers]
    assert fitted.score(X) == pytest.approx(-float(np.min(squared, axis=0).sum()), rel=1e-6)
    ones = np.ones(len(X))
    assert fitted.score(X, sample_weight=2 * ones) == pytest.approx(2 * fitted.score(X))
    assert (fitted.predict(X) == np.argmin(squared, axis=0)).mean() > 0.9999
    assert np.allclose(fitted.transform(X), np.sqrt(squared).T, rtol=1e-3, atol=1e-3)
