"""Sparse rows (CSR): the same results as dense ones, without all rows as a dense array."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from fedjigsaw import Guard, Jigsaw, Privacy
from fedjigsaw.errors import DataError, DataTypeError, FewerClustersWarning, ParameterError
from fedjigsaw.kernels.kmeans import count_distinct
from fedjigsaw.methods import CLUSTERERS

TAKES_SPARSE = [entry.cls for entry in CLUSTERERS.values() if entry.cls.takes_sparse]
REFUSES = [entry.cls for entry in CLUSTERERS.values() if not entry.cls.takes_sparse]


@pytest.fixture
def words(rng):
    """Counts of words in documents of three topics: rows, clients, topics."""
    topics = rng.integers(3, size=120)
    rates = np.full((3, 30), 0.05)
    for topic in range(3):
        rates[topic, 10 * topic : 10 * topic + 10] = 6.0
    X = rng.poisson(rates[topics]).astype(float)
    return X, rng.integers(3, size=120), topics


@pytest.mark.slow
@pytest.mark.parametrize("cls", TAKES_SPARSE)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_as_dense(cls, form, words):
    X, clients, _ = words
    dense = cls(3, random_state=0).fit(X, clients=clients)
    thin = cls(3, random_state=0).fit(form(X), clients=clients)
    np.testing.assert_allclose(thin.cluster_centers_, dense.cluster_centers_, atol=1e-8)
    assert thin.labels_.tolist() == dense.labels_.tolist()
    assert thin.inertia_ == pytest.approx(dense.inertia_)
    assert thin.predict(form(X)).tolist() == dense.predict(X).tolist()
    assert thin.score(form(X)) == pytest.approx(dense.score(X))
    np.testing.assert_allclose(thin.transform(form(X)), dense.transform(X))
    np.testing.assert_allclose(thin.profile_["mean"], dense.profile_["mean"], atol=1e-8)


@pytest.mark.slow
def test_every_way_to_fit(words):
    X, clients, topics = words
    rows = sparse.csr_array(X)
    for params in ({"n_clusters": "auto"}, {"n_rounds": 2}, {"assign": "local"}, {"detail": 3}):
        params = {"n_clusters": 3, **params}
        dense = Jigsaw(**params, random_state=0).fit(X, clients=clients)
        thin = Jigsaw(**params, random_state=0).fit(rows, clients=clients)
        assert thin.n_clusters_ == dense.n_clusters_
        if dense.n_clusters_ == 3:
            assert thin.labels_.tolist() == dense.labels_.tolist()
    shards = {m: rows[clients == m] for m in range(3)}
    apart = Jigsaw(3, random_state=0).fit_clients(shards)
    together = Jigsaw(3, random_state=0).fit(rows, clients=clients)
    assert apart.model_ == together.model_
    guarded = Jigsaw(3, random_state=0).fit(rows, clients=clients, guard=Guard())
    same = Jigsaw(3, random_state=0).fit(X, clients=clients, guard=Guard())
    np.testing.assert_allclose(guarded.cluster_centers_, same.cluster_centers_, atol=1e-6)
    assert len(set(zip(topics, thin.labels_, strict=True))) == 3


def test_weights_and_float32(words, rng):
    X, clients, _ = words
    weights = rng.integers(0, 3, len(X))
    rows = sparse.csr_array(X.astype(np.float32))
    thin = Jigsaw(3, random_state=0).fit(rows, clients=clients, sample_weight=weights)
    dense = Jigsaw(3, random_state=0).fit(X, clients=clients, sample_weight=weights)
    assert thin.cluster_centers_.dtype == thin.transform(rows).dtype == np.float32
    np.testing.assert_allclose(thin.cluster_centers_, dense.cluster_centers_, rtol=1e-6, atol=1e-6)
    assert thin.labels_.tolist() == dense.labels_.tolist()


@pytest.mark.slow
def test_no_dense_array_of_all_rows():
    rows = sparse.csr_array(sparse.random(20_000, 1000, density=0.002, random_state=0))
    fitted = Jigsaw(2, n_init=1, max_iter=3, n_rounds=2, random_state=0)
    tracemalloc.start()
    fitted.fit(rows)
    fitted.predict(rows)
    fitted.score(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000 * 1000 * 8 / 2


@pytest.mark.parametrize("cls", REFUSES)
def test_methods_that_cannot_say_so(cls, words):
    with pytest.raises(DataTypeError, match=f"{cls.__name__} does not take sparse data"):
        cls(3).fit(sparse.csr_array(words[0]))


def test_what_cannot_be_done_says_so(words):
    X, _, _ = words
    rows = sparse.csr_array(X)
    with pytest.raises(ParameterError, match="Differential privacy needs dense rows"):
        Jigsaw(3).fit(rows, privacy=Privacy(epsilon=1.0, cells="own", bounds=(0, 20)))
    with pytest.raises(DataError, match="'a' and 'b', one has sparse rows and one has dense"):
        Jigsaw(3).fit_clients({"a": rows, "b": X})
    bad = rows.copy()
    bad.data[0] = np.nan
    row, column = (int(place[0]) for place in bad.nonzero())
    with pytest.raises(DataError, match=f"got NaN in row {row}, column {column} "):
        Jigsaw(3).fit(bad)


def test_distinct_rows_are_counted_as_values_not_as_entries():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    rows = sparse.csr_array(X)
    assert count_distinct(rows, at_most=9) == count_distinct(X, at_most=9) == 3
    assert count_distinct(rows, at_most=2) == 2
    stored = sparse.csr_array(([1.0, 0.0, 1.0], [1, 0, 1], [0, 1, 3]), shape=(2, 2))
    assert count_distinct(stored, at_most=9) == 1  # a zero that is stored is a zero
    with pytest.warns(FewerClustersWarning, match="only 3 distinct rows"):
        Jigsaw(4, random_state=0).fit(rows)


def test_entries_that_are_stored_twice_are_added():
    twice = sparse.csr_array(([1.0, 2.0, 3.0, 9.0], [0, 0, 0, 0], [0, 2, 3, 4]), shape=(3, 1))
    with pytest.warns(FewerClustersWarning, match="only 2 distinct rows"):
        fitted = Jigsaw(3, random_state=0).fit(twice)
    assert fitted.cluster_centers_.ravel().tolist() == [3.0, 9.0]
    assert twice.nnz == 4  # the data of the caller are not touched
