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
        for word in ("FeCA", "Centralized", "centers", "l2", "purity", "nmi", "bytes", "seconds"):
            assert word in done.stdout
        assert "Support of each cluster" in done.stdout
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
        with pytest.raises(FedJigsawError, match="already exists. Use --force"):
            run("demo", "--out", picture)
        assert picture.read_text() == "mine"
        words = ["--out", picture, "--rows", tmp_path / "rows.jsonl", "--force"]
        found = json.loads(run("demo", "--json", *words).stdout)
        assert [row["method"] for row in found["rows"]] == list(SHOWN)
        assert found["rows"][0]["n_found"] == 15
        assert Path(found["picture"]).read_bytes().startswith(b"<?xml")
        assert set(found["support"]) == {"clients", "points", "spread", "margin"}
        assert sum(found["support"]["points"]) == 5000
        lines = (tmp_path / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == found["rows"]

    def test_bad_places_are_refused_before_the_work(self, run, tmp_path):
        with pytest.raises(FedJigsawError, match="there is no folder"):
            run("demo", "--out", tmp_path / "no" / "demo.png")
        with pytest.raises(FedJigsawError, match="name of a picture must end in"):
            run("demo", "--out", tmp_path / "demo.bmp")
        with pytest.raises(FedJigsawError, match="Two results cannot be written to one file"):
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

    def test_a_parameter_goes_to_the_methods_that_have_it(self, run):
        words = ["--method", "feca", "--method", "central", "-p", "refine=False", "--json"]
        rows = json.loads(run("simulate", *FAST, *words).stdout)["rows"]
        assert [row["params"] for row in rows[::2]] == [
            {"n_init": 1, "refine": False},
            {"n_init": 1},
        ]

    def test_numbers_are_never_cut(self, shell):
        done = shell("simulate", *FAST, "--method", "feca", COLUMNS="40")
        assert "…" not in done.stdout

    def test_a_parameter_reaches_the_method(self, run):
        words = ["simulate", *FAST, "--method", "feca", "-p", "radius=theoretical", "--json"]
        assert json.loads(run(*words).stdout)["rows"][0]["params"]["radius"] == "theoretical"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--dataset", "s9"], "Unknown data set 's9'. Choose one of"),
            (["--method", "kmeens"], "Unknown method 'kmeens'. Choose one of feca"),
            (["-p", "refine"], "--param takes name=value, such as n_init=20; got 'refine'"),
            (["-p", "refine=perhaps", "--method", "feca"], "refine of FeCA must be True or False"),
            (
                ["-p", "speed=3"],
                "central has a parameter 'speed'. `fedjigsaw methods`",
            ),
            (
                ["-p", "speed=3", "--method", "feca"],
                "FeCA has no parameter 'speed'; it has n_local_clusters",
            ),
            (
                ["-p", "n_clusters=3", "--method", "feca"],
                "n_clusters was given twice. On the command line, set it with -k",
            ),
            (["--method", "feca", "--method", "x", "--runs", "9999"], "Unknown method 'x'"),
            (["--rows", "."], "is a folder; give a file"),
            (["--rows", "/nowhere/rows.jsonl"], "there is no folder /nowhere"),
            (["-k", "6000"], "n_clusters of FeCA must be at most the number of rows"),
            (["--alpha", "0"], "alpha of dirichlet"),
            (["--clients", "6000", "--split", "iid"], "samples among 6,000 clients"),
        ],
    )
    def test_bad_input(self, run, words, message):
        with pytest.raises(FedJigsawError) as caught:
            run("simulate", "--runs", "1", *words)
        assert message in str(caught.value)


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

    def test_simulate_without_doubt_and_with_a_given_k(self, run):
        shown = run("simulate", *FAST, "--method", "jigsaw", "-k", "15").stdout
        assert "confidence" not in shown

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
