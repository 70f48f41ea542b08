"""The commands about schemas: what they print, write and refuse."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fedjigsaw.columns.schema import Schema
from fedjigsaw.errors import BudgetError, DataError, FedJigsawError, ParameterError
from fedjigsaw.io.schemas import load_schema


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "id": [f"P{i}" for i in range(n)],
            "age": rng.integers(20, 90, n),
            "glucose": rng.normal(110, 20, n).round(1),
            "sex": rng.choice(["female", "male"], n),
            "seen": pd.to_datetime("2021-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    frame.to_csv("bern.csv", index=False)
    other = frame.rename(columns={"age": "Alter"})
    other["glucose"] = [f"{v:.2f}".replace(".", ",") for v in other["glucose"] / 18.0156]
    other["sex"] = other["sex"].map({"female": "weiblich", "male": "Male"})
    other["seen"] = other["seen"].dt.strftime("%d.%m.%Y")
    other.to_csv("dresden.csv", index=False, sep=";")
    return tmp_path


def flat(text):
    return " ".join(re.sub("[│┃]", " ", text).split())


def test_init_names_texts_among_dates_of_a_sheet(folder, run):
    frame = pd.read_csv("bern.csv", parse_dates=["seen"])
    frame["told"] = frame["seen"].astype(object).where(frame["age"] < 70, "in 3 to 5 weeks")
    frame["left"] = frame["seen"].astype(object).where(frame["age"] < 70, "not yet")
    frame.to_excel("dates.xlsx", index=False)
    told = flat(run("schema init dates.xlsx -o schema.toml").stdout)
    assert "Ignored: 'told' (dates, and texts among them)" in told
    assert "Check 'told': texts among dates. Correct them, or leave them empty." in told
    schema = load_schema("schema.toml")
    assert (schema["left"].kind, schema.missing) == ("date", ("not yet",))


class TestLedger:
    """A proposal has no noise: it is written down, and refused where there is a limit."""

    @pytest.mark.parametrize("output", ["-o schema.toml", "--json"])
    def test_a_ledger_elsewhere_holds(self, folder, run, output):
        run("privacy set-limit all.jsonl --epsilon 1")
        with pytest.raises(BudgetError, match="all.jsonl"):
            run(f"schema init bern.csv {output} --ledger all.jsonl")
        assert not (folder / "schema.toml").exists()

    def test_a_name_of_the_data_holds(self, folder, run):
        run("privacy set-limit . --epsilon 1 --data-set patients")
        with pytest.raises(BudgetError, match="'patients'"):
            run("schema init bern.csv -o schema.toml --data-set patients")

    def test_nothing_is_spent_if_nothing_is_told(self, folder, run):
        run("privacy set-limit . --epsilon 1 --data-set dresden")
        with pytest.raises(BudgetError, match="'dresden'"):
            run("schema init bern.csv dresden.csv -o schema.toml")
        (folder / "two.csv").write_text("x\n1\n2\n")
        with pytest.raises(DataError, match="fewer than 5 rows"):
            run("schema init two.csv -o schema.toml")
        (account,) = json.loads(run("privacy status --json").stdout)["data_sets"]
        assert (account["names"], account["releases"]) == (["dresden"], [])

    def test_it_is_confirmed(self, folder, run):
        run("privacy set-limit . --epsilon 1 --data-set dresden")
        assert run("schema init bern.csv -o schema.toml").exit_code == 0
        found = json.loads(run("privacy status --json").stdout)["data_sets"]
        (release,) = [release for account in found for release in account["releases"]]
        assert (release["what"], release["confirmed"]) == ("schema", True)


def test_from_a_proposal_to_a_clean_copy(folder, run):
    done = run("schema init bern.csv -o schema.toml")
    assert done.exit_code == 0
    assert "5 columns, 1 of them ignored -> schema.toml" in done.output
    assert "Ignored: 'id' (texts that all differ: an identifier, or free text)." in flat(
        done.output
    )
    assert "fedjigsaw schema check bern.csv --schema schema.toml" in done.output
    fits = run("schema check bern.csv --schema schema.toml")
    assert fits.exit_code == 0
    assert "The file fits the schema." in fits.output
    trouble = run("schema check dresden.csv --schema schema.toml")
    assert trouble.exit_code == 3
    assert "`--rename ...=age`" in flat(trouble.output)
    assert "'weiblich' (" in flat(trouble.output)
    words = "--rename Alter=age --factor glucose=18.0156 --map sex:weiblich=female"
    copy = "dresden-clean.parquet"
    applied = run(f"schema apply dresden.csv --schema schema.toml {words} -o {copy}")
    assert applied.exit_code == 0
    assert (
        "120 rows, 4 columns of the schema, and 1 more kept as texts -> dresden-clean.parquet"
        in applied.output
    )
    assert "'Alter' is now 'age'." in applied.output
    assert run("schema check dresden-clean.parquet --schema schema.toml").exit_code == 0
    assert pq.read_table("dresden-clean.parquet")["id"].to_pylist()[:2] == ["P0", "P1"]
    for site in ("bern.csv", "dresden-clean.parquet"):
        assert run(f"stats {site} -o {site}.stats --schema schema.toml").exit_code == 0


def test_a_command_is_proposed_only_where_it_helps(folder, run):
    (folder / "s.toml").write_text(
        'format = 1\n[columns.cost]\n[columns."my sex"]\nkind = "category"\n'
        'categories = ["female", "male"]\n[columns.lactate]\nunit = "mg/l"\nrange = [0, 50]\n'
        'outside = "missing"\n'
    )
    bad = pd.DataFrame({"cost": ["$9,391.91", "$1.5"] * 6, "my sex": "male", "lactate": 5.0})
    bad.to_csv("x.csv", index=False)
    done = run("schema check x.csv --schema s.toml")
    assert done.exit_code == 3
    assert "'$9,391.91' in row 1, '$1.5' in row 2" in flat(done.output)
    assert "The file cannot be used as it is: correct it." in flat(done.output)
    assert "schema apply" not in flat(done.output)
    spellings = ["Female", "FEMALE", " female", "fe male", "FeMale", "Male", "MALE", "mael"]
    more = pd.DataFrame(
        {"cost": "$5", "my sex": [*spellings, "x", "x", "x", "x"], "lactate": 900.0}
    )
    more.to_csv("x.csv", index=False)
    text = flat(run("schema check x.csv --schema s.toml").output)
    assert shlex.join(["--map", "my sex:fe male=female"]) in text
    assert "my sex:MALE" not in text  # it is read as male
    assert "my sex:mael" not in text  # a guess
    assert "--factor lactate=NUMBER" in text
    assert "This does not help with 'cost', 'lactate': see the table." in text


def test_json(folder, run):
    run("schema init bern.csv -o schema.toml")
    proposed = json.loads(run("schema init bern.csv --json").output)
    assert Schema.from_dict(proposed) == load_schema(folder / "schema.toml")
    done = run("schema check dresden.csv --schema schema.toml --json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert (found["fits"], found["rows"], found["other_columns"]) == (False, 120, ["Alter"])
    sex = next(column for column in found["columns"] if column["name"] == "sex")
    assert sex["unknown"] == {"weiblich": int((pd.read_csv("bern.csv")["sex"] == "female").sum())}


def test_names_and_values_with_signs_of_their_own(folder, run):
    frame = pd.DataFrame({"a=b": ["1"] * 9, "c:d": ["u=v", "w:x", "y"] * 3})
    frame.to_csv("x.csv", index=False)
    (folder / "s.toml").write_text(
        'format = 1\n[columns."e=f"]\nkind = "number"\n[columns."c:d"]\nkind = "category"\ncategories = ["w:x", "y"]\n'
    )
    done = run(
        *["schema", "apply", "x.csv", "--schema", "s.toml", "-o", "y.parquet"],
        *["--rename", "a=b=e=f"],
        "--factor",
        "e=f=2",
        "--map",
        "c:d:u=v=y",
        "--missing",
        "c:d:w:x",
    )
    assert done.exit_code == 0
    table = pq.read_table("y.parquet")
    assert table["e=f"].to_pylist() == [2.0] * 9
    assert table["c:d"].to_pylist() == ["y", None, "y"] * 3


def test_numbers_that_stand_for_missing_values(folder, run):
    pd.DataFrame({"x": [1.5, -9, 0, 3], "y": [-9, 1, 0, 2]}).to_csv("x.csv", index=False)
    (folder / "s.toml").write_text("format = 1\n[columns.x]\n[columns.y]\n")
    words = "--missing -9 --missing x:0"
    done = run(f"schema apply x.csv --schema s.toml -o y.parquet {words}")
    assert done.exit_code == 0
    assert pq.read_table("y.parquet")["x"].to_pylist() == [1.5, None, None, 3]
    assert pq.read_table("y.parquet")["y"].to_pylist() == [None, 1, 0, 2]
    told = "'x': 2 values count as missing from now on; the first is '-9.0' in row 2."
    assert told in flat(done.output)
    assert "'y': 1 value counts as missing from now on; the first is '-9' in row 1." in flat(
        done.output
    )


def test_a_column_that_a_site_lacks_can_be_empty(folder, run):
    (folder / "s.toml").write_text(
        'format = 1\n[columns.age]\n[columns.triage]\nkind = "ordered"\n'
        'categories = ["low", "high"]\n[columns.day]\nkind = "date"\n'
    )
    done = run("schema check bern.csv --schema s.toml")
    assert done.exit_code == 3
    assert (
        "The file has no such column: add an empty one with `fedjigsaw schema apply FILE --empty "
        "triage ...`, or ignore it in the schema of all sites." in flat(done.output)
    )
    words = "schema apply bern.csv --schema s.toml -o y.parquet --empty"
    done = run(f"{words} triage --empty day")
    assert done.exit_code == 0
    assert "'triage' is empty: all its values are missing." in done.output
    table = pq.read_table("y.parquet")
    assert table["triage"].null_count == table["day"].null_count == 120
    assert str(table["day"].type) == "date32[day]"
    assert run("schema check y.parquet --schema s.toml").exit_code == 0
    assert run("stats y.parquet -o y.stats --schema s.toml").exit_code == 0
    for wrong, message in (("age", "would get lost"), ("ages", "uses no column 'ages'")):
        with pytest.raises(ParameterError, match=message):
            run(f"{words} {wrong} --force")


@pytest.mark.parametrize("other", ["Krea", None])
def test_a_column_that_is_not_there_may_have_another_name(folder, run, other):
    """No name is close enough to guess, so the file's own are looked at before one is emptied."""
    (folder / "s.toml").write_text("format = 1\n[columns.age]\n[columns.creatinine]\n")
    columns = {"age": [30, 40]} | ({other: [1.0, 2.0]} if other else {})
    pd.DataFrame(columns).to_csv("x.csv", index=False)
    told = flat(run("schema check x.csv --schema s.toml").output)
    assert "--empty creatinine" in told
    assert ("give that: `--rename ...=creatinine`" in told) == (other is not None)


def test_a_copy_without_most_values_is_not_written(folder, run):
    """Marks for one column alone are taken as they are."""
    pd.DataFrame({"x": [1, 2, 3, 150, 170, 190], "y": [0, 0, 0, 0, 1, 2]}).to_csv(
        "x.csv", index=False
    )
    (folder / "s.toml").write_text(
        'format = 1\n[columns.x]\nrange = [0, 100]\noutside = "missing"\n[columns.y]\n'
    )
    words = "schema apply x.csv --schema s.toml -o y.parquet"
    done = run(words)  # half of the values
    told = "'x': 3 values count as missing from now on; the first is '150' in row 4."
    assert told in flat(done.output)
    (folder / "y.parquet").unlink()
    for more, message in (
        ("--factor x=60", "'x': 5 of 6 values would become missing; the first is '2' in row 2"),
        ("--missing 0", "'y': 4 of 6 values would become missing; the first is '0' in row 1"),
    ):
        with pytest.raises(DataError, match=message) as error:
            run(f"{words} {more}")
        assert error.value.exit_code == 3
        assert not (folder / "y.parquet").exists()
    assert run(f"{words} --missing y:0").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("init bern.csv", "Give a file to write"),
        ("init bern.csv -o s.toml --json", "or --json"),
        ("init bern.csv bern.csv -o s.toml", "twice|more than once"),
        ("init none.csv -o s.toml", "Cannot read none.csv"),
        ("init bern.csv -o bern.csv --force", "is an input"),
        ("init bern.csv -o schema.toml", "already exists"),
        ("check bern.csv --schema none.toml", "none.toml"),
        ("check bern.csv --schema bern.csv", "not valid TOML"),
        ("apply bern.csv --schema schema.toml -o x.csv", "name it x.parquet"),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --rename Alter",
            "--rename takes FILE=SCHEMA, such as Alter=age; got 'Alter'",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --rename a=age --rename b=age",
            "--rename is given twice for column 'age'",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --factor glucose",
            "--factor takes COLUMN=NUMBER",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --factor glucos=18",
            "no column 'glucos'. Is it 'glucose'?",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --factor glucose=1 --factor glucose=2",
            "--factor is given twice",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --factor glucose=viel",
            "--factor of column 'glucose' must be a number, such as 18.016; got 'viel'",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --factor glucose=nan",
            "must be a finite number",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --map sex",
            "--map takes COLUMN:VALUE=CATEGORY",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --map sex:w",
            "--map takes COLUMN:VALUE=CATEGORY",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --map sex:w=female --map sex:w=male",
            "--map is given twice for 'w'",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --map sex:w=woman",
            "'woman' is no category of column 'sex'. It has 'female', 'male'.",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --date-format seen",
            "--date-format takes COLUMN=FORMAT",
        ),
        (
            "apply dresden.csv --schema schema.toml -o x.parquet --rename Alter=age "
            "--date-format seen=%d/%m/%Y",
            "row 1, column 'seen': '.*2021' is not a date as in %d/%m/%Y",
        ),
        (
            "apply bern.csv --schema schema.toml -o x.parquet --missing sex:",
            "--missing takes a text",
        ),
    ],
)
def test_bad_words_get_one_sentence_and_write_nothing(folder, run, words, message):
    run("schema init bern.csv -o schema.toml")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FedJigsawError, match=message):
        run(f"schema {words}")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_help_has_an_example_of_every_command(run):
    for command in ("init", "check", "apply"):
        assert f"fedjigsaw schema {command}" in flat(run(f"schema {command} --help").output)
