import csv

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.sites import Assigned, write_labels

READ = {".csv": pa.csv.read_csv, ".parquet": pa.parquet.read_table}


def parts(n_ids=1):
    """Three rows in two parts; the second row has a missing value."""
    for i, labels in enumerate(([4, None], [0])):
        names = pa.array([f"row {i}.{j}" for j in range(len(labels))])
        distances = pa.array([None if label is None else label / 2 for label in labels])
        yield Assigned(pa.array(labels, pa.int64()), distances, (names,) * n_ids)


@pytest.mark.parametrize("ending", READ)
def test_all_columns(tmp_path, ending):
    path = tmp_path / f"labels{ending}"
    assert write_labels(path, parts(), id_column="name", distances=True) == 3
    assert READ[ending](path).to_pydict() == {
        "row": [1, 2, 3],
        "name": ["row 0.0", "row 0.1", "row 1.0"],
        "label": [4, None, 0],
        "distance": [2.0, None, 0.0],
    }


def test_several_ids(tmp_path):
    write_labels(tmp_path / "labels.csv", parts(2), id_column=["name", "visit"])
    lines = (tmp_path / "labels.csv").read_text().splitlines()
    assert lines[:2] == ['"row","name","visit","label"', '1,"row 0.0","row 0.0",4']


@pytest.mark.parametrize("ending", READ)
def test_every_reader_keeps_a_row_without_a_label(tmp_path, ending):
    path = tmp_path / f"labels{ending}"
    write_labels(path, parts(0))
    assert READ[ending](path).to_pydict() == {"row": [1, 2, 3], "label": [4, None, 0]}
    table = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
    assert table["row"].tolist() == [1, 2, 3]
    assert table["label"].isna().tolist() == [False, True, False]
    assert table["label"][2] == 0
    if ending == ".csv":
        with path.open(newline="") as file:
            assert list(csv.reader(file)) == [["row", "label"], ["1", "4"], ["2", ""], ["3", "0"]]


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path):
    def broken():
        yield from parts()
        raise DataError("row 4 cannot be read")

    path = tmp_path / "labels.parquet"
    path.write_bytes(b"old")
    with pytest.raises(DataError, match="row 4"):
        write_labels(path, broken(), id_column="name")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "id_column", "error", "told"),
    [
        ("labels.txt", None, DataError, "labels.txt"),
        ("labels.csv", "label", ParameterError, "'label'"),
        ("labels.csv", ["name", "row"], ParameterError, "'row'"),
        ("no/labels.csv", "name", DataError, "no such file"),
    ],
)
def test_bad_places(tmp_path, name, id_column, error, told):
    with pytest.raises(error, match=told):
        write_labels(tmp_path / name, parts(), id_column=id_column)
    assert not list(tmp_path.iterdir())


def test_ids_that_csv_cannot_hold(tmp_path):
    part = Assigned(pa.array([1]), pa.array([0.0]), (pa.array([[1, 2]]),))
    with pytest.raises(DataError, match="Cannot write .*labels.csv: "):
        write_labels(tmp_path / "labels.csv", [part], id_column="pair")
    assert not list(tmp_path.iterdir())
