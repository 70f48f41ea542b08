"""docs/schema.md has every setting, and its commands and code run."""

import re
import tomllib

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from fedjigsaw.columns.levels import MAX_CATEGORIES
from fedjigsaw.columns.schema import KINDS, MISSING_BY_KIND, OUTSIDE, SCALES, TYPES, Schema
from fedjigsaw.sites.schema_verdict import MOST
from pages_as_code import blocks, page, printed_by, section

PAGE = page("docs/schema.md")


def settings():
    """Setting -> the words between backticks among its values, and its default."""
    rows = [line.split("|") for line in section(PAGE, "The file").splitlines() if line[:3] == "| `"]
    return {row[1].strip(" `"): (re.findall("`(.*?)`", row[2]), row[3].strip(" `")) for row in rows}


def test_every_setting_and_value_is_there():
    found = settings()
    assert list(found) == list(TYPES)
    assert tuple(found["kind"][0]) == KINDS
    assert tuple(found["outside"][0]) == OUTSIDE
    assert tuple(found["scale"][0]) == SCALES
    known = {way for ways in MISSING_BY_KIND.values() for way in ways if way}
    assert set(found["missing"][0]) == known
    assert (found["outside"][1], found["scale"][1], found["weight"][1]) == (
        "refuse",
        "standard",
        "1",
    )


def test_numbers_and_names_are_those_of_the_program():
    assert f"at most {MAX_CATEGORIES} categories" in PAGE
    assert (MOST, "more than half of the values" in PAGE) == (0.5, True)


def test_the_example_is_a_schema():
    (text,) = blocks(PAGE, "toml")
    schema = Schema.from_dict(tomllib.loads(text))
    assert {column.kind for column in schema.columns} == set(KINDS)


def make_files(folder):
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "patient_id": [f"P{i}" for i in range(n)],
            "age": rng.integers(20, 90, n),
            "glucose": rng.normal(110, 20, n).round(1),
            "sex": rng.choice(["female", "male"], n),
        }
    )
    frame.to_csv(folder / "bern.csv", index=False)
    other = frame.rename(columns={"age": "Alter"}).replace({"sex": {"female": "w"}})
    other["glucose"] = (other["glucose"] / 18).round(2)
    other.to_csv(folder / "dresden.csv", index=False, sep=";", decimal=",")


def test_the_commands_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)

    def tolerant(*words):
        done = run(*words)
        if words[:2] == ("schema", "check"):
            assert done.exit_code == 3
            done.exit_code = 0
        return done

    printed = printed_by(section(PAGE, "In short"), tolerant)
    assert "'glucose': values x 18.016." in printed
    assert (tmp_path / "dresden.stats").exists()


def test_the_python_block_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    (code,) = blocks(PAGE, "python")
    exec(compile(code, "docs/schema.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.startswith("False [")
    assert set(pq.read_table("dresden.parquet")["sex"].to_pylist()) == {"female", "male"}
