"""The command compare as a user sees it: methods side by side, and what privacy costs.

What is compared, and how, is tested in tests/comparison.
"""

import csv
import json

import pytest

from fedjigsaw import Jigsaw, Privacy, datasets
from fedjigsaw.comparison.files import pool_files
from fedjigsaw.errors import FedJigsawError
from fedjigsaw.methods import CLUSTERERS


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


@pytest.fixture
def compare(run, tmp_path):
    """Run compare; its picture is c.png."""

    def execute(*words):
        return run("compare", *words, "-o", tmp_path / "c.png", "--force")

    return execute


@pytest.fixture
def values(compare):
    return lambda *words: json.loads(compare(*words, "--json").stdout)


class TestMethods:
    def test_all_methods_on_own_files(self, values, files, tmp_path):
        found = values(*files, "-k", 15, "--label", "kind")
        by_method = {row["method"]: row for row in found["rows"]}
        assert set(by_method) == set(CLUSTERERS)
        assert by_method["jigsaw"]["purity"] > 0.99
        assert by_method["jigsaw"]["ratio"] < 1.001
        assert min(row["ratio"] for row in found["rows"]) == 1.0
        assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")

    def test_names_of_files_are_escaped_and_results_are_kept(self, run, files, tmp_path):
        hostile = files[0].with_name("50%_<b>&$x$.csv")
        files[0].rename(hostile)
        outputs = [tmp_path / name for name in ("c.png", "c.tex", "c.csv")]
        words = ["compare", hostile, *files[1:], "-k", 15, "--label", "kind", "--method", "jigsaw"]
        for option, path in zip(("-o", "--latex", "--csv"), outputs, strict=True):
            words += [option, path]
        run(*words)
        assert r"50\%\_\textless{}b\textgreater{}\&\$x\$.csv" in outputs[1].read_text()
        before = {path: path.read_bytes() for path in outputs}
        for path in outputs:
            with pytest.raises(FedJigsawError, match="already exists"):
                run(*words)
            assert path.read_bytes() == before[path]
            path.unlink()

    def test_several_runs_and_files_for_a_paper(self, values, files, tmp_path):
        table, rows = tmp_path / "c.tex", tmp_path / "c.csv"
        words = [*files, "-k", 15, "--label", "kind", "--runs", 3, "--seed", 5]
        words += ["--method", "jigsaw", "--method", "match", "--method", "central"]
        found = values(*words, "--latex", table, "--csv", rows, "--caption", "Mine")
        assert [row["seed"] for row in found["rows"]] == [5] * 3 + [6] * 3 + [7] * 3
        with rows.open() as file:
            written = list(csv.DictReader(file))
        for number in ("objective_ratio", "ari", "nmi", "purity", "rounds", "n_found"):
            assert [float(row[number]) for row in written] == [row[number] for row in found["rows"]]
        verdict = found["significance"]["objective_ratio"]
        assert verdict["best"] == ["jigsaw"]  # pooled k-means takes no part
        assert set(verdict["p_values"]) == {"match"}
        assert r"\caption{Mine}" in table.read_text()

    def test_every_run_of_a_named_set_has_its_own_split(self, values):
        words = ("--dataset", "gaussian-grid", "--method", "kfed")
        both = values(*words, "--runs", 2)["rows"]
        (second,) = values(*words, "--seed", 1)["rows"]
        assert both[0]["inertia"] != both[1]["inertia"]
        assert both[1] | {"seconds": 0} == second | {"seconds": 0}

    def test_a_split_that_does_not_look_at_classes_needs_none(self, compare, files):
        words = (files[0], "--columns", "x,y", "--clients", 2, "-k", 3, "--method", "match")
        with pytest.raises(FedJigsawError, match="split"):
            compare("--dataset", *words)
        assert "purity" not in compare("--dataset", *words, "--split", "iid").stdout

    def test_a_method_that_fails_is_told_and_the_others_are_compared(
        self, compare, files, monkeypatch
    ):
        def fail(self, summaries, broadcast, rng):
            raise RuntimeError("no centers today")

        monkeypatch.setattr(CLUSTERERS["kfed"].cls, "aggregate", fail)
        words = (*files, "-k", 15, "--columns", "x,y", "--method", "kfed")
        shown = compare(*words, "--method", "jigsaw").stdout
        assert "no centers today" in shown
        assert "Jigsaw" in shown
        with pytest.raises(FedJigsawError, match="Every run failed"):
            compare(*words)

    def test_scale_makes_columns_count_alike(self, values, files, tmp_path):
        stretched = tmp_path / "wide.csv"
        head, *lines = files[0].read_text().splitlines()
        stretched.write_text("\n".join([head, *map(wide, lines)]))
        words = (stretched, "-k", 15, "--label", "kind", "--method", "jigsaw")
        (plain,), (scaled,) = (values(*words, *more)["rows"] for more in ([], ["--scale"]))
        assert scaled["purity"] > 0.99 > plain["purity"]

    def test_files_of_one_name_in_several_folders(self, compare, tmp_path, rng):
        files = [tmp_path / site / "data.csv" for site in ("bern", "lyon")]
        for file in files:
            file.parent.mkdir()
            file.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rng.normal(size=(30, 2))))
        words = ("-k", 2, "--method", "jigsaw")
        assert "bern/data.csv, lyon/data.csv: 2 sites, 60 rows" in compare(*files, *words).stdout
        with pytest.raises(FedJigsawError, match="twice"):
            compare(files[0], tmp_path / "lyon" / ".." / "bern" / "data.csv", *words)

    def test_a_column_with_a_comma_in_its_name(self, values, tmp_path, rng):
        file = tmp_path / "a.csv"
        rows = "".join(f"{x},{y},0\n" for x, y in rng.normal(size=(30, 2)))
        file.write_text('"x,1",y,z\n' + rows)
        words = (file, "-k", 2, "--method", "jigsaw", "--columns", '"x,1", y')
        assert values(*words)["rows"][0]["n_found"] == 2

    def test_a_number_that_is_found(self, values):
        words = ("--dataset", "gaussian-grid", "-k", "auto", "-p", "max_clusters=20")
        (row,) = values(*words)["rows"]
        assert (row["method"], row["n_found"]) == ("jigsaw", 15)


def wide(line):
    """Return a line of a file with its first value times a thousand."""
    first, _, rest = line.partition(",")
    return f"{float(first) * 1000!r},{rest}"


class TestPrivacyCost:
    WORDS = ("-k", 15, "--runs", 2, "--epsilon", "4,50", "--bounds", "0,1000000")

    @pytest.mark.filterwarnings("ignore::fedjigsaw.errors.FewerClustersWarning")
    def test_rows_are_those_of_fits_with_the_same_seeds(self, values, files):
        words = (*self.WORDS, "--delta", "1e-5", "--seed", 3, "--columns", "x,y", "--cells", "own")
        found = values(*words, *files)
        rows = {(row.get("epsilon"), row["seed"]): row["inertia"] for row in found["rows"]}
        assert list(rows) == [(None, 3), (4.0, 3), (50.0, 3), (None, 4), (4.0, 4), (50.0, 4)]
        data, ids = pool_files(files, ["x", "y"])
        promise = Privacy(4.0, 1e-5, bounds=(0, 1_000_000), cells="own", insecure_seed=4)
        noisy = Jigsaw(15, random_state=4).fit(data.X, clients=ids, privacy=promise)
        plain = Jigsaw(15, random_state=4).fit(data.X, clients=ids)
        assert (rows[4.0, 4], rows[None, 4]) == (noisy.inertia_, plain.inertia_)
        assert not {"purity", "nmi", "ari"} & set(found["rows"][0])  # there are no classes

    def test_bounds_of_a_file_are_scaled_as_the_rows_are(self, values, files, tmp_path):
        columns = tmp_path / "columns.json"
        columns.write_text('{"y": [0, 1000000], "x": [0, 100], "kind": [0, 1]}')
        words = (*self.WORDS, "--label", "kind", *files)
        for scale in ([], ["--scale"]):
            found = values(*words, *scale, "--bounds", columns)
            (line,) = [line for line in found["notes"] if "outside the bounds" in line]
            assert line.startswith("600 of 600 rows")  # x is far beyond 100, in any unit
            assert any("private scaler" in line for line in found["notes"]) == bool(scale)

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--clients", 30, "--unit", "site"], "Whatever the rows of any one site are"),
            (["-k", "auto", "-p", "max_clusters=20"], "objectives may be those of different"),
            (["--cells", "shared"], "shared cells"),
        ],
    )
    def test_what_is_promised_and_compared_is_said(self, compare, words, told):
        given = ("--dataset", "gaussian-grid", *self.WORDS, "--epsilon", 50, "--runs", 1)
        assert told in compare(*given, *words).stdout


PRIVATE = "FILE -k 3 --columns x,y --bounds 0,1000000 --epsilon"
SET = "--dataset gaussian-grid"
BAD = {
    "": "--dataset",
    "FILE --dataset s1 -k 3": "--dataset",
    "FILE": "-k",
    "FILE -k 3 --columns x,z": "'z'",
    "FILE -k 3 --label nothing": "nothing",
    "FILE -k 3": "kind",  # a column of words
    "FILE -k 3 --columns x,y -o c.bmp": "picture",
    "FILE -k 3 --columns x,y --split iid": "--split",
    f"{SET} --split iid --alpha 1": "'alpha'",
    f"{SET} --split shards --mix 0.1": "'mix'",
    f"{SET} --split column": "'column'",
    f"{SET} --caption Mine": "--latex",
    "FILE -k 3 --epsilon 1": "--bounds",
    "FILE -k 3 --bounds 0,1": "--epsilon",
    "FILE -k 3 --delta 1e-6": "--epsilon",
    "FILE -k 3 --cells own": "--epsilon",
    f"{PRIVATE} a": "--epsilon",
    f"{PRIVATE} 1,": "--epsilon",
    f"{PRIVATE} 0": "epsilon",
    f"{PRIVATE} nan": "epsilon",
    f"{PRIVATE} 1,2,1.0": "epsilon",
    f"{PRIVATE} 1 --bounds 1,0": "greatest",
    f"{PRIVATE} 1 --bounds no.json": "no.json",
    f"{PRIVATE} 1 --delta 1": "delta",
    f"{PRIVATE} 1 --method jigsaw --method feca": "'feca'",
    f"{PRIVATE} 1 --method x": "'x'",
    f"{PRIVATE} 1 --unit site --cells own": "cells",
    f"{PRIVATE} 1 --cells shared -p n_rounds=2": "one round",
    f"{PRIVATE} 1 -p speed=3": "'speed'",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_writes_nothing(run, files, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(FedJigsawError, match=BAD[words]):
        run("compare", *words.replace("FILE", "site0.csv").split())
    assert sorted(path.name for path in tmp_path.iterdir()) == before
