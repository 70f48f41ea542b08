from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from doubles import FailsOnNegative, OneByOne
from fedjigsaw import (
    CentralKMeans,
    DCKMeans,
    FeCA,
    FederatedClusterer,
    FewerClustersWarning,
    Guard,
    Model,
    SerialEngine,
    Summary,
)
from fedjigsaw.errors import (
    DataError,
    DataTypeError,
    MessageError,
    ParameterError,
    QuorumError,
)

ROWS = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]])


class TestTheTwoDoors:
    def test_ids_and_shards_give_the_same(self, grid):
        data, ids = grid
        by_ids = FeCA(15, random_state=0).fit(data.X, clients=ids)
        shards = [data.X[ids == m] for m in range(5)]
        by_list = FeCA(15, random_state=0).fit_clients(shards)
        by_names = FeCA(15, random_state=0).fit_clients({str(m): s for m, s in enumerate(shards)})
        assert by_ids.model_ == by_list.model_ == by_names.model_
        assert (
            by_list.labels_ == np.concatenate([by_ids.labels_[ids == m] for m in range(5)])
        ).all()

    def test_no_ids_is_one_client(self):
        alone = FeCA(2, random_state=0).fit(ROWS)
        assert alone.transcript_.clients == ("0",)
        assert alone.model_ == FeCA(2, random_state=0).fit_clients([ROWS]).model_

    def test_order_of_the_mapping_does_not_matter(self, grid):
        data, ids = grid
        shards = {f"site {m}": data.X[ids == m] for m in range(5)}
        backwards = dict(reversed(shards.items()))
        first, second = (FeCA(15, random_state=0).fit_clients(s) for s in (shards, backwards))
        assert first.model_ == second.model_

    def test_data_frames_keep_their_column_names(self):
        frame = pd.DataFrame(ROWS, columns=["age", "dose"])
        method = FeCA(2, random_state=0).fit_clients({"a": frame, "b": frame})
        assert method.feature_names_in_.tolist() == ["age", "dose"]
        assert method.model_.feature_names == ("age", "dose")
        with pytest.raises(DataError, match="feature names"):
            method.predict(frame[["dose", "age"]])
        with pytest.raises(DataError, match="Client .b. has no column .dose., unlike"):
            FeCA(2).fit_clients({"a": frame, "b": frame.rename(columns={"dose": "size"})})


class TestAfterFit:
    def test_attributes(self):
        method = FeCA(2, random_state=0).fit(ROWS)
        assert method.n_clusters_ == 2
        assert method.n_iter_ == 1
        assert method.cluster_centers_.shape == (2, 2)
        assert method.inertia_ == pytest.approx(-method.score(ROWS)) == 1.0
        assert (method.predict(ROWS) == method.labels_).all()
        assert method.transform(ROWS).argmin(axis=1).tolist() == method.labels_.tolist()
        assert method.transcript_.seed == 0
        assert list(method.get_feature_names_out()) == ["feca0", "feca1"]

    def test_centers_can_be_changed_without_touching_the_model(self):
        method = FeCA(2, random_state=0).fit(ROWS)
        method.cluster_centers_[:] = 0
        assert method.model_.centers.any()

    def test_before_fit(self):
        with pytest.raises(NotFittedError):
            FeCA(2).predict(ROWS)


class TestFewerClusters:
    def test_all_rows_equal(self):
        with pytest.warns(FewerClustersWarning, match="found 1 of 3 clusters: .* only 1 distinct"):
            method = FeCA(3).fit(np.ones((5, 2)), clients=[0, 0, 1, 1, 1])
        assert method.cluster_centers_.tolist() == [[1.0, 1.0]]
        assert method.inertia_ == 0

    def test_summaries_hold_no_more(self):
        with pytest.warns(FewerClustersWarning, match="found 2 of 3 .*: the summaries have too"):
            method = FeCA(3, n_local_clusters=2, random_state=0).fit(ROWS)
        assert method.n_clusters_ == 2

    def test_no_reason_is_made_up_for_a_method_that_finds_fewer(self):
        class Stubborn(DCKMeans):
            def aggregate(self, summaries, broadcast, rng):
                return Model(super().aggregate(summaries, broadcast, rng).centers[:2])

        with pytest.warns(FewerClustersWarning, match=r"^Stubborn found 2 of 3 clusters\.$"):
            Stubborn(3, random_state=0).fit(ROWS)


class TestBadInput:
    """Each has its own message: the parameter, the owner, what is allowed, what came."""

    @pytest.mark.parametrize(
        ("shards", "error", "words"),
        [
            ({"a": ROWS, "b": np.empty((0, 2))}, DataError, r"client 'b' .*0 sample"),
            ({"a": ROWS, "b": [[np.nan, 1]]}, DataError, "client 'b'"),
            ({"a": ROWS, "b": [[1e-200, 0]]}, DataError, "zero or at least 1e-100 in size"),
            ({"a": ROWS, "b": [[2**2000, 0]]}, DataError, "client 'b'"),
            ({"a": ROWS, "b": [[1e200, 0]]}, DataError, "at most 1e.100 in size"),
            ({"a": ROWS, "b": [[1, -np.inf]]}, DataError, "client 'b' .* infinity .* column 1"),
            ({"a": ROWS, "b": [["x", "y"]]}, DataError, "data of client 'b' as a table of numbers: .*'x'"),
            ({"a": ROWS, "b": np.array([[1j, 1]])}, DataError, "client 'b' .*Complex data not supported"),
            ({"a": ROWS, "b": [[1.0], [1.0, 2.0]]}, DataError, "client 'b'"),
            ({"a": ROWS, "b": [1.0, 2.0]}, DataError, "client 'b' .*Reshape"),
            ({"a": ROWS, "b": [[1.0, 2.0, 3.0]]}, DataError, "client 'b': X has 3 features, but FeCA is expecting 2"),
            ({"a": ROWS, "b": [[{}, 1]]}, DataTypeError, "client 'b'"),
            ({"a": ROWS, 1.5: ROWS}, DataTypeError, "integers or strings"),
            ({1: ROWS, "1": ROWS}, DataError, "unique as strings"),
            ({"": ROWS}, DataError, "name of a client"),
            ([], DataError, "non-empty list of arrays or mapping of id to array"),
            ({}, DataError, "got an empty dict"),
            (ROWS, DataError, "got ndarray"),
            (None, DataError, "got NoneType"),
        ],
    )  # fmt: skip
    def test_shards(self, shards, error, words):
        with pytest.raises(error, match=words):
            FeCA(2).fit_clients(shards)

    def test_rows(self):
        with pytest.raises(DataError, match="data of FeCA.fit"):
            FeCA(2).fit([[0.0], [np.nan], [np.nan]])
        with pytest.raises(DataError, match="clients of FeCA.fit"):
            FeCA(2).fit(ROWS, clients=[0, 1])

    def test_one_row(self):
        assert FeCA(1).fit([[3.0, 4.0]]).cluster_centers_.tolist() == [[3.0, 4.0]]
        with pytest.raises(ParameterError, match="n_samples = 1"):
            FeCA(2).fit([[3.0, 4.0]])

    @pytest.mark.parametrize("engine", ["process", None, 3, dict, FeCA, lambda clients: None])
    def test_engine(self, engine):
        with pytest.raises(ParameterError, match="engine of FeCA"):
            FeCA(2).fit(ROWS, engine=engine)

    def test_nothing_is_half_done(self):
        method = FeCA(2)
        with pytest.raises(DataError):
            method.fit_clients({"a": ROWS, "b": [[np.nan, 1.0]]})
        assert not hasattr(method, "cluster_centers_")

    def test_a_failed_refit_leaves_the_old_fit(self):
        method = FeCA(2, random_state=0).fit(ROWS)
        with pytest.raises(DataError):
            method.fit([[0.0, 1.0, np.nan]])
        assert method.n_features_in_ == 2
        assert method.predict(ROWS).tolist() == method.labels_.tolist()

    def test_prediction_checks_its_rows(self):
        method = FeCA(2, random_state=0).fit(ROWS)
        with pytest.raises(DataError, match=r"data of FeCA.predict: X has 1 features"):
            method.predict([[1.0]])


class TestLocalLabels:
    """Two clients; the row 40 of "b" lies nearer to the cluster of "a", but belongs to its own."""

    SHARDS: ClassVar = {"a": [[0.0], [2.0]], "b": [[40.0], [98.0], [102.0], [160.0]]}

    def test_by_hand(self):
        near, local = (
            FeCA(2, n_local_clusters=1, assign=rule, random_state=0).fit_clients(self.SHARDS)
            for rule in ("nearest", "local")
        )
        assert near.cluster_centers_.ravel().tolist() == [100.0, 1.0]
        assert near.labels_.tolist() == [1, 1, 1, 0, 0, 0]
        assert local.labels_.tolist() == [1, 1, 0, 0, 0, 0]
        assert local.inertia_ == near.inertia_  # the objective knows no clients
        assert local.predict([[40.0]]).tolist() == [1]  # a row of nobody goes to the nearest

    def test_rows_keep_their_order(self):
        rows = np.concatenate([self.SHARDS["b"][:2], self.SHARDS["a"], self.SHARDS["b"][2:]])
        method = FeCA(2, n_local_clusters=1, assign="local", random_state=0)
        assert method.fit(rows, clients=list("bbaabb")).labels_.tolist() == [0, 0, 1, 1, 0, 0]

    def test_a_failed_client_gets_the_nearest(self):
        method = FailsOnNegative(1, assign="local", random_state=0)
        method.fit_clients({"a": [[1.0], [2.0]], "b": [[-1.0]]}, min_clients=1)
        assert [s.client for s in method.summaries_] == ["a"]
        assert method.labels_.tolist() == [0, 0, 0]

    def test_summaries_are_what_was_sent(self):
        method = FeCA(2, n_local_clusters=1, random_state=0).fit_clients(self.SHARDS)
        assert [s.client for s in method.summaries_] == ["a", "b"]
        assert [s.centers.tolist() for s in method.summaries_] == [[[1.0]], [[100.0]]]
        assert sum(s.nbytes for s in method.summaries_) == method.transcript_.bytes_up
        assert method.summaries_[0].counts is None  # FeCA's server does not need them


def own_method(*, summarize=None, aggregate=None):
    class Own(FederatedClusterer):
        sends = ("counts",)

        def summarize(self, X, broadcast, rng):
            if summarize is not None:
                return summarize(X)
            return Summary(len(X), X[:1], counts=[len(X)])

        def aggregate(self, summaries, broadcast, rng):
            if aggregate is not None:
                return aggregate(self)
            return self.make_model(summaries[0].centers)

    return Own(1)


class TestOwnMethods:
    @pytest.mark.parametrize(
        ("centers", "error", "words"),
        [
            (np.ones((2, 5)), ParameterError, "each of the 2 columns of the rows"),
            (np.ones((2, 1)), ParameterError, "Own.aggregate"),
            (np.zeros((0, 2)), ParameterError, "Own.aggregate"),
            (np.full((2, 2), np.nan), MessageError, "centers of a model"),
            (np.full((2, 2), 1j), MessageError, "centers of a model .*got complex128"),
        ],
    )
    def test_a_model_must_fit_the_rows(self, centers, error, words):
        method = own_method(aggregate=lambda self: self.make_model(centers, more=np.ones(1)))
        with pytest.raises(error, match=words):
            method.fit(ROWS)
        assert not hasattr(method, "model_")

    def test_a_summary_must_fit_the_rows(self):
        method = own_method(summarize=lambda X: Summary(len(X), np.ones((2, 5)), counts=[2, 2]))
        with pytest.raises(ParameterError, match="Own.summarize"):
            method.fit(ROWS, clients=[0, 0, 1, 1])

    @pytest.mark.parametrize("labels", [[2, 0, 0, 0], [-2, 0, 0, 0], [0.5, 0, 0, 0], [[0, 0]]])
    def test_a_guard_gets_only_labels_of_clusters(self, labels):
        tensors = {"labels": np.array(labels)}
        method = own_method(
            summarize=lambda X: Summary(len(X), X[:2], counts=[3, 1], tensors=tensors)
        )
        with pytest.raises(QuorumError, match="labels that are not whole numbers from -1 to 1"):
            method.fit(ROWS, guard=Guard(min_cluster_size=2))
        tensors["labels"] = np.array([0, -1, 1, 0])
        method.fit(ROWS, guard=Guard(min_cluster_size=2))

    @pytest.mark.parametrize("weights", [None, [1, 1, 2, 1]])
    @pytest.mark.parametrize("engine", [OneByOne, SerialEngine])
    def test_rows_cannot_be_changed_in_place(self, engine, weights):
        def double(X):
            X *= 2
            return Summary(len(X), X[:1], counts=[len(X)])

        rows = ROWS.copy()
        rows_before = rows.copy()
        with pytest.raises(QuorumError, match="read-only"):
            own_method(summarize=double).fit(rows, engine=engine, sample_weight=weights)
        assert (rows == rows_before).all()
        assert rows.flags.writeable
        copied = own_method(summarize=lambda X: double(X.copy())).fit(rows, engine=engine)
        assert (copied.cluster_centers_ == 2 * ROWS[:1]).all()


DATES = pd.date_range("2024-01-01", periods=4)


@pytest.mark.parametrize(
    ("X", "where"),
    [
        (pd.DataFrame({"age": [1.0, 2, 3, 4], "born": DATES}), "column 'born'"),
        (pd.DataFrame({"born": DATES.tz_localize("UTC")}), "column 'born'"),
        (pd.DataFrame({"stay": DATES - DATES[0]}), "column 'stay'"),
        (DATES.to_numpy()[:, None], "all columns"),
        ([[day] for day in DATES.to_numpy()], "all columns"),
        (pa.table({"age": [1.0] * 4, "born": pa.array(DATES)}), "column 'born'"),
        (pl.DataFrame({"age": [1.0] * 4, "born": list(DATES.date)}), "column 'born'"),
        (pl.DataFrame({"stay": list((DATES - DATES[0]).to_pytimedelta())}), "column 'stay'"),
    ],
)
def test_dates_have_no_number_without_a_unit(X, where):
    with pytest.raises(DataTypeError, match=f"dates or durations \\({where}\\). Convert them"):
        CentralKMeans(2).fit(X)


def test_a_series_is_told_to_be_a_column():
    with pytest.raises(DataError, match="must be a 2-D array"):
        CentralKMeans(1).fit(pd.Series([1.0, 2.0]))
