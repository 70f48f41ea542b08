"""The commands under differential privacy, with columns that a schema prepares."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, NoisyStats, SummaryFile
from fedjigsaw.records.ledger import LEDGER, Ledger

SCHEMA = """
format = 1
[columns.age]
range = [0, 120]
[columns.dose]
scale = "robust"
range = [0, 20]
missing = "median"
[columns.sex]
kind = "category"
categories = ["female", "male"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for name in ("bern", "lyon"):
        group = rng.integers(0, 2, 3000)
        pd.DataFrame(
            {
                "age": (30 + 40 * group + rng.normal(0, 3, 3000)).clip(0, 120),
                "dose": np.where(rng.random(3000) < 0.1, np.nan, 4 + 9 * group),
                "sex": rng.choice(["female", "male"], 3000),
            }
        ).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "open.toml").write_text(SCHEMA.replace("range = [0, 120]", ""))
    (tmp_path / "columns.json").write_text('{"age": [0, 120], "dose": [0, 20]}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scaler(folder, run):
    for name in ("bern", "lyon"):
        run(f"stats {name}.csv -o {name}.stats --schema schema.toml --epsilon 1")
    run("scaler bern.stats lyon.stats -o scaler.json --schema schema.toml")
    return formats.load_scaler(Path("scaler.json"))


def spent():
    return len(Ledger(Path(LEDGER)).read().releases) if Path(LEDGER).exists() else 0


def test_a_whole_round_takes_bounds_from_the_schema(scaler, run):
    found = formats.load(Path("bern.stats"), NoisyStats)
    # age, its indicator, dose, its indicator, sex with two levels, other and missing
    low, high = [0.0] * 8, [120.0, 1.0, 20.0, 1.0, *[1.0] * 4]
    assert [list(limits) for limits in found.privacy.bounds] == [low, high]
    assert scaler.columns[:2] == ("age", "dose")
    for name in ("bern", "lyon"):
        options = "--scaler scaler.json --epsilon 2 --cells own"
        run(f"summarize {name}.csv -k 2 -o {name}.summary {options}")
    bounds = formats.load(Path("bern.summary"), SummaryFile).privacy.bounds
    assert [limits[:2] for limits in bounds] == [(0, 0), (120, 20)]
    assert spent() == 4
    run("aggregate bern.summary lyon.summary -k 2 -o model")
    model = formats.load(Path("model"), ModelFile)
    centers = sorted(scaler.unscale(model.model.centers)[:, 0])
    assert centers == pytest.approx([30, 70], abs=5)
    public = json.loads(run("inspect bern.stats --json").stdout)["privacy"]["public"]
    assert "the schema, with its categories and ranges" in public


STATS = "stats bern.csv -o made"
MADE = "summarize bern.csv -k 2 -o made --scaler scaler.json"
BAD = {
    f"{STATS} --schema open.toml --epsilon 1": "'age'",
    f"{STATS} --schema schema.toml --epsilon 1 --bounds 0,1": "--bounds",
    f"{STATS} --schema schema.toml --bounds columns.json": "--epsilon",
    f"{STATS} --schema schema.toml --delta 1e-7": "--epsilon",
    f"{STATS} --schema schema.toml --epsilon 1 --min-cluster-size 9": "--min-cluster-size",
    f"{STATS} --schema schema.toml --epsilon 1 --delta 2": "delta",
    f"{STATS} --schema schema.toml --epsilon 1 --columns age": "--columns",
    f"{MADE} --epsilon 1 --bounds columns.json": "--bounds",
    f"{MADE} --bounds columns.json": "--epsilon",
    f"{MADE} --delta 1e-7": "--epsilon",
    f"{MADE} --unit row": "--epsilon",
    f"{MADE} --cells own": "--epsilon",
    f"{MADE} --epsilon 1 --unit site --cells own": "cells",
    f"{MADE} --epsilon 1 --counts none": "--counts",
}


@pytest.mark.parametrize("words", BAD)
def test_options_that_do_not_go_together_cost_nothing(scaler, run, words):
    before = spent()
    with pytest.raises(ParameterError, match=BAD[words]):
        run(words)
    assert not Path("made").exists()
    assert spent() == before


@pytest.mark.parametrize(
    ("words", "promised"),
    [
        ("--delta 1e-7 --cells own", (1e-7, "row", "own")),
        ("--cells shared", (1e-6, "row", "shared")),
        ("--unit site", (1e-6, "site", "shared")),
    ],
)
def test_other_promises_with_the_bounds_of_the_schema(scaler, run, words, promised):
    run(f"{MADE} --epsilon 1 {words}")
    found = formats.load(Path("made"), SummaryFile).privacy
    assert (found.delta, found.unit, found.cells) == promised
    assert found.bounds[1][:2] == (120, 20)


@pytest.mark.usefixtures("folder")
def test_nothing_is_spent_on_a_value_outside_its_range(run):
    with Path("bern.csv").open("a") as file:
        file.write("999,4,male\n")
    with pytest.raises(DataError, match="row 3001, column 'age'"):
        run("stats bern.csv -o made --schema schema.toml --epsilon 1")
    assert not spent()
    assert not Path("made").exists()
