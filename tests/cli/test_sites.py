"""The commands of one round by file."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors
import safetensors.numpy

from builders import write_table
from fedjigsaw import sites
from fedjigsaw.columns.scaling import Stats, measure
from fedjigsaw.errors import DataError, MessageError, ParameterError, UncertainNumberWarning
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, SummaryFile


@pytest.fixture
def folder(grid_sites, tmp_path, monkeypatch):
    """A working folder with the data of two sites."""
    shutil.copy(grid_sites[0][0], tmp_path / "a.parquet")
    shutil.copy(grid_sites[0][1], tmp_path / "b.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder, run):
    """Make a model of one site."""
    run("summarize a.parquet -k 3 -o a.summary")
    run("aggregate a.summary -k 3 -o model")


@pytest.mark.usefixtures("folder")
class TestCommands:
    def test_results_are_kept_unless_forced(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        before = (tmp_path / "a.summary").read_bytes()
        with pytest.raises(DataError, match="already exists"):
            run("summarize a.parquet -k 4 -o a.summary")
        assert (tmp_path / "a.summary").read_bytes() == before
        run("summarize a.parquet -k 4 -o a.summary --force")
        assert (tmp_path / "a.summary").read_bytes() != before

    def test_a_failure_leaves_nothing_behind(self, run, tmp_path, model):
        (tmp_path / "bad.csv").write_text("x,y\n1,2\n3,oops\n")
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(DataError, match=r"bad.csv, row 2, column 'y'"):
            run("assign bad.csv --model model -o labels.parquet")
        with pytest.raises(DataError, match="labels.txt"):
            run("assign a.parquet --model model -o labels.txt")
        assert sorted(path.name for path in tmp_path.iterdir()) == before

    def test_missing_values_get_no_label(self, run, tmp_path, model):
        (tmp_path / "m.csv").write_text("y,x\n1,2\n,3\n4,5\n")
        with pytest.raises(DataError, match="1 in 'y'"):
            run("assign m.csv --model model -o labels.csv")
        shown = run("assign m.csv --model model -o labels.parquet --drop-missing --distances")
        assert "2 labels, 1 row without one" in shown.stdout
        labels = pa.parquet.read_table(tmp_path / "labels.parquet")
        assert [label is None for label in labels["label"].to_pylist()] == [False, True, False]

    def test_skipped_rows_are_counted_in_every_line_that_counts_rows(self, run, tmp_path):
        table = pa.parquet.read_table(tmp_path / "a.parquet").to_pandas()
        table.loc[3:9, "x"] = np.nan
        table.to_csv(tmp_path / "m.csv", index=False)
        run("summarize b.csv -k 3 -o b.summary")
        told = f"{len(table):,} rows, 7 of them skipped"
        for command in (
            "stats m.csv -o m.stats --drop-missing",
            "summarize m.csv -k 3 -o m.summary --drop-missing",
            "aggregate m.summary -k 3 -o model",
            "score m.csv --model model --drop-missing -o m.score",
            "score --merge m.score",
            "inspect model",
        ):
            assert told in " ".join(run(command).stdout.split())
        found = json.loads(run("score --merge m.score --json").stdout)
        assert (found["rows"], found["skipped"]) == (len(table) - 7, 7)
        privately = "--drop-missing --epsilon 5 --bounds=-100,100 --force"
        for command in ("stats m.csv -o m.stats", "summarize m.csv -k 3 -o m.summary --cells own"):
            assert "7 rows were skipped" in " ".join(run(f"{command} {privately}").stdout.split())
        assert formats.load(tmp_path / "m.summary", SummaryFile).n_skipped == 0

    def test_score_as_json(self, run, model):
        found = json.loads(run("score a.parquet --model model --json").stdout)
        assert found["rows"] == sum(found["cluster_sizes"])
        with pytest.raises(ParameterError, match="--model"):
            run("score a.parquet")

    def test_counts_leave_as_asked(self, run):
        run("summarize a.parquet -k 3 -o exact --counts exact")
        run("summarize a.parquet -k 3 -o rounded --counts rounded")
        run("summarize a.parquet -k 3 -o none --counts none")
        exact, rounded, none = (
            formats.load(Path(name), SummaryFile).summary.counts
            for name in ("exact", "rounded", "none")
        )
        assert none is None
        assert (rounded % 5 == 0).all()
        assert np.abs(rounded - exact).max() <= 2.5

    @pytest.mark.parametrize(("words", "n_rows"), [("-k 7", 6), ("-k 5 --max-rows 4", 4)])
    def test_fewer_rows_than_clusters_are_reported(self, run, tmp_path, words, n_rows):
        (tmp_path / "six.csv").write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(6)))
        done = run(f"summarize six.csv -o six --min-cluster-size 1 {words}")
        assert f"it sends at most {n_rows} centers" in " ".join(done.stderr.split())
        assert f"6 rows -> {n_rows} centers" in done.stdout
        for k in ("6", "auto"):
            assert not run(f"summarize six.csv -o six --force --min-cluster-size 1 -k {k}").stderr

    def test_a_refused_summary_leaves_no_labels(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("summarize b.csv -k 3 -o b.summary")
        run("aggregate a.summary b.summary -k 3 -o model")
        with pytest.raises(MessageError, match="'b'"):
            run("assign b.csv --model model -o l.csv --local a.summary")
        assert not (tmp_path / "l.csv").exists()
        assert not run("assign b.csv --model model -o l.csv --local b.summary").stderr

    def test_same_site_twice(self, run):
        run("stats a.parquet -o a.stats --client s")
        run("stats b.csv -o b.stats --client s")
        with pytest.raises(MessageError, match="a.stats and b.stats"):
            run("scaler a.stats b.stats -o scaler.json")
        for words in (
            "aggregate a.summary a.summary -k 3 -o m",
            "scaler a.stats a.stats -o m",
            "score --merge a.score a.score",
        ):
            with pytest.raises(ParameterError, match=r"a\.\w+ is given twice"):
                run(words)

    def test_an_input_is_never_overwritten(self, run, tmp_path):
        before = (tmp_path / "b.csv").read_bytes()
        for words in ("stats b.csv -o b.csv --force", "summarize b.csv -k 2 -o b.csv --force"):
            with pytest.raises(DataError, match="is an input"):
                run(words)
        assert (tmp_path / "b.csv").read_bytes() == before

    def test_ids(self, run, tmp_path, model):
        table = pa.parquet.read_table(tmp_path / "a.parquet")
        columns = {"x": table["x"], "y": table["y"]}
        numbers = range(table.num_rows)
        write_table(tmp_path / "n.parquet", **columns, label=numbers, nr=numbers)
        with pytest.raises(ParameterError, match="'label'"):
            run("assign n.parquet --model model -o l.parquet --id label")
        run("assign n.parquet --model model -o both.parquet --id nr --id x")
        labels = pa.parquet.read_table(tmp_path / "both.parquet")
        assert labels.column_names == ["row", "nr", "x", "label"]
        assert labels["nr"].to_pylist() == list(numbers)
        assert labels["x"].to_pylist() == table["x"].to_pylist()

    def test_a_lie_about_rows_never_costs_the_old_model(self, run, tmp_path, model):
        before = (tmp_path / "model").read_bytes()
        content = (tmp_path / "a.summary").read_bytes()
        header = json.loads(safetensors.safe_open("a.summary", "np").metadata()["fedjigsaw"])
        lie = {**header, "client": "mal", "n_samples": 2**53}
        arrays = safetensors.numpy.load(content)
        crafted = safetensors.numpy.save(arrays, metadata={"fedjigsaw": json.dumps(lie)})
        (tmp_path / "mal.summary").write_bytes(crafted)
        with pytest.raises(MessageError, match="mal.summary .*n_samples"):
            run("aggregate a.summary mal.summary -k 3 -o model --force")
        assert (tmp_path / "model").read_bytes() == before
        done = run("aggregate a.summary mal.summary -k 3 -o model --force --min-sites 1")
        assert "mal.summary takes no part" in " ".join(done.stderr.split())
        assert (tmp_path / "model").read_bytes() == before

    def test_a_result_that_appears_meanwhile_is_kept(self, run, tmp_path, monkeypatch):
        summarize = sites.summarize

        def slow(*words, **options):
            (tmp_path / "r").write_bytes(b"the other command's")
            return summarize(*words, **options)

        monkeypatch.setattr(sites, "summarize", slow)
        with pytest.raises(DataError, match="already exists"):
            run("summarize a.parquet -k 3 -o r")
        assert (tmp_path / "r").read_bytes() == b"the other command's"
        run("summarize a.parquet -k 3 -o r --force")
        assert formats.load(tmp_path / "r", SummaryFile)

    def test_pipes_are_refused_everywhere(self, run, tmp_path, model):
        """Each reader is tried in tests/io/test_regular.py."""
        os.mkfifo(tmp_path / "p")
        os.mkfifo(tmp_path / "p.csv")
        for words in (
            "aggregate a.summary p -k 3 -o m",
            "assign b.csv --model model --local p -o l.csv",
            "summarize p.csv -k 3 -o x",
            "summarize b.csv -k 3 -o p --force",
            "assign b.csv --model model -o p.csv --force",
        ):
            with pytest.raises(DataError, match="is a pipe"):
                run(words)
        assert all(stat.S_ISFIFO((tmp_path / n).stat().st_mode) for n in ("p", "p.csv"))

    @pytest.mark.parametrize("name", ["[/x]", "[bold]x"])
    def test_a_name_with_markup_is_printed_as_it_is(self, run, model, name):
        done = run("score", "a.parquet", "--model", "model", "--client", name)
        assert done.stdout.startswith(f"{name}: ")

    def test_the_server_has_parameters_of_its_own(self, run, model):
        run("aggregate a.summary -k 3 -o own -p patience=0")
        assert formats.load(Path("own"), ModelFile).model.params["patience"] == 0
        with pytest.raises(ParameterError, match="'n_init'"):
            run("aggregate a.summary -k 3 -o m -p n_init=7")

    @pytest.mark.parametrize(
        "chosen", [None, np.zeros((9, 2)), np.zeros((3, 5)), np.zeros(3), np.full((3, 2), np.nan)]
    )
    def test_a_strange_model_of_kfed_is_no_crash(self, run, chosen):
        """The coordinator's file must not crash a site's command."""
        run("summarize a.parquet -k 3 -o a.summary --method kfed")
        run("aggregate a.summary -k 3 -o model")
        file = formats.load(Path("model"), ModelFile)
        tensors = {} if chosen is None else {"chosen": chosen}
        formats.save(replace(file, model=replace(file.model, tensors=tensors)), Path("crafted"))
        words = "assign a.parquet --model crafted --local a.summary -o l.csv"
        if chosen is None:  # labels by the nearest center of the model
            assert run(words).exit_code == 0
        else:
            with pytest.raises(MessageError, match="chosen"):
                run(words)

    def test_the_advice_about_units_works_as_it_is_said(self, run, tmp_path, rng):
        schema = 'format = 1\n[columns.glucose]\nkind = "number"\nunit = "mg/dl"\n'
        (tmp_path / "schema.toml").write_text(schema)
        for name, factor in (("a", 18), ("b", 18), ("c", 1)):
            rows = "\n".join(map(str, rng.normal(5.5, 1, 60) * factor))
            (tmp_path / f"{name}.csv").write_text(f"glucose\n{rows}\n")
            run(f"stats {name}.csv -o {name}.stats --schema schema.toml")
        told = run("scaler a.stats b.stats c.stats -o s.json --schema schema.toml").stderr
        words = " ".join(told.split()).split("`fedjigsaw ")[1].split("`")[0]
        words = words.replace("NUMBER", "18").replace("FILE", "c.csv").replace("COPY", "c")
        assert run(words).exit_code == 0
        again = run("stats c.parquet -o c.stats --schema schema.toml --client c --force")
        assert again.exit_code == 0

    def test_statistics_of_a_liar_and_in_other_units(self, run, tmp_path, rng):
        for m in range(6):
            rows = rng.normal([60, 5.5], [9, 1.1], (40, 2)) * ([1, 18] if m == 2 else 1)
            found = measure(f"s{m}", ("age", "glucose"), [rows])
            formats.save(found, tmp_path / f"{m}.stats")
        words = "scaler 0.stats 1.stats 2.stats 3.stats 4.stats 5.stats"
        told = " ".join(run(f"{words} -o told").stderr.split())
        assert told.count("unit in column 'glucose'?") == 1
        assert "--without" in told
        left = run(f"{words} -o left --without s2")
        assert "unit" not in left.stdout + left.stderr
        squares = np.array([1e200, 1.0])
        liar = Stats("s2", found.columns, 40, found.mean, squares)
        formats.save(liar, tmp_path / "2.stats", replace=True)
        assert "set aside" in run(f"{words} -o aside").stdout.replace("\n", " ")
        assert (tmp_path / "aside").read_bytes() == (tmp_path / "left").read_bytes()
        run(f"{words} -o believed --no-robust")
        assert formats.load_scaler(tmp_path / "believed").deviation[0] > 1e97

    def test_inspect(self, run):
        run("stats a.parquet -o a.stats")
        run("scaler a.stats -o scaler")
        assert "A scaler for 2 columns" in run("inspect scaler").stdout
        run("summarize a.parquet -k 3 -o a.summary")
        assert "A summary of site 'a'" in run("inspect a.summary").stdout
        assert json.loads(run("inspect a.summary --json").stdout)["lines"]
        run("summarize a.parquet -k 25 -o many --min-cluster-size 1")
        assert "more; --all shows them" in run("inspect many").stdout
        for words in ("--all", "--json"):
            whole = run(f"inspect many {words}").stdout
            assert "--all shows them" not in whole
            assert "  24: " in whole
        with pytest.raises(MessageError, match="b.csv"):
            run("inspect b.csv")


class TestJigsaw:
    """Counts, support and the choice of k survive in files."""

    @pytest.fixture
    def made(self, grid_sites, tmp_path, run):
        """Summaries, as the command writes them."""
        options = ["-k", "auto", "--method", "jigsaw", "-p", "max_clusters=25"]
        for path in grid_sites[0]:
            out = tmp_path / path.stem
            run("summarize", path, "-o", out, *options, "--min-cluster-size", "3")
        return [tmp_path / str(m) for m in range(5)]

    def test_k_is_found_and_shown(self, made, run, tmp_path):
        run("aggregate", *made, "-o", tmp_path / "model", "-k", "auto", "-p", "max_clusters=25")
        model = formats.load(tmp_path / "model", ModelFile)
        assert model.n_samples == 1500
        total = model.model.tensors["support_points"].sum()
        assert total == pytest.approx(1500, abs=7)  # each of 15 is rounded
        text = run("inspect", tmp_path / "model").stdout
        assert "Number of clusters: 15 clusters (confidence 0." in text
        points, clients = (model.model.tensors[f"support_{n}"][0] for n in ("points", "clients"))
        assert f"  0: {clients} sites, {points} rows, spread" in text
        bits = model.model.tensors["skew"].item()
        assert f"Mutual information of site and cluster: {bits:.2f} bits." in text

    def test_how_sure_k_is_is_shown_once(self, made, run, tmp_path):
        words = ["aggregate", *made, "-o", tmp_path / "model", "-k", "auto"]
        text = " ".join(run(*words).output.split())
        found = json.loads(run(*words, "--force", "--json").stdout)
        assert found["sites"] == [str(m) for m in range(5)]
        assert found["n_clusters"] == len(found["k"]["separation"]) == 15
        assert 0 < found["k"]["confidence"] <= 1
        assert text.count(found["k"]["sentence"]) == 1
        kept = json.loads(run("inspect", tmp_path / "model", "--json").stdout)
        assert kept["k"] == found["k"]

    def test_doubt_about_k_is_a_sentence_and_no_trace(self, run, tmp_path, recwarn):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(900, 20))
        X[:, :2] += np.array([(0, 0), (8, 0), (0, 8)])[rng.integers(3, size=900)]
        np.save(tmp_path / "a.npy", X / X.std(axis=0))
        run("summarize", tmp_path / "a.npy", "-k", "auto", "-o", tmp_path / "a.summary")
        done = run("aggregate", tmp_path / "a.summary", "-k", "auto", "-o", tmp_path / "model")
        assert "The number of clusters is in doubt: 1 cluster (confidence 0." in done.stdout
        assert not [w for w in recwarn if issubclass(w.category, UncertainNumberWarning)]

    def test_a_given_k_after_summaries_for_auto(self, made, run, tmp_path):
        done = run("aggregate", *made, "-o", tmp_path / "model", "-k", "7")
        assert "-> 7 centers" in done.output
        assert "Number of clusters" not in run("inspect", tmp_path / "model").stdout
