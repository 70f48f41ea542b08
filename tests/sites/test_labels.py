import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.sites import Assigned, write_labels

READ = {".csv": pa.csv.read_csv, ".parquet": pa.parquet.read_table}


def parts(ids=True):
    """Three rows in two parts; the second row has a missing value."""
    for i, labels in enumerate(([4, None], [0])):
        names = pa.array([f"row {i}.{j}" for j in range(len(labels))]) if ids else None
        distances = pa.array([None if label is None else label / 2 for label in labels])
        yield Assigned(pa.array(labels, pa.int64()), distances, names)


@pytest.mark.parametrize("ending", READ)
def test_all_columns(tmp_path, ending):
    path = tmp_path / f"labels{ending}"
    assert write_labels(path, parts(), id_column="name", distances=True) == 3
    assert READ[ending](path).to_pydict() == {
        "name": ["row 0.0", "row 0.1", "row 1.0"],
        "label": [4, None, 0],
        "distance": [2.0, None, 0.0],
    }


def test_labels_alone(tmp_path):
    write_labels(tmp_path / "labels.parquet", parts(ids=False))
    write_labels(tmp_path / "labels.csv", parts(ids=False))
    table = pa.parquet.read_table(tmp_path / "labels.parquet")
    assert table.to_pydict() == {"label": [4, None, 0]}
    assert (tmp_path / "labels.csv").read_text() == '"label"\n4\n\n0\n'


def test_a_failure_leaves_the_old_file_and_no_litter(tmp_path):
    def broken():
        yield from parts()
        raise DataError("row 4 cannot be read")

    path = tmp_path / "labels.parquet"
    path.write_bytes(b"old")
    with pytest.raises(DataError, match="row 4"):
        write_labels(path, broken())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "id_column", "error", "words"),
    [
        (
            "labels.txt",
            None,
            DataError,
            r"Cannot write .*labels.txt: unsupported file type '.txt'. Supported: .parquet, .csv\.",
        ),
        ("labels.csv", "label", ParameterError, "The id column cannot be 'label'"),
        ("no/labels.csv", None, DataError, r"Cannot write .*labels.csv: no such file or directory"),
    ],
)
def test_bad_places(tmp_path, name, id_column, error, words):
    with pytest.raises(error, match=words):
        write_labels(tmp_path / name, parts(), id_column=id_column)
    assert not list(tmp_path.iterdir())


def test_ids_that_csv_cannot_hold(tmp_path):
    part = Assigned(pa.array([1]), pa.array([0.0]), pa.array([[1, 2]]))
    with pytest.raises(DataError, match="Cannot write .*labels.csv: "):
        write_labels(tmp_path / "labels.csv", [part], id_column="pair")
    assert not list(tmp_path.iterdir())
