"""One round by file, as functions and as the commands of docs/sites.md."""

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from fedjigsaw import FeCA, FewerClustersWarning, Jigsaw, cli, datasets, metrics, partition, sites
from fedjigsaw.errors import (
    CountsWarning,
    DataError,
    FedJigsawError,
    ForeignSummaryWarning,
    MessageError,
    ParameterError,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score, SummaryFile, encode
from fedjigsaw.kernels import scaling
from fedjigsaw.privacy.guard import Guard
from fedjigsaw.report.inspection import describe

ROOT = Path(__file__).parents[2]
OFF = Guard(min_cluster_size=1)


@pytest.fixture(scope="module")
def grid_sites(tmp_path_factory):
    """Five sites in three formats: folder, data, client ids."""
    folder = tmp_path_factory.mktemp("sites")
    data = datasets.gaussian_grid(1500, rng=5)
    ids = partition.dirichlet(data.y, 5, alpha=1.0, rng=5, min_size=40)
    for m in range(5):
        table = pa.table({"x": data.X[ids == m, 0], "y": data.X[ids == m, 1]})
        if m % 2:
            pa.csv.write_csv(table, folder / f"{m}.csv")
        else:
            pa.parquet.write_table(table, folder / f"{m}.parquet")
    return folder, data, ids


def paths(folder):
    return sorted(path for path in folder.iterdir() if path.suffix in (".csv", ".parquet"))


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
class TestLocalLabels:
    @pytest.fixture
    def made(self, grid_sites):
        """Summaries by client, and the model; the last site has its columns the other way round."""
        folder, _, _ = grid_sites
        made = {
            p.stem: sites.summarize(p, 15, method="feca", guard=OFF, seed=7) for p in paths(folder)
        }
        made["4"] = sites.reorder(made["4"], ("y", "x"))
        return made, sites.aggregate(made, 15, seed=7)

    def test_by_file_equals_in_memory(self, grid_sites, made):
        folder, data, ids = grid_sites
        summaries, model = made
        shards = {str(m): data.X[ids == m] for m in range(5)}
        memory = FeCA(15, assign="local", random_state=7).fit_clients(shards)
        found = []
        for path in paths(folder):
            for part in sites.assign(path, model, local=summaries[path.stem]):
                found.append(part.labels.to_numpy())
                centers = model.model.centers[found[-1]]
                true = np.linalg.norm(data.X[ids == int(path.stem)] - centers, axis=1)
                assert np.allclose(part.distances.to_numpy(), true)
        assert np.concatenate(found).tolist() == memory.labels_.tolist()
        assert (
            np.concatenate(found).tolist()
            != memory.predict(np.concatenate(list(shards.values()))).tolist()
        )

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"method": "jigsaw"}, "method of the summary of client '0' must be that of the model, feca; got jigsaw"),
            ({"columns": ("x", "z")}, "columns of the summary"),
            ({"scaler": scaling.Scaler(("x", "y"), np.zeros(2), np.ones(2))}, "scaler of the summary"),
        ],
    )  # fmt: skip
    def test_a_summary_of_another_round(self, grid_sites, made, change, words):
        summaries, model = made
        other = replace(summaries["0"], **change)
        with pytest.raises(MessageError, match=words):
            next(sites.assign(paths(grid_sites[0])[0], model, local=other))

    def test_a_summary_of_another_site(self, grid_sites, made):
        summaries, model = made
        stranger = replace(summaries["0"].summary, client="x")
        other = replace(summaries["0"], summary=stranger)
        with pytest.raises(MessageError, match="among those of the model, '0', '1', .*; got 'x'"):
            next(sites.assign(paths(grid_sites[0])[0], model, local=other))

    def all_labels(self, *words, **options):
        return [part.labels for part in sites.assign(*words, **options)]

    def test_the_summary_of_another_client_of_the_model(self, grid_sites, made, tmp_path):
        summaries, model = made
        path = paths(grid_sites[0])[1]
        told = r"The summary of '0' does not look like one of .*1.csv: it was made from .* rows, and here are"
        with pytest.raises(MessageError, match=told + r".*Give --local the summary of '1'"):
            self.all_labels(path, model, local=summaries["0"])
        shutil.copy(path, tmp_path / "data.csv")  # whose these are, nobody knows for sure
        with pytest.warns(ForeignSummaryWarning, match="Unless these are rows of '0'"):
            self.all_labels(tmp_path / "data.csv", model, local=summaries["0"])

    def test_one_with_as_many_rows(self, rng, tmp_path):
        """By counts, where there are any; else by centers that nobody is near to."""
        a = rng.normal(size=(40, 2))
        b = a + 100
        for name, rows in (("a", [a, b[:8]]), ("b", [a[:8], b]), ("c", [a, a[:8] + 1])):
            np.savez(tmp_path / f"{name}.npz", X=np.concatenate(rows), columns=["x", "y"])
        for method, other, words in (
            ("jigsaw", "b", "67% of the rows would belong to other centers"),
            ("jigsaw", "c", "1 of its 2 centers are nearest to no row"),
            ("feca", "c", "1 of its 2 centers are nearest to no row"),
        ):
            made = {
                n: sites.summarize(tmp_path / f"{n}.npz", 2, method=method) for n in ("a", other)
            }
            model = sites.aggregate(made, 2)
            self.all_labels(tmp_path / "a.npz", model, local=made["a"])
            with pytest.raises(MessageError, match=words):
                self.all_labels(tmp_path / f"{other}.npz", model, local=made["a"])

    @pytest.mark.filterwarnings("error::fedjigsaw.errors.ForeignSummaryWarning")
    @pytest.mark.parametrize("guard", [Guard(1), Guard(9), Guard(9, "rounded"), Guard(5, "none")])
    @pytest.mark.parametrize("max_rows", [80, 10_000])
    def test_a_site_is_never_suspected_of_its_own_summary(self, grid_sites, guard, max_rows):
        found = paths(grid_sites[0])
        for method in ("jigsaw", "feca"):
            options = {"method": method, "guard": guard, "max_rows": max_rows}
            made = {path.stem: sites.summarize(path, 15, **options) for path in found}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CountsWarning)
                model = sites.aggregate(made, 15)
            for path in found:
                self.all_labels(path, model, local=made[path.stem])


def test_every_site_takes_its_own_number_of_local_clusters(grid_sites):
    params = {"n_local_clusters": {"0": 2, "1": 3}}
    for path, n_local in zip(paths(grid_sites[0])[:2], (2, 3), strict=True):
        file = sites.summarize(path, 15, method="kfed", params=params, guard=OFF)
        assert len(file.summary.centers) == n_local
    with pytest.raises(ParameterError, match="given for every client; got none for client '2'"):
        sites.summarize(paths(grid_sites[0])[2], 15, method="kfed", params=params)


@pytest.mark.filterwarnings("ignore::fedjigsaw.FewerClustersWarning")
def test_by_file_equals_in_memory_bit_for_bit(grid_sites, tmp_path):
    folder, data, ids = grid_sites
    files = {}
    for path in paths(folder):
        out = tmp_path / f"{path.stem}.summary"
        formats.save(sites.summarize(path, 15, method="feca", guard=OFF, seed=7), out)
        files[str(out)] = formats.load(out, SummaryFile)
    model = sites.aggregate(files, 15, seed=7)
    memory = FeCA(15, random_state=7).fit_clients({str(m): data.X[ids == m] for m in range(5)})
    assert model.model.centers.tobytes() == memory.cluster_centers_.tobytes()
    assert model.clients == ("0", "1", "2", "3", "4")
    assert model.n_samples == 1500


def test_same_data_and_seed_give_the_same_bytes(grid_sites):
    path = paths(grid_sites[0])[0]
    assert encode(sites.summarize(path, 15)) == encode(sites.summarize(path, 15))
    assert encode(sites.summarize(path, 15)) != encode(sites.summarize(path, 15, seed=1))


def test_forgetting_a_site_is_exact(grid_sites):
    files = {p.name: sites.summarize(p, 15) for p in paths(grid_sites[0])}
    without = sites.aggregate(files, 15, without=["2", "4"])
    never = sites.aggregate({n: f for n, f in files.items() if f.summary.client not in "24"}, 15)
    assert encode(without) == encode(never)
    assert without.clients == ("0", "1", "3")


def test_scaler_and_score_equal_the_pooled_ones(grid_sites):
    folder, data, ids = grid_sites
    scaler = scaling.merge([sites.measure(path) for path in paths(folder)])
    pooled = StandardScaler().fit(data.X)
    assert scaler.mean == pytest.approx(pooled.mean_, rel=1e-9)
    assert scaler.deviation == pytest.approx(pooled.scale_, rel=1e-9)
    files = {p.name: sites.summarize(p, 15, scaler=scaler) for p in paths(folder)}
    model = sites.aggregate(files, 15)
    total = sites.merge_scores({p.name: sites.score(p, model) for p in paths(folder)})
    scaled = scaler.scale(data.X)
    assert total.sse.sum() == pytest.approx(metrics.inertia(scaled, model.model.centers))
    assert total.counts.sum() == 1500
    labels = [
        label
        for path in paths(folder)
        for part in sites.assign(path, model)
        for label in part.labels.to_pylist()
    ]
    assert np.bincount(labels, minlength=15).tolist() == total.counts.tolist()
    expected = np.concatenate([scaled[ids == m] for m in range(5)])
    nearest = np.linalg.norm(expected[:, None] - model.model.centers, axis=2).argmin(axis=1)
    assert labels == nearest.tolist()


def test_default_guard_lets_no_row_out(grid_sites):
    folder, data, _ = grid_sites
    rows = {tuple(row) for row in data.X}
    guarded = [sites.summarize(path, 60) for path in paths(folder)]
    bare = [sites.summarize(path, 60, guard=OFF) for path in paths(folder)]
    leaked = [{tuple(c) for c in f.summary.centers} & rows for f in bare]
    assert any(leaked)
    assert not any({tuple(c) for c in f.summary.centers} & rows for f in guarded)
    assert all(f.summary.merged > 0 for f in guarded)


def test_a_large_file_is_sampled_and_says_so(grid_sites):
    path = paths(grid_sites[0])[0]
    file = sites.summarize(path, 15, max_rows=50)
    assert file.n_used == 50 < file.summary.n_samples
    assert any("random sample of 50" in line for line in describe(file, 0))


class TestFitTogether:
    @pytest.fixture
    def two(self, grid_sites):
        a, b = paths(grid_sites[0])[:2]
        return (
            a,
            b,
            sites.summarize(a, 3, method="feca"),
            partial(sites.summarize, b, 3, method="feca"),
        )

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"columns": ["y"]}, "columns of B must be those of A"),
            ({"params": {"radius": "theoretical"}}, "parameters of B"),
            ({"client": "0"}, "client of B must be different from that of A; got '0'"),
            (
                {"scaler": scaling.Scaler(("x", "y"), np.zeros(2), np.ones(2))},
                "scaler of B",
            ),
        ],
    )
    def test_both_files_are_named(self, two, options, words):
        _, _, first, second = two
        with pytest.raises(MessageError, match=words):
            sites.aggregate({"A": first, "B": second(**options)}, 3)

    def test_columns_in_another_order_are_put_in_order(self, two):
        _, _, first, second = two
        swapped = second(columns=["y", "x"])
        turned = sites.reorder(swapped, ("x", "y"))
        assert (turned.summary.centers == swapped.summary.centers[:, ::-1]).all()
        model = sites.aggregate({"A": first, "B": swapped}, 3)
        assert model.columns == ("x", "y")
        straight = sites.aggregate({"A": first, "B": second()}, 3)
        assert metrics.center_l2(model.model.centers, straight.model.centers) < 1e-6

    def test_other_methods(self, two):
        other = replace(two[3](), method="jigsaw")
        with pytest.raises(MessageError, match="method of B must be those of A, feca; got jigsaw"):
            sites.aggregate({"A": two[2], "B": other}, 3)
        with pytest.raises(ParameterError, match="one that keeps rows at the sites; got 'central'"):
            two[3](method="central")

    def test_how_hard_a_site_searches_is_its_own_affair(self, two):
        _, _, first, second = two
        assert sites.aggregate({"A": first, "B": second(params={"n_init": 2})}, 3)

    def test_without(self, two):
        with pytest.raises(ParameterError, match="--without of aggregate must be among '0'"):
            sites.aggregate({"A": two[2]}, 3, without=["x"])
        with pytest.raises(ParameterError, match="Without '0', no summary is left"):
            sites.aggregate({"A": two[2]}, 3, without=["0"])

    def test_fewer_clusters(self, two):
        with pytest.warns(FewerClustersWarning, match="3 of 9 clusters"):
            sites.aggregate({"A": two[2]}, 9)

    def test_scaler_of_other_columns(self, two):
        other = scaling.Scaler(("x", "z"), np.zeros(2), np.ones(2))
        with pytest.raises(DataError, match="among 'x', 'y'; got 'z'"):
            sites.summarize(two[0], 3, scaler=other)
        with pytest.raises(ParameterError, match="those of the scaler"):
            sites.summarize(two[0], 3, scaler=other, columns=["x", "y"])

    def test_scores_of_other_models(self, two):
        a, b = (Score(m + "'s", m, np.array([1]), np.array([0.0])) for m in ("m", "n"))
        with pytest.raises(MessageError, match="model of B must be that of A, m; got n"):
            sites.merge_scores({"A": a, "B": b})
        with pytest.raises(MessageError, match="client of B must be different"):
            sites.merge_scores({"A": a, "B": a})


class TestDescribe:
    def test_a_summary_without_a_guard_says_that_a_center_is_a_row(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([[0.0], [0.1], [0.2], [50.0]]))
        file = sites.summarize(tmp_path / "a.npy", 2, guard=Guard(1, "exact"))
        told = "\n".join(describe(file, 123))
        assert "a cluster of one row IS that row" in told
        assert "without a guard any center may be a single row" in told
        assert "123 bytes" in told

    def test_every_kind(self, grid_sites):
        path = paths(grid_sites[0])[0]
        file = sites.summarize(path, 30, scaler=scaling.merge([sites.measure(path)]))
        model = sites.aggregate({"a": file}, 3)
        stats = sites.measure(path)
        alone = scaling.measure("b", ("x",), [np.array([[3.0]])])
        one = Score("a", "m", np.array([1]), np.array([4.0]))
        for content, words in (
            (file, "Columns (2): x, y"),
            (model, "Made from 1 clients: 0"),
            (stats, "Column statistics of client '0'"),
            (alone, "of one row the mean IS that row"),
            (one, "that row's own"),
            (scaling.merge([stats]), "A scaler for 2 columns"),
        ):
            assert words in "\n".join(describe(content, 1))

    def test_every_number_that_leaves_is_shown(self, grid_sites):
        path = paths(grid_sites[0])[0]
        file = sites.summarize(path, 30, scaler=scaling.merge([sites.measure(path)]))
        few, every = (describe(file, 1, **most) for most in ({}, {"most": 99}))
        assert sum("; sse " in line for line in few) == 20
        assert f"  ... and {len(file.summary.centers) - 20} more; --all shows them" in few
        shown = [line for line in every if "; sse " in line]
        assert len(shown) == len(file.summary.centers)
        for line, n, sse in zip(shown, file.summary.counts, file.summary.sse, strict=True):
            assert line.endswith(f"; {n} rows; sse {sse:.6g}")
        mean, deviation = file.scaler.mean[1], file.scaler.deviation[1]
        assert f"  y: less {mean:.6g}, divided by {deviation:.6g}" in every
        score = Score("a", "m", np.array([2, 3]), np.array([0.25, 8.0]))
        assert "  1: 3 rows, summed squared distance 8" in describe(score, 1)
        assert "  ... and 1 more" in describe(score, 1, most=1)
        other = replace(file.summary, tensors={"support": np.array([0.5, 2.0, 3.0])})
        file = replace(file, summary=other)
        assert "  support: 0.5, 2, 3" in describe(file, 1)
        assert "  support: 0.5, 2, ... and 1 more" in describe(file, 1, most=2)

    def test_equal_rows_are_told_of(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([[1.0], [2.0], [3.0], [4.0], [5.0], *[[91.0]] * 6]))
        told = describe(sites.summarize(tmp_path / "a.npy", 2), 1)
        exactly = "several equal rows with exactly these values."
        assert f"- 1 center(s) with an sse of 0: {exactly}" in told

    def test_a_model_without_counts_calls_its_rows_guesses(self, grid_sites):
        for counts, guessed in (("exact", False), ("none", True)):
            files = {
                str(path): sites.summarize(path, 3, guard=Guard(5, counts))
                for path in paths(grid_sites[0])
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CountsWarning)
                model = sites.aggregate(files, 3)
            told = "\n".join(describe(formats.decode(formats.encode(model)), 1))
            assert ("rows are guesses" in told) is guessed
            assert ("bits about its cluster" in told) is not guessed


def unsigned(line):
    """Without fingerprints: other processors may round the last digit otherwise."""
    return re.sub(r"\b[0-9a-f]{16}\b", "fingerprint", line)


def test_the_commands_of_the_docs(tmp_path):
    """docs/sites.md, literally."""
    text = (ROOT / "docs" / "sites.md").read_text()
    script = "set -e\n" + "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = [
        unsigned(line)
        for block in re.findall(r"```text\n(.*?)```", text, re.S)
        for line in block.splitlines()
        if line != "..."
    ]
    printed = iter([unsigned(line) for line in done.stdout.splitlines()])
    assert [line for line in shown if line not in printed] == []  # all are there, in this order
    assert len(shown) > 50
    labels = pa.parquet.read_table(tmp_path / "bern-labels.parquet")
    assert labels.column_names == ["patient", "label", "distance"]
    assert labels["patient"].to_pylist()[:2] == ["bern-000", "bern-001"]
    assert pa.csv.read_csv(tmp_path / "lyon-labels.csv").num_rows == 400
    without = formats.load(tmp_path / "model-without-oslo", ModelFile)
    assert without.clients == ("bern", "lyon")


class TestCommands:
    @pytest.fixture
    def run(self, grid_sites, tmp_path, monkeypatch):
        """Run a command in a folder with one site's data; errors come through as exceptions."""
        shutil.copy(paths(grid_sites[0])[0], tmp_path / "a.parquet")
        shutil.copy(paths(grid_sites[0])[1], tmp_path / "b.csv")
        monkeypatch.chdir(tmp_path)

        def invoke(words):
            result = CliRunner().invoke(cli.app, words.split())
            if isinstance(result.exception, FedJigsawError):
                raise result.exception
            assert result.exception is None or isinstance(result.exception, SystemExit)
            return result

        return invoke

    def test_results_are_kept_unless_forced(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        before = (tmp_path / "a.summary").read_bytes()
        with pytest.raises(DataError, match="is kept. Use --force"):
            run("summarize a.parquet -k 4 -o a.summary")
        assert (tmp_path / "a.summary").read_bytes() == before
        run("summarize a.parquet -k 4 -o a.summary --force")
        assert (tmp_path / "a.summary").read_bytes() != before

    def test_a_failure_leaves_nothing_behind(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        (tmp_path / "bad.csv").write_text("x,y\n1,2\n" * 1 + "3,oops\n")
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(DataError, match=r"column 'y' of bad.csv .* 'oops' in row 2"):
            run("assign bad.csv --model model -o labels.parquet")
        with pytest.raises(DataError, match="ending of labels.txt"):
            run("assign a.parquet --model model -o labels.txt")
        assert sorted(path.name for path in tmp_path.iterdir()) == before

    def test_missing_values_get_no_label(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        (tmp_path / "m.csv").write_text("y,x\n1,2\n,3\n4,5\n")
        with pytest.raises(DataError, match="missing ones: 1 in 'y'"):
            run("assign m.csv --model model -o labels.csv")
        run("assign m.csv --model model -o labels.parquet --drop-missing --distances")
        labels = pa.parquet.read_table(tmp_path / "labels.parquet")
        assert [label is None for label in labels["label"].to_pylist()] == [False, True, False]

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
        told = run("summarize a.parquet -k 3 -o a.summary --max-rows 60").stdout
        assert "60 of the rows, drawn at random" in told
        assert "Mean squared distance of all rows" in told

    @pytest.mark.parametrize("words", ["-k 7", "-k 5 --max-rows 4"])
    def test_fewer_rows_than_clusters_are_told(self, run, tmp_path, words):
        (tmp_path / "six.csv").write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(6)))
        done = run(f"summarize six.csv -o six --min-cluster-size 1 {words}")
        n_rows, k = ("6", "7") if "7" in words else ("4", "5")
        told = f"six.csv has {n_rows} rows to cluster, fewer than the {k} clusters asked for: it sends {n_rows} centers at most"
        assert told in " ".join(done.stderr.split())
        assert f"6 rows -> {n_rows} centers" in done.stdout
        for k in ("6", "auto"):
            assert not run(f"summarize six.csv -o six --force --min-cluster-size 1 -k {k}").stderr

    def test_labels_by_a_foreign_summary_are_told(self, run):
        run("summarize a.parquet -k 3 -o a.summary")
        run("summarize b.csv -k 3 -o b.summary --client bern")
        run("aggregate a.summary b.summary -k 3 -o model")
        assert "Unless these are rows of 'a'" in " ".join(
            run("assign b.csv --model model -o l.csv --local a.summary").stderr.split()
        )
        assert not run("assign b.csv --model model -o l.csv --force --local b.summary").stderr

    def test_a_refused_summary_leaves_no_labels(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("summarize b.csv -k 3 -o b.summary")
        run("aggregate a.summary b.summary -k 3 -o model")
        with pytest.raises(MessageError, match="Give --local the summary of 'b'"):
            run("assign b.csv --model model -o l.csv --local a.summary")
        assert not (tmp_path / "l.csv").exists()

    def test_same_site_twice(self, run):
        run("stats a.parquet -o a.stats --client s")
        run("stats b.csv -o b.stats --client s")
        with pytest.raises(
            MessageError, match=r"client of b.stats must be different from that of a.stats"
        ):
            run("scaler a.stats b.stats -o scaler.json")
        run("summarize a.parquet -k 3 -o a.summary")
        for words in ("aggregate a.summary a.summary -k 3 -o m", "scaler a.stats a.stats -o m"):
            with pytest.raises(ParameterError, match=r"a.* is given twice; every site counts once"):
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
        with pytest.raises(DataError, match=r"rows of few.csv must be at least 5"):
            run("stats few.csv -o few.stats")
        run("stats few.csv -o few.stats --min-cluster-size 1")

    def test_ids(self, run, tmp_path):
        run("summarize a.parquet -k 3 -o a.summary")
        run("aggregate a.summary -k 3 -o model")
        table = pa.parquet.read_table(tmp_path / "a.parquet")
        arrays = np.column_stack([table["x"], table["y"], np.arange(table.num_rows)])
        np.savez(tmp_path / "b.npz", X=arrays, columns=["x", "y", "label"])
        with pytest.raises(ParameterError, match="The id column cannot be 'label'"):
            run("assign b.npz --model model -o l.parquet --id label")
        np.savez(tmp_path / "a.npz", X=arrays, columns=["x", "y", "nr"])
        run("assign a.npz --model model -o l.parquet --id nr")
        assert pa.parquet.read_table(tmp_path / "l.parquet")["nr"].to_pylist()[:3] == [0, 1, 2]

    def test_inspect(self, run):
        run("stats a.parquet -o a.stats")
        run("scaler a.stats -o scaler")
        assert "A scaler for 2 columns" in run("inspect scaler").stdout
        run("summarize a.parquet -k 3 -o a.summary")
        assert "A summary of client 'a'" in run("inspect a.summary").stdout
        assert json.loads(run("inspect a.summary --json").stdout)["lines"]
        run("summarize a.parquet -k 25 -o many --min-cluster-size 1")
        assert "more; --all shows them" in run("inspect many").stdout
        for words in ("--all", "--json"):
            whole = run(f"inspect many {words}").stdout
            assert "--all shows them" not in whole
            assert "  24: " in whole
        with pytest.raises(MessageError, match="not a file of fedjigsaw"):
            run("inspect b.csv")


class TestJigsawByFile:
    """Counts, support and the choice of k survive in files."""

    @pytest.fixture
    def made(self, grid_sites, tmp_path):
        """Summaries and a model, as the commands write them."""
        folder, _, _ = grid_sites
        runner = CliRunner()
        for path in paths(folder):
            words = ["summarize", path, "-o", tmp_path / path.stem, "-k", "auto"]
            words += ["--method", "jigsaw", "-p", "max_clusters=25", "--min-cluster-size", "3"]
            done = runner.invoke(cli.app, [str(word) for word in words])
            assert done.exit_code == 0, done.output
        return [tmp_path / str(m) for m in range(5)], tmp_path / "model"

    def aggregate(self, made, *words):
        files, model = made
        line = ["aggregate", *files, "-o", model, "--force", *words]
        return CliRunner().invoke(cli.app, [str(word) for word in line])

    def test_k_is_found_and_shown(self, made, grid_sites):
        done = self.aggregate(made, "-k", "auto")
        assert done.exit_code == 0, done.output
        assert "-> 15 centers" in done.output
        model = formats.load(made[1], ModelFile)
        assert model.model.tensors["support_points"].sum() == model.n_samples == 1500
        text = CliRunner().invoke(cli.app, ["inspect", str(made[1])]).stdout
        assert "Number of clusters: 15, of the largest index up to 25; runner-up" in text
        assert "Support of each cluster" in text
        points, clients = (model.model.tensors[f"support_{n}"][0] for n in ("points", "clients"))
        assert f"  0: {clients} clients, {points} rows, spread" in text
        assert "15: " not in text.partition("Support")[2]
        assert "margin" in text
        bits = model.model.tensors["skew"].item()
        rule = "by local centers (assign --local)" if bits >= 1 else "by the nearest"
        assert f"{bits:.2f} bits about its cluster: label rows {rule}." in text

    def test_a_given_k_after_summaries_for_auto(self, made):
        done = self.aggregate(made, "-k", "7")
        assert "-> 7 centers" in done.output
        assert (
            "Number of clusters"
            not in CliRunner().invoke(cli.app, ["inspect", str(made[1])]).stdout
        )

    def test_file_and_memory_agree(self, grid_sites):
        folder, data, ids = grid_sites
        summaries = {
            p.stem: sites.summarize(p, 15, method="jigsaw", guard=OFF, seed=7)
            for p in paths(folder)
        }
        model = sites.aggregate(summaries, 15, seed=7)
        shards = {str(m): data.X[ids == m] for m in range(5)}
        memory = Jigsaw(15, random_state=7).fit_clients(shards)
        assert model.model.centers.tobytes() == memory.cluster_centers_.tobytes()
        assert memory.support_["points"].tolist() == model.model.tensors["support_points"].tolist()

    def test_withheld_counts_are_told(self, grid_sites, tmp_path):
        folder, _, _ = grid_sites
        for m, path in enumerate(paths(folder)):
            guard = Guard(5, "none" if m < 2 else None)
            file = sites.summarize(path, 15, method="jigsaw", guard=guard)
            formats.save(file, tmp_path / str(m))
        done = self.aggregate(
            ([tmp_path / str(m) for m in range(5)], tmp_path / "model"), "-k", "15"
        )
        assert done.exit_code == 0, done.output
        assert "2 of 5 clients sent no counts" in " ".join(done.output.split())

    def test_several_rounds_are_refused(self, grid_sites):
        folder, _, _ = grid_sites
        with pytest.raises(ParameterError, match="one that needs a single round"):
            sites.summarize(paths(folder)[0], 15, method="jigsaw", params={"n_rounds": 2})

    def test_a_foreign_model_with_wrong_support(self, made, tmp_path):
        self.aggregate(made, "-k", "auto")
        file = formats.load(made[1], ModelFile)
        wrong = replace(file.model, tensors={**file.model.tensors, "support_points": np.ones(3)})
        with pytest.raises(MessageError, match="support of a model must be"):
            describe(replace(file, model=wrong), 1)
