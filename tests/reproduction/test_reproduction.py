"""Studies, the runner, and the page of results."""

import ast
import inspect
import json
from dataclasses import replace
from importlib import import_module

import pytest

from fedjigsaw import datasets
from fedjigsaw.methods import CLUSTERERS
from pages_as_code import ROOT
from reproduction import run, tables
from reproduction.deep import folded, runs
from reproduction.experiments.cells import GENERATED, fit
from reproduction.experiments.measures import MEASURES, score_counts
from reproduction.experiments.sets import HARD_SETS
from reproduction.studies import RESULTS, Plan, Study, definitions, line, read, studies

SETTINGS = {"dataset": "gaussian-grid", "n_clusters": 15, "split": "iid"}
TINY = Study(
    name="tiny",
    about="two methods on generated rows",
    part="Tests",
    plans=tuple(
        Plan(("grid", "iid", name), {**SETTINGS, "method": name, "params": {"n_init": 1}})
        for name in ("feca", "match")
    ),
    seeds=(0, 1),
    numbers=("l2",),
)


@pytest.fixture
def compute(monkeypatch, tmp_path, capsys):
    """Runs the study TINY, or one with other plans, into a folder; returns what it says."""

    def run_it(study=TINY, *words):
        monkeypatch.setattr(run, "studies", lambda: {"tiny": study})
        run_it.code = run.main(["tiny", "--jobs", "1", "--out", str(tmp_path), *words])
        return capsys.readouterr()

    return run_it


class TestStudies:
    @pytest.mark.parametrize("name", studies())
    def test_a_study_fits_its_experiment(self, name):
        study = studies()[name]
        module, function = study.run.split(":")
        experiment = getattr(import_module(f"reproduction.experiments.{module}"), function)
        assert len({plan.name for plan in study.plans}) == len(study.plans)
        assert study.numbers or study.name in tables.TABLES or "shown" in study.note.lower()
        assert set(study.measures) <= {*MEASURES, "mse", "ari"}
        for plan in study.plans:
            inspect.signature(experiment).bind(seed=0, **plan.settings)
            if module == "cells":
                assert plan.settings["dataset"] in {*GENERATED, *datasets.SOURCES}
                assert plan.settings["method"] in CLUSTERERS
            if module == "hard":
                assert plan.settings["dataset"] in HARD_SETS

    def test_every_number_of_the_papers_tables_is_beside_one_of_ours(self):
        n_published = {
            name: sum(bool(p.published) for p in s.plans) for name, s in studies().items()
        }
        expected = {"table1": 88, "table2": 58, "clients": 20, "clients-split": 20, "k-prime": 14}
        assert {name: n_published[name] for name in expected} == expected
        plan = next(p for p in studies()["table1"].plans if p.name == "S1/dirichlet(0.3)/FeCA")
        assert plan.published["l2"] == (6.8, 3.7)
        assert studies()["varying-k"].plans[0].published["mse"] == (34599.4, None)

    def test_all_generated_sets_are_in_the_study(self):
        assert definitions()["axes"]["hard_sets"]["values"] == list(HARD_SETS)

    def test_only_public_names_of_the_package_are_used(self):
        for path in (ROOT / "reproduction").rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedjigsaw"):
                    names = [*node.module.split("."), *(name.name for name in node.names)]
                    assert not [name for name in names if name.startswith("_")], path


class TestRunner:
    @pytest.mark.parametrize("share", [1.0, 0.5])
    def test_every_measure(self, share):
        measures = tuple(MEASURES) if share == 1 else ("mse", "after_lloyd")
        row = fit(0, **SETTINGS, method="feca", share=share, measures=measures)
        assert {"purity", "nmi", "l2", "purity_lloyd", "nmi_lloyd"} <= set(row)
        assert min(row["purity"], row["nmi_lloyd"]) > 0.9
        assert share < 1 or {"nmi_local", "sigma_largest", "scored_real"} <= set(row)

    def test_a_study_is_computed_and_finished_keys_are_skipped(self, compute, tmp_path, capsys):
        said = compute(TINY, "--seeds", "1")
        assert compute.code == 0
        assert "2 of 2 keys" in said.err
        assert "| feca |" in said.out
        rows = read(tmp_path, "tiny")
        assert [(row["method"], row["seed"]) for row in rows] == [("feca", 0), ("match", 0)]
        assert {"cell", "l2", "version", "commit", "backend"} <= set(rows[0])
        run.main(["--out", str(tmp_path)])
        assert "2 of 4" in capsys.readouterr().out
        assert "2 of 2 keys" in compute().err  # the other seed
        assert read(tmp_path, "tiny")[:2] == rows
        assert "Nothing is missing" in compute().err

    def test_a_row_that_was_cut_off_is_computed_again(self, compute, tmp_path):
        compute(TINY, "--seeds", "1")
        path = tmp_path / "tiny.jsonl"
        whole = path.read_text("utf-8")
        path.write_text(whole[:-9], "utf-8")
        assert "1 of 1 keys" in compute(TINY, "--seeds", "1").err
        assert len(read(tmp_path, "tiny")) == 2

    def test_other_settings_are_another_key(self, compute, tmp_path):
        compute(TINY, "--seeds", "1")
        one = TINY.plans[0]
        other = replace(one, settings={**one.settings, "params": {"n_init": 2}})
        assert "1 of 1 keys" in compute(replace(TINY, plans=(other,)), "--seeds", "1").err
        (row,) = replace(TINY, plans=(other,)).finished(tmp_path, 1)
        assert row["params"] == {"n_init": 2}

    def test_what_lacks_data_is_left_out_and_what_fails_is_told(
        self, compute, tmp_path, monkeypatch
    ):
        def lacking(name):
            raise FileNotFoundError(name)

        monkeypatch.setitem(GENERATED, "nowhere", lacking)
        one = TINY.plans[0]
        wrong = {"dataset": "nowhere"}, {"params": {"radius": "none"}}
        plans = [Plan((str(i),), {**one.settings, **more}) for i, more in enumerate(wrong)]
        said = compute(replace(TINY, plans=(plans[1], one)), "--seeds", "1")
        assert compute.code == 1
        assert "1 keys without a row: tiny, ParameterError" in said.err
        assert len(read(tmp_path, "tiny")) == 1
        assert "1 of 2 rows" in said.out
        assert (
            "left out, FileNotFoundError: nowhere" in compute(replace(TINY, plans=(plans[0],))).err
        )
        assert compute.code == 0

    def test_an_unknown_study_is_refused(self, capsys):
        with pytest.raises(SystemExit):
            run.main(["table9"])
        assert "choose all or one of table1, table2" in capsys.readouterr().err

    def test_rows_are_short(self):
        row = {"a": 1 / 3, "b": [2 / 3, {"c": 1e-12}], "d": 5, "e": None}
        assert json.loads(line(row)) == {**row, "a": 0.333333, "b": [0.666667, {"c": 1e-12}]}


class TestPage:
    def test_it_is_made_from_the_rows_and_is_the_committed_one(self):
        assert tables.page() == tables.PAGE.read_text("utf-8")

    def test_a_table_without_rows_says_so(self, tmp_path):
        made = tables.page(tmp_path)
        for name in (*studies(), *definitions()["listing"]):
            (section,) = (part for part in made.split("\n### ") if part.startswith(f"{name}\n"))
            assert "There are no rows yet." in section

    @pytest.mark.parametrize(
        ("number", "ours", "published", "sign"),
        [
            ("l2", 0.9, (1.2, 0.2), tables.BETTER),
            ("l2", 1.3, (1.2, 0.2), tables.WITHIN),
            ("l2", 1.5, (1.2, 0.2), tables.WORSE),
            ("nmi", 0.5, (0.6, None), tables.WORSE),
            ("purity", 0.62, (0.6, None), tables.WITHIN),
            ("mse", 10.9, (10.0, None), tables.WITHIN),
        ],
    )
    def test_verdicts(self, number, ours, published, sign):
        assert tables.verdict(number, ours, published) == sign

    def test_rows_are_small_and_have_nothing_per_round_or_center(self):
        paths = list(RESULTS.glob("*.jsonl"))
        assert sum(path.stat().st_size for path in paths) < 3_000_000
        for study in studies().values():
            keys = [(row["cell"], row["seed"]) for row in read(RESULTS, study.name)]
            assert len(keys) == len(set(keys))

    @pytest.mark.slow
    def test_its_picture_has_every_seed_of_every_method(self):
        pytest.importorskip("matplotlib")
        figure = import_module("reproduction.figures").over_seeds(RESULTS)
        dots = sum(len(line.get_xdata()) for axes in figure.axes for line in axes.get_lines())
        assert dots == len(read(RESULTS, "table1"))

    def test_scores_are_counted_between_edges(self):
        assert score_counts([0.1, 0.7, 0.98, 0.994, 0.997, 1.0]) == [1, 1, 1, 3]


class TestDeepRuns:
    rows = (
        {
            "dataset": "few",
            "rounds": 5,
            "linear_accuracy": 0.6,
            "views_per_second": 9,
            "seconds": 1,
        },
        {
            "dataset": "few",
            "rounds": 9,
            "linear_accuracy": 0.5,
            "views_per_second": 8,
            "seconds": 2,
        },
        {"dataset": "few", "rounds": 12, "views_per_second": 7, "seconds": 3, "nmi": 0.4},
        {"dataset": "few", "evaluated_on": "many", "rounds": 12, "linear_accuracy": 0.9},
    )

    def test_a_run_is_one_row_with_its_last_and_its_best_evaluation(self):
        row = folded("deep-a", self.rows)
        assert (row["rounds"], row["linear_accuracy"]) == (9, 0.5)
        assert (row["best_evaluated_rounds"], row["best_evaluated"]) == (5, 0.6)
        assert (row["trained_rounds"], row["seconds"], row["nmi"]) == (12, 3, 0.4)
        assert folded("deep-b", self.rows[2:]) == {}

    def test_a_file_of_its_own_is_found(self, tmp_path):
        (tmp_path / "deep.jsonl").write_text(line(folded("deep-old", self.rows)), "utf-8")
        (tmp_path / "deep-new.jsonl").write_text("".join(map(line, self.rows)), "utf-8")
        found = runs(tmp_path)
        assert list(found) == ["deep-old", "deep-new"]
        assert {**found["deep-old"], "run": "deep-new"} == found["deep-new"]

    def test_its_table_shows_every_run_of_the_rows(self):
        page = tables.PAGE.read_text("utf-8")
        assert len(runs(RESULTS)) > 60
        for name in runs(RESULTS):
            assert f"| {name} |" in page
            assert f"-o {name}.st" in page
