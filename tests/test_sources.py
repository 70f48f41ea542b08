import weakref

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedjigsaw import CentralKMeans, FeCA, FuzzyCMeans, Jigsaw, Privacy, ProcessEngine, sources
from fedjigsaw.errors import DataError, ParameterError, QuorumError

NAMES = ["age", "dose"]


@pytest.fixture
def shards():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    return {name: np.repeat(centers, 10, axis=0) + rng.normal(size=(30, 2)) for name in "abc"}


def write(path, rows, **more):
    columns = {name: rows[:, j] for j, name in enumerate(NAMES)}
    parquet.write_table(pa.table(columns | more), path, row_group_size=30)
    return path


class Table(sources.Source):
    """A source of somebody else, which tells names to the estimator and returns none."""

    def __init__(self, rows):
        self.rows = rows

    def learn(self, estimator, client, *, private):
        estimator.n_features_in_ = len(NAMES)
        estimator.feature_names_in_ = np.array(NAMES, dtype=object)

    def read(self, estimator, client):
        return self.rows


class TestTheSameModel:
    def test_tables_after_a_source_that_returns_no_names_are_put_in_order(self, shards):
        expected = FeCA(3, random_state=0).fit_clients({n: shards[n] for n in "ab"})
        other = pa.table({name: shards["b"][:, j] for j, name in enumerate(NAMES)})
        turned = other.select(NAMES[::-1])
        for given in (turned, lambda: turned):
            found = FeCA(3, random_state=0).fit_clients({"a": Table(shards["a"]), "b": given})
            assert found.cluster_centers_.tolist() == expected.cluster_centers_.tolist()

    @pytest.mark.parametrize("method", [FeCA(3, random_state=0), FuzzyCMeans(3, random_state=0)])
    def test_arrays_files_folders_functions_and_generators(self, method, shards, tmp_path):
        expected = method.fit_clients({**shards, "d": shards["a"]}).cluster_centers_.tobytes()
        folder = tmp_path / "b"
        folder.mkdir()
        write(folder / "2.parquet", shards["b"][12:])
        write(folder / "1.parquet", shards["b"][:12])
        later = {
            "a": write(tmp_path / "a.parquet", shards["a"]),
            "b": str(folder),
            "c": lambda: shards["c"],
            "d": lambda: (part for part in np.split(shards["a"], 3)),
        }
        with pytest.warns(UserWarning, match="feature names"):  # arrays beside named columns
            method.fit_clients(later)
        assert method.cluster_centers_.tobytes() == expected
        assert method.feature_names_in_.tolist() == NAMES

    def test_in_processes(self, shards, tmp_path):
        here = FeCA(3, random_state=0).fit_clients(shards)
        later = {name: write(tmp_path / f"{name}.parquet", rows) for name, rows in shards.items()}
        there = FeCA(3, random_state=0).fit_clients(later, engine=ProcessEngine)
        assert there.cluster_centers_.tobytes() == here.cluster_centers_.tobytes()

    def test_one_data_set_with_a_column_of_clients(self, shards, tmp_path):
        rows = np.concatenate(list(shards.values()))
        site = pa.array(np.repeat(list(shards), 30)).dictionary_encode()
        path = write(tmp_path / "all.parquet", rows, site=site)
        found = sources.by_client(path, "site")
        assert list(found) == list(shards)
        assert [part.groups for one in found.values() for part in one.parts] == [(0,), (1,), (2,)]
        later = FeCA(3, random_state=0).fit_clients(found)
        now = FeCA(3, random_state=0).fit_clients(shards)
        assert later.cluster_centers_.tobytes() == now.cluster_centers_.tobytes()

    def test_clients_that_are_mixed_in_all_row_groups(self, shards, tmp_path):
        rows, site = np.concatenate(list(shards.values())), np.tile([1, 2, 3], 30)
        path = write(tmp_path / "all.parquet", rows, site=site)
        later = FeCA(3, random_state=0).fit_clients(sources.by_client(path, "site"))
        now = FeCA(3, random_state=0).fit(rows, clients=site)
        assert later.cluster_centers_.tobytes() == now.cluster_centers_.tobytes()

    def test_no_labels_are_left_from_an_earlier_fit(self, shards):
        jigsaw = Jigsaw(3, random_state=0).fit_clients(shards)
        labels = jigsaw.labels_
        jigsaw.fit_clients({name: lambda rows=rows: rows for name, rows in shards.items()})
        assert not hasattr(jigsaw, "labels_")
        assert not hasattr(jigsaw, "inertia_")
        with pytest.raises(ParameterError, match="no profile_ after a fit of data"):
            _ = jigsaw.profile_
        assert (jigsaw.predict(np.concatenate(list(shards.values()))) == labels).all()


def test_one_client_is_in_memory_at_a_time():
    def read():
        assert all(earlier() is None for earlier in reads)
        rows = np.random.default_rng(0).normal(size=(50, 2))
        reads.append(weakref.ref(rows))
        return rows

    reads = []
    fuzzy = FuzzyCMeans(2, random_state=0).fit_clients(dict.fromkeys(range(6), read))
    assert len(reads) == 1 + 6 * fuzzy.n_iter_  # once to learn the columns


@pytest.mark.parametrize("kinds", [(int, str), (str, int), (int, float)])
def test_clients_are_the_same_whatever_the_type_of_their_names(shards, tmp_path, kinds):
    for i, kind in enumerate(kinds):
        clients = [kind(1)] * 10 + [kind(2)] * 20
        write(tmp_path / f"{i}.parquet", shards["a"], site=clients)
    found = sources.by_client(tmp_path, "site")
    assert list(found) == ["1", "2"]
    model = FeCA(1).fit_clients(found)
    assert [len(source.read(model, name)) for name, source in found.items()] == [20, 40]


class TestErrors:
    def test_name_client_file_row_and_column(self, shards, tmp_path):
        later = {name: write(tmp_path / f"{name}.parquet", rows) for name, rows in shards.items()}
        bad = pa.table({"age": ["1", "x"], "dose": [1.0, 2.0]})
        parquet.write_table(bad, later["b"])
        words = r"client 'b' failed: DataError: .*b\.parquet, row 2, column 'age': 'x' is not"
        with pytest.raises(QuorumError, match=words):
            FeCA(3).fit_clients(later)
        FeCA(3).fit_clients(later, min_clients=2)

    def test_name_the_client_of_a_data_set(self, tmp_path):
        rows = np.array([[0.0, 1.0], [1e200, 2.0], [3.0, 4.0]])
        path = write(tmp_path / "all.parquet", rows, site=["u", "v", "v"])
        words = r"client 'v' failed: .*all\.parquet \(site = 'v'\), row 1, column 'age': 1e\+200"
        with pytest.raises(QuorumError, match=words):
            FeCA(1).fit_clients(sources.by_client(path, "site"))

    def test_other_columns(self, shards, tmp_path):
        first = write(tmp_path / "a.parquet", shards["a"])
        parquet.write_table(pa.table({"age": [1.0], "weight": [1.0]}), tmp_path / "b.parquet")
        with pytest.raises(QuorumError, match=r"b\.parquet has no column 'dose'"):
            FeCA(1).fit_clients({"a": first, "b": tmp_path / "b.parquet"})
        named = sources.table(tmp_path / "b.parquet", columns=["weight"])
        with pytest.raises(QuorumError, match="'b' has the columns 'weight', but the first"):
            FeCA(1).fit_clients({"a": first, "b": named})

    def test_of_functions(self, shards):
        def blocks():
            yield shards["a"]
            yield [[0.0, np.nan]]

        words = r"client 'b' \(block 1 of its generator\) .* NaN in row 0, column 1"
        with pytest.raises(QuorumError, match=words):
            FeCA(1).fit_clients({"a": shards["a"], "b": blocks})
        with pytest.raises(DataError, match="client 'a'"):
            FeCA(1).fit_clients({"a": blocks()})
        with pytest.raises(DataError, match="generator of client 'a' made no rows"):
            FeCA(1).fit_clients({"a": lambda: iter(())})

    def test_of_data_sets(self, shards, tmp_path):
        path = write(tmp_path / "all.parquet", shards["a"], site=["u"] * 29 + [None])
        for make, told in (
            (lambda: sources.by_client(path, "site"), r"all\.parquet, row 30, column 'site'"),
            (lambda: sources.by_client(path, "clinic"), "'clinic'. It has 'age', 'dose'"),
            (lambda: sources.table(tmp_path / ".."), "no .parquet files"),
            (lambda: FeCA(1).fit_clients({"a": tmp_path / "nofile.parquet"}), "nofile.parquet"),
        ):
            with pytest.raises(DataError, match=told):
                make()

    def test_values_choose_no_columns_under_privacy(self, shards, tmp_path):
        path = write(tmp_path / "a.parquet", shards["a"], patient=np.arange(30))
        bounds = Privacy(epsilon=1.0, cells="own", bounds=(-20, 20))
        with pytest.warns(UserWarning, match="'patient' looks like an identifier"):  # noqa: SIM117
            with pytest.raises(DataError, match="Under differential privacy"):
                Jigsaw(3).fit_clients({"a": path}, privacy=bounds)

    def test_pooling(self, shards):
        with pytest.raises(ParameterError, match="CentralKMeans pools all rows"):
            CentralKMeans(2).fit_clients({"a": lambda: shards["a"]})
