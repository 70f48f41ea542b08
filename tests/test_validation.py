import numpy as np
import pytest

from fedjigsaw._validation import name_clients, rows_by_client
from fedjigsaw.errors import DataError, DataTypeError


def test_split_keeps_order_within_a_client():
    members = rows_by_client(5, ["b", "a", "b", "a", "b"], owner="x")
    assert {name: rows.tolist() for name, rows in members.items()} == {"a": [1, 3], "b": [0, 2, 4]}


@pytest.mark.parametrize(
    ("clients", "error", "words"),
    [
        ([0, 1], DataError, r"one id per row, shape \(3,\); got shape \(2,\)"),
        ([1, "1", "a"], DataTypeError, "all integers or all strings; got both"),
        (["a", float("nan"), "b"], DataTypeError, "got nan in row 1"),
        ([[0], [1, 2], [3]], DataError, "one id per row"),
        ([[0], [1], [2]], DataError, r"got shape \(3, 1\)"),
        ([0.5, 1.0, 2.0], DataTypeError, "integers or strings; got 0.5. Convert"),
        (np.array([0, "a", None], dtype=object), DataTypeError, "got None in row 2"),
        (np.array(["a", float("nan"), "b"], dtype=object), DataTypeError, "got nan in row 1"),
        (["a", "", "b"], DataError, "1 to 200 characters long; got ''"),
        (["a", "b\n", "b"], DataError, "printable"),
        (["a", "b", "c" * 201], DataError, "1 to 200"),
    ],
)
def test_bad_client_ids(clients, error, words):
    with pytest.raises(error, match=words):
        rows_by_client(3, clients, owner="X.fit")


def test_two_ids_with_one_name():
    with pytest.raises(DataError, match=r"different from one another; got \['1'\]"):
        name_clients([1, "1"], owner="X.fit_clients")
