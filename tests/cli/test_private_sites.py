"""The commands of one round by file under differential privacy."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from builders import write_table
from fedjigsaw.errors import BudgetError, DataError, ParameterError
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, NoisyStats, SummaryFile
from fedjigsaw.records.ledger import LEDGER, Ledger

PRIVATE = "--epsilon 2 --bounds columns.json"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with two sites of 600 and 700 rows, and the bounds of their columns."""
    rng = np.random.default_rng(0)
    for name, n in (("a.csv", 600), ("b.parquet", 700)):
        places = np.array([[20.0, 1.0], [80.0, 2.0], [50.0, 9.0]])[rng.integers(3, size=n)]
        x, y = (places + rng.standard_normal((n, 2)) * [2, 0.2]).T
        write_table(tmp_path / name, age=x, dose=y)
    (tmp_path / "columns.json").write_text('{"dose": [0, 10], "age": [0, 120], "other": [0, 1]}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ledger():
    return Ledger(Path(LEDGER)).read()


@pytest.mark.usefixtures("folder")
class TestSummarize:
    def test_the_site_is_told_what_is_promised_spent_and_left(self, run):
        run("privacy set-limit a.csv --epsilon 4")
        shown = run(f"summarize a.csv -k 3 -o a.summary {PRIVATE} --cells own").stdout
        assert "is at most 7.39 times as likely, plus 1e-06." in shown
        assert "Spent on 'a' so far: epsilon 2 at delta 1e-06; left: epsilon 3.3" in shown
        file = formats.load(Path("a.summary"), SummaryFile)
        assert file.privacy.to_dict() == {
            "epsilon": 2.0, "delta": 1e-6, "unit": "row", "cells": "own", "rows_per_site": 1,
            "bounds": [[0, 0], [120, 10]],
        }  # fmt: skip
        (release,) = ledger().releases
        assert (release.what, release.data_set, release.confirmed) == ("summary", "a", True)
        assert release.epsilon == pytest.approx(2, abs=1e-5)

    @pytest.mark.parametrize("words", ["summarize a.csv -k 3 --cells own", "stats a.csv"])
    def test_the_site_is_told_of_a_delta_that_is_too_large(self, run, words):
        told = run(f"{words} -o made {PRIVATE} --delta 1e-3").output
        assert "delta = 0.001" in " ".join(told.split())

    def test_the_same_seed_gives_other_noise(self, run):
        for name in ("one", "two"):
            run(f"summarize a.csv -k 3 -o {name} --seed 5 {PRIVATE} --cells own")
        one, two = (formats.load(Path(n), SummaryFile).summary for n in ("one", "two"))
        assert one != two

    def test_without_cells_the_options_are_named_and_no_python(self, run, folder):
        with pytest.raises(ParameterError) as caught:
            run("summarize a.csv -k 3 -o a.summary --epsilon 2 --bounds 0,100")
        assert caught.value.parameter == "cells"
        assert "(rows=" not in str(caught.value)
        assert not (folder / "a.summary").exists()

    def test_clipped_rows_are_told_on_the_screen_only(self, run, folder):
        done = run("summarize a.csv -k 3 -o a.summary --cells own --epsilon 2 --bounds 0,70")
        assert "of 600 rows are outside the bounds" in done.stderr
        assert b"outside" not in (folder / "a.summary").read_bytes()

    def test_a_limit_refuses_and_nothing_is_written(self, run, folder):
        run("privacy set-limit a.csv --epsilon 2.5")
        run(f"summarize a.csv -k 3 -o a.summary {PRIVATE} --cells own")
        for command in (
            f"summarize a.csv -k 3 -o more {PRIVATE} --cells own",
            f"stats a.csv -o more {PRIVATE}",
            "summarize a.csv -k 3 -o more",
            "stats a.csv -o more",
        ):
            with pytest.raises(BudgetError, match="'a'"):
                run(command)
        assert not (folder / "more").exists()
        assert len(ledger().releases) == 1

    def test_a_score_that_could_leave_is_refused_under_a_limit(self, run, folder):
        run("summarize a.csv -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        run("score a.csv --model model -o first.score")  # there is no ledger
        run("privacy set-limit a.csv --epsilon 1")
        assert "600 rows" in run("score a.csv --model model").stdout  # stays at the site
        with pytest.raises(BudgetError, match="without noise"):
            run("score a.csv --model model -o a.score")
        assert not (folder / "a.score").exists()

    def test_exact_releases_are_written_down_where_there_is_a_ledger(self, run):
        run(f"summarize a.csv -k 3 -o a.summary {PRIVATE} --cells own")
        run("stats b.parquet -o b.stats")
        assert [(r.data_set, r.epsilon) for r in ledger().releases][1] == ("b", math.inf)

    @pytest.mark.parametrize(
        "command", ["stats a.csv", "summarize a.csv -k 3", "score a.csv --model model"]
    )
    def test_no_result_takes_the_place_of_the_ledger(self, run, folder, command):
        run("summarize a.csv -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        (folder / LEDGER).touch()
        with pytest.raises(DataError, match=f"{LEDGER} is an input"):
            run(f"{command} -o {LEDGER} --force")
        assert not (folder / LEDGER).read_bytes()

    def test_ledger_and_name_can_be_chosen(self, run, folder):
        options = f"{PRIVATE} --cells own --ledger l.jsonl --data-set both"
        for name in ("a.csv", "b.parquet"):
            run(f"summarize {name} -k 3 -o {name}.s {options}")
        assert not (folder / LEDGER).exists()
        (account,) = Ledger(folder / "l.jsonl").read().accounts()
        assert (account.names, len(account.releases)) == (("both",), 2)

    def test_what_failed_before_the_noise_costs_nothing(self, run, folder):
        (folder / "bad.csv").write_text("age,dose\n1,oops\n")
        for options in (f"bad.csv {PRIVATE}", f"a.csv {PRIVATE} --method feca"):
            with pytest.raises((DataError, ParameterError)):
                run(f"summarize -k 3 -o a.summary {options}")
        assert not (folder / LEDGER).exists()

    def test_the_noise_cannot_be_seeded(self, run):
        words = f"summarize a.csv -k 3 -o s {PRIVATE} --cells own --insecure-seed 0"
        assert run(words).exit_code == 2


@pytest.mark.usefixtures("folder")
class TestScaler:
    def test_from_noisy_statistics(self, run):
        for name in ("a.csv", "b.parquet"):
            run(f"stats {name} -o {name}.stats {PRIVATE}")
        assert [r.what for r in ledger().releases] == ["statistics"] * 2
        assert formats.load(Path("a.csv.stats"), NoisyStats).privacy.epsilon == 2
        run("scaler a.csv.stats b.parquet.stats -o scaler.json")
        shown = run(f"summarize a.csv -k 3 -o s --scaler scaler.json {PRIVATE} --cells own").stdout
        assert "The scaler is taken as public" in shown
        assert "the scaler, however it was made" in run("inspect s").stdout

    def test_from_bounds_alone(self, run):
        run("scaler --bounds columns.json --columns age,dose -o scaler.json")
        scaler = formats.load_scaler(Path("scaler.json"))
        assert scaler.columns == ("age", "dose")
        assert scaler.mean.tolist() == [60, 5]
        assert scaler.deviation == pytest.approx(np.array([60, 5]) / 3**0.5)


@pytest.mark.usefixtures("folder")
class TestInspect:
    def test_a_privacy_officer_can_check_it(self, run):
        for name, data in (("a", "a.csv"), ("b", "b.parquet")):
            run(f"summarize {data} -k 3 -o {name}.summary {PRIVATE} --cells own")
        told = " ".join(run("aggregate a.summary b.summary -k 3 -o model").stdout.split())
        assert "Differential privacy at every site: With or without any one row" in told
        for judgement in ("influence", "leaves it out"):  # of sites, which noise does not allow
            assert judgement not in told + run("inspect model").stdout
        for file in ("a.summary", "model"):
            text = run(f"inspect {file}").stdout
            for part in (
                "epsilon 2, delta 1e-06",
                "With or without any one row, any set of outputs is at most 7.39 times as likely",
                "age 0 to 120, dose 0 to 10",
                "Public by assumption: the bounds",
                "Included: every number in this file, and",
                "a person with several rows, or rows at several sites",
            ):
                assert part in text, (file, part)
            assert "this is not differential privacy" not in text
            assert "(exact)" not in text

    def test_json_has_it_all(self, run):
        run("scaler --bounds columns.json --columns age,dose -o scaler.json")
        run(f"summarize a.csv -k 3 -o s --scaler scaler.json {PRIVATE} --cells own")
        found = json.loads(run("inspect s --json").stdout)["privacy"]
        assert found["included"].startswith("every number in this file but those of the scaler, ")
        assert found["factor"] == pytest.approx(math.exp(2))
        assert found["bounds"] == {"age": [0, 120], "dose": [0, 10]}
        summary = formats.load(Path("s"), SummaryFile).summary
        noise, scale = summary.tensors["noise"], 120 / 2 / 3**0.5
        assert found["noise"]["counts"] == noise[:, 0].max()
        expected = [scale * noise[:, 1].min(), scale * noise[:, 1].max()]
        assert found["noise"]["columns"]["age"] == pytest.approx(expected)
        run("summarize a.csv -k 3 -o plain")
        assert json.loads(run("inspect plain --json").stdout)["privacy"] is None

    def test_a_model_of_mixed_sites_promises_nothing(self, run):
        run(f"summarize a.csv -k 3 -o a.summary {PRIVATE} --cells own --ledger l.jsonl")
        run("summarize b.parquet -k 3 -o b.summary")
        done = run("aggregate a.summary b.summary -k 3 -o model")
        assert "The model promises no differential privacy, since b did not." in done.stdout
        assert formats.load(Path("model"), ModelFile).privacy is None
        assert "epsilon" not in run("inspect model").stdout


MADE = "summarize a.csv -k 3 -o made"
BAD = {
    f"{MADE} --epsilon 1": "--bounds",
    f"{MADE} --bounds columns.json": "--epsilon",
    f"{MADE} --delta 1e-7": "--epsilon",
    f"{MADE} --cells shared": "--epsilon",
    f"{MADE} {PRIVATE} --max-rows 10": "--max-rows",
    f"{MADE} {PRIVATE} --min-cluster-size 5": "--min-cluster-size",
    f"{MADE} {PRIVATE} --counts none": "--counts",
    f"{MADE} --epsilon 0 --bounds 0,1": "epsilon",
    f"{MADE} --epsilon nan --bounds 0,1": "epsilon",
    f"{MADE} --epsilon 101 --bounds 0,1": "epsilon",
    f"{MADE} --epsilon 1 --delta 1 --bounds 0,1": "delta",
    f"{MADE} {PRIVATE} --unit site --cells own": "cells",
    f"{MADE} --epsilon 1 --bounds age.json": "'dose'",
    f"stats a.csv -o made {PRIVATE} --min-cluster-size 9": "--min-cluster-size",
    "stats a.csv -o made --epsilon 1": "--bounds",
    "scaler -o made": "--bounds",
    "scaler a.stats --bounds columns.json -o made": "--bounds|both",
    "scaler --bounds 0,1 -o made": "--bounds",
    "scaler --bounds columns.json --schema s.toml -o made": "--schema",
    "scaler a.stats --columns age -o made": "--bounds",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_options_cost_nothing(run, folder, words):
    (folder / "age.json").write_text('{"age": [0, 100]}')
    with pytest.raises(ParameterError, match=BAD[words]):
        run(words)
    assert not (folder / LEDGER).exists()
    assert not (folder / "made").exists()
