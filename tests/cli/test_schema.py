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
    proposed = flat(run("schema init bern.csv -o schema.toml").output)
    assert "Ignored: 'id'" in proposed
    assert "fedjigsaw schema check bern.csv --schema schema.toml" in proposed
    assert run("schema check bern.csv --schema schema.toml").exit_code == 0
    trouble = run("schema check dresden.csv --schema schema.toml")
    assert trouble.exit_code == 3
    for part in ("`--rename ...=age`", "'weiblich' ("):
        assert part in flat(trouble.output)
    words = "--rename Alter=age --factor glucose=18.0156 --map sex:weiblich=female"
    applied = run(f"schema apply dresden.csv --schema schema.toml {words} -o clean.parquet")
    assert "120 rows, 4 columns of the schema, and 1 more kept as texts" in applied.output
    assert run("schema check clean.parquet --schema schema.toml").exit_code == 0
    assert pq.read_table("clean.parquet")["id"].to_pylist()[:2] == ["P0", "P1"]
    for site in ("bern.csv", "clean.parquet"):
        assert run(f"stats {site} -o {site}.stats --schema schema.toml").exit_code == 0


def test_a_command_is_proposed_only_where_it_helps(folder, run):
    (folder / "s.toml").write_text(
        'format = 1\n[columns.cost]\n[columns."my sex"]\nkind = "category"\n'
        'categories = ["female", "male"]\n[columns.lactate]\nunit = "mg/l"\nrange = [0, 50]\n'
        'outside = "missing"\n'
    )
    spellings = ["Female", "FEMALE", " female", "fe male", "FeMale", "Male", "MALE", "mael"]
    bad = {"cost": ["$9,391.91"] * 12, "my sex": "male", "lactate": 5.0}
    worse = {"cost": "$5", "my sex": [*spellings, "x", "x", "x", "x"], "lactate": 900.0}
    texts = []
    for columns in (bad, worse):
        pd.DataFrame(columns).to_csv("x.csv", index=False)
        done = run("schema check x.csv --schema s.toml")
        assert done.exit_code == 3
        texts.append(flat(done.output))
    assert "'$9,391.91' in row 1" in texts[0]
    assert "schema apply" not in texts[0]
    assert shlex.join(["--map", "my sex:fe male=female"]) in texts[1]
    assert "my sex:MALE" not in texts[1]  # it is read as male
    assert "my sex:mael" not in texts[1]  # a guess
    assert "--factor lactate=NUMBER" in texts[1]


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
        'format = 1\n[columns."e=f"]\n[columns."c:d"]\nkind = "category"\n'
        'categories = ["w:x", "y"]\n'
    )
    words = "--rename a=b=e=f --factor e=f=2 --map c:d:u=v=y --missing c:d:w:x"
    done = run(f"schema apply x.csv --schema s.toml -o y.parquet {words}")
    assert done.exit_code == 0
    table = pq.read_table("y.parquet")
    assert table["e=f"].to_pylist() == [2.0] * 9
    assert table["c:d"].to_pylist() == ["y", None, "y"] * 3


def test_numbers_that_stand_for_missing_values(folder, run):
    pd.DataFrame({"x": [1.5, -9, 0, 3], "y": [-9, 1, 0, 2]}).to_csv("x.csv", index=False)
    (folder / "s.toml").write_text("format = 1\n[columns.x]\n[columns.y]\n")
    words = "--missing -9 --missing x:0"
    done = run(f"schema apply x.csv --schema s.toml -o y.parquet {words}")
    assert pq.read_table("y.parquet")["x"].to_pylist() == [1.5, None, None, 3]
    assert pq.read_table("y.parquet")["y"].to_pylist() == [None, 1, 0, 2]
    assert "'x': 2 values count as missing from now on" in flat(done.output)


def test_a_column_that_a_site_lacks_can_be_empty(folder, run):
    (folder / "s.toml").write_text(
        'format = 1\n[columns.age]\n[columns.triage]\nkind = "ordered"\n'
        'categories = ["low", "high"]\n[columns.day]\nkind = "date"\n'
    )
    done = run("schema check bern.csv --schema s.toml")
    assert done.exit_code == 3
    assert "--empty triage" in flat(done.output)
    words = "schema apply bern.csv --schema s.toml -o y.parquet --empty"
    assert "'triage' is empty" in run(f"{words} triage --empty day").output
    table = pq.read_table("y.parquet")
    assert table["triage"].null_count == table["day"].null_count == 120
    assert run("schema check y.parquet --schema s.toml").exit_code == 0
    assert run("stats y.parquet -o y.stats --schema s.toml").exit_code == 0
    for wrong in ("age", "ages"):  # its values would get lost; there is none
        with pytest.raises(ParameterError, match=f"'{wrong}'"):
            run(f"{words} {wrong} --force")


def test_a_copy_without_most_values_is_not_written(folder, run):
    """Marks for one column alone are taken as they are."""
    frame = pd.DataFrame({"x": [1, 2, 3, 150, 170, 190], "y": [0, 0, 0, 0, 1, 2]})
    frame.to_csv("x.csv", index=False)
    (folder / "s.toml").write_text(
        'format = 1\n[columns.x]\nrange = [0, 100]\noutside = "missing"\n[columns.y]\n'
    )
    words = "schema apply x.csv --schema s.toml -o y.parquet"
    assert "'x': 3 values count as missing from now on" in flat(run(words).output)  # half of them
    (folder / "y.parquet").unlink()
    for more, told in (("--factor x=60", "'x': 5 of 6"), ("--missing 0", "'y': 4 of 6")):
        with pytest.raises(DataError, match=told):
            run(f"{words} {more}")
        assert not (folder / "y.parquet").exists()
    assert run(f"{words} --missing y:0").exit_code == 0


APPLY = "apply bern.csv --schema schema.toml -o x.parquet"
BAD = {
    "init bern.csv": "-o",
    "init bern.csv -o s.toml --json": "--json",
    "init bern.csv bern.csv -o s.toml": "bern.csv",
    "init none.csv -o s.toml": "none.csv",
    "init bern.csv -o bern.csv --force": "is an input",
    "init bern.csv -o schema.toml": "already exists",
    "check bern.csv --schema none.toml": "none.toml",
    "check bern.csv --schema bern.csv": "TOML",
    "apply bern.csv --schema schema.toml -o x.csv": "x.parquet",
    f"{APPLY} --rename Alter": "--rename",
    f"{APPLY} --rename a=age --rename b=age": "'age'",
    f"{APPLY} --factor glucose": "--factor",
    f"{APPLY} --factor glucos=18": "'glucos'",
    f"{APPLY} --factor glucose=1 --factor glucose=2": "--factor",
    f"{APPLY} --factor glucose=viel": "'viel'",
    f"{APPLY} --factor glucose=nan": "finite",
    f"{APPLY} --map sex": "--map",
    f"{APPLY} --map sex:w": "--map",
    f"{APPLY} --map sex:w=female --map sex:w=male": "'w'",
    f"{APPLY} --map sex:w=woman": "'woman'",
    f"{APPLY} --date-format seen": "--date-format",
    "apply dresden.csv --schema schema.toml -o x.parquet --rename Alter=age "
    "--date-format seen=%d/%m/%Y": "row 1, column 'seen'",
    f"{APPLY} --missing sex:": "--missing",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_words_write_nothing(folder, run, words):
    run("schema init bern.csv -o schema.toml")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FedJigsawError, match=BAD[words]):
        run(f"schema {words}")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
