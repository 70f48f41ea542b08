"""Bounds of columns, from a text or a file: every mistake is an error that says what to do."""

import json

import pytest

from fedjigsaw import Privacy
from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.io.bounds import read_bounds
from raising import raises


@pytest.fixture
def columns(tmp_path):
    path = tmp_path / "columns.json"
    path.write_text(json.dumps({"age": [0, 120], "dose": [-1.5, 1e3], "other": [0, 1]}))
    return path


def test_columns_of_a_file_come_in_the_order_that_is_asked_for(columns):
    found = read_bounds(str(columns)).of(["dose", "age"])
    assert found == ([-1.5, 0.0], [1000.0, 120.0])
    assert Privacy(1.0, bounds=found).limits(2)[1].tolist() == [1000.0, 120.0]


def test_two_numbers_are_for_all_columns():
    assert read_bounds("0, 1e6").of(["a", "b"]) == ([0, 0], [1e6, 1e6])


def test_a_misspelled_column_is_named_beside_those_of_the_file(columns):
    with raises(ParameterError, "'agee', 'id' .*'age'", file="columns.json", column="agee"):
        read_bounds(str(columns)).of(["agee", "id"])


@pytest.mark.parametrize("text", ["1,0", "1,1", "0,nan", "0,inf", "5", "0,1,2", "-1e400,0"])
def test_numbers_that_are_no_bounds(text):
    with raises(ParameterError, file="", column=""):
        read_bounds(text)


BAD = [
    *("", "[0, 1]", "{}", "[" * 100_000, " " * (2**22 + 1)),
    '{"age": [0, 1], "age": [0, 2]}',
    *('{"age": [1, 0]}', '{"age": [0, NaN]}', '{"age": [0, "1"]}', '{"age": [false, true]}'),
    *('{"age": [0, 1' + "0" * 400 + "]}", '{"age": 5}', '{"age": {"low": 0}}'),
]


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_files_that_have_no_bounds(tmp_path, content):
    (tmp_path / "c.json").write_text(content)
    with raises(FedJigsawError, file="c.json", column="age" if "age" in content else ""):
        read_bounds(str(tmp_path / "c.json"))


@pytest.mark.parametrize("place", ["nofile.json", "/dev/zero"])
def test_a_file_that_cannot_be_read(place):
    with raises(FedJigsawError, file=place):
        read_bounds(place)
