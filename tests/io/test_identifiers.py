"""Columns that look like identifiers are left out, unless columns are named."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedjigsaw import sites
from fedjigsaw.errors import DataError, DataWarning
from fedjigsaw.io.identifiers import named_like_an_identifier
from fedjigsaw.io.tables import open_table
from fedjigsaw.privacy.dp import Privacy

N = 40
AGES = np.random.default_rng(0).integers(20, 90, N)


def save(folder, **columns):
    pa.csv.write_csv(pa.table(columns), folder / "t.csv")
    pa.parquet.write_table(pa.table(columns), folder / "t.parquet")
    return [folder / "t.csv", folder / "t.parquet"]


LEFT_OUT = {
    "whole numbers": ("patient_id", np.random.default_rng(1).permutation(10**6)[:N]),
    "another name": ("FallNr", np.random.default_rng(1).permutation(10**6)[:N]),
    "texts": ("patient", [f"bern-{j:03}" for j in range(N)]),
    "some missing": ("mrn", ["", *(f"m{j}" for j in range(N - 1))]),
    "counting up": ("whatever", np.arange(1000, 1000 + N)),
}
KEPT = {
    "repeated": ("patient_id", np.arange(N) // 2),
    "0 and 1": ("case", np.arange(N) % 2),
    "measured": ("key", np.random.default_rng(1).normal(size=N)),
    "other names": ("acid", np.random.default_rng(1).permutation(10**6)[:N]),
    "constant": ("id", np.full(N, 7)),
    "steps of two": ("x0", np.arange(0, 2 * N, 2)),
    "halves": ("depth", np.arange(N) + 0.5),
    "named like a sum": ("account_balance", np.random.default_rng(1).integers(0, 10**6, N)),
    "not all over the range": ("salary", np.random.default_rng(1).integers(30_000, 70_000, N)),
    "not of as many digits": ("cost", np.random.default_rng(1).integers(10**3, 10**8, N)),
    "repeated, of many digits": ("plants", np.arange(N) // 2 + 10**9),
    "measured, of many digits": ("cells", np.random.default_rng(1).uniform(10**8, 10**9, N)),
    "named like codes, as 0 and 1": ("code", np.arange(N) % 2),
    "a fee of five digits": ("fee", np.linspace(10_000, 99_999, N).astype(int)[::-1]),
    "seconds since 1970": ("seen", np.random.default_rng(1).integers(15 * 10**8, 17 * 10**8, N)),
    "days": ("day", 20_230_101 + np.arange(N) // 20 * 100 + np.arange(N) % 20),
    "positions in a gene": ("locus", np.random.default_rng(1).permutation(80_000)[:N] + 41_196_312),
    "a measured index": ("body_mass_index", np.arange(N) % 35 + 15),
    "measured per person": ("cost_per_patient", np.arange(N) * 70),
    "reads": ("total_reads", np.random.default_rng(1).integers(10**7, 10**8, N)),
    "many digits": ("x", np.random.default_rng(1).integers(4 * 10**9, 5 * 10**9, N)),
    "times over many years": ("seen", np.random.default_rng(1).integers(10**9, 18 * 10**8, N)),
}
CODES = {
    "postcodes": ("zip", np.random.default_rng(1).integers(8001, 8050, N)),
    "few codes": ("ward_code", np.arange(N) % 3),
    "some missing": ("Kontonummer", [None, *np.random.default_rng(1).integers(1, 10**6, N - 1)]),
    "phone numbers of several visits": ("phone", np.arange(40 * N) // 2 * 7919 + 10**8),
    "patients of several visits": ("patient_id", np.arange(40 * N) // 2 * 7),
    "users of several visits": ("user", np.arange(40 * N) // 2 * 7),
}
MEASURED = [
    *("age_patient", "age_of_patient", "income_person", "time_with_doctor", "posts_by_author"),
    *("platelet_number", "cell_no", "NO", "case", "fall", "record", "mobile", "lines_of_code"),
]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_are_left_out_with_a_warning(tmp_path, name):
    column, values = LEFT_OUT[name]
    for path in save(tmp_path, age=AGES, **{column: values}):
        with pytest.warns(DataWarning, match=f"'{column}' looks like"):  # fmt: skip
            assert open_table(path).columns == ("age",)


@pytest.mark.parametrize("repeated", [1, 2])
def test_measurements_are_no_codes(tmp_path, repeated):
    values = np.random.default_rng(1).permutation(1000)[: 20 * N]
    columns = {name: np.repeat(values, repeated) for name in MEASURED}
    with warnings.catch_warnings(action="error"):
        for path in save(tmp_path, **columns):
            assert open_table(path).columns == (*MEASURED,)


@pytest.mark.parametrize("name", KEPT)
def test_other_columns_are_kept(tmp_path, name):
    column, values = KEPT[name]
    with warnings.catch_warnings(action="error"):
        for path in save(tmp_path, age=AGES, **{column: values}):
            assert open_table(path).columns == ("age", column)


@pytest.mark.parametrize("name", CODES)
def test_codes_count_as_numbers_with_a_warning(tmp_path, name):
    column, values = CODES[name]
    ages = np.random.default_rng(0).integers(20, 90, len(values))
    for path in save(tmp_path, age=ages, **{column: values}):
        with pytest.warns(DataWarning, match=f"'{column}' seems to hold codes"):  # fmt: skip
            assert open_table(path).columns == ("age", column)
        with warnings.catch_warnings(action="error"):
            open_table(path, columns=["age", column])
            open_table(path, id_column=column)


@pytest.mark.parametrize(
    ("values", "padded"),
    [
        ("01067 99089 - 00123", True),
        ("067 99089 123 7", False),
        ("0.25 1.50 2.75 0.50", False),
        ("10 20 30 40", False),
        ("0 1 2 3", False),
    ],
)
def test_zeros_in_front_make_codes_whatever_the_name(tmp_path, values, padded):
    """As postcodes in a column 'Ort': their first digit counts as much as an age."""
    pairs = zip(values.replace("-", "").split(" ") * 8, AGES, strict=False)
    path = tmp_path / "x.csv"
    path.write_text("Ort;age\n" + "".join(f"{value};{age}\n" for value, age in pairs))
    with warnings.catch_warnings(record=True, action="always") as caught:
        assert open_table(path).columns == ("Ort", "age")
    assert ["'Ort' seems" in str(w.message) for w in caught] == [True] * padded


def test_named_columns_and_id_columns_are_not_judged(tmp_path):
    (path, _) = save(tmp_path, age=AGES, id=np.arange(N))
    with warnings.catch_warnings(action="error"):
        assert open_table(path, columns=["id", "age"]).columns == ("id", "age")
        table = open_table(path, id_column="id")
    assert (table.columns, table.id_columns) == (("age",), ("id",))


@pytest.mark.parametrize("rows", [1, 2])
def test_too_few_rows_tell_nothing(tmp_path, rows):
    with warnings.catch_warnings(action="error"):
        for path in save(tmp_path, age=AGES[:rows], id=np.arange(rows), x0=np.arange(rows)):
            assert open_table(path).columns == ("age", "id", "x0")


def test_something_is_always_left(tmp_path):
    with warnings.catch_warnings(action="error"):
        for path in save(tmp_path, id=np.arange(N), nr=np.arange(N)):
            assert open_table(path).columns == ("id", "nr")


def test_an_index_that_pandas_wrote(tmp_path):
    (tmp_path / "t.csv").write_text(",age\n" + "".join(f"{j},{a}\n" for j, a in enumerate(AGES)))
    with pytest.warns(DataWarning, match="'unnamed' looks like an identifier"):
        assert open_table(tmp_path / "t.csv").columns == ("age",)


@pytest.mark.parametrize("index", [np.arange(0, 3 * N, 3), np.arange(N) % 7, AGES / 2])
def test_an_index_that_pandas_wrote_to_parquet(tmp_path, index):
    """A part of a table keeps the index of the whole, and joined tables have numbers twice."""
    path = tmp_path / "t.parquet"
    pd.DataFrame({"age": AGES}, index=index).to_parquet(path)
    with pytest.warns(DataWarning, match="'__index_level_0__' looks like an identifier"):
        assert open_table(path).columns == ("age",)
    table = open_table(path, id_column="__index_level_0__")
    assert (table.columns, table.id_columns) == (("age",), ("__index_level_0__",))


@pytest.mark.parametrize(
    "work", [sites.measure, lambda *a, **k: sites.summarize(*a, n_clusters=2, **k)]
)
def test_under_privacy_columns_must_be_named(tmp_path, work):
    (path, _) = save(tmp_path, age=AGES, id=np.arange(N))
    promise = Privacy(epsilon=1.0, delta=1e-6, cells="own", bounds=([0.0], [100.0]))
    spent = []
    with pytest.raises(DataError, match="look like identifiers. Under differential privacy"), pytest.warns(DataWarning):  # fmt: skip
        work(path, privacy=promise, spend=lambda *a: spent.append(a))
    assert not spent


@pytest.mark.parametrize("name", ["id", "ID", "patient_id", "patientId", "PatientID", "case no", "Fall-Nr.", "mrn", "uuid", "record key", "row.index"])  # fmt: skip
def test_names_of_identifiers(name):
    assert named_like_an_identifier(name)


@pytest.mark.parametrize("name", ["age", "dose", "x0", "x1", "acid", "fluid", "thyroid", "paid", "no_of_visits", "nose", "monkey", "keys_per_day", "idle", "iron"])  # fmt: skip
def test_other_names(name):
    assert not named_like_an_identifier(name)
