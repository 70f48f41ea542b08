"""Reading the files of several sites into one place."""

from fedjigsaw.comparison.files import pool_files
from fedjigsaw.io.tables import Tally


def test_files_are_pooled_with_the_client_of_each_row(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,kind\n1,2,u\n3,4,v\n")
    (tmp_path / "b.csv").write_text("y,x,kind\n6,5,u\n")
    data, clients = pool_files([tmp_path / "a.csv", tmp_path / "b.csv"], label="kind")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.y.tolist() == [0, 1, 0]
    assert clients.tolist() == [0, 0, 1]
    assert data.name == "a.csv, b.csv"
    tally = Tally()
    (tmp_path / "c.csv").write_text("x,y\n1,2\n,2\n3,\n")
    paths = [tmp_path / "c.csv", tmp_path / "a.csv"]
    data, _ = pool_files(paths, ["x", "y"], drop_missing=True, tally=tally)
    assert (len(data.X), tally) == (3, Tally(rows=5, skipped=2))
