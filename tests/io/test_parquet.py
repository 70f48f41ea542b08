"""Parquet files that were made to fill the memory do not."""

import pyarrow as pa
import pyarrow.parquet
import pytest

from fedjigsaw.errors import DataError
from fedjigsaw.io import by_client, readers
from fedjigsaw.io.tables import open_file
from raising import raises

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(readers, "MAX_BYTES", MEGABYTE)
    monkeypatch.setattr(readers, "MAX_TEXTS", MEGABYTE)


def save(path, columns, **options):
    pa.parquet.write_table(pa.table(columns), path, compression="zstd", **options)
    assert path.stat().st_size < MEGABYTE / 100
    return path


def most_bytes(path, batches):
    """Read batches, and return how much memory Arrow needed at most."""
    before, most = pa.total_allocated_bytes(), 0
    for _ in batches:
        most = max(most, pa.total_allocated_bytes() - before)
    return most


def as_listed(texts):
    places = pa.array([0] * len(texts), pa.int32())
    return pa.DictionaryArray.from_arrays(places, texts[:1])


@pytest.mark.parametrize("of", [pa.array, as_listed])
def test_one_text_in_many_rows_does_not_fill_the_memory(tmp_path, of):
    path = save(tmp_path / "t.parquet", {"s": of(["x" * (MEGABYTE // 4)] * 200)})
    reader = open_file(path).reader
    assert most_bytes(path, reader.batches(["s"])) < 4 * MEGABYTE
    assert sum(len(values) for (values,) in reader.batches(["s"])) == 200


def test_nor_do_long_texts_that_come_later_or_in_many_columns(tmp_path):
    texts = ["a"] * 300 + ["x" * (MEGABYTE // 4)] * 200
    path = save(tmp_path / "t.parquet", {"s": texts}, row_group_size=400)
    assert most_bytes(path, open_file(path).reader.batches(["s"])) < 4 * MEGABYTE
    names = [f"s{j}" for j in range(8)]
    path = save(tmp_path / "u.parquet", {n: ["x" * 4000] * 200 for n in names}, write_statistics=False)  # fmt: skip
    assert most_bytes(path, open_file(path).reader.batches(names)) < 4 * MEGABYTE


def test_nor_does_it_as_the_name_of_a_client(tmp_path):
    path = save(tmp_path / "t.parquet", {"s": ["x" * (MEGABYTE // 4)] * 200, "a": [1.0] * 200})
    assert most_bytes(path, by_client.clients_of_groups(path, "s")) < 4 * MEGABYTE


def test_a_page_that_unpacks_to_too_much_is_refused(tmp_path):
    columns = {"s": ["x" * 4 * MEGABYTE, "y"]}
    path = save(tmp_path / "t.parquet", columns, use_dictionary=False)
    with raises(DataError, r"a row group needs 4,194,\d+ bytes", file="t.parquet"):
        open_file(path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
        {"dictionary_pagesize_limit": 100},  # texts stand in the file from there on
        {"row_group_size": 300},
    ],
)
def test_texts_are_what_they_were(tmp_path, options):
    texts = [None if j % 7 == 0 else f"Zürich {j % 90}" for j in range(1000)]
    table = pa.table({"s": texts, "l": pa.array(texts, pa.large_string())})
    pa.parquet.write_table(table, tmp_path / "t.parquet", **options)
    batches = open_file(tmp_path / "t.parquet").reader.batches(["s", "l"])
    assert pa.concat_tables(pa.table(batch, ["s", "l"]) for batch in batches).equals(table)
