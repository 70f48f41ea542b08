"""A schema is proposed from one file, checked against others, and applied to messy ones."""

import datetime
import time
import tomllib
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedjigsaw import sites
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.errors import DataError, MessageError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.schemas import load_schema, schema_to_toml
from fedjigsaw.io.tables import from_array, open_table
from raising import raises


def make(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "patient_id": rng.permutation(10**6)[:n],
            "age": rng.normal(55, 15, n).clip(18, 95).round().astype(int),
            "glucose": rng.normal(120, 30, n).clip(60, 300).round(1),
            "dose": rng.lognormal(2, 1.2, n).round(2),
            "sex": rng.choice(["female", "male"], n),
            "smoker": rng.choice(["yes", "no"], n),
            "stage": rng.choice(["low", "medium", "high"], n),
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "note": [f"seen by doctor {i}" for i in range(n)],
        }
    )
    frame.loc[rng.random(n) < 0.2, "glucose"] = np.nan
    return frame


def comma(values):
    return [f"{v}".replace(".", ",") if v == v else "k.A." for v in values]


def messy(n=200, seed=1):
    """The same columns as a German export has them, and as they would be clean."""
    clean = make(n, seed)
    frame = pd.DataFrame(
        {
            "Größe": "x",
            "Alter": clean["age"],
            "glucose": comma((clean["glucose"] / 18.0156).round(2)),
            "dose": comma(clean["dose"]),
            "sex": clean["sex"].map({"female": "w", "male": "m"}),
            "smoker": clean["smoker"].map({"yes": "ja", "no": "nein"}),
            "stage": clean["stage"],
            "seen": clean["seen"].dt.strftime("%d.%m.%Y"),
            "patient_id": clean["patient_id"].map("{:08}".format),
        }
    )
    clean["glucose"] = (clean["glucose"] / 18.0156).round(2) * FACTOR
    return frame, clean


FACTOR = 18.0156  # from mmol/l to mg/dl
CHANGES = sites.Changes(
    names={"age": "Alter"},
    factors={"glucose": FACTOR},
    levels={"sex": {"w": "female", "m": "male"}},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    make().to_csv(folder / "bern.csv", index=False)
    proposal = sites.propose_schema(folder / "bern.csv")
    (folder / "schema.toml").write_text(sites.proposal_to_toml(proposal))
    frame, clean = messy()
    text = frame.to_csv(sep=";", index=False, lineterminator="\r\n")
    (folder / "dresden.csv").write_bytes(text.encode("latin-1"))
    (folder / "utf8.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    clean.to_csv(folder / "clean.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def schema(folder):
    return load_schema(folder / "schema.toml")


class TestProposal:
    def test_it_has_all_kinds(self, schema):
        kinds = {column.name: column.kind for column in schema.columns}
        assert kinds == {
            "patient_id": "ignore",
            "age": "number",
            "glucose": "number",
            "dose": "number",
            "sex": "category",
            "smoker": "boolean",
            "stage": "category",
            "seen": "date",
            "note": "ignore",
        }
        assert schema["dose"].scale == "log"
        assert schema["age"].scale == "standard"
        assert schema["stage"].categories == ("high", "low", "medium")
        assert schema["age"].range == (0, 200)

    def test_the_file_that_it_saw_has_no_trouble(self, folder, schema):
        found = sites.check_file(folder / "bern.csv", schema)
        assert found.fits
        assert not any(column.problems for column in found.columns)
        assert found.others == ()

    @pytest.mark.parametrize("seed", range(6))
    def test_no_file_has_trouble_with_its_own_schema(self, seed, tmp_path):
        """Kinds, outliers, rare levels and typing errors of all sorts."""
        rng = np.random.default_rng(seed)
        n, first = int(rng.integers(20, 200)), datetime.date(1900, 1, 1)
        shares = [0.5, 0.3, 0.1, 0.05, 0.03, 0.02]
        columns = {
            "a": rng.standard_cauchy(n) * 10.0 ** rng.integers(-3, 6),
            "b": rng.integers(0, rng.integers(1, 50), n),
            "c": rng.choice(list("uvwxyz"), n, p=shares),
            "d": rng.choice(["low", "high", "hihg"], n, p=[0.6, 0.38, 0.02]),
            "e": [first + datetime.timedelta(int(d)) for d in rng.integers(0, 45000, n)],
            "f": rng.choice(["0", "1"], n, p=[0.02, 0.98]),
            "g": rng.exponential(1, n) ** 4,
            "h": np.round(rng.normal(1e6, 1e-3, n), 4),
            "i": rng.choice(["01/02/2020", "05/06/2020"], n),
        }
        frame = pd.DataFrame(columns).astype(object)
        frame.where(rng.random(frame.shape) > 0.1, None).to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        found = sites.check_file(tmp_path / "x.csv", proposal.schema)
        few = {c.name: c.n_outside for c in found.columns if c.problems}
        assert all(1 <= n < 5 for n in few.values())  # the schema may not tell, the site is told
        told = [line for line in proposal.told if "outside of the proposed range" in line]
        assert [line.split("'")[1] for line in told] == list(few)
        assert all(f"{n} value" in line for n, line in zip(few.values(), told, strict=True))
        usable = [
            replace(c, outside="missing" if c.name in few else c.outside)
            for c in proposal.schema.columns
        ]
        sites.measure(tmp_path / "x.csv", schema=Schema(tuple(usable)))  # and it can be used

    @pytest.mark.parametrize(
        ("n_far", "outside"), [(0, "refuse"), (4, "refuse"), (5, "missing"), (30, "missing")]
    )
    def test_values_far_out_count_as_missing_if_enough_rows_have_them(
        self, n_far, outside, tmp_path
    ):
        normal = np.random.default_rng(0).normal(37, 0.5, 300).round(1)
        far = np.concatenate([normal, np.full(n_far, 999)])
        pd.DataFrame({"temperature": far}).to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        column = proposal.schema["temperature"]
        assert column.outside == outside
        assert 20 <= column.range[0] <= 35
        assert 41 <= column.range[1] <= 50  # fever is in, 999 is not

    def test_toml_and_schema_are_the_same(self, folder, schema):
        assert sites.propose_schema(folder / "bern.csv").schema == schema
        text = (folder / "schema.toml").read_text()
        assert "public knowledge" in text
        assert "about 20 % missing" in text

    def test_it_tells_nothing_that_few_rows_have(self, tmp_path):
        secret = make().astype(dict.fromkeys(("note", "age", "dose"), object))
        secret["kind"] = "common"
        plain = secret.copy()
        secret.loc[:3, "kind"] = "Morbus Fabry"  # 4 rows
        secret.loc[:3, "glucose"] = [88888.25, 88888.5, -77777.0, 99999.0]
        secret.loc[[7, 12], "age"] = [113, 44.5]  # a fraction, too
        secret.loc[13, "sex"] = None
        secret.loc[8, "seen"] = pd.Timestamp("1907-03-04")
        secret.loc[9, "note"] = "Erika Mustermann"
        secret.loc[:2, "stage"] = "terminal"
        secret.loc[11, "dose"] = "siehe Erika"
        found = []
        for frame in (plain, secret):
            frame.to_csv(tmp_path / "x.csv", index=False)
            found.append(sites.proposal_to_toml(sites.propose_schema(tmp_path / "x.csv")))
        words = ["Fabry", "88888", "77777", "99999", "113", "1907", "Erika", "terminal", "siehe"]
        assert [word for word in words if word in found[1]] == []
        assert found[0] == found[1]  # not even that there is something

    @pytest.mark.parametrize("seed", range(5))
    def test_no_value_of_few_rows_is_in_the_text(self, seed, tmp_path):
        """Of any kind of column, with values that are easy to find again."""
        rng = np.random.default_rng(seed)
        n = int(rng.integers(30, 120))
        words = [f"zq{i}x" for i in range(40)]
        power = rng.uniform(0.3, 2) * np.arange(40)
        numbers = np.round(rng.standard_cauchy(n) * 1000 + 0.123, 3)
        frame = pd.DataFrame(
            {
                "words": rng.choice(words, n, p=np.exp(-power) / np.exp(-power).sum()),
                "numbers": [*numbers[2:], "zqa", "zqb"],
                "marks": [*(["zq mark"] * 4), *rng.normal(size=n - 4)],
                "order": rng.choice(["low", "high", "zqtypo"], n, p=[0.6, 0.37, 0.03]),
                "codes": [*(["777123"] * 4), *rng.choice(["1", "2"], n - 4)],
                "days": [*(["1911-11-11"] * 4), *["2020-05-05", "2021-06-06"] * (n // 2)][:n],
            }
        ).sample(frac=1, random_state=seed)
        frame.to_csv(tmp_path / "x.csv", index=False)
        text = sites.proposal_to_toml(sites.propose_schema(tmp_path / "x.csv"))
        counts = frame["words"].value_counts()
        for word in words:
            assert (f'"{word}"' in text) <= (counts.get(word, 0) >= 5), word
        secrets = ["zqa", "zqb", "zq mark", "zqtypo", "777123", "1911", *map(str, numbers)]
        assert [secret for secret in secrets if secret in text] == []

    def test_a_category_of_five_rows_is_named_and_one_of_four_is_not(self, tmp_path):
        frame = pd.DataFrame({"x": ["a"] * 20 + ["b"] * 5 + ["c"] * 4, "y": np.arange(29) / 7})
        frame.to_csv(tmp_path / "x.csv", index=False)
        told = "Rare categories are left out of the schema: column 'x'."
        assert sites.propose_schema(tmp_path / "x.csv").told == (told,)
        assert sites.propose_schema(tmp_path / "x.csv").schema["x"].categories == ("a", "b")
        strict = sites.propose_schema(tmp_path / "x.csv", min_rows=6)
        assert strict.schema["x"].kind == "ignore"  # a single category tells nothing

    @pytest.mark.parametrize(
        ("n_missing", "words"), [(0, "hardly any"), (4, "hardly any"), (5, "about 25 %")]
    )
    def test_few_missing_values_are_not_told(self, n_missing, words, tmp_path):
        values = ["a", "b"] * 10 if not n_missing else ["a", "b"] * 10 + [""] * n_missing
        frame = pd.DataFrame({"x": values[-20:], "y": 1.5})
        frame.to_csv(tmp_path / "x.csv", index=False)
        (x, _) = sites.propose_schema(tmp_path / "x.csv").columns
        assert words in x.seen

    def test_several_files_are_one(self, tmp_path):
        columns = (
            {"x": ["a"] * 3 + ["b"] * 8, "d": ["2020-05-06"] * 11},
            {"d": ["07.08.2021"] * 9, "x": ["a"] * 3 + ["c"] * 6, "y": np.arange(9) / 7},
        )
        paths = [tmp_path / f"{i}.csv" for i in range(2)]
        for path, given in zip(paths, columns, strict=True):
            pd.DataFrame(given).to_csv(path, index=False)
        schema = sites.propose_schema(paths).schema
        kinds = [(column.name, column.kind) for column in schema.columns]
        assert kinds == [("x", "category"), ("d", "date"), ("y", "number")]
        assert schema["x"].categories == ("a", "b", "c")

    def test_text_that_stands_for_missing_values_is_proposed(self, tmp_path):
        values = [f"{v:.2f}" for v in np.random.default_rng(0).normal(size=50)]
        columns = {"x": [*values, *["nicht gemessen"] * 9], "y": ["a", "b"] * 29 + ["a"]}
        pd.DataFrame(columns).to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        assert proposal.missing == ("nicht gemessen",)
        assert sites.check_file(tmp_path / "x.csv", proposal.schema).columns[0].n_missing == 9

    @pytest.mark.parametrize(
        ("mark", "other"), [("no", "yes"), ("No", "1"), ("alive", "dead"), ("ALIVE", "dead")]
    )
    def test_an_answer_of_another_column_is_no_mark(self, mark, other, tmp_path):
        """It would erase that answer, and the check would say that the file fits."""
        days = [f"2024-01-{j % 28 + 1:02}" for j in range(60)]
        level = {"1": "0"}.get(other, mark.lower())
        columns = {
            "died": [mark if j % 3 == 0 else day for j, day in enumerate(days)],
            "packs": [mark if j % 9 == 0 else str(j % 13) for j in range(60)],
            "left": ["not yet" if j % 3 == 0 else day for j, day in enumerate(days)],
            "status": [level if j % 3 else other for j in range(60)],
        }
        pd.DataFrame(columns).to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        kinds = [column.kind for column in proposal.schema.columns]
        assert kinds[:3] == ["ignore", "ignore", "date"]
        assert proposal.missing == ("not yet",)
        for entry in proposal.columns[:2]:
            assert f"--missing {entry.column.name}:{mark}`" in entry.doubts[-1]
        found = sites.check_file(tmp_path / "x.csv", proposal.schema)
        assert (found.fits, found.columns[3].n_missing) == (True, 0)

    @pytest.mark.parametrize(
        ("code", "n", "told"), [(999, 5, True), (-9, 40, True), (999, 4, False), (99, 9, False)]
    )
    def test_numbers_that_stand_for_missing_values(self, code, n, told, tmp_path):
        values = [*np.random.default_rng(0).normal(60, 15, 80).round(1), *[code] * n]
        pd.DataFrame({"x": values}).to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        assert (f"--missing x:{code}" in sites.proposal_to_toml(proposal)) == told
        assert proposal.schema["x"].range[1] <= 200  # not from 999

    def test_values_that_are_no_numbers_are_told_at_the_site_alone(self, tmp_path):
        values = [f"{v:.2f}" for v in np.random.default_rng(0).normal(size=50)] + ["<5"]
        pd.DataFrame({"x": values}).to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        assert len(proposal.told) == 1
        assert "<5" not in sites.proposal_to_toml(proposal)
        (column,) = sites.check_file(tmp_path / "x.csv", proposal.schema).columns
        assert "'<5' in row 51" in column.problems[0]

    def test_names_need_quotes_in_toml(self, tmp_path):
        names = ['a "b" c', "x.y", "Größe [cm]", "tab\\t", "#"]
        frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 5)), columns=names)
        frame.to_csv(tmp_path / "x.csv", index=False)
        proposal = sites.propose_schema(tmp_path / "x.csv")
        (tmp_path / "s.toml").write_text(sites.proposal_to_toml(proposal))
        assert load_schema(tmp_path / "s.toml") == proposal.schema

    @pytest.mark.parametrize(
        "name", ["x.xlsx", "x.tsv", "x.csv.gz", "german.csv", "latin.csv", "swiss.csv"]
    )
    def test_the_way_a_file_is_written_does_not_matter(self, name, schema, tmp_path):
        frame, path = make().assign(big=np.linspace(1e4, 9e5, 300).round(2)), tmp_path / name
        if name == "x.xlsx":
            pytest.importorskip("openpyxl")
            frame.to_excel(path, index=False)
        elif name == "swiss.csv":
            frame["big"] = [f"{v:,.2f}".replace(",", "'") for v in frame["big"]]
            frame.to_csv(path, index=False, sep=";")
        elif name in ("german.csv", "latin.csv"):
            frame["seen"] = frame["seen"].dt.strftime("%d.%m.%Y")
            signs = {"sep": ";", "decimal": ",", "na_rep": "k.A.", "lineterminator": "\r\n"}
            text = frame.assign(ort="Köln").to_csv(index=False, **signs)
            path.write_bytes(text.encode("latin-1" if name == "latin.csv" else "utf-8-sig"))
        else:
            frame.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
        found = sites.propose_schema(path).schema
        same = [column for column in found.columns if column.name not in ("big", "ort")]
        assert same == list(schema.columns)
        assert found["big"].range == (0, 2e6)
        assert sites.check_file(path, found).fits
        copy = tmp_path / "y.parquet"
        sites.apply_schema(path, found, copy)
        ours, theirs = (sites.measure(p, client="x", schema=found) for p in (copy, path))
        assert formats.encode(ours) == formats.encode(theirs)

    def test_arrays_and_parquet_have_schemas_too(self, tmp_path):
        rows = np.random.default_rng(0).normal(size=(50, 2))
        assert sites.propose_schema(from_array(rows)).schema["x1"].kind == "number"
        days = pa.array([18000] * 18, pa.date32())
        table = pa.table({"d": days, "t": ["a"] * 9 + ["b"] * 9, "b": [True, False] * 9})
        pq.write_table(table, tmp_path / "x.parquet")
        schema = sites.propose_schema(tmp_path / "x.parquet").schema
        assert [column.kind for column in schema.columns] == ["date", "category", "boolean"]

    def test_durations_are_ignored_and_no_dates(self, tmp_path):
        """As pandas saves the length of a stay."""
        path, stay = tmp_path / "x.parquet", pa.array(range(60), pa.duration("s"))
        pq.write_table(pa.table({"x": np.arange(60) % 7 + 0.5, "stay": stay}), path)
        kinds = [column.kind for column in sites.propose_schema(path).schema.columns]
        assert kinds == ["number", "ignore"]
        schema = Schema((Column("stay", "date"), Column("x")))
        with raises(DataError, file="x.parquet", column="stay"):
            sites.measure(path, schema=schema)
        assert not sites.check_file(path, schema).fits

    def test_huge_numbers_get_a_range_that_a_schema_allows(self, tmp_path):
        """Codes such as 1E07 are numbers to a computer."""
        columns = {"e": [f"1E{i:02}" for i in range(100)], "x": np.arange(100) % 9 + 0.5}
        pd.DataFrame(columns).to_csv(tmp_path / "x.csv", index=False)
        low, high = sites.propose_schema(tmp_path / "x.csv").schema.columns[0].range
        assert 0 <= low < high <= 1e100

    @pytest.mark.parametrize("values", [[1.5, 2.5], [f"text {i}" for i in range(30)]])
    def test_too_few_rows_or_columns_are_an_error(self, tmp_path, values):
        pd.DataFrame({"x": values}).to_csv(tmp_path / "x.csv", index=False)
        with raises(DataError, "2 rows|no column", file="x.csv"):
            sites.propose_schema(tmp_path / "x.csv")
        with pytest.raises(DataError):
            sites.propose_schema([])


def test_a_schema_survives_toml(tmp_path):
    settings = {"unit": "µmol/l", "outside": "clip", "scale": "robust", "missing": "median"}
    categories = tuple(f'"{i}\\' for i in range(40))
    columns = (
        Column("a", range=(-1.5, 1e20), weight=0.5, **settings),
        Column("b", "date", range=(0, 18000), format="%d.%m.%Y", weight=0),
        Column("c", "category", categories=categories, missing="refuse"),
        Column("d", "ignore"),
    )
    schema = Schema(columns, missing=("-9", "leer"), rare=0.125)
    (tmp_path / "s.toml").write_text(schema_to_toml(schema, comments={"a": ["One.", "Two."]}))
    assert load_schema(tmp_path / "s.toml") == schema
    written = tomllib.loads(schema_to_toml(schema))["columns"]["b"]["range"]
    assert written[0] == datetime.date(1970, 1, 1)


class TestCheck:
    @pytest.fixture
    def check(self, tmp_path):
        def look(column, values, **options):
            name = column.name if isinstance(column, Column) else "x"
            pd.DataFrame({name: values, "more": 1}).to_csv(tmp_path / "x.csv", index=False)
            found = sites.check_file(tmp_path / "x.csv", Schema((column,)), **options)
            return found.columns[0]

        return look

    def test_a_foreign_file_gets_proposals(self, folder, schema):
        found = sites.check_file(folder / "dresden.csv", schema)
        assert not found.fits
        by_name = {column.name: column for column in found.columns}
        assert "`--rename ...=age`" in by_name["age"].problems[0]
        assert by_name["sex"].unknown.keys() == {"w", "m"}
        assert not any(by_name[name].problems for name in ("dose", "seen", "smoker"))
        assert found.others == ("Größe", "Alter")

    @pytest.mark.parametrize(
        ("name", "column", "asks"),
        [
            ("CRP mg/dL", Column("CRP (mg/l)"), True),
            ("CRP mg/dL", Column("CRP", unit="mg/l"), True),
            ("crp_mg/L", Column("CRP (mg/l)"), False),
            ("CRP", Column("CRP (mg/l)"), False),
        ],
    )
    def test_units_of_names_that_differ_need_a_factor(self, tmp_path, name, column, asks):
        pd.DataFrame({name: [1.0, 2.0], "sex": 1}).to_csv(tmp_path / "x.csv", index=False)
        (found,) = sites.check_file(tmp_path / "x.csv", Schema((column,))).columns
        assert ("--rename", f"{name}={column.name}") in found.options
        assert (("--factor", f"{column.name}=NUMBER") in found.options) is asks
        assert all((unit in found.problems[0]) is asks for unit in ("'mg/dL'", "'mg/l'"))

    def test_values_out_of_range(self, check):
        strict = check(Column("x", range=(0, 10)), [1, 2, 11, 12])
        assert strict.n_outside == 2
        assert "'11' in row 3" in strict.problems[0]
        for how in ("missing", "clip"):
            mild = check(Column("x", range=(0, 10), outside=how), [1, 2, 3, 12])
            assert (mild.problems, len(mild.remarks)) == ((), 1)
            assert "'12' in row 4" in mild.remarks[0]
            assert check(Column("x", range=(0, 10), outside=how), [1, 22, 33, 12]).problems
        days = Column("x", "date", range=(18262, 18627))
        told = check(days, ["2020-05-05", "2021-05-05"]).problems[0]
        assert "2020-01-01 to 2020-12-31: '2021-05-05' in row 2" in told

    def test_units(self, check):
        (remark,) = check(Column("bmi", range=(10, 60), outside="missing"), [2.2, 2.3, 25]).remarks
        assert "--factor bmi=NUMBER" in remark

    def test_missing_values(self, check):
        found = check(Column("x"), [1, None, None, 2])
        assert (found.share_missing, found.problems) == (0.5, ())
        assert "--drop-missing" in check(Column("x", missing="refuse"), [1, None]).problems[0]
        assert len(check(Column("x"), [None, None]).remarks) == 1

    def test_categories(self, check):
        column = Column("x", "category", categories=("female", "male"))
        found = check(column, ["female", "male"] * 20 + ["Femal"] * 2 + ["diverse"] * 6 + ["zzz"])
        assert found.problems == ()
        assert found.unknown == {"diverse": 6, "Femal": 2, "zzz": 1}
        assert "'Femal' (2 rows): is it 'female'?" in found.remarks
        many = check(column, ["female"] * 20 + [f"{c}q" for c in "abcdefgh"])
        assert (many.remarks[-1], many.problems) == ("... and 3 more.", ())
        assert check(column, ["female"] * 20 + ["w"] * 21).problems  # most of them
        ordered = Column("x", "ordered", categories=("low", "high"))
        assert check(ordered, ["low", "high", "higgh"]).problems

    @pytest.mark.parametrize(
        ("level", "category"),
        [("01", "1"), ("7", "007"), ("1,50", "1.50"), ("1.50", "1.5"), ("0,1", "0.10")],
    )
    def test_numbers_that_are_written_in_another_way(self, check, level, category):
        column = Column("x", "category", categories=("10", "150", category))
        assert check(column, [level]).options == (("--map", f"x:{level}={category}"),)

    @pytest.mark.parametrize("level", ["-10", "1.000", "1.5", "1.500", "100"])
    def test_other_numbers_are_other_categories(self, check, level):
        column = Column("x", "category", categories=("1", "10", "15", "1000"))
        assert check(column, [level]).options == ()

    def test_types(self, check):
        for kind, values in (("boolean", ["yes", "maybe"]), ("date", ["28.02.2020", "31.02.2020"])):
            assert f"'{values[1]}' in row 2" in check(Column("x", kind), values).problems[0]
        assert check(Column("x", "date", format="%Y-%m-%d"), ["28.02.2020"]).problems
        unclear = check(Column("x", "date"), ["03/04/2020", "05/06/2020"])
        assert (len(unclear.problems), unclear.options) == (1, (("--date-format", "x=%d/%m/%Y"),))
        assert check(Column("x"), [*range(50), "ca. 7"]).options == ()  # it is a value
        words = check(Column("x"), [*range(50), "unklar", "leer", "leer"])
        assert words.options == (("--missing", "x:unklar"), ("--missing", "x:leer"))
        assert "'unklar' in row 51, 'leer' in row 52." in words.problems[0]

    def test_day_and_month_that_can_be_exchanged_are_told(self, check):
        column = Column("x", "date", format="%d/%m/%Y")
        unclear = check(column, ["03/04/2020", "05/06/2020", ""])
        assert (unclear.problems, "%m/%d/%Y" in unclear.remarks[0]) == ((), True)
        assert check(column, ["03/04/2020", "15/06/2020"]).remarks == ()
        foreign = check(column, ["03/04/2020", "06/15/2020", None])
        assert "'06/15/2020' in row 2" in foreign.problems[0]
        assert foreign.options == (("--date-format", "x=%m/%d/%Y"),)
        assert check(column, ["03/04/2020", "06/15/2020", "15/06/2020"]).options == ()
        assert check(Column("x", "date", format="%d.%m.%Y"), ["03.04.2020"]).remarks == ()

    def test_marks_among_numbers_are_told(self, check):
        values = [*np.random.default_rng(0).normal(60, 15, 80).round(1), *[999] * 5]
        (remark,) = check(Column("x"), values).remarks
        assert "--missing x:999" in remark
        assert check(Column("x"), values[:-1]).remarks == ()

    def test_what_fits_can_be_used_and_what_does_not_cannot(self, tmp_path):
        """The verdict is that of the commands."""
        cases = {
            Column("x", range=(0, 5)): ["1", "2", "bad", "6", ""],
            Column("x", range=(0, 5), outside="missing", missing="refuse"): ["1", "bad", "6", ""],
            Column("x", "boolean"): ["yes", "0", "bad", ""],
            Column("x", "date"): ["2020-05-05", "05.05.2020", "bad", ""],
            Column("x", "ordered", categories=("a", "b")): ["a", "b", "c", ""],
            Column("x", "category", categories=("a", "b"), missing="refuse"): ["a", "b", ""],
        }
        for column, values in cases.items():
            for value in values:
                pd.DataFrame({"x": [values[0]] * 6 + [value], "n": 1}).to_csv(
                    tmp_path / "x.csv", index=False
                )
                schema = Schema((column, Column("n")))
                fits = sites.check_file(tmp_path / "x.csv", schema).fits
                try:
                    sites.measure(tmp_path / "x.csv", schema=schema, min_rows=1)
                except DataError:
                    assert not fits, (column, value)
                else:
                    assert fits, (column, value)

    @pytest.mark.parametrize("outside", ["missing", "clip"])
    def test_a_column_that_is_mostly_outside_is_refused_everywhere(self, outside, tmp_path):
        """Another unit would make all values missing, or all the same, without a word."""
        path, copy = tmp_path / "x.csv", tmp_path / "clean.parquet"
        schema = Schema((Column("x", range=(50, 500), outside=outside), Column("n")))
        for n_outside, fits in ((6, True), (7, False)):
            values = [5.5] * n_outside + [100] * (12 - n_outside) + [None] * 20
            pd.DataFrame({"x": values, "n": 1}).to_csv(path, index=False)
            assert sites.check_file(path, schema).fits is fits
            for use in (
                lambda: sites.measure(path, schema=schema),
                lambda: sites.apply_schema(path, schema, copy),
            ):
                copy.unlink(missing_ok=True)
                with nullcontext() if fits else raises(DataError, "7 of 12", column="x"):
                    use()
        assert not copy.exists()

    @pytest.mark.parametrize(
        ("column", "values", "mark"),
        [
            (Column("x", range=(0, 10)), ["1", "2", "300", "4", "500"], "x:300"),
            (
                Column("x", "date", range=(0, 40_000)),
                ["01.02.2020", "13.02.2020", "01.01.1900", "14.02.2020"],
                "x:01.01.1900",
            ),
        ],
    )
    def test_values_outside_that_are_kept_are_told_with_a_remedy(
        self, column, values, mark, tmp_path
    ):
        path, copy, schema = tmp_path / "x.csv", tmp_path / "c.parquet", Schema((column,))
        pd.DataFrame({"x": values, "n": 1}).to_csv(path, index=False)
        done = sites.apply_schema(path, schema, copy)
        (told,) = [line for line in done.said if "in row 3" in line]
        assert f"`--missing {mark}`" in told
        assert not sites.check_file(copy, schema).fits
        changes = sites.Changes(missing_in={"x": [mark.removeprefix("x:")]})
        again = sites.apply_schema(path, schema, copy, changes)
        assert again.n_outside["x"] == done.n_outside["x"] - 1


START = datetime.datetime(1931, 1, 1)


class TestApply:
    @pytest.mark.parametrize("name", ["dresden.csv", "utf8.csv"])
    def test_a_messy_file_becomes_as_good_as_a_clean_one(self, name, folder, schema, tmp_path):
        out = tmp_path / "clean.parquet"
        done = sites.apply_schema(folder / name, schema, out, CHANGES)
        assert sites.check_file(out, schema).fits
        ours = sites.measure(out, client="x", schema=schema)
        theirs = sites.measure(folder / "clean.csv", client="x", schema=schema)
        assert formats.encode(ours) == formats.encode(theirs)  # bit for bit
        types = [str(field.type) for field in pq.read_schema(out)]
        kept = ["string", "bool", "string", "date32[day]", "string", "string"]
        assert types == ["double"] * 3 + kept
        assert (done.n_rows, done.copied) == (200, ("Größe", "patient_id"))
        expected = messy()[0]["patient_id"].tolist()
        assert pq.read_table(out)["patient_id"].to_pylist() == expected  # with leading zeros
        assert "'Alter' is now 'age'." in done.said
        assert done.n_missing["glucose"] > 20

    @pytest.mark.parametrize("pattern", ["%Y-%m-%d %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y"])
    def test_a_copy_keeps_the_time_of_day_to_the_second(self, pattern, tmp_path):
        when = [START + datetime.timedelta(seconds=7_654_321 * i) for i in range(300)]
        written = pattern if "%S" in pattern else "%Y-%m-%d %H:%M:%S"  # is read with any format
        texts = [moment.strftime(written) for moment in when]
        (tmp_path / "bern.csv").write_text("when\n" + "\n".join(texts) + "\n")
        schema = Schema((Column("when", "date", format=pattern),))
        sites.apply_schema(tmp_path / "bern.csv", schema, tmp_path / "copy.parquet")
        assert pq.read_table(tmp_path / "copy.parquet")["when"].to_pylist() == when

    def test_a_time_of_day_may_come_late(self, tmp_path):
        schema = Schema((Column("when", "date", format="%d.%m.%Y"), Column("age")))
        path, copy = tmp_path / "bern.parquet", tmp_path / "copy.parquet"

        def write(first):
            when = pa.array([first] * 70_000 + ["2024-10-24 13:00:00"], pa.string())
            pq.write_table(pa.table({"when": when, "age": [1.0] * 70_001}), path)

        write(None)
        sites.apply_schema(path, schema, copy)
        assert str(pq.read_table(copy)["when"][-1].as_py()) == "2024-10-24 13:00:00"
        copy.unlink()
        write("24.10.2024")
        with raises(DataError, file=path.name, row=70001, column="when"):
            sites.apply_schema(path, schema, copy)
        assert not copy.exists()

    @pytest.fixture
    def apply(self, tmp_path):
        def do(column, values, **changes):
            pd.DataFrame({"x": values, "id": "a"}).to_csv(tmp_path / "x.csv", index=False)
            sites.apply_schema(
                tmp_path / "x.csv",
                Schema((column, Column("id", "category", categories=("a",)))),
                tmp_path / "y.parquet",
                sites.Changes(**changes),
            )
            return pq.read_table(tmp_path / "y.parquet")["x"].to_pylist()

        return do

    def test_values(self, apply):
        values = [1, -9, "-9.0", "leer", 2.5, 3]
        expected = [1, None, None, None, 2.5, 3]
        day, noon = datetime.date(2020, 4, 3), datetime.datetime(2020, 4, 3, 12)
        answers, formats_ = {"x": {"+": "yes", "-": "no"}}, {"x": "%d/%m/%Y"}
        date, american = Column("x", "date"), Column("x", "date", format="%m/%d/%Y")
        town = Column("x", "category", categories=("b",))
        assert apply(Column("x"), values, missing=["-9", "leer"]) == expected
        assert apply(Column("x"), [1, 0], missing_in={"x": ["0"]}) == [1, None]
        assert apply(Column("x"), [1, 2], factors={"x": 0.5}) == [0.5, 1]
        found = apply(Column("x", "boolean"), ["+", "-", "ja"], levels=answers)
        assert found == [True, False, True]
        assert apply(town, ["b ", "c", "k.A."]) == ["b", "c", None]
        assert apply(date, ["03/04/2020", ""], date_formats=formats_) == [day, None]
        assert apply(american, ["03/04/2020"], date_formats=formats_) == [day]
        assert apply(date, ["2020-04-03 12:00:00"]) == [noon]

    X, DATE = Column("x"), Column("x", "date")
    LETTERS = Column("x", "category", categories=("a", "b"))
    NUMBERS, DAYS = ["1", "2"], ["2020-01-01"]
    BAD = (
        (X, ["1", "<5"], {}, "missing", "x", 2),
        (Column("x", "boolean"), ["yes", "maybe"], {}, "levels", "x", 2),
        (DATE, ["2020-05-05", "gestern"], {}, "date_formats", "x", 2),
        (DATE, ["03/04/2020", "05/06/2020"], {}, "date_formats", "x", None),
        (Column("y"), NUMBERS, {}, "names", "y", None),
        (Column("y", missing="refuse"), NUMBERS, {"empty": ["y"]}, "empty", "y", None),
        (Column("age"), NUMBERS, {"names": {"age": "Alter"}}, "names", "Alter", None),
        (X, NUMBERS, {"names": {"z": "x"}}, "names", "z", None),
        (X, NUMBERS, {"names": {"x": "id", "id": "id"}}, "names", "id", None),
        (Column("y"), NUMBERS, {"names": {"y": "x", "id": "y"}}, "names", "y", None),
        (X, NUMBERS, {"factors": {"x": 0.0}}, "factors", "x", None),
        (DATE, DAYS, {"factors": {"x": 2.0}}, "factors", "x", None),
        (X, NUMBERS, {"levels": {"x": {"1": "2"}}}, "levels", "x", None),
        (LETTERS, ["a"], {"levels": {"x": {"c": "d"}}}, "levels", "x", None),
        (X, NUMBERS, {"date_formats": {"x": "%d.%m.%Y"}}, "date_formats", "x", None),
        (DATE, DAYS, {"date_formats": {"x": "DD.MM"}}, "", "x", None),
        (X, NUMBERS, {"missing_in": {"q": ["1"]}}, "missing_in", "q", None),
    )

    @pytest.mark.parametrize(("column", "values", "changes", "parameter", "name", "row"), BAD)
    def test_what_is_wrong_is_told_and_nothing_is_written(
        self, apply, column, values, changes, parameter, name, row, tmp_path
    ):
        with raises((DataError, ParameterError), parameter=parameter, column=name, row=row):
            apply(column, values, **changes)
        assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]

    def test_a_name_that_is_taken_is_an_error(self, tmp_path):
        pd.DataFrame({"Alter": [1], "age": [2]}).to_csv(tmp_path / "x.csv", index=False)
        given = (
            Schema((Column("age"),)),
            tmp_path / "y.parquet",
            sites.Changes(names={"age": "Alter"}),
        )
        with raises(DataError, "'Alter'", file="x.csv", column="age"):
            sites.apply_schema(tmp_path / "x.csv", *given)

    def test_an_existing_copy_is_kept_if_asked(self, folder, schema, tmp_path):
        (tmp_path / "y.parquet").write_text("old")
        with raises(DataError, file="y.parquet", parameter="replace"):
            sites.apply_schema(folder / "bern.csv", schema, tmp_path / "y.parquet", replace=False)
        assert (tmp_path / "y.parquet").read_text() == "old"

    def test_memory_does_not_grow_with_the_file(self, tmp_path):
        """A batch at a time is written: as many row groups as batches."""
        rows = np.random.default_rng(0).normal(size=(200_000, 2))
        np.save(tmp_path / "x.npy", rows)
        sites.apply_schema(tmp_path / "x.npy", Schema((Column("x0"),)), tmp_path / "y.parquet")
        found = pq.ParquetFile(tmp_path / "y.parquet")
        assert found.metadata.num_row_groups == 4
        np.testing.assert_array_equal(found.read()["x0"].to_numpy(), rows[:, 0])


class TestHostileSchemas:
    HEAD = "format = 1\n"
    AGE = '[columns.age]\nkind = "number"\n'

    @pytest.mark.parametrize(
        ("content", "words", "row"),
        [
            (f"{HEAD}{'a.' * 20_000}a = 1\n", "too many points", 2),
            (HEAD + AGE + '"a" . ' * 9 + "a = 1\n", "too many points", 4),
            (f"{HEAD}x = ['''\n\"''', {{{'a.' * 9}a = 1}}, \"x\"]\n", "too many points", 3),
            (f"{HEAD}rare = {'9' * 5000}\n{AGE}", "not valid TOML", None),
            (f"{HEAD}missing = {['x' * 201]}\n{AGE}", "missing of the schema", None),
            (f'{HEAD}missing = ["\\u001b"]\n{AGE}', "missing of the schema", None),
            (f"{HEAD}missing = {[str(n) for n in range(1001)]}\n{AGE}", "missing of", None),
            ("#" * 2**20 + "\n", "1048576 bytes", None),
        ],
    )
    def test_they_are_refused_at_once(self, tmp_path, content, words, row):
        (tmp_path / "s.toml").write_text(content)
        start = time.monotonic()
        with raises((DataError, MessageError), words, file="s.toml", row=row):
            load_schema(tmp_path / "s.toml")
        assert time.monotonic() - start < 5

    def test_points_in_texts_and_comments_are_fine(self, tmp_path):
        texts = f'["1.2.3.4.5", "a\\"{"." * 20}"]  # {"." * 20}'
        content = f'{self.HEAD}[columns.c]\nkind = "category"\ncategories = {texts}\n'
        (tmp_path / "s.toml").write_text(content)
        assert load_schema(tmp_path / "s.toml")["c"].categories[1] == 'a"' + "." * 20

    def test_times_in_a_range_are_their_days(self, tmp_path):
        given = "range = [2015-01-01T10:00:00, 2016-01-01T00:00:00Z]"
        (tmp_path / "s.toml").write_text(f'{self.HEAD}[columns.d]\nkind = "date"\n{given}\n')
        assert load_schema(tmp_path / "s.toml")["d"].range == (16436, 16801)


ONE_SIGN, TWO_SIGNS = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"  # they look the same


@pytest.mark.parametrize(("agreed", "there"), [(ONE_SIGN, TWO_SIGNS), (TWO_SIGNS, ONE_SIGN)])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_is_found_however_the_letters_of_its_name_are_composed(
    tmp_path, agreed, there, ending
):
    path, copy = tmp_path / f"t.{ending}", tmp_path / "copy.parquet"
    frame = pd.DataFrame({"id": ["a", "b", "c"], there: [1.7, 1.8, 1.9]})
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    schema = Schema((Column(agreed), Column("id", "ignore")))
    found = sites.check_file(path, schema)
    assert (found.fits, found.others) == (True, ())
    assert sites.apply_schema(path, schema, copy).copied == ("id",)
    assert pq.read_table(copy).column_names == [agreed, "id"]
    stats = sites.measure(path, schema=schema, client="bern", min_rows=1)
    assert stats.mean[0] == pytest.approx(1.8)
    named = open_table(path, columns=[agreed], id_column="id")
    assert named.columns == (agreed,)
    assert next(named.batches()).rows.ravel().tolist() == [1.7, 1.8, 1.9]


def test_columns_that_look_alike_stay_apart(tmp_path):
    frame = pd.DataFrame({TWO_SIGNS: [2.0] * 3, ONE_SIGN: [1.0] * 3})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name, value in ((ONE_SIGN, 1.0), (TWO_SIGNS, 2.0)):
        (batch,) = open_table(tmp_path / "t.csv", columns=[name]).batches()
        assert batch.rows.ravel().tolist() == [value] * 3


def test_of_two_columns_that_look_like_the_one_asked_for_none_is_taken(tmp_path):
    one_sign, two_signs, unit = "\u00c5", "A\u030a", "\u212b"
    (tmp_path / "t.csv").write_text(f"{two_signs},{unit}\n" + "1,2\n" * 3, encoding="utf-8")
    with raises(DataError, file="t.csv", column=one_sign):
        open_table(tmp_path / "t.csv", columns=[one_sign])


@pytest.mark.parametrize("kind", ["category", "ordered"])
def test_a_category_is_listed_once_however_its_letters_are_composed(kind):
    with raises(ParameterError, "'Z\u00fcrich' several times", column="town"):
        Column("town", kind, categories=("Bern", "Z\u00fcrich", "Zu\u0308rich"))
    with raises(ParameterError, "'Bern' several times", column="town"):
        Column("town", kind, categories=("Bern", "Bern"))
