"""Tables with names: clients by a column, columns in any order, and clients given as y."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedjigsaw import FeCA, FederatedPreparation, Jigsaw, compare, load
from fedjigsaw.errors import DataError, DataTypeError, DataWarning, FedJigsawError

TABLE = {
    "age": [1.0, 2.0, 50.0, 51.0, 2.5, 49.0],
    "site": ["bern", "oslo", "bern", "oslo", "bern", "oslo"],
    "dose": [0.0, 1.0, 9.0, 8.0, 0.5, 9.0],
}
MAKERS = [pd.DataFrame, pl.DataFrame, pa.table]


@pytest.mark.parametrize("make", MAKERS)
class TestClientsByColumn:
    def test_the_column_is_taken_out(self, make):
        named = Jigsaw(2, random_state=0).fit(make(TABLE), clients="site")
        rows = np.column_stack([TABLE["age"], TABLE["dose"]])
        plain = Jigsaw(2, random_state=0).fit(rows, clients=TABLE["site"])
        assert named.feature_names_in_.tolist() == ["age", "dose"]
        assert named.transcript_.clients == ("bern", "oslo")
        assert named.cluster_centers_.tolist() == plain.cluster_centers_.tolist()

    def test_predict_and_fit_predict(self, make):
        method = FeCA(2, random_state=0)
        labels = method.fit_predict(make(TABLE), clients="site")
        local = method.predict(make(TABLE), clients="site")
        assert labels.tolist() == local.tolist() == [labels[0], labels[0], *labels[2:]]

    def test_the_column_is_taken_out_of_later_rows_too(self, make):
        """A table goes through fit, transform and score as it is; scikit-learn's tools do that."""
        table = make(TABLE)
        method = Jigsaw(2, random_state=0).fit(table, clients="site")
        rows = make({name: TABLE[name] for name in ("age", "dose")})
        assert method.predict(table).tolist() == method.predict(rows).tolist()
        assert method.score(table) == method.score(rows)
        fitted = Jigsaw(2, random_state=0).fit_transform(table, clients="site")
        assert fitted.tolist() == method.transform(rows).tolist()
        with pytest.raises(DataError, match="unseen at fit time: - site"):
            method.fit(rows, clients=TABLE["site"]).predict(table)  # another fit, another column

    def test_a_file_keeps_the_name_of_the_column(self, make, tmp_path):
        table = make(TABLE)
        method = Jigsaw(2, random_state=0).fit(table, clients="site")
        method.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.predict(table).tolist() == method.predict(table).tolist()
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()

    def test_numbers_are_clients_too(self, make):
        table = {**TABLE, "site": [3, 1, 3, 1, 3, 1]}
        assert Jigsaw(2).fit(make(table), clients="site").transcript_.clients == ("1", "3")

    def test_bad_columns(self, make):
        missing = {**TABLE, "site": ["bern", None, *TABLE["site"][2:]]}
        for table, clients, error, told in (
            (TABLE, "city", DataError, "'city'.* 'age', 'site'"),
            ({"site": TABLE["site"]}, "site", DataError, "'site'"),
            (missing, "site", DataTypeError, "row 1"),
        ):
            with pytest.raises(error, match=told):
                Jigsaw(2).fit(make(table), clients=clients)

    def test_columns_of_clients_in_any_order(self, make):
        bern, oslo = ({name: TABLE[name][start::2] for name in ("age", "dose")} for start in (0, 1))
        turned = dict(reversed(oslo.items()))
        same = Jigsaw(2, random_state=0).fit_clients({"bern": make(bern), "oslo": make(oslo)})
        other = Jigsaw(2, random_state=0).fit_clients({"bern": make(bern), "oslo": make(turned)})
        assert same.model_ == other.model_
        assert same.labels_.tolist() == other.labels_.tolist()

    @pytest.mark.parametrize("columns", [["age"], ["age", "dose", "size"], ["age", "size"]])
    def test_an_error_names_client_and_column(self, make, columns):
        bern = make({"age": [1.0, 2.0], "dose": [0.0, 1.0]})
        oslo = make({name: [1.0] for name in columns})
        with pytest.raises(DataError, match="'oslo' has .*'(dose|size)'"):
            Jigsaw(2).fit_clients({"bern": bern, "oslo": oslo})


@pytest.mark.parametrize(
    "make",
    [
        lambda table: pd.DataFrame(table).rename(columns={"age": 0, "dose": 1}),
        lambda table: pd.concat({"a": pd.DataFrame(table)}, axis=1),  # names of two levels
        pa.RecordBatch.from_pydict,
    ],
)
def test_names_that_scikit_learn_does_not_keep_are_matched_too(make):
    bern, oslo = ({name: TABLE[name][start::2] for name in ("age", "dose")} for start in (0, 1))
    turned = dict(reversed(oslo.items()))
    lacking = {"age": oslo["age"], "size": oslo["dose"]}
    for given in (make, lambda table: lambda: make(table)):  # now, and later
        same = Jigsaw(2, random_state=0).fit_clients({"bern": given(bern), "oslo": given(oslo)})
        other = Jigsaw(2, random_state=0).fit_clients({"bern": given(bern), "oslo": given(turned)})
        assert same.model_ == other.model_
        with pytest.raises(FedJigsawError, match="Client 'oslo' has no column .*dose|no column 1"):
            Jigsaw(2).fit_clients({"bern": given(bern), "oslo": given(lacking)})


@pytest.mark.filterwarnings("error")
def test_a_table_without_rows_yet_is_told_as_such():
    lazy = pl.LazyFrame({"age": [1.0, 2.0], "site": ["a", "b"]})
    fitted = Jigsaw(1).fit(lazy.select("age").collect())
    for call in [
        lambda: Jigsaw(1).fit(lazy),
        lambda: Jigsaw(1).fit(lazy, clients="site"),
        lambda: Jigsaw(1).fit_clients([lazy]),
        lambda: Jigsaw(1).fit_clients([lambda: lazy]),
        lambda: fitted.predict(lazy),
        lambda: compare(["jigsaw"], lazy, n_clusters=1),
        lambda: FederatedPreparation().fit(lazy),
    ]:
        with pytest.raises(DataTypeError, match="collect"):
            call()


def test_blocks_of_a_generator_are_put_in_order_too():
    table = pd.DataFrame([[0.0, 50.0], [1.0, 60.0], [8.0, 70.0], [9.0, 90.0]])
    blocks = (table[:2], table[2:][[1, 0]])
    lazy = Jigsaw(2, random_state=0).fit_clients({"a": lambda: iter(blocks), "b": lambda: table})
    eager = Jigsaw(2, random_state=0).fit_clients({"a": table, "b": table})
    assert lazy.model_ == eager.model_


def test_functions_that_make_tables_are_put_in_order_too():
    a = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 0.5]})
    b = pd.DataFrame({"y": [9.0, 9.5], "x": [9.0, 8.0]})
    lazy = Jigsaw(2, random_state=0).fit_clients({"a": lambda: a, "b": lambda: b})
    eager = Jigsaw(2, random_state=0).fit_clients({"a": a, "b": b[["x", "y"]]})
    assert lazy.model_ == eager.model_
    with pytest.raises(DataError, match="Client 'b' has no column 'y'"):
        Jigsaw(2).fit_clients({"a": lambda: a, "b": b[["x"]]})


def test_predict_keeps_to_the_order_of_the_fit():
    """As in scikit-learn, where other orders are an error."""
    frame = pd.DataFrame({"x": [0.0, 9.0], "y": [0.0, 9.0]})
    with pytest.raises(DataError, match="same order as they were in fit"):
        Jigsaw(2, random_state=0).fit(frame).predict(frame[["y", "x"]])


@pytest.mark.parametrize("make", MAKERS)
def test_a_missing_value_is_told_with_the_name_of_its_column(make):
    table = make(TABLE | {"dose": [0.0, 1.0, np.nan, 8.0, 0.5, 9.0]})
    words = r"NaN in row 2, column 'dose' \(1 such"
    with pytest.raises(DataError, match=words):
        Jigsaw(2).fit(table, clients="site")
    with pytest.raises(DataError, match="column 'dose'"):
        Jigsaw(2, random_state=0).fit(make(TABLE), clients="site").predict(table, clients="site")


def test_columns_of_one_name_are_told_with_what_to_do():
    table = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["age", "age"])
    for given in (table, table.assign(site="a")):
        with pytest.raises(DataError, match="'age'"):
            Jigsaw(1).fit(given, clients="site" if "site" in given else None)


def test_a_search_takes_clients_by_column():
    search = GridSearchCV(Jigsaw(random_state=0), {"n_clusters": [1, 2]}, cv=2, error_score="raise")
    search.fit(pd.DataFrame(TABLE), clients="site")
    assert search.best_params_ == {"n_clusters": 2}


def test_a_name_needs_names():
    with pytest.raises(DataError, match="names"):
        Jigsaw(2).fit([[0.0], [1.0]], clients="site")
    twice = pd.DataFrame([[0.0, "a", "b"]], columns=["x", "site", "site"])
    with pytest.raises(DataError, match="'x', 'site', 'site'"):
        Jigsaw(1).fit(twice, clients="site")


class TestClientsAsY:
    ROWS = np.array([[0.0], [1.0], [8.0], [9.0]])

    @pytest.mark.parametrize(
        "y", [["a", "b", "a", "b"], [0, 1, 0, 1], pd.Series(["a", "b", "a", "b"])]
    )
    def test_a_warning_points_at_the_line(self, y):
        with pytest.warns(DataWarning, match=r"pass it by name: fit\(X, clients=") as seen:
            self.fit(y)
        assert [w.filename for w in seen] == [__file__, __file__]

    def fit(self, y):
        Jigsaw(2, random_state=0).fit(self.ROWS, y)
        Jigsaw(2, random_state=0).fit_predict(self.ROWS, y)

    @pytest.mark.parametrize("y", [None, [0.5, 1.0, 2.0, 3.0], [1, 2, 3, 4], ["a"], "y"])
    def test_no_warning_about_anything_else(self, y):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Jigsaw(2, random_state=0).fit(self.ROWS, y)

    def test_nor_if_clients_are_given_or_scikit_learn_passes_y_on(self):
        y = ["a", "b", "a", "b"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Jigsaw(2, random_state=0).fit(self.ROWS, y, clients=y)
            make_pipeline(StandardScaler(), Jigsaw(2, random_state=0)).fit(self.ROWS, y)
            search = GridSearchCV(
                Jigsaw(random_state=0), {"n_clusters": [1, 2]}, cv=2, scoring="rand_score"
            )
            search.fit(self.ROWS, y)


@pytest.mark.parametrize("make", MAKERS)
def test_a_preparation_takes_clients_by_column_too(make):
    named = FederatedPreparation().fit(make(TABLE), clients="site")
    plain = FederatedPreparation().fit(
        make({"age": TABLE["age"], "dose": TABLE["dose"]}), clients=TABLE["site"]
    )
    assert named.get_feature_names_out().tolist() == ["age", "dose"]
    assert named.transform(make(TABLE)).tolist() == plain.transform(make(TABLE)).tolist()
