import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedjigsaw.columns.scaling import Stats, merge
from fedjigsaw.errors import DataError
from fedjigsaw.io import readers
from fedjigsaw.io.tables import open_table
from raising import raises

ROWS = np.array([[1.0, 2.5], [3.0, -4.0], [5.5, 6.0]])
CSV = "id,a,b\nx,1,2.5\ny,3,-4\nz,5.5,6\n"


@pytest.fixture
def files(tmp_path):
    """The same three rows in every format."""
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "semi.csv").write_text(CSV.replace(",", ";"))
    (tmp_path / "tab.csv").write_text(CSV.replace(",", "\t").replace("-4", " -4 "))
    pa.parquet.write_table(
        pa.table({"b": ROWS[:, 1], "id": ["x", "y", "z"], "a": ROWS[:, 0]}), tmp_path / "t.parquet"
    )
    np.save(tmp_path / "t.npy", ROWS)
    return tmp_path


def read(path, **options):
    rows, _ = open_table(path, **options).read(max_rows=100, rng=np.random.default_rng(0))
    return rows


@pytest.mark.parametrize("name", ["t.csv", "semi.csv", "tab.csv", "t.parquet"])
def test_every_format_gives_the_same_rows(files, name):
    assert read(files / name, columns=["a", "b"]).tolist() == ROWS.tolist()
    assert read(files / name, columns=["b", "a"]).tolist() == ROWS[:, ::-1].tolist()


@pytest.mark.parametrize("kind", [list, np.array, pd.Index, pd.Series, iter])
def test_columns_may_be_those_of_a_data_frame(tmp_path, kind):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n")
    assert open_table(tmp_path / "t.csv", columns=kind(["c", "a"])).columns == ("c", "a")


def test_arrays_have_default_names(files):
    assert open_table(files / "t.npy").columns == ("x0", "x1")
    assert read(files / "t.npy", columns=["x1"]).tolist() == ROWS[:, 1:].tolist()


def test_ids_are_carried_along(files):
    (batch,) = open_table(files / "t.csv", id_column="id").batches()
    assert [ids.to_pylist() for ids in batch.ids] == [["x", "y", "z"]]
    assert batch.rows.tolist() == ROWS.tolist()


def test_ids_stay_as_they_are(tmp_path):
    (tmp_path / "t.csv").write_text("id,a\nNA,1\n007,2\n")
    (batch,) = open_table(tmp_path / "t.csv", id_column="id").batches()
    assert [ids.to_pylist() for ids in batch.ids] == [["NA", "007"]]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_several_ids_are_kept_in_their_order(files, name):
    table = open_table(files / name, id_column=["b", "id"])
    assert table.columns == ("a",)
    (batch,) = table.batches()
    assert batch.ids[0].cast(pa.float64()).to_pylist() == ROWS[:, 1].tolist()
    assert batch.ids[1].to_pylist() == ["x", "y", "z"]
    (both,) = open_table(files / name, columns=["a"], id_column=["a", "id"]).batches()
    assert both.ids[0].cast(pa.float64()).to_pylist() == both.rows[:, 0].tolist()


def test_the_tally_counts_rows_of_the_latest_reading(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,\n,\n2,3\n")
    table = open_table(tmp_path / "t.csv")
    for columns, skipped in ((["a"], 1), (["b", "a"], 2)):
        for _ in range(2):
            list(table.select(columns, drop_missing=True).batches())
            assert (table.tally.rows, table.tally.skipped) == (3, skipped)


def test_signs_inside_quotes_do_not_separate(tmp_path):
    (tmp_path / "t.csv").write_text('"a;b;c;d",q\n1,2\n')
    assert open_table(tmp_path / "t.csv").columns == ("a;b;c;d", "q")


def test_dictionaries_of_numbers(tmp_path):
    table = pa.table({"a": pa.array(["1", "2", "1"]).dictionary_encode()})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").tolist() == [[1], [2], [1]]


def test_other_number_types_are_fine(tmp_path):
    table = pa.table(
        {"i": pa.array([1, 2], pa.int8()), "t": [True, False], "f": pa.array([1, 2], pa.float32())}
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").tolist() == [[1, 1, 1], [2, 0, 2]]


@pytest.mark.parametrize("batch_rows", [1, 2, 1000])
def test_batches_add_up(files, monkeypatch, batch_rows):
    monkeypatch.setattr(readers, "BATCH_ROWS", batch_rows)
    for name, columns in (("t.parquet", ["a", "b"]), ("t.npy", None)):
        table = open_table(files / name, columns=columns)
        assert table.n_rows == 3
        blocks = [batch.rows for batch in table.batches()]
        assert max(map(len, blocks)) <= batch_rows
        assert np.concatenate(blocks).tolist() == ROWS.tolist()


class TestMissing:
    TEXT = "a,b\n1,2\n,3\nNA,\n4,5\n"

    def test_are_counted_per_column(self, tmp_path):
        (tmp_path / "t.csv").write_text(self.TEXT)
        with raises(DataError, "2 in 'a', 1 in 'b'", file="t.csv", column="a"):
            read(tmp_path / "t.csv")

    def test_can_be_dropped(self, tmp_path):
        (tmp_path / "t.csv").write_text(self.TEXT)
        (batch,) = open_table(tmp_path / "t.csv", drop_missing=True).batches()
        assert batch.rows.tolist() == [[1, 2], [4, 5]]
        assert batch.kept.tolist() == [True, False, False, True]

    def test_in_every_format(self, tmp_path):
        pa.parquet.write_table(pa.table({"a": [1.0, None, float("nan")]}), tmp_path / "t.parquet")
        np.save(tmp_path / "t.npy", np.array([[1.0], [np.nan], [np.nan]]))
        for name in ("t.parquet", "t.npy"):
            with raises(DataError, "2 in", file=name, parameter="drop_missing"):
                read(tmp_path / name)
            assert read(tmp_path / name, drop_missing=True).tolist() == [[1.0]]

    def test_all_rows(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n,1\n,2\n")
        with raises(DataError, file="t.csv", column="a", parameter="columns"):
            read(tmp_path / "t.csv", drop_missing=True)


class TestSample:
    def test_is_uniform_and_bounded(self, tmp_path, monkeypatch):
        monkeypatch.setattr(readers, "BATCH_ROWS", 100)
        np.save(tmp_path / "t.npy", np.arange(5000.0)[:, None])
        table = open_table(tmp_path / "t.npy")
        draws = [table.read(max_rows=500, rng=np.random.default_rng(s)) for s in range(20)]
        for rows, n_seen in draws:
            assert (len(rows), n_seen) == (500, 5000)
            assert len(np.unique(rows)) == 500
        assert np.mean([rows.mean() for rows, _ in draws]) == pytest.approx(2499.5, rel=0.03)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "row", "column"),
        [
            ({"columns": ["a", "c", "d"]}, None, "c"),
            ({"columns": ["a", "a"]}, None, "a"),
            ({"columns": []}, None, ""),
            ({"columns": ["id"]}, 1, "id"),
            ({"id_column": "nr"}, None, "nr"),
            ({"id_column": ["id", "id"]}, None, "id"),
        ],
    )
    def test_columns(self, files, options, row, column):
        for name in ("t.csv", "t.parquet"):
            with raises(DataError, row=row, column=column):
                read(files / name, **options)

    @pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2, 2)), [["a"]], [[object()]]])
    def test_arrays_of_another_shape_or_type(self, tmp_path, array):
        np.save(tmp_path / "t.npy", array)  # objects as a pickle
        with raises(DataError, file="t.npy"):
            open_table(tmp_path / "t.npy")

    @pytest.mark.parametrize("damage", ["encrypted", "unknown method", "not deflated"])
    def test_a_sheet_that_cannot_be_unpacked(self, tmp_path, damage):
        path = tmp_path / "t.xlsx"
        pd.DataFrame({"a": range(99)}).to_excel(path, index=False)
        content = bytearray(path.read_bytes())
        local, central = content.index(b"PK\3\4"), content.index(b"PK\1\2")
        if damage == "encrypted":
            content[local + 6] = content[central + 8] = 1
        elif damage == "unknown method":
            content[local + 8] = content[central + 10] = 99
        else:
            start = local + 30 + content[local + 26] + content[local + 28]
            content[start : start + 20] = b"\xff" * 20
        path.write_bytes(content)
        with raises(DataError, "cannot be read as XLSX", file="t.xlsx"):
            open_table(path)

    @pytest.mark.parametrize(
        "shape", ["(-5, 2)", "-" * 5000 + "1", "(0, 2 ** 40)", f"(0, {2**40})"]
    )
    def test_a_shape_that_no_array_has(self, tmp_path, shape):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
        start = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little")
        (tmp_path / "t.npy").write_bytes(start + header + bytes(800))
        with raises(DataError, "cannot be read as NPY", file="t.npy"):
            open_table(tmp_path / "t.npy")


class TestManyColumns:
    """The time grows with the number of columns, not with its square."""

    N = 40_000

    @pytest.mark.slow
    def test_tables(self, tmp_path):
        names = [f"c{j}" for j in range(self.N)]
        (tmp_path / "t.csv").write_text(f"{','.join(names)}\n{','.join('1' * self.N)}\n")
        started = time.process_time()
        assert read(tmp_path / "t.csv", columns=names[::-1]).shape[1] == self.N
        assert time.process_time() - started < 20

    def test_scalers_and_statistics(self):
        names = tuple(f"c{j}" for j in range(self.N))
        zeros = np.zeros(self.N)
        started = time.process_time()
        sites = [Stats("a", names, 5, zeros, zeros), Stats("b", names[::-1], 5, zeros, zeros)]
        assert merge(sites).columns == names
        assert time.process_time() - started < 5

    def test_a_repeated_name_is_still_found(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,b,a\n1,2,3\n")
        with raises(DataError, file="t.csv", column="a"):
            open_table(tmp_path / "t.csv")
        np.save(tmp_path / "t.npy", ROWS)
        with raises(DataError, column="x0"):
            open_table(tmp_path / "t.npy", columns=["x0", "x1", "x0"])


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_a_batch_has_bounded_memory_and_rows_that_may_be_changed(tmp_path, ending):
    """Rows of Parquet are no view of the memory of Arrow, which others may read."""
    X, path = np.arange(2.0 * (readers.BATCH_ROWS + 5)).reshape(-1, 2), tmp_path / f"t.{ending}"
    if ending == "npy":
        np.save(path, X)
    else:
        pa.parquet.write_table(pa.table(list(X.T.copy()), names=["x0", "x1"]), path)
    found = [batch.rows for batch in open_table(path, columns=["x0", "x1"]).batches()]
    assert [len(rows) for rows in found] == [readers.BATCH_ROWS, 5]
    assert all(rows.flags.c_contiguous and rows.flags.writeable for rows in found)
    assert (np.concatenate(found) == X).all()
