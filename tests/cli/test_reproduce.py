"""The command reproduce as a user sees it."""

import json

import pytest

from fedjigsaw.errors import FedJigsawError


@pytest.mark.slow
class TestReproduce:
    def test_a_folder_that_cannot_be(self, run, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(FedJigsawError, match="Cannot read .*file.sigma.jsonl: not a directory"):
            run("reproduce", "sigma", "--out", tmp_path / "file")

    def test_lists_tables_and_what_is_done(self, run, tmp_path):
        shown = run("reproduce", "--out", tmp_path).stdout
        assert "table1" in shown
        assert "0 of 1120" in shown
        found = json.loads(run("reproduce", "--out", tmp_path, "--json").stdout)
        assert found["sigma"] == {"about": found["sigma"]["about"], "done": 0, "cells": 9}

    def test_unknown_table(self, run):
        with pytest.raises(FedJigsawError, match="Unknown table 'table9'"):
            run("reproduce", "table9")

    @pytest.mark.usefixtures("in_this_process")
    def test_computes_shows_and_keeps(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "radius", "--runs", "1", "--out", tmp_path)
        first = run(*words, "--jobs", "2")
        assert "| empirical" in first.stdout
        assert "Ours (the paper's): " in first.stdout
        kept = (tmp_path / "radius.jsonl").read_text()
        assert kept.count("\n") == 6
        again = run(*words, "--json")
        assert "6 of 6 cells are already in" in again.stderr
        assert (tmp_path / "radius.jsonl").read_text() == kept
        (cell, *_) = json.loads(again.stdout)["radius"]
        assert (cell["cell"], cell["runs"], cell["paper"]) == ("iid/theoretical", 1, [1.1, 0.1])
        run(*words, "--fresh")
        assert (tmp_path / "radius.jsonl").read_text() != kept  # other seconds

    @pytest.mark.usefixtures("in_this_process")
    def test_rows_of_other_code_are_shown(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "sigma", "--runs", "1", "--out", tmp_path)
        shown = " ".join(run(*words).stdout.split())
        assert "It has no table; its rows are in" in shown
        path = tmp_path / "sigma.jsonl"
        lines = [json.loads(line) | {"commit": "abc"} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert "Some are of other commits or backends: abc (" in run(*words).stderr

    @pytest.mark.usefixtures("in_this_process")
    def test_rows_of_other_parameters_are_shown_and_replaced(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "sigma", "--runs", "1", "--out", tmp_path)
        run(*words)
        path = tmp_path / "sigma.jsonl"
        right = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row | {"n_clusters": 3}) + "\n" for row in right))
        shown = run(*words).stderr
        assert "Rows with other parameters" in shown
        assert "sigma/iid/0 and 2 more." in shown
        again = [json.loads(line) for line in path.read_text().splitlines()]
        assert [row["n_clusters"] for row in again] == [15, 15, 15]

    def test_fresh_keeps_rows_when_the_data_are_not_there(self, run, tmp_path, monkeypatch):
        (tmp_path / "sigma.jsonl").write_text("{}\n")
        for name in ("FEDJIGSAW_DATA", "FEDJIGSAW_CACHE"):
            monkeypatch.setenv(name, str(tmp_path / "nothing"))
        with pytest.raises(FedJigsawError, match="fedjigsaw data fetch ssets"):
            run("reproduce", "sigma", "--fresh", "--out", tmp_path)
        assert (tmp_path / "sigma.jsonl").read_text() == "{}\n"
