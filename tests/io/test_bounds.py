"""Bounds of columns, from a text or a file: every mistake is an error that says what to do."""

import json
from pathlib import Path

import pytest

from fedjigsaw import Privacy
from fedjigsaw.errors import ParameterError
from fedjigsaw.io.bounds import bounds_of, read_bounds


@pytest.fixture
def columns(tmp_path):
    path = tmp_path / "columns.json"
    path.write_text(json.dumps({"age": [0, 120], "dose": [-1.5, 1e3], "other": [0, 1]}))
    return path


def test_columns_of_a_file_come_in_the_order_that_is_asked_for(columns):
    found = bounds_of(read_bounds(str(columns)), ["dose", "age"])
    assert found == ([-1.5, 0.0], [1000.0, 120.0])
    assert Privacy(1.0, bounds=found).limits(2)[1].tolist() == [1000.0, 120.0]


def test_two_numbers_are_for_all_columns():
    assert bounds_of(read_bounds("0, 1e6"), ["a", "b"]) == ([0, 0], [1e6, 1e6])


def test_a_column_without_bounds(columns):
    with pytest.raises(ParameterError, match="no column 'weight'. Give LOW,HIGH"):
        bounds_of(read_bounds(str(columns)), ["age", "weight"])


@pytest.mark.parametrize("text", ["1,0", "1,1", "0,nan", "0,inf", "5", "0,1,2", "-1e400,0"])
def test_numbers_that_are_no_bounds(text):
    with pytest.raises(ParameterError, match="two finite numbers, the smaller one first"):
        read_bounds(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no bounds: Expecting value"),
        ("[0, 1]", "it is not a table of columns"),
        ("{}", "it is not a table of columns"),
        ('{"age": [0, 1], "age": [0, 2]}', "a column is given twice"),
        ('{"age": [1, 0]}', "range of column 'age' in .* must be two finite numbers"),
        ('{"age": [0, NaN]}', "range of column 'age'"),
        ('{"age": [0, "1"]}', "range of column 'age'"),
        ('{"age": [false, true]}', "range of column 'age'"),
        ('{"age": [0, 1' + "0" * 400 + "]}", "range of column 'age'"),
        ('{"age": 5}', "range of column 'age'"),
        ('{"age": {"low": 0}}', "range of column 'age'"),
        ("[" * 100_000, "has no bounds"),
        (" " * (2**22 + 1), "larger than"),
    ],
    ids=range(13),
)
def test_files_that_have_no_bounds(tmp_path, content, message):
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(ParameterError, match=message):
        read_bounds(str(tmp_path / "c.json"))


def test_a_file_that_is_not_there():
    with pytest.raises(ParameterError, match="Cannot read nofile.json: no such file.*LOW,HIGH"):
        read_bounds("nofile.json")
    with pytest.raises(ParameterError, match="Give LOW,HIGH"):
        read_bounds(str(Path("/dev/zero")))
