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
from fedjigsaw.errors import DataError, MessageError, ParameterError, UncertainNumberWarning
from fedjigsaw.io import formats, tables
from fedjigsaw.io.formats import ModelFile, SummaryFile
from fedjigsaw.kernels.scaling import Stats, measure
from fedjigsaw.privacy.guard import Guard


@pytest.fixture
def folder(grid_sites, tmp_path, monkeypatch):
    """A working folder with the data of two sites."""
    shutil.copy(grid_sites[0][0], tmp_path / "a.parquet")
    shutil.copy(grid_sites[0][1], tmp_path / "b.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
class TestCommands:
    def test_results_are_kept_unless_forced(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        before = (tmp_path / "a.summary").read_bytes()
        with pytest.raises(DataError, match="already exists. Use --force"):
            run("summarize a.parquet -k 4 -o a.summary")
        assert (tmp_path / "a.summary").read_bytes() == before
        run("summarize a.parquet -k 4 -o a.summary --force")
        assert (tmp_path / "a.summary").read_bytes() != before

    def test_no_command_opens_its_table_twice(self, run, monkeypatch):
        opened, open_reader = [], tables.open_reader

        def count(path, decimal):
            opened.append(path.name)
            return open_reader(path, decimal)

        monkeypatch.setattr(tables, "open_reader", count)
        run("stats a.parquet -o a.stats")
        run("summarize a.parquet -k 3 -o a.summary --max-rows 60")
        run("aggregate a.summary -k 3 -o model")
        run("assign a.parquet --model model -o labels.csv")
        run("score a.parquet --model model")
        assert opened == ["a.parquet"] * 4

    def test_a_failure_leaves_nothing_behind(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        (tmp_path / "bad.csv").write_text("x,y\n1,2\n" * 1 + "3,oops\n")
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(
            DataError, match=r"bad.csv, row 2, column 'y': 'oops' is not a finite number"
        ):
            run("assign bad.csv --model model -o labels.parquet")
        with pytest.raises(DataError, match="Cannot write labels.txt: unsupported file type"):
            run("assign a.parquet --model model -o labels.txt")
        assert sorted(path.name for path in tmp_path.iterdir()) == before

    def test_missing_values_get_no_label(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        (tmp_path / "m.csv").write_text("y,x\n1,2\n,3\n4,5\n")
        with pytest.raises(DataError, match="has missing values: 1 in 'y'"):
            run("assign m.csv --model model -o labels.csv")
        shown = run("assign m.csv --model model -o labels.parquet --drop-missing --distances")
        assert "2 labels, 1 row without one (missing values) -> labels.parquet" in shown.stdout
        labels = pa.parquet.read_table(tmp_path / "labels.parquet")
        assert [label is None for label in labels["label"].to_pylist()] == [False, True, False]

    def test_skipped_rows_are_counted_in_every_line_that_counts_rows(self, run, tmp_path):
        table = pa.parquet.read_table(tmp_path / "a.parquet").to_pandas()
        table.loc[3:9, "x"] = np.nan
        table.to_csv(tmp_path / "m.csv", index=False)
        n = len(table)
        words = f"{n:,} rows, 7 of them skipped (missing values)"

        def shown(command):
            return " ".join(run(command).stdout.split())

        assert f"{words}, 2 columns ->" in shown("stats m.csv -o m.stats --drop-missing")
        assert f"{words} -> 3 centers" in shown("summarize m.csv -k 3 -o m.summary --drop-missing")
        run("summarize b.csv -k 3 -o b.summary")
        of_b = formats.load(tmp_path / "b.summary", SummaryFile).summary.n_samples
        both = f"{n + of_b:,} rows, 7 of them skipped (missing values)"
        assert f"2 sites, {both} ->" in shown("aggregate m.summary b.summary -k 3 -o model")
        assert f"m: {words}, inertia" in shown(
            "score m.csv --model model --drop-missing -o m.score"
        )
        run("score b.csv --model model -o b.score")
        assert f"2 sites: {both}, inertia" in shown("score --merge m.score b.score")
        found = json.loads(run("score --merge m.score b.score --json").stdout)
        assert (found["rows"], found["skipped"]) == (n + of_b - 7, 7)
        assert f"missing values: {n - 7} (exact); 7 were skipped." in shown("inspect m.summary")
        assert f"m, b; {both} in all" in shown("inspect model").replace("b, m", "m, b")
        assert f"Rows: {n - 7} (7 more were skipped);" in shown("inspect m.score")
        privately = "--drop-missing --epsilon 5 --bounds=-100,100 --force"
        for command in ("stats m.csv -o m.stats", "summarize m.csv -k 3 -o m.summary --cells own"):
            text = shown(f"{command} {privately}")
            assert "7 rows were skipped (missing values). This number is exact" in text
        assert formats.load(tmp_path / "m.summary", SummaryFile).n_skipped == 0

    def test_score_as_json(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        found = json.loads(run("score a.parquet --model model --json").stdout)
        assert found["rows"] == sum(found["cluster_sizes"])
        with pytest.raises(ParameterError, match="one data file and --model"):
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

    def test_sampling_states_its_loss(self, run):
        text = run("summarize a.parquet -k 3 -o a.summary --max-rows 60").stdout
        assert "60 of the rows, drawn at random" in text
        assert "Mean squared distance of all rows" in text

    @pytest.mark.parametrize("words", ["-k 7", "-k 5 --max-rows 4"])
    def test_fewer_rows_than_clusters_are_reported(self, run, tmp_path, words):
        (tmp_path / "six.csv").write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(6)))
        done = run(f"summarize six.csv -o six --min-cluster-size 1 {words}")
        n_rows, k = ("6", "7") if "7" in words else ("4", "5")
        text = f"six.csv has {n_rows} rows to cluster, fewer than the {k} clusters requested: it sends at most {n_rows} centers"
        assert text in " ".join(done.stderr.split())
        assert f"6 rows -> {n_rows} centers" in done.stdout
        for k in ("6", "auto"):
            assert not run(f"summarize six.csv -o six --force --min-cluster-size 1 -k {k}").stderr

    def test_labels_by_a_summary_of_another_site_are_reported(self, run):
        run("summarize a.parquet -k 3 -o a.summary")
        run("summarize b.csv -k 3 -o b.summary --client bern")
        run("aggregate a.summary b.summary -k 3 -o model")
        assert "If these are not rows of 'a'" in " ".join(
            run("assign b.csv --model model -o l.csv --local a.summary").stderr.split()
        )
        assert not run("assign b.csv --model model -o l.csv --force --local b.summary").stderr

    def test_a_refused_summary_leaves_no_labels(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("summarize b.csv -k 3 -o b.summary")
        run("aggregate a.summary b.summary -k 3 -o model")
        with pytest.raises(MessageError, match="Use the summary of 'b'"):
            run("assign b.csv --model model -o l.csv --local a.summary")
        assert not (tmp_path / "l.csv").exists()

    def test_same_site_twice(self, run):
        run("stats a.parquet -o a.stats --client s")
        run("stats b.csv -o b.stats --client s")
        with pytest.raises(MessageError, match="a.stats and b.stats are both from client 's'"):
            run("scaler a.stats b.stats -o scaler.json")
        run("summarize a.parquet -k 3 -o a.summary")
        for words in (
            "aggregate a.summary a.summary -k 3 -o m",
            "scaler a.stats a.stats -o m",
            "score --merge a.score a.score",
        ):
            with pytest.raises(ParameterError, match=r"a.* is given twice; every site counts once"):
                run(words)

    def test_an_empty_name_is_refused(self, run):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        for words in (
            "stats a.parquet -o x --client=",
            "summarize a.parquet -k 3 -o x --client=",
            "score a.parquet --model model --client=",
        ):
            with pytest.raises(DataError, match="name of a client must be printable"):
                run(words)

    def test_fewer_clusters_is_a_warning(self, run):
        run("summarize a.parquet -k 3 -o a.summary")
        result = run("aggregate a.summary -k 9 -o model")
        assert "3 of 9 clusters" in result.stderr

    def test_an_input_is_never_overwritten(self, run, tmp_path):
        before = (tmp_path / "b.csv").read_bytes()
        for words in ("stats b.csv -o b.csv --force", "summarize b.csv -k 2 -o b.csv --force"):
            with pytest.raises(DataError, match="is an input"):
                run(words)
        assert (tmp_path / "b.csv").read_bytes() == before

    def test_too_few_rows_for_statistics(self, run, tmp_path):
        (tmp_path / "few.csv").write_text("x,y\n1,2\n3,4\n")
        with pytest.raises(DataError, match="few.csv has 2 rows; statistics of fewer than 5"):
            run("stats few.csv -o few.stats")
        run("stats few.csv -o few.stats --min-cluster-size 1")

    def test_ids(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        table = pa.parquet.read_table(tmp_path / "a.parquet")
        columns = {"x": table["x"], "y": table["y"]}
        numbers = range(table.num_rows)
        write_table(tmp_path / "b.parquet", **columns, label=numbers)
        with pytest.raises(ParameterError, match="The id column cannot be 'label'"):
            run("assign b.parquet --model model -o l.parquet --id label")
        write_table(tmp_path / "numbered.parquet", **columns, nr=numbers)
        run("assign numbered.parquet --model model -o l.parquet --id nr")
        assert pa.parquet.read_table(tmp_path / "l.parquet")["nr"].to_pylist()[:3] == [0, 1, 2]
        run("assign numbered.parquet --model model -o both.parquet --id nr --id x")
        labels = pa.parquet.read_table(tmp_path / "both.parquet")
        assert labels.column_names == ["row", "nr", "x", "label"]
        assert labels["x"].to_pylist() == table["x"].to_pylist()

    def test_a_lie_about_rows_never_costs_the_old_model(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        before = (tmp_path / "model").read_bytes()
        content = (tmp_path / "a.summary").read_bytes()
        rows = formats.load(tmp_path / "a.summary", SummaryFile).summary.n_samples
        header = json.loads(safetensors.safe_open("a.summary", "np").metadata()["fedjigsaw"])
        lie = {**header, "client": "mal", "n_samples": 2**53, "n_used": rows}
        arrays = safetensors.numpy.load(content)
        crafted = safetensors.numpy.save(arrays, metadata={"fedjigsaw": json.dumps(lie)})
        (tmp_path / "mal.summary").write_bytes(crafted)
        with pytest.raises(MessageError, match=r"mal.summary cannot be used: n_samples of client"):
            run("aggregate a.summary mal.summary -k 3 -o model --force")
        assert (tmp_path / "model").read_bytes() == before
        done = run("aggregate a.summary mal.summary -k 3 -o model --force --min-sites 1")
        assert "Warning: mal.summary takes no part" in " ".join(done.stderr.split())
        assert (tmp_path / "model").read_bytes() == before

    def test_a_result_that_appears_meanwhile_is_kept(self, run, tmp_path, monkeypatch):
        summarize = sites.summarize

        def slow(*words, **options):
            (tmp_path / "r").write_bytes(b"the other command's")
            return summarize(*words, **options)

        monkeypatch.setattr(sites, "summarize", slow)
        with pytest.raises(DataError, match="r already exists"):
            run("summarize a.parquet -k 3 -o r")
        assert (tmp_path / "r").read_bytes() == b"the other command's"
        run("summarize a.parquet -k 3 -o r --force")
        assert formats.load(tmp_path / "r", SummaryFile)

    def test_pipes_are_refused_everywhere(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        os.mkfifo(tmp_path / "p")
        os.mkfifo(tmp_path / "p.csv")
        for words in (
            "inspect p",
            "aggregate a.summary p -k 3 -o m",
            "scaler p -o s",
            "summarize b.csv -k 3 -o x --scaler p",
            "assign b.csv --model p -o l.csv",
            "assign b.csv --model model --local p -o l.csv",
            "score b.csv --model p",
            "score --merge p",
            "stats p.csv -o x",
            "summarize p.csv -k 3 -o x",
            "summarize b.csv -k 3 -o p --force",
            "summarize b.csv -k 3 -o p",
            "assign b.csv --model model -o p.csv --force",
        ):
            with pytest.raises(DataError, match="is a pipe or a device; give a regular file"):
                run(words)
        assert all(stat.S_ISFIFO((tmp_path / n).stat().st_mode) for n in ("p", "p.csv"))

    @pytest.mark.parametrize("name", ["[/x]", "[bold]x"])
    def test_a_name_with_markup_is_printed_as_it_is(self, run, name):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        done = run("score", "a.parquet", "--model", "model", "--client", name)
        assert done.stdout.startswith(f"{name}: ")

    def test_the_server_has_parameters_of_its_own(self, run):
        run("summarize a.parquet -k 3 -o a.summary -p patience=7")
        run("aggregate a.summary -k 3 -o model -p patience=0")
        assert formats.load(Path("model"), ModelFile).model.params["patience"] == 0
        with pytest.raises(ParameterError, match="those are: max_clusters, max_iter, patience"):
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
        crafted = replace(file, model=replace(file.model, tensors=tensors))
        formats.save(crafted, Path("crafted"))
        words = "assign a.parquet --model crafted --local a.summary -o l.csv"
        if chosen is None:  # labels by the nearest center of the model
            assert run(words).exit_code == 0
        else:
            with pytest.raises(MessageError, match="chosen of a model must be finite, of the shap"):
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
        result = run(f"{words} -o told")
        told = " ".join(result.stderr.split())
        assert "of 6 sites -> told" in result.stdout
        assert "Warning: Do all sites use the same unit in column 'glucose'? s0: 40 rows" in told
        assert "of the others)" not in told
        assert told.count("times the others)") == 1
        assert "or leave a site out, for example with" in told
        assert "units" not in result.stdout  # once is enough
        left = run(f"{words} -o left --without s2")
        assert "unit" not in left.stdout + left.stderr
        squares = np.array([1e200, 1.0])
        liar = Stats("s2", found.columns, 40, found.mean, squares)
        formats.save(liar, tmp_path / "2.stats", replace=True)
        aside = run(f"{words} -o aside").stdout.replace("\n", " ")
        assert "of 5 sites -> aside" in aside
        assert "set aside, since mean or deviation of age is" in aside
        assert (tmp_path / "aside").read_bytes() == (tmp_path / "left").read_bytes()
        assert "of 6 sites" in run(f"{words} -o believed --no-robust").stdout
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
        with pytest.raises(MessageError, match="is not a fedjigsaw file, or it is truncated"):
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
        words = ["-k", "auto", "-p", "max_clusters=25"]
        done = run("aggregate", *made, "-o", tmp_path / "model", *words)
        assert "-> 15 centers" in done.output
        model = formats.load(tmp_path / "model", ModelFile)
        assert model.model.tensors["support_points"].sum() == model.n_samples == 1500
        text = run("inspect", tmp_path / "model").stdout
        assert "Number of clusters: 15 clusters (confidence 0." in text
        assert "Support of each cluster" in text
        points, clients = (model.model.tensors[f"support_{n}"][0] for n in ("points", "clients"))
        assert f"  0: {clients} sites, {points} rows, spread" in text
        assert "15: " not in text.partition("Support")[2]
        assert "margin" in text
        bits = model.model.tensors["skew"].item()
        assert f"Mutual information of site and cluster: {bits:.2f} bits." in text

    def test_how_sure_k_is_is_shown_once(self, made, run, tmp_path):
        words = ["aggregate", *made, "-o", tmp_path / "model", "-k", "auto"]
        shown = run(*words)
        found = json.loads(run(*words, "--force", "--json").stdout)
        assert found["n_clusters"] == 15
        assert found["sites"] == [str(m) for m in range(5)]
        assert len(found["reports"]) == 5
        assert len(found["k"]["separation"]) == 15
        assert 0 < found["k"]["confidence"] <= 1
        text = " ".join(shown.output.split())
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
        assert "-> 1 center -> " in done.stdout
        assert "The number of clusters is in doubt: 1 cluster (confidence 0." in done.stdout
        assert "- Only these columns seem to have clusters: " in done.stdout
        assert not [w for w in recwarn if issubclass(w.category, UncertainNumberWarning)]

    def test_a_summary_for_auto_explains_what_it_holds(self, run, tmp_path):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=300), rng.integers(2, size=300)])
        X[:3, 0] = 50, 60, 70
        np.save(tmp_path / "a.npy", X)
        done = run("summarize", tmp_path / "a.npy", "-k", "auto", "-o", tmp_path / "a.summary")
        assert "merged or left out by the guard" in done.stdout
        text = run("inspect", tmp_path / "a.summary").stdout
        assert "(grain: for columns of few values" in text
        assert "(left_out: rows far from all others, of which nothing else is sent)" in text
        assert "merged into similar ones, or left out)" in text
        assert "- which columns have few values, and how far apart these are." in text
        run("summarize", tmp_path / "a.npy", "-k", "8", "-o", tmp_path / "b.summary")
        text = run("inspect", tmp_path / "b.summary").stdout
        assert "grain" not in text
        assert "which columns have few values" not in text

    def test_a_given_k_after_summaries_for_auto(self, made, run, tmp_path):
        done = run("aggregate", *made, "-o", tmp_path / "model", "-k", "7")
        assert "-> 7 centers" in done.output
        assert "Number of clusters" not in run("inspect", tmp_path / "model").stdout

    def test_withheld_counts_are_reported(self, grid_sites, run, tmp_path):
        for m, path in enumerate(grid_sites[0]):
            guard = Guard(5, "none" if m < 2 else None)
            formats.save(sites.summarize(path, 15, guard=guard), tmp_path / str(m))
        files = [tmp_path / str(m) for m in range(5)]
        done = run("aggregate", *files, "-o", tmp_path / "model", "-k", "15")
        assert done.exit_code == 0, done.output
        assert "2 of 5 clients sent no counts" in " ".join(done.output.split())
