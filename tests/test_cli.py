"""The command line as a user sees it: output, files, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedjigsaw import __version__, cli, datasets
from fedjigsaw._console import parse_params
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.methods import METHODS

COMMAND = Path(sys.executable).parent / "fedjigsaw"
FAST = ["--runs", "2", "-p", "n_init=1", "--clients", "4"]


@pytest.fixture
def run():
    """Run a command in this process; errors of our own come through as exceptions."""

    def invoke(*words):
        result = CliRunner().invoke(cli.app, [str(word) for word in words])
        if isinstance(result.exception, FedJigsawError):
            raise result.exception
        return result

    return invoke


def shell(*words, **environment):
    """Run the installed command as its own process."""
    return subprocess.run(
        [COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120", **environment},
        timeout=120,
    )


class TestDemo:
    def test_table_and_picture(self, tmp_path):
        done = shell("demo", "--out", tmp_path / "demo.png")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
        for word in ("FeCA", "Centralized", "centers", "l2", "purity", "nmi", "bytes", "seconds"):
            assert word in done.stdout
        assert done.stderr == ""

    def test_json(self, run, tmp_path):
        words = ["--out", tmp_path / "demo.svg", "--rows", tmp_path / "rows.jsonl"]
        found = json.loads(run("demo", "--json", *words).stdout)
        assert [row["method"] for row in found["rows"]] == list(METHODS)
        assert found["rows"][0]["n_found"] == 15
        assert Path(found["picture"]).exists()
        lines = (tmp_path / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == found["rows"]

    def test_an_existing_picture_is_kept(self, run, tmp_path):
        picture = tmp_path / "demo.png"
        picture.write_text("mine")
        with pytest.raises(FedJigsawError, match="already there and is kept. Use --force"):
            run("demo", "--out", picture)
        assert picture.read_text() == "mine"
        assert run("demo", "--out", picture, "--force").exit_code == 0
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_bad_places_are_refused_before_the_work(self, run, tmp_path):
        with pytest.raises(FedJigsawError, match="There is no folder"):
            run("demo", "--out", tmp_path / "no" / "demo.png")
        with pytest.raises(FedJigsawError, match="ending of a picture's name"):
            run("demo", "--out", tmp_path / "demo.bmp")
        with pytest.raises(FedJigsawError, match="Two results cannot both go to"):
            run("demo", "--out", tmp_path / "x.png", "--rows", tmp_path / "x.png")


class TestSimulate:
    def test_table(self, run):
        result = run("simulate", *FAST, "--method", "feca")
        assert "gaussian-grid, 4 clients, dirichlet(0.3), k = 15, 2 runs" in result.stdout
        assert "±" in result.stdout

    def test_json_has_rows_and_their_mean(self, run):
        both = ["--method", "feca", "--method", "central"]
        found = json.loads(run("simulate", *FAST, *both, "--json", "--seed", "5").stdout)
        assert [(row["method"], row["seed"]) for row in found["rows"]] == [
            ("feca", 5), ("feca", 6), ("central", 5), ("central", 6),
        ]  # fmt: skip
        mean, _ = found["mean_and_std"]["feca"]["l2"]
        assert mean == pytest.approx((found["rows"][0]["l2"] + found["rows"][1]["l2"]) / 2)
        assert found["rows"][0]["params"] == {"n_init": 1}

    def test_rows_go_to_a_file_and_come_out_the_same_again(self, run, tmp_path):
        for name in ("a", "b"):
            run("simulate", *FAST, "--method", "feca", "--rows", tmp_path / name)
        first, second = ((tmp_path / name).read_text().splitlines() for name in ("a", "b"))
        for one, two in zip(map(json.loads, first), map(json.loads, second), strict=True):
            del one["seconds"], two["seconds"]
            assert one == two
        with pytest.raises(FedJigsawError, match="Use --force"):
            run("simulate", *FAST, "--rows", tmp_path / "a")

    def test_defaults_that_matter(self, run):
        (row,) = json.loads(run("simulate", "--runs", "1", "--method", "feca", "--json").stdout)[
            "rows"
        ]
        assert (row["min_size"], row["n_clusters"], row["alpha"]) == (15, 15, 0.3)
        words = ["--split", "shards", "--shards", "1", "--clients", "15", "--json"]
        (row,) = json.loads(run("simulate", "--runs", "1", "--method", "feca", *words).stdout)[
            "rows"
        ]
        assert row["shards"] == 1

    @pytest.mark.parametrize("split", ["iid", "dirichlet", "shards"])
    def test_splits(self, run, split):
        words = ["--dataset", "digits", "--split", split, "--method", "feca", "-k", "10", "--json"]
        rows = json.loads(run("simulate", *FAST, *words).stdout)["rows"]
        assert [row["split"] for row in rows] == [split, split]

    @pytest.mark.parametrize(
        ("text", "value"),
        [("a=False", False), ("a=null", None), ("a=None", None), ("a=3", 3), ("a=b=c", "b=c")],
    )
    def test_spellings_of_a_parameter(self, text, value):
        assert parse_params([text]) == {"a": value}

    def test_a_parameter_goes_to_the_methods_that_have_it(self, run):
        words = ["--method", "feca", "--method", "central", "-p", "refine=False", "--json"]
        rows = json.loads(run("simulate", *FAST, *words).stdout)["rows"]
        assert [row["params"] for row in rows[::2]] == [
            {"n_init": 1, "refine": False},
            {"n_init": 1},
        ]

    def test_numbers_are_never_cut(self):
        done = shell("simulate", *FAST, "--method", "feca", COLUMNS="40")
        assert "…" not in done.stdout

    def test_a_parameter_reaches_the_method(self, run):
        words = ["simulate", *FAST, "--method", "feca", "-p", "radius=theoretical", "--json"]
        assert json.loads(run(*words).stdout)["rows"][0]["params"]["radius"] == "theoretical"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--dataset", "s9"], "name of a data set must be one of"),
            (["--method", "kmeens"], "name of a method must be one of feca"),
            (["-p", "refine"], "--param of a method must be name=value; got 'refine'"),
            (["-p", "refine=perhaps", "--method", "feca"], "refine of FeCA must be True or False"),
            (["-p", "speed=3"], "parameters of FeCA must be among"),
            (["-p", "n_clusters=3"], "parameters of FeCA must be among n_local_clusters"),
            (["--method", "feca", "--method", "x", "--runs", "9999"], "name of a method"),
            (["--rows", "."], "is a folder; name a file"),
            (["--rows", "/nowhere/rows.jsonl"], "There is no folder /nowhere"),
            (["-k", "6000"], "n_clusters of FeCA must be at most the number of rows"),
            (["--alpha", "0"], "alpha of dirichlet"),
            (["--clients", "6000", "--split", "iid"], "n_clients of iid must be at most"),
        ],
    )
    def test_bad_input(self, run, words, message):
        with pytest.raises(FedJigsawError) as caught:
            run("simulate", "--runs", "1", *words)
        assert message in str(caught.value)


class TestDataAndMethods:
    def test_methods(self, run):
        assert "CentralKMeans" in run("methods").stdout
        listed = json.loads(run("methods", "--json").stdout)
        assert listed["feca"]["parameters"]["refine"] == "True or False"

    def test_data(self, run, monkeypatch, tmp_path):
        monkeypatch.delenv("FEDJIGSAW_DATA", raising=False)
        monkeypatch.setenv("FEDJIGSAW_CACHE", str(tmp_path))
        assert "data fetch ssets" in run("data").stdout
        listed = json.loads(run("data", "--json").stdout)
        assert (listed["digits"]["here"], listed["s1"]["here"]) == (True, False)

    def test_fetch(self, run, monkeypatch, tmp_path):
        asked = []
        monkeypatch.setattr(datasets, "fetch_ssets", lambda home: asked.append(home) or tmp_path)
        result = run("data", "fetch", "ssets", "--home", "http://127.0.0.1/x")
        assert str(tmp_path) in result.stdout.replace("\n", "")
        assert asked == ["http://127.0.0.1/x/"]
        with pytest.raises(FedJigsawError, match="name of a download must be 'ssets'; got 's1'"):
            run("data", "fetch", "s1")


class TestAsAProcess:
    def test_version(self):
        assert shell("--version").stdout.strip() == f"fedjigsaw {__version__}"

    def test_our_errors_are_one_line_and_a_code(self, tmp_path):
        done = shell(
            "simulate", "--dataset", "s1", FEDJIGSAW_DATA="", FEDJIGSAW_CACHE=str(tmp_path)
        )
        assert done.returncode == 6
        assert done.stderr.startswith("Error: file of data set 's1' must be in FEDJIGSAW_DATA")
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""

    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["simulate", "-p", "x"], 2),
            (["simulate", "--split", "none"], 2),
            (["demo", "--out", "/nowhere/at/all.png"], 3),
            (["nonsense"], 2),
        ],
    )
    def test_exit_codes(self, words, code):
        assert shell(*words).returncode == code

    @pytest.mark.parametrize(
        "command", [[], ["demo"], ["simulate"], ["methods"], ["data"], ["data", "fetch"]]
    )
    def test_help(self, command):
        done = shell(*command, "--help")
        assert done.returncode == 0
        assert "Usage: fedjigsaw" in done.stdout


class TestReproduce:
    def test_lists_tables_and_what_is_done(self, run, tmp_path):
        shown = run("reproduce", "--out", tmp_path).stdout
        assert "table1" in shown
        assert "0 of 1120" in shown
        found = json.loads(run("reproduce", "--out", tmp_path, "--json").stdout)
        assert found["sigma"] == {"about": found["sigma"]["about"], "done": 0, "cells": 9}

    def test_unknown_table(self, run):
        with pytest.raises(FedJigsawError, match="got 'table9'"):
            run("reproduce", "table9")

    def test_computes_shows_and_keeps(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "radius", "--runs", "1", "--out", tmp_path)
        first = run(*words, "--jobs", "2")
        assert "| empirical" in first.stdout
        assert "Ours (the paper's): " in first.stdout
        kept = (tmp_path / "radius.jsonl").read_text()
        assert kept.count("\n") == 6
        again = run(*words, "--json")
        assert "6 of 6 cells are in" in again.stderr
        assert (tmp_path / "radius.jsonl").read_text() == kept
        (cell, *_) = json.loads(again.stdout)["radius"]
        assert (cell["cell"], cell["runs"], cell["paper"]) == ("iid/theoretical", 1, [1.1, 0.1])
        run(*words, "--fresh")
        assert (tmp_path / "radius.jsonl").read_text() != kept  # other seconds

    def test_rows_of_other_code_are_told(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "sigma", "--runs", "1", "--out", tmp_path)
        run(*words)
        path = tmp_path / "sigma.jsonl"
        lines = [json.loads(line) | {"commit": "abc"} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert "Some are of other commits or backends: abc (" in run(*words).stderr


class TestAutoK:
    def test_simulate_takes_the_methods_that_can(self, run):
        found = json.loads(
            run("simulate", *FAST[:-2], "-k", "auto", "--json", "-p", "max_clusters=25").stdout
        )
        assert {row["method"] for row in found["rows"]} == {"jigsaw"}
        assert [row["n_clusters"] for row in found["rows"]] == ["auto", "auto"]
        assert [row["n_found"] for row in found["rows"]] == [15, 15]

    def test_a_method_that_cannot(self, run):
        with pytest.raises(
            FedJigsawError, match="n_clusters of FeCA must be an integer >= 1; got 'auto'"
        ):
            run("simulate", "--method", "feca", "-k", "auto")

    @pytest.mark.parametrize("k", ["0", "-3", "many", "1.5"])
    @pytest.mark.parametrize("command", ["simulate", "aggregate", "summarize"])
    def test_no_number_at_all(self, run, command, k):
        words = [] if command == "simulate" else ["x", "-o", "y"]
        result = run(command, *words, f"-k={k}")
        assert result.exit_code == 2
