"""The command line as a user sees it: output, files, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedjigsaw import __version__, datasets
from fedjigsaw.cli._shared import parse_params
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.methods import CLUSTERERS

COMMAND = Path(sys.executable).parent / "fedjigsaw"
FAST = ["--runs", "2", "-p", "n_init=1", "--clients", "4"]


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
        assert [row["method"] for row in found["rows"]] == list(CLUSTERERS)
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
            (["-p", "refine"], "--param of a command must be name=value; got 'refine'"),
            (["-p", "refine=perhaps", "--method", "feca"], "refine of FeCA must be True or False"),
            (
                ["-p", "speed=3"],
                "None of feca, jigsaw, kfed, match, fuzzy, central has a parameter 'speed'. `fedjigsaw methods`",
            ),
            (
                ["-p", "speed=3", "--method", "feca"],
                "FeCA has no parameter 'speed'; it has n_local_clusters",
            ),
            (
                ["-p", "n_clusters=3", "--method", "feca"],
                "n_clusters is given twice: it has an argument of its own",
            ),
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
        assert done.stderr.startswith(
            "Error: Data set 's1' not found: no ssets/s1.txt in FEDJIGSAW_DATA"
        )
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
        assert "6 of 6 cells are already in" in again.stderr
        assert (tmp_path / "radius.jsonl").read_text() == kept
        (cell, *_) = json.loads(again.stdout)["radius"]
        assert (cell["cell"], cell["runs"], cell["paper"]) == ("iid/theoretical", 1, [1.1, 0.1])
        run(*words, "--fresh")
        assert (tmp_path / "radius.jsonl").read_text() != kept  # other seconds

    def test_rows_of_other_code_are_told(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "sigma", "--runs", "1", "--out", tmp_path)
        shown = " ".join(run(*words).stdout.split())
        assert "It has no table; its rows are in" in shown
        path = tmp_path / "sigma.jsonl"
        lines = [json.loads(line) | {"commit": "abc"} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert "Some are of other commits or backends: abc (" in run(*words).stderr

    def test_rows_of_other_parameters_are_told_and_replaced(self, run, tmp_path, load_or_skip):
        load_or_skip("s1")
        words = ("reproduce", "sigma", "--runs", "1", "--out", tmp_path)
        run(*words)
        path = tmp_path / "sigma.jsonl"
        right = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row | {"n_clusters": 3}) + "\n" for row in right))
        told = run(*words).stderr
        assert "Rows with other parameters" in told
        assert "sigma/iid/0 and 2 more." in told
        again = [json.loads(line) for line in path.read_text().splitlines()]
        assert [row["n_clusters"] for row in again] == [15, 15, 15]

    def test_fresh_keeps_rows_when_the_data_are_not_there(self, run, tmp_path, monkeypatch):
        (tmp_path / "sigma.jsonl").write_text("{}\n")
        for name in ("FEDJIGSAW_DATA", "FEDJIGSAW_CACHE"):
            monkeypatch.setenv(name, str(tmp_path / "nothing"))
        with pytest.raises(FedJigsawError, match="fedjigsaw data fetch ssets"):
            run("reproduce", "sigma", "--fresh", "--out", tmp_path)
        assert (tmp_path / "sigma.jsonl").read_text() == "{}\n"


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


class TestCompare:
    @pytest.fixture
    def files(self, tmp_path):
        """Three sites with two columns and a class each; the second has its columns turned."""
        data = datasets.gaussian_grid(600, overlap=0.0, rng=3)
        paths = []
        for m in range(3):
            names = ("y", "x") if m == 1 else ("x", "y")
            columns = [data.X[m::3, "xy".index(name)] for name in names]
            lines = [",".join([*names, "kind"])]
            for *values, kind in zip(*columns, data.y[m::3], strict=True):
                lines.append(",".join([*map(repr, map(float, values)), f"c{kind}"]))
            paths.append(tmp_path / f"site{m}.csv")
            paths[-1].write_text("\n".join(lines) + "\n")
        return paths

    def test_own_files(self, run, files, tmp_path):
        picture = tmp_path / "c.svg"
        words = ("compare", *files, "-k", "15", "-o", picture)
        found = json.loads(run(*words, "--label", "kind", "--json").stdout)
        by_method = {row["method"]: row for row in found["rows"]}
        assert set(by_method) == set(CLUSTERERS)
        assert by_method["jigsaw"]["purity"] > 0.99
        assert by_method["jigsaw"]["ratio"] < 1.001
        assert min(row["ratio"] for row in found["rows"]) == 1.0
        assert picture.read_bytes().startswith(b"<?xml")
        shown = run(*words, "--columns", "x,y", "--method", "jigsaw", "--force").stdout
        assert "3 sites, 600 rows, k = 15" in shown
        assert "purity" not in shown  # nobody said what the classes are

    def test_scale_makes_columns_count_alike(self, run, files, tmp_path):
        stretched = [tmp_path / f"wide{m}.csv" for m in range(3)]
        for source, target in zip(files, stretched, strict=True):
            head, *lines = source.read_text().splitlines()
            at = head.split(",").index("x")
            parts = [line.split(",") for line in lines]
            for part in parts:
                part[at] = repr(float(part[at]) * 1000)
            target.write_text("\n".join([head, *(",".join(part) for part in parts)]) + "\n")
        words = (
            "-k",
            "15",
            "--label",
            "kind",
            "--method",
            "jigsaw",
            "--json",
            "--force",
            "-o",
            tmp_path / "c.png",
        )
        purity = {}
        for scale in ([], ["--scale"]):
            (row,) = json.loads(run("compare", *stretched, *words, *scale).stdout)["rows"]
            purity[bool(scale)] = row["purity"]
        assert purity[True] > 0.99 > purity[False]

    def test_files_of_one_name_in_several_folders(self, run, tmp_path, rng):
        files = [tmp_path / site / "data.csv" for site in ("bern", "lyon")]
        for file in files:
            file.parent.mkdir()
            file.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rng.normal(size=(30, 2))))
        words = ("-k", "2", "--method", "jigsaw", "-o", tmp_path / "c.png", "--force")
        shown = run("compare", *files, *words).stdout
        assert "bern/data.csv, lyon/data.csv: 2 sites, 60 rows" in shown
        assert "data.csv: 1 sites" not in shown
        with pytest.raises(
            FedJigsawError, match=r"data.csv is given twice; every site counts once"
        ):
            run("compare", files[0], tmp_path / "lyon" / ".." / "bern" / "data.csv", *words)

    def test_a_column_with_a_comma_in_its_name(self, run, tmp_path, rng):
        file = tmp_path / "a.csv"
        rows = "".join(f"{x},{y},0\n" for x, y in rng.normal(size=(30, 2)))
        file.write_text('"x,1",y,z\n' + rows)
        words = ("compare", file, "-k", "2", "--method", "jigsaw", "-o", tmp_path / "c.png")
        (row,) = json.loads(run(*words, "--columns", '"x,1", y', "--json").stdout)["rows"]
        assert row["n_found"] == 2

    def test_named_set_and_auto(self, run, tmp_path):
        picture = tmp_path / "c.png"
        words = ("--dataset", "gaussian-grid", "-k", "auto", "-p", "max_clusters=20")
        (row,) = json.loads(run("compare", *words, "-o", picture, "--json").stdout)["rows"]
        assert (row["method"], row["n_found"]) == ("jigsaw", 15)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "Give either files, one per site, or --dataset NAME"),
            (["FILE", "--dataset", "s1", "-k", "3"], "Give either files"),
            (["FILE"], "How many clusters\\? Give -k 4"),
            (["FILE", "-k", "3", "--columns", "x,z"], "'z'"),
            (["FILE", "-k", "3", "--label", "nothing"], "nothing"),
            (["FILE", "-k", "3"], "kind"),  # a column of words
            (["FILE", "-k", "3", "--columns", "x,y", "-o", "c.bmp"], "ending of a picture"),
        ],
    )  # fmt: skip
    def test_bad_input(self, run, files, tmp_path, monkeypatch, words, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FedJigsawError, match=message):
            run("compare", *(str(files[0]) if word == "FILE" else word for word in words))


def test_demo_shows_what_supports_each_cluster(run, tmp_path):
    found = json.loads(run("demo", "--out", tmp_path / "d.png", "--json").stdout)
    assert set(found["support"]) == {"clients", "points", "spread", "margin"}
    assert sum(found["support"]["points"]) == 5000
    shown = run("demo", "--out", tmp_path / "d.png", "--force").stdout
    assert "Support of each cluster" in shown


def test_how_k_was_chosen_as_a_picture(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = datasets.gaussian_grid(400, overlap=0.0, rng=3)
    (tmp_path / "a.csv").write_text(
        "x,y\n" + "\n".join(f"{x!r},{y!r}" for x, y in data.X.tolist()) + "\n"
    )
    run("summarize", "a.csv", "-k", "auto", "-o", "a.summary")
    run("aggregate", "a.summary", "-k", "auto", "-o", "model")
    run("inspect", "model", "--picture", "k.png")
    assert (tmp_path / "k.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FedJigsawError, match="is not a model"):
        run("inspect", "a.summary", "--picture", "k2.png")
