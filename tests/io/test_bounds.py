"""Bounds of columns, from a text or a file: every mistake is an error that says what to do."""

import json

import pytest

from fedjigsaw import Privacy
from fedjigsaw.errors import FedJigsawError, ParameterError
from fedjigsaw.io.bounds import read_bounds


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


def test_a_column_without_bounds(columns):
    with pytest.raises(ParameterError, match="columns.json has no bounds for column 'weight'"):
        read_bounds(str(columns)).of(["age", "weight"])


def test_a_misspelled_column_is_named_beside_those_of_the_file(columns):
    with pytest.raises(ParameterError, match=r"columns 'agee', 'id' \(it has bounds for 'age'"):
        read_bounds(str(columns)).of(["agee", "id"])


@pytest.mark.parametrize("text", ["1,0", "1,1", "0,nan", "0,inf", "5", "0,1,2", "-1e400,0"])
def test_numbers_that_are_no_bounds(text):
    with pytest.raises(ParameterError, match="two finite numbers|is not below"):
        read_bounds(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("[0, 1]", "names no columns"),
        ("{}", "names no columns"),
        ('{"age": [0, 1], "age": [0, 2]}', "c.json has column 'age' twice. Keep one of the two.$"),
        ('{"age": [1, 0]}', "column 'age': the least value, 1, is not below the greatest, 0"),
        ('{"age": [0, NaN]}', "column 'age': bounds are two finite numbers"),
        ('{"age": [0, "1"]}', "column 'age': bounds are two finite numbers"),
        ('{"age": [false, true]}', "column 'age': bounds are two finite numbers"),
        ('{"age": [0, 1' + "0" * 400 + "]}", "column 'age': bounds are two finite numbers"),
        ('{"age": 5}', "column 'age': bounds are two finite numbers"),
        ('{"age": {"low": 0}}', "column 'age': bounds are two finite numbers"),
        ("[" * 100_000, "is not JSON"),
        (" " * (2**22 + 1), "larger than"),
    ],
    ids=range(13),
)
def test_files_that_have_no_bounds(tmp_path, content, message):
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(FedJigsawError, match=message):
        read_bounds(str(tmp_path / "c.json"))


def test_a_file_that_cannot_be_read():
    with pytest.raises(FedJigsawError, match="Cannot read nofile.json: no such file"):
        read_bounds("nofile.json")
    with pytest.raises(FedJigsawError, match="/dev/zero"):
        read_bounds("/dev/zero")
