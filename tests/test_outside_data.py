"""Data sets of scikit-learn, and of files."""

import numpy as np
import pytest

from builders import write_table
from fedjigsaw import datasets
from fedjigsaw.errors import DataError, DatasetError, DataWarning, ParameterError


@pytest.mark.parametrize(
    ("name", "shape", "k"),
    [
        ("iris", (150, 4), 3),
        ("wine", (178, 13), 3),
        ("breast_cancer", (569, 30), 2),
        ("breast-cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
    ],
)
def test_sets_of_scikit_learn(name, shape, k):
    data = datasets.load(name)
    assert (data.X.shape, data.n_clusters, data.has_classes) == (shape, k, True)
    assert len(data.columns) == shape[1]
    assert sorted(set(data.y)) == list(range(k))


def test_amounts_are_no_classes():
    data = datasets.load("diabetes")
    assert (data.X.shape, data.has_classes, data.n_clusters) == ((442, 10), False, 1)


class TestFiles:
    @pytest.fixture(params=["csv", "parquet"])
    def path(self, request, tmp_path):
        place = tmp_path / f"rows.{request.param}"
        write_table(
            place,
            x=np.arange(6.0),
            kind=np.array(["b", "a", "b", "b", "a", "b"]),
            y=np.arange(6.0)[::-1],
            town=np.array(["Oslo", "Bern", "Oslo", "Lyon", "Bern", "Oslo"]),
        )
        return place

    def test_columns_are_numbers_classes_or_clients(self, path):
        data = datasets.load(path, label="kind", clients="town")
        assert (data.columns, data.name, data.n_clusters) == (("x", "y"), path.name, 2)
        assert data.X.tolist() == [[i, 5 - i] for i in range(6)]
        assert data.y.tolist() == [1, 0, 1, 1, 0, 1]
        assert data.clients.tolist() == ["Oslo", "Bern", "Oslo", "Lyon", "Bern", "Oslo"]

    def test_columns_can_be_chosen(self, path):
        data = datasets.load(str(path), columns=["y"], label="town")
        assert (data.columns, data.X.shape, data.clients) == (("y",), (6, 1), None)

    def test_one_column_can_tell_both(self, path):
        data = datasets.load(path, columns=["x"], label="town", clients="town")
        assert data.y.tolist() == [2, 0, 2, 1, 0, 2]

    def test_without_classes_none_are_known(self, path):
        data = datasets.load(path, columns=["x", "y"])
        assert (data.has_classes, data.y.tolist()) == (False, [0] * 6)

    def test_identifiers_are_left_out_and_told(self, tmp_path):
        write_table(tmp_path / "a.csv", patient_id=np.arange(9), x=np.arange(9.0) % 4)
        with pytest.warns(DataWarning, match="patient_id"):
            assert datasets.load(tmp_path / "a.csv").columns == ("x",)

    def test_a_missing_class_or_client_has_a_row_and_a_column(self, tmp_path):
        (tmp_path / "a.csv").write_text("x,kind\n1,a\n2,\n3,b\n")
        with pytest.raises(DataError, match="a.csv, row 2, column 'kind': the value is missing"):
            datasets.load(tmp_path / "a.csv", label="kind")

    @pytest.mark.parametrize("name", ["nowhere.csv", "./nowhere", "folder/nowhere.parquet"])
    def test_a_file_that_is_not_there(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DataError, match="nowhere"):
            datasets.load(name)

    def test_an_unknown_column(self, path):
        with pytest.raises(DataError, match="has no column 'color'"):
            datasets.load(path, label="color")

    def test_only_files_have_columns_to_choose(self):
        with pytest.raises(ParameterError, match="choose columns of a file, and 'iris' is not one"):
            datasets.load("iris", label="kind")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache of scikit-learn with nothing in it, and a network that nobody may use."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))

    def fail(*args, **options):
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr("socket.create_connection", fail)


@pytest.mark.parametrize("name", ["covtype", "california-housing"])
def test_sets_that_scikit_learn_has_not_fetched(empty_cache, name):
    fetch = f"fetch_{name.replace('-', '_')}"
    with pytest.raises(
        DatasetError, match=rf"nothing is downloaded unasked.*sklearn.datasets.{fetch}"
    ):
        datasets.load(name)


def test_unknown_names_say_what_there_is():
    with pytest.raises(ParameterError, match="Unknown data set 'irises'.*iris, .*file"):
        datasets.load("irises")
