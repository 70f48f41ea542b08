"""A row of weight w acts as w copies of it, and one of weight 0 as if it were not there."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedjigsaw import Guard, Jigsaw, KFed, Privacy
from fedjigsaw.errors import DataError, DataTypeError, ParameterError
from fedjigsaw.methods import CLUSTERERS

MEANS = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])


@pytest.fixture
def weighted(rng):
    """Three clusters far apart at two clients: rows, clients, weights."""
    X = np.repeat(MEANS, 8, axis=0) + rng.uniform(-1, 1, (24, 2))
    weights = rng.integers(0, 5, 24)
    weights[3] = 0
    return X, np.arange(24) % 2, weights


def sums(summaries):
    """What leaves clients, in the order of the centers."""
    return [
        (
            s.n_samples,
            s.centers.round(9).tolist(),
            None if s.counts is None else s.counts.tolist(),
            None if s.sse is None else s.sse.round(6).tolist(),
            None if s.radii is None else s.radii.round(9).tolist(),
        )
        for s in summaries
    ]


@pytest.mark.parametrize("name", CLUSTERERS)
def test_weights_are_copies(name, weighted):
    cls, (X, clients, weights) = CLUSTERERS[name].cls, weighted
    by_weight = cls(3, random_state=0).fit(X, clients=clients, sample_weight=weights)
    copies = cls(3, random_state=0).fit(X.repeat(weights, axis=0), clients=clients.repeat(weights))
    assert sums(by_weight.summaries_) == sums(copies.summaries_)
    np.testing.assert_allclose(by_weight.cluster_centers_, copies.cluster_centers_, atol=1e-9)
    assert by_weight.inertia_ == pytest.approx(copies.inertia_)
    assert by_weight.predict(X).tolist() == copies.predict(X).tolist()
    assert by_weight.profile_.round(6).equals(copies.profile_.round(6))


def test_so_are_they_where_the_number_is_found_and_in_later_rounds(weighted):
    X, clients, weights = weighted
    X, clients = X.repeat(10, axis=0), clients.repeat(10)
    X += np.random.default_rng(1).normal(size=X.shape)
    weights = weights.repeat(10)
    repeated = X.repeat(weights, axis=0), clients.repeat(weights)
    for params in ({"n_clusters": "auto"}, {"n_clusters": 3, "n_rounds": 2}):
        by_weight = Jigsaw(**params, random_state=0).fit(X, clients=clients, sample_weight=weights)
        copies = Jigsaw(**params, random_state=0).fit(repeated[0], clients=repeated[1])
        assert by_weight.n_clusters_ == copies.n_clusters_ == 3
        assert by_weight.support_["points"].tolist() == copies.support_["points"].tolist()
        assert [s.n_samples for s in by_weight.summaries_] == [
            s.n_samples for s in copies.summaries_
        ]


def test_rows_without_weight_are_not_there(weighted):
    X, clients, weights = weighted
    X = np.concatenate([X, [[1e6, 1e6], [-1e6, 0.0]]])
    clients = [*map(str, clients), "0", "alone"]
    weights = [*weights, 0, 0]
    far = Jigsaw(3, random_state=0).fit(X, clients=clients, sample_weight=weights)
    near = Jigsaw(3, random_state=0).fit(X[:-2], clients=clients[:-2], sample_weight=weights[:-2])
    assert far.model_ == near.model_
    assert far.transcript_.clients == ("0", "1")  # a client without rows takes no part
    assert far.inertia_ == near.inertia_
    assert len(far.labels_) == len(X)  # they are labeled all the same


def test_ones_change_nothing(weighted):
    X, clients, _ = weighted
    plain = Jigsaw(3, random_state=0).fit(X, clients=clients)
    ones = Jigsaw(3, random_state=0).fit(X, clients=clients, sample_weight=np.ones(24))
    assert sums(ones.summaries_) == sums(plain.summaries_)
    assert ones.labels_.tolist() == plain.labels_.tolist()


def test_weights_of_each_client(weighted):
    X, clients, weights = weighted
    shards = {name: X[clients == name] for name in (0, 1)}
    own = {name: weights[clients == name] for name in (0, 1)}
    apart = Jigsaw(3, random_state=0).fit_clients(shards, sample_weight=own)
    together = Jigsaw(3, random_state=0).fit(X, clients=clients, sample_weight=weights)
    assert apart.model_ == together.model_
    listed = Jigsaw(3, random_state=0).fit_clients(
        list(shards.values()), sample_weight=list(own.values())
    )
    assert listed.model_ == apart.model_


def test_score_and_fit_predict(weighted):
    X, clients, weights = weighted
    fitted = Jigsaw(3, random_state=0).fit(X, clients=clients, sample_weight=weights)
    assert fitted.score(X, sample_weight=weights) == pytest.approx(-fitted.inertia_)
    assert fitted.score(X, sample_weight=weights) == pytest.approx(
        fitted.score(X.repeat(weights, axis=0))
    )
    assert fitted.score(X, sample_weight=weights / 2) == pytest.approx(-fitted.inertia_ / 2)
    again = Jigsaw(3, random_state=0)
    labels = again.fit_predict(X, clients=clients, sample_weight=pd.Series(weights))
    assert labels.tolist() == fitted.labels_.tolist()


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ([1, 2], DataError, "sample_weight of Jigsaw.fit"),
        ([[1], [1], [1], [1]], DataError, r"got shape \(4, 1\)"),
        ([[1], [1, 2], [1], [1]], DataError, r"shape \(0,\)"),
        ([1, -1, 1, 1], DataError, "whole numbers >= 0"),
        ([1, 1, 0.5, 1], DataError, "got 0.5 in row 2. Only their ratios move"),
        ([1, 1, np.nan, 1], DataError, "got nan in row 2"),
        ([0, 0, 0, 0], DataError, "not all zero"),
        ([2**40, 2**40, 1, 1], DataError, "add up to at most"),
        (["a", "b", "c", "d"], DataTypeError, "numbers; got <U1"),
    ],
)
def test_bad_weights(weights, error, words):
    with pytest.raises(error, match=words):
        Jigsaw(2).fit([[0.0], [1.0], [8.0], [9.0]], sample_weight=weights)


def test_weights_that_do_not_fit_their_clients():
    shards = {"a": [[0.0], [1.0]], "b": [[9.0]]}
    for weights, words in [
        ({"a": [1, 1]}, "weights of each client"),
        ({"a": [1, 1], "c": [1]}, "Only one of shards and sample_weight has client 'b', 'c'"),
        ({"a": [1, 1], "b": [1], "c": [1]}, "sample_weight has client 'c'"),
        ([[1, 1]], "in a list or mapping like that of its rows; got those of 1 client"),
        ({"a": [1, 1], "b": [1, 1]}, r"sample_weight of client 'b' .*\(1,\); got shape \(2,\)"),
        ([1, 1, 1], "weights of each client"),
    ]:
        with pytest.raises(DataError, match=words):
            Jigsaw(2).fit_clients(shards, sample_weight=weights)
    with pytest.raises(ParameterError, match="needs data in memory"):
        Jigsaw(2).fit_clients({"a": lambda: np.ones((3, 1))}, sample_weight={"a": [1, 1, 1]})


def test_guards_and_privacy_count_rows_so_that_weights_are_refused(weighted):
    X, _, weights = weighted
    with pytest.raises(ParameterError, match="one row of weight 5 would pass for five"):
        Jigsaw(3).fit(X, sample_weight=weights, guard=Guard())
    privacy = Privacy(epsilon=1.0, cells="own", bounds=(-2, 102))
    with pytest.raises(ParameterError, match="sample_weight cannot be used with privacy"):
        Jigsaw(3).fit(X, sample_weight=weights, privacy=privacy)


def test_copies_that_are_too_many_are_refused_and_weights_are_not():
    rows, weights = [[0.0], [1.0], [9.0]], [2**30, 1, 2**30]
    with pytest.raises(ParameterError, match="KFed does not compute with sample_weight: .*2,147"):
        KFed(2).fit(rows, sample_weight=weights)
    assert Jigsaw(2, random_state=0).fit(rows, sample_weight=weights).n_clusters_ == 2


def test_metadata_routing_through_a_pipeline_and_a_grid_search(weighted):
    X, _, weights = weighted
    with config_context(enable_metadata_routing=True):
        jigsaw = Jigsaw(3, random_state=0).set_fit_request(sample_weight=True)
        jigsaw = jigsaw.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        routed = make_pipeline(scaler, jigsaw).fit(X, sample_weight=weights)
        rows = routed[0].transform(X)
        direct = Jigsaw(3, random_state=0).fit(rows, sample_weight=weights)
        assert routed[-1].model_ == direct.model_
        search = GridSearchCV(jigsaw, {"n_clusters": [1, 3]}, cv=2)
        search.fit(X[::2].repeat(2, axis=0), sample_weight=np.maximum(weights, 1))
        assert search.best_params_ == {"n_clusters": 3}
