"""The commands demo, simulate and compare as a user sees them: output, files, errors."""

import json
from pathlib import Path

import pytest

from fedjigsaw import datasets
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.methods import CLUSTERERS

FAST = ["--runs", "2", "-p", "n_init=1", "--clients", "4"]


@pytest.mark.slow
class TestDemo:
    def test_table_and_picture(self, shell, tmp_path):
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
        with pytest.raises(FedJigsawError, match="already exists. Use --force"):
            run("demo", "--out", picture)
        assert picture.read_text() == "mine"
        assert run("demo", "--out", picture, "--force").exit_code == 0
        assert picture.read_bytes().startswith(b"\x89PNG")

    def test_bad_places_are_refused_before_the_work(self, run, tmp_path):
        with pytest.raises(FedJigsawError, match="there is no folder"):
            run("demo", "--out", tmp_path / "no" / "demo.png")
        with pytest.raises(FedJigsawError, match="name of a picture must end in"):
            run("demo", "--out", tmp_path / "demo.bmp")
        with pytest.raises(FedJigsawError, match="Two results cannot be written to one file"):
            run("demo", "--out", tmp_path / "x.png", "--rows", tmp_path / "x.png")


@pytest.mark.slow
def test_demo_shows_what_supports_each_cluster(run, tmp_path):
    found = json.loads(run("demo", "--out", tmp_path / "d.png", "--json").stdout)
    assert set(found["support"]) == {"clients", "points", "spread", "margin"}
    assert sum(found["support"]["points"]) == 5000
    shown = run("demo", "--out", tmp_path / "d.png", "--force").stdout
    assert "Support of each cluster" in shown


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
                "None of feca, jigsaw, kfed, match, fuzzy, central has a parameter 'speed'. `fedjigsaw methods`",
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
            (["--clients", "6000", "--split", "iid"], "samples among 6000 clients"),
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
        assert "purity" not in shown  # without --label, classes are unknown

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
            (["FILE"], "Missing option -k: the number of clusters, e.g. -k 4"),
            (["FILE", "-k", "3", "--columns", "x,z"], "'z'"),
            (["FILE", "-k", "3", "--label", "nothing"], "nothing"),
            (["FILE", "-k", "3"], "kind"),  # a column of words
            (["FILE", "-k", "3", "--columns", "x,y", "-o", "c.bmp"], "name of a picture must end in"),
        ],
    )  # fmt: skip
    def test_bad_input(self, run, files, tmp_path, monkeypatch, words, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(FedJigsawError, match=message):
            run("compare", *(str(files[0]) if word == "FILE" else word for word in words))
