"""The commands demo and simulate as a user sees them: output, files, errors."""

import json
from pathlib import Path

import pytest

from fedjigsaw.comparison.simulation import SHOWN
from fedjigsaw.errors import FedJigsawError, UncertainNumberWarning
from fedjigsaw.kernels.compiled import COMPILING, tell_compiling

FAST = ["--runs", "2", "-p", "n_init=1", "--clients", "4"]


@pytest.mark.slow
class TestDemo:
    def test_table_and_picture(self, shell, tmp_path):
        done = shell("demo", "--out", tmp_path / "demo.png")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
        assert "FeCA" in done.stdout
        assert done.stderr in ("", f"{COMPILING}\n")

    def test_it_says_once_that_code_is_compiled(self, run, tmp_path, monkeypatch):
        def compile_twice(seed, *, track):
            tell_compiling()
            tell_compiling()
            raise FedJigsawError("enough")

        told = []
        monkeypatch.setattr("fedjigsaw.cli.simulate.run_demo", compile_twice)
        monkeypatch.setattr("fedjigsaw.cli._shared.err.print", told.append)
        with pytest.raises(FedJigsawError, match="enough"):
            run("demo", "--out", tmp_path / "demo.png")
        tell_compiling()  # after the command, nobody listens
        assert told == [COMPILING]

    def test_json_in_place_of_an_existing_picture(self, run, tmp_path):
        picture = tmp_path / "demo.svg"
        picture.write_text("mine")
        with pytest.raises(FedJigsawError, match="already exists"):
            run("demo", "--out", picture)
        assert picture.read_text() == "mine"
        words = ["--out", picture, "--rows", tmp_path / "rows.jsonl", "--force"]
        found = json.loads(run("demo", "--json", *words).stdout)
        assert [row["method"] for row in found["rows"]] == list(SHOWN)
        assert found["rows"][0]["n_found"] == 15
        assert Path(found["picture"]).read_bytes().startswith(b"<?xml")
        assert sum(found["support"]["points"]) == 5000
        lines = (tmp_path / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == found["rows"]

    @pytest.mark.parametrize("words", ["no/demo.png", "demo.bmp", "x.png --rows x.png"])
    def test_bad_places_are_refused_before_the_work(self, run, tmp_path, monkeypatch, words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("fedjigsaw.cli.simulate.run_demo", None)
        with pytest.raises(FedJigsawError):
            run(f"demo --out {words}")


class TestSimulate:
    def test_json_has_rows_and_their_mean(self, run):
        both = ["--method", "feca", "--method", "central", "-p", "refine=False"]
        words = ["--split", "shards", "--shards", "2", "--json", "--seed", "5"]
        found = json.loads(run("simulate", *FAST, *both, *words).stdout)
        assert [(row["method"], row["seed"]) for row in found["rows"]] == [
            ("feca", 5), ("feca", 6), ("central", 5), ("central", 6),
        ]  # fmt: skip
        mean, _ = found["mean_and_std"]["feca"]["l2"]
        assert mean == pytest.approx((found["rows"][0]["l2"] + found["rows"][1]["l2"]) / 2)
        assert found["rows"][0]["shards"] == 2
        # a parameter goes to the methods that have it
        feca, central = (row["params"] for row in found["rows"][::2])
        assert (feca, central) == ({"n_init": 1, "refine": False}, {"n_init": 1})

    def test_rows_go_to_a_file_and_come_out_the_same_again(self, run, tmp_path):
        for name in ("a", "b"):
            run("simulate", *FAST, "--method", "feca", "--rows", tmp_path / name)
        first, second = ((tmp_path / name).read_text().splitlines() for name in ("a", "b"))
        for one, two in zip(map(json.loads, first), map(json.loads, second), strict=True):
            del one["seconds"], two["seconds"]
            assert one == two
        with pytest.raises(FedJigsawError, match="Use --force"):
            run("simulate", *FAST, "--rows", tmp_path / "a")

    def test_numbers_are_never_cut(self, shell):
        done = shell("simulate", *FAST, "--method", "feca", COLUMNS="40")
        assert "…" not in done.stdout


class TestAutoK:
    def test_simulate_takes_the_methods_that_can(self, run):
        found = json.loads(
            run("simulate", *FAST[:-2], "-k", "auto", "--json", "-p", "max_clusters=25").stdout
        )
        assert {row["method"] for row in found["rows"]} == {"jigsaw"}
        assert [row["n_clusters"] for row in found["rows"]] == ["auto", "auto"]
        assert [row["n_found"] for row in found["rows"]] == [15, 15]
        sure = [row["confidence"] for row in found["rows"]]
        assert found["mean_and_std"]["jigsaw"]["confidence"][0] == pytest.approx(sum(sure) / 2)

    def test_simulate_says_how_many_runs_are_in_doubt(self, run, recwarn):
        shown = run("simulate", *FAST, "-k", "auto", "-p", "max_clusters=3").stdout
        doubt = "Jigsaw: the number of clusters is in doubt (confidence below 0.5) in 2 of 2 runs."
        assert doubt in " ".join(shown.split())
        assert not [w for w in recwarn if issubclass(w.category, UncertainNumberWarning)]

    @pytest.mark.parametrize("k", ["0", "-3", "many", "1.5"])
    @pytest.mark.parametrize("command", ["simulate", "aggregate", "summarize"])
    def test_no_number_at_all(self, run, command, k):
        words = [] if command == "simulate" else ["x", "-o", "y"]
        result = run(command, *words, f"-k={k}")
        assert result.exit_code == 2


BAD = {
    "--dataset s9": "'s9'",
    "--method kmeens": "'kmeens'",
    "-p refine": "--param",
    "-p refine=perhaps --method feca": "refine",
    "-p speed=3": "'speed'",
    "-p speed=3 --method feca": "'speed'",
    "-p n_clusters=3 --method feca": "-k",
    "-k auto --method feca": "'auto'",
    "--method feca --method x --runs 9999": "'x'",
    "--rows .": "is a folder",
    "--rows /nowhere/rows.jsonl": "/nowhere",
    "-k 6000": "n_clusters",
    "--alpha 0": "alpha",
    "--clients 6000 --split iid": "6,000 clients",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input(run, words):
    with pytest.raises(FedJigsawError, match=BAD[words]):
        run("simulate", "--runs", "1", *words.split())
