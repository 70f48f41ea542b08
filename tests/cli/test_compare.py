"""The command compare as a user sees it: methods side by side, and what privacy costs."""

import csv
import json
import re

import numpy as np
import pytest

from fedjigsaw import FederatedClusterer, Jigsaw, Privacy, Summary, compare, datasets
from fedjigsaw.cli._comparing import best_in_words
from fedjigsaw.comparison.files import pool_files
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.methods import CLUSTERERS


class TooMany(FederatedClusterer):
    """Returns all centers that it received, whatever number it is asked for."""

    def summarize(self, X, broadcast, rng):
        return Summary(n_samples=len(X), centers=X[:5])

    def aggregate(self, summaries, broadcast, rng):
        return self.make_model(np.concatenate([summary.centers for summary in summaries]))


def test_no_finding_names_a_method_with_more_clusters_than_asked_for():
    data = datasets.gaussian_grid(300, overlap=0.0, rng=3)
    found = compare([TooMany, "match"], data.X, clients=np.arange(300) % 3, n_clusters=2, seeds=1)
    ratios = {row["method"]: row["objective_ratio"] for row in found.rows}
    assert ratios["TooMany"] < 1 <= ratios["M-Avg"]
    assert "M-Avg does best" in best_in_words(found)[0]


@pytest.fixture
def files(tmp_path):
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


class TestMethods:
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

    def test_a_table_for_latex(self, run, files, tmp_path):
        hostile = files[0].with_name("50%_<b>&$x$.csv")
        files[0].rename(hostile)
        table = tmp_path / "c.tex"
        words = (
            "compare",
            hostile,
            *files[1:],
            "-k",
            "15",
            "--label",
            "kind",
            "--method",
            "jigsaw",
        )
        outputs = ("-o", tmp_path / "c.png", "--latex", table)
        done = run(*words, *outputs)
        assert f"LaTeX: {table}" in done.stdout
        tex = table.read_text()
        assert r"50\%\_\textless{}b\textgreater{}\&\$x\$.csv" in tex
        (row,) = [line for line in tex.splitlines() if line.startswith("Jigsaw & ")]
        assert row.endswith(r" \\")
        assert tex.count("\\toprule") == 1
        before = table.read_bytes()
        with pytest.raises(FedJigsawError, match="already exists"):
            run(*words, *outputs)
        assert table.read_bytes() == before

    def test_several_runs_with_error_bars_and_files_for_a_paper(self, run, files, tmp_path):
        picture, table, rows = (tmp_path / name for name in ("c.svg", "c.tex", "c.csv"))
        words = ("compare", *files, "-k", "15", "--label", "kind", "--runs", "3", "--seed", "5")
        words += ("--method", "jigsaw", "--method", "match", "--method", "central", "--force")
        words += ("-o", picture, "--latex", table, "--csv", rows)
        found = json.loads(run(*words, "--json").stdout)
        assert [row["seed"] for row in found["rows"]] == [5] * 3 + [6] * 3 + [7] * 3
        with rows.open() as file:
            written = list(csv.DictReader(file))
        assert [row["method"] for row in written[:3]] == ["Jigsaw", "M-Avg", "Centralized"]
        for number in ("objective_ratio", "ari", "nmi", "purity", "rounds", "n_found"):
            assert [float(row[number]) for row in written] == [row[number] for row in found["rows"]]
        ratios = [row["objective_ratio"] for row in found["rows"] if row["method"] == "match"]
        summary = found["summary"]["match"]["objective_ratio"]
        assert summary == {
            "mean": pytest.approx(np.mean(ratios)), "std": pytest.approx(np.std(ratios, ddof=1)),
        }  # fmt: skip
        verdict = found["significance"]["objective_ratio"]
        assert verdict["best"] == ["jigsaw"]  # pooled k-means takes no part
        assert set(verdict["p_values"]) == {"match"}
        assert "Jigsaw does best" in found["findings"][0]
        tex = table.read_text()
        assert tex.count(r"\textbf{") >= 3
        assert "paired t-test over 3 seeds" in tex
        shown = " ".join(run(*words).stdout.split())
        assert "k = 15, 3 seeds" in shown
        assert re.search(r"Jigsaw │ \d\.\d{3}±\d\.\d{3}\*", shown)
        assert f"{summary['mean']:.3f}±{summary['std']:.3f}" in shown
        assert "paired t-test over 3 seeds" in shown
        assert f"CSV: {rows}" in shown

    def test_every_run_of_a_named_set_has_its_own_split(self, run, tmp_path):
        words = ("--dataset", "gaussian-grid", "--method", "kfed", "--json", "--force")
        words += ("-o", tmp_path / "c.png")
        both = json.loads(run("compare", *words, "--runs", "2").stdout)["rows"]
        (second,) = json.loads(run("compare", *words, "--seed", "1").stdout)["rows"]
        assert both[0]["bytes_per_client"] == both[1]["bytes_per_client"]
        assert both[0]["inertia"] != both[1]["inertia"]
        assert both[1] | {"seconds": 0} == second | {"seconds": 0}

    def test_table_and_latex_tell_the_split_and_the_same_notes(self, run, tmp_path):
        table = tmp_path / "c.tex"
        words = ("--dataset", "gaussian-grid", "--method", "kfed", "--method", "match")
        words += ("-o", tmp_path / "c.png", "--latex", table, "--clients", "7")
        shown = " ".join(run("compare", *words).stdout.split())
        tex = " ".join(table.read_text().split())
        for text in (shown, tex):
            assert "7 sites (dirichlet split, alpha = 0.3, min" in text
            assert "the best mean of the column. With one seed, a difference may be" in text
            assert "summed squared distance of all rows" in text
        assert re.search(r"│ \d\.\d{3}\* │", shown)

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["iid"], "(iid split)"),
            (["quantity", "--alpha", "2"], "(quantity split, alpha = 2, min_size = 15)"),
            (["dirichlet", "--min-size", "3"], "(dirichlet split, alpha = 0.3, min_size = 3)"),
            (["shards", "--shards", "3"], "(shards split, shards_per_client = 3)"),
            (["features", "--mix", "0.2"], "(features split, direction = principal, mix = 0.2)"),
        ],
    )
    def test_splits(self, run, tmp_path, options, told):
        words = ("--dataset", "gaussian-grid", "--method", "match", "-o", tmp_path / "c.png")
        shown = " ".join(run("compare", *words, "--split", *options).stdout.split())
        assert f"10 sites {told}, 5,000 rows" in shown

    def test_a_split_needs_no_classes_where_it_does_not_look_at_them(self, run, files, tmp_path):
        words = ("compare", "--dataset", files[0], "--columns", "x,y", "--clients", "2")
        words += ("-o", tmp_path / "c.png")
        with pytest.raises(FedJigsawError, match="or use another split: iid, quantity, features"):
            run(*words, "-k", "3")
        with pytest.raises(FedJigsawError, match="Missing option -k"):
            run(*words, "--split", "iid")
        shown = run(*words, "-k", "3", "--split", "iid", "--method", "match").stdout
        assert "purity" not in shown

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--split", "iid", "--alpha", "1"], "Split 'iid' has no option 'alpha'"),
            (["--split", "shards", "--mix", "0.1"], "Split 'shards' has no option 'mix'"),
            (["--split", "column"], "needs the column"),
            (["--caption", "Mine"], "--caption is for --latex"),
        ],
    )
    def test_options_of_other_splits(self, run, tmp_path, words, message):
        with pytest.raises(FedJigsawError, match=message):
            run("compare", "--dataset", "gaussian-grid", "-o", tmp_path / "c.png", *words)

    def test_splits_are_for_named_sets(self, run, files, tmp_path):
        with pytest.raises(FedJigsawError, match="--split is for --dataset"):
            run("compare", *files, "-k", "3", "-o", tmp_path / "c.png", "--split", "iid")

    @pytest.mark.parametrize("words", [[], ["--epsilon", "50", "--bounds", "0,1000000"]])
    def test_a_caption_of_ones_own(self, run, files, tmp_path, words):
        table = tmp_path / "c.tex"
        words = (*files, "-k", "3", "--columns", "x,y", "--runs", "1", *words)
        words += ("--method", "jigsaw", "-o", tmp_path / "c.png", "--latex", table)
        shown = run("compare", *words, "--caption", r"Sites, $k = 3$").stdout
        assert r"\caption{Sites, $k = 3$}" in table.read_text()
        assert "3 sites" in shown

    def test_a_method_that_fails_is_told_and_the_others_are_compared(
        self, run, files, tmp_path, monkeypatch
    ):
        def fail(self, summaries, broadcast, rng):
            raise RuntimeError("no centers today")

        monkeypatch.setattr(CLUSTERERS["kfed"].cls, "aggregate", fail)
        words = ("compare", *files, "-k", "15", "--columns", "x,y", "-o", tmp_path / "c.png")
        shown = run(*words, "--method", "kfed", "--method", "jigsaw").stdout
        assert "k-FED failed with 1 of 1 seed. Seed 0: RuntimeError: no centers today" in shown
        with pytest.raises(FedJigsawError, match="Every run failed. k-FED, seed 0"):
            run(*words, "--method", "kfed", "--force")

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
        shown = run("compare", *words, "-o", picture, "--force").stdout
        assert f"Jigsaw: {row['k']['sentence']}" in " ".join(shown.split())

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


class TestPrivacyCost:
    def compare(self, run, folder, *words):
        given = ("-k", "15", "-o", folder / "cost.png", "--force", "--runs", "2")
        return run("compare", *given, "--epsilon", "4,50", "--bounds", "0,1000000", *words)

    def test_table_words_and_picture(self, run, files, tmp_path):
        words = ("--label", "kind", "--cells", "shared")
        shown = " ".join(self.compare(run, tmp_path, *files, *words).stdout.split())
        assert "3 sites, 600 rows, k = 15, delta = 1e-06, 2 seeds" in shown
        for epsilon in (4, 50):
            assert f"Jigsaw, epsilon = {epsilon}, shared cells: the objective is" in shown
        assert "any set of outputs is at most e^epsilon times as likely, plus 1e-06." in shown
        assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.filterwarnings("ignore::fedjigsaw.errors.FewerClustersWarning")
    def test_rows_are_those_of_fits_with_the_same_seeds(self, run, files, tmp_path):
        words = ("--json", "--delta", "1e-5", "--seed", "3", "--columns", "x,y", "--cells", "own")
        found = json.loads(self.compare(run, tmp_path, *files, *words).stdout)
        rows = {(row.get("epsilon"), row["seed"]): row["inertia"] for row in found["rows"]}
        assert list(rows) == [(None, 3), (4.0, 3), (50.0, 3), (None, 4), (4.0, 4), (50.0, 4)]
        data, ids = pool_files(files, ["x", "y"])
        promise = Privacy(4.0, 1e-5, bounds=(0, 1_000_000), cells="own", insecure_seed=4)
        noisy = Jigsaw(15, random_state=4).fit(data.X, clients=ids, privacy=promise)
        plain = Jigsaw(15, random_state=4).fit(data.X, clients=ids)
        assert (rows[4.0, 4], rows[None, 4]) == (noisy.inertia_, plain.inertia_)
        assert not {"purity", "nmi", "ari"} & set(found["rows"][0])  # there are no classes
        assert found["summary"].keys() == {
            "jigsaw", "Jigsaw, epsilon = 4, own cells", "Jigsaw, epsilon = 50, own cells",
        }  # fmt: skip

    def test_bounds_of_a_file_are_scaled_as_the_rows_are(self, run, files, tmp_path):
        columns = tmp_path / "columns.json"
        columns.write_text('{"y": [0, 1000000], "x": [0, 100], "kind": [0, 1]}')
        words = ("--label", "kind", "--bounds", columns, "--json")
        for scale in ([], ["--scale"]):
            found = json.loads(self.compare(run, tmp_path, *files, *words, *scale).stdout)
            (line,) = [line for line in found["notes"] if "outside the bounds" in line]
            assert line.startswith("600 of 600 rows")  # x is far beyond 100, in any unit
            assert any("private scaler" in line for line in found["notes"]) == bool(scale)

    def test_site_as_the_unit(self, run, tmp_path):
        words = ("--dataset", "gaussian-grid", "--clients", "30", "--unit", "site", "--runs", "1")
        shown = " ".join(self.compare(run, tmp_path, *words).stdout.split())
        assert "shared cells" in shown
        assert "Whatever the rows of any one site are, any set of outputs" in shown

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--epsilon", "a"], "--epsilon takes numbers separated by commas, such as 0.5,1,2,4; got 'a'"),
            (["--epsilon", "1,"], "--epsilon takes numbers"),
            (["--epsilon", "0"], "epsilon of Privacy must be a finite number > 0; got 0.0"),
            (["--epsilon", "nan"], "epsilon of Privacy must be a finite number > 0"),
            (["--epsilon", "1,2,1.0"], "An epsilon is given twice: 1.0, 2.0, 1.0"),
            (["--epsilon", "1", "--bounds", "1,0"], "the least value, 1, is not below the greatest, 0"),
            (["--epsilon", "1", "--bounds", "no.json"], "Cannot read no.json"),
            (["--epsilon", "1", "--delta", "1"], "delta of Privacy must be a number > 0 and < 1"),
            (["--epsilon", "1", "--method", "feca"], "'feca' has no differential"),
            (["--epsilon", "1", "--method", "jigsaw", "--method", "feca"], "'feca' has no differential"),
            (["--epsilon", "1", "--method", "x"], "Unknown method 'x'"),
            (["--epsilon", "1", "--unit", "site", "--cells", "own"], "cells of Privacy must be 'shared'"),
            (["--epsilon", "1", "--cells", "shared", "-p", "n_rounds=2"], "requires one round"),
            (["--epsilon", "1", "-p", "speed=3"], "Jigsaw has no parameter 'speed'"),
        ],
    )  # fmt: skip
    def test_bad_input(self, run, files, tmp_path, words, message):
        given = ("compare", *files, "-k", "3", "--columns", "x,y", "-o", tmp_path / "c.png")
        words = [*words, *(() if "--bounds" in words else ("--bounds", "0,1000000"))]
        with pytest.raises(FedJigsawError) as caught:
            run(*given, *words)
        assert message in str(caught.value)
        assert not (tmp_path / "c.png").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--epsilon", "1"], "--epsilon needs --bounds"),
            (["--bounds", "0,1"], "--bounds is about differential privacy: give --epsilon too"),
            (["--delta", "1e-6"], "--delta is about differential privacy"),
            (["--cells", "own"], "--cells is about differential privacy"),
        ],
    )
    def test_options_that_need_one_another(self, run, files, tmp_path, words, message):
        with pytest.raises(FedJigsawError, match=message):
            run("compare", *files, "-k", "3", "-o", tmp_path / "c.png", *words)

    @pytest.mark.parametrize("words", [["--unit", "person"], ["--cells", "none"], ["--runs", "0"]])
    def test_choices_that_do_not_exist(self, run, files, words):
        assert run("compare", *files, "-k", "3", "--epsilon", "1", *words).exit_code == 2
