"""The command line as a user sees it: output, files, exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedjigsaw import __version__, cli, datasets
from fedjigsaw.errors import FedJigsawError

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
        assert [row["method"] for row in found["rows"]] == ["feca", "central"]
        assert found["rows"][0]["n_found"] == 15
        assert Path(found["picture"]).exists()
        lines = (tmp_path / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == found["rows"]

    def test_an_existing_picture_is_kept(self, run, tmp_path):
        picture = tmp_path / "demo.png"
        picture.write_text("mine")
        with pytest.raises(
            FedJigsawError, match="must be absent; got one already there. Use --force"
        ):
            run("demo", "--out", picture)
        assert picture.read_text() == "mine"
        assert run("demo", "--out", picture, "--force").exit_code == 0
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_the_folder_must_exist(self, run, tmp_path):
        with pytest.raises(FedJigsawError, match="folder"):
            run("demo", "--out", tmp_path / "no" / "demo.png")


class TestSimulate:
    def test_table(self, run):
        result = run("simulate", *FAST, "--method", "feca")
        assert "gaussian-grid, 4 clients, dirichlet(0.3), k = 15, 2 runs" in result.stdout
        assert "±" in result.stdout

    def test_json_has_rows_and_their_mean(self, run):
        found = json.loads(run("simulate", *FAST, "--json", "--seed", "5").stdout)
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

    @pytest.mark.parametrize("split", ["iid", "dirichlet", "shards"])
    def test_splits(self, run, split):
        words = ["--dataset", "digits", "--split", split, "--method", "feca", "-k", "10", "--json"]
        rows = json.loads(run("simulate", *FAST, *words).stdout)["rows"]
        assert [row["split"] for row in rows] == [split, split]

    def test_a_parameter_reaches_the_method(self, run):
        words = ["simulate", *FAST, "--method", "feca", "-p", "radius=theoretical", "--json"]
        assert json.loads(run(*words).stdout)["rows"][0]["params"]["radius"] == "theoretical"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--dataset", "s9"], "name of a data set must be one of"),
            (["--method", "kmeens"], "name of a method must be one of feca"),
            (["-p", "refine"], "--param of simulate must be name=value; got 'refine'"),
            (["-p", "refine=perhaps", "--method", "feca"], "refine of FeCA must be True or False"),
            (["-p", "speed=3"], "parameters of FeCA must be among"),
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
