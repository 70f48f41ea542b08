import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from fedjigsaw import FeCA, Jigsaw
from fedjigsaw.errors import DataError, DataTypeError
from fedjigsaw.validation import check_data, name_clients, rows_by_client


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        ([["a", "b"]], DataError, "Cannot use the data of site 'x' as a table of numbers: .*'a'"),
        (pd.DataFrame({"age": [1.0], "drug": ["a"]}), DataError, "'a'. A column of text: 'drug'"),
        (pd.DataFrame([[1.0, 2.0]], columns=["age", 1]), DataTypeError, r"your input has \['int',"),
        (
            np.ma.masked_greater([[1.0, 2.0], [3.0, 999.0]], 100),
            DataError,
            "got NaN in row 1, column 1",
        ),
        ([[1.0, np.nan]], DataError, r"got NaN in row 0, column 1 \(1 such .*impute the values"),
        ([[1e150]], DataError, "data of site 'x'"),
        ([[1e-150]], DataError, "got a largest absolute value of 1e-150"),
    ],
)
def test_bad_data(X, error, words):
    with pytest.raises(error, match=words):
        check_data(BaseEstimator(), X, owner="site 'x'", reset=True)


def test_rows_of_a_client_keep_their_order():
    members = rows_by_client(5, ["b", "a", "b", "a", "b"], owner="x")
    assert {name: rows.tolist() for name, rows in members.items()} == {"a": [1, 3], "b": [0, 2, 4]}


@pytest.mark.parametrize(
    ("clients", "error", "words"),
    [
        ([0, 1], DataError, r"one id per row, shape \(3,\)"),
        ([1, "1", "a"], DataTypeError, "all integers or all strings"),
        (["a", float("nan"), "b"], DataTypeError, "got nan in row 1"),
        ([[0], [1, 2], [3]], DataError, "Cannot convert the clients of X.fit to an array"),
        ([[0], [1], [2]], DataError, r"got shape \(3, 1\)"),
        ([0.5, 1.0, 2.0], DataTypeError, "integers or strings"),
        (np.array([0, 1, None], dtype=object), DataTypeError, "got None in row 2"),
        (np.array(["a", float("nan"), "b"], dtype=object), DataTypeError, "got nan in row 1"),
        (["a", "", "b"], DataError, "1 to 200 characters long"),
        (["a", "b\n", "b"], DataError, "printable"),
        (["a", "b", "c" * 201], DataError, "1 to 200"),
    ],
)
def test_bad_client_ids(clients, error, words):
    with pytest.raises(error, match=words):
        rows_by_client(3, clients, owner="X.fit")


def test_two_ids_with_the_same_name():
    with pytest.raises(DataError, match="unique as strings"):
        name_clients([1, "1"], owner="X.fit_clients")


@pytest.mark.parametrize(
    "bad", [np.full((3, 2), 7.25 + 0j), np.array(7.25), np.full((2, 2, 2), 7.25)]
)
def test_an_error_shows_no_rows(bad):
    with pytest.raises(DataError) as error:
        Jigsaw(2).fit(bad)
    assert "7.25" not in str(error.value)


@pytest.mark.parametrize("kind", ["datetime64[ns]", "datetime64[us]", "timedelta64[ns]"])
def test_dates_are_no_clients(kind):
    ids = np.arange(20).astype(kind)
    with pytest.raises(DataTypeError, match="must be all integers or all strings"):
        Jigsaw(2).fit(np.zeros((20, 2)), clients=ids)


@pytest.mark.parametrize("tables", [[np.zeros((3, 2))] * 2, (np.zeros((3, 2)), np.zeros((5, 2)))])
def test_tables_of_several_clients_are_for_another_function(tables):
    with pytest.raises(DataError, match="fit_clients"):
        FeCA(2).fit(tables)
