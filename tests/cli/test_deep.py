"""The commands of DeepFeCA on real files: train, stop, go on, evaluate, embed, export."""

import json
import shutil
import signal
from itertools import product

import numpy as np
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from fedjigsaw import cli
from fedjigsaw.errors import (
    DataError,
    DivergedError,
    FedJigsawError,
    FewerClustersWarning,
    ParameterError,
    warn,
)
from fedjigsaw.io.rows import read_rows

pytestmark = pytest.mark.deep

pytest.importorskip("torch")

TRAIN = [
    "deep", "train", "--network", "small", "--clients", "3", "--local-epochs", "1", "-s", "flip=0",
    "--batch-size", "32", "--device", "cpu",
]  # fmt: skip
PARTS = ("train", "test")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A few labeled images as an NPZ file."""
    from fedjigsaw.deep import images

    digits = images.load("digits")
    path = tmp_path_factory.mktemp("data") / "few.npz"
    np.savez(
        path,
        x_train=digits.train[:240],
        y_train=digits.train_labels[:240],
        x_test=digits.test[:60],
        y_test=digits.test_labels[:60],
    )
    return path


@pytest.fixture(scope="module")
def trained(run, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run.st"
    assert not run(*TRAIN, "--data", data, "-k", 6, "--rounds", 1, "-o", path).exit_code
    assert [other.name for other in path.parent.iterdir()] == ["run.st"]
    return path


@pytest.fixture
def checkpoint(trained, tmp_path):
    return shutil.copy(trained, tmp_path / "run.st")


def invoke(*words):
    """Run a command whose error or exit is looked at."""
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def test_train_writes_a_row_per_round(run, data, tmp_path):
    out, rows_file = tmp_path / "run.st", tmp_path / "rows.jsonl"
    words = ["--data", data, "-k", "6,4", "--rounds", 3, "-o", out, "--rows", rows_file]
    more = ["--eval-every", 2, "--split", "dirichlet", "--alpha", 0.5, "--seed", 4]
    result = run(*TRAIN, *words, *more)
    lines = result.stderr.splitlines()
    assert [" s left" in line for line in lines if "/3, loss" in line] == [False, True, True]
    rows = read_rows(rows_file)
    assert [row["rounds"] for row in rows] == [1, 2, 3]
    assert ["linear_accuracy" in row for row in rows] == [False, True, True]
    for row in rows:
        cell = [row[name] for name in ("dataset", "split", "alpha", "seed", "method")]
        assert cell == ["few", "dirichlet", 0.5, 4, "feca"]
        assert 0 <= row["nmi"] <= 1
        assert {"version", "commit", "backend", "loss", "clusters_used"} <= set(row)
    assert rows[-1]["config"]["n_clusters"] == [6, 4]
    assert 0 < rows[-1]["held_out_accuracy"] < 1
    assert rows[0]["seconds"] < rows[1]["seconds"] < rows[2]["seconds"]


def test_stop_and_go_on(run, data, tmp_path):
    words = [*TRAIN, "--data", data, "-k", 6, "--rounds", 3]
    whole, parts = tmp_path / "whole.st", tmp_path / "parts.st"
    rows = tmp_path / "parts.jsonl"
    run(*words, "-o", whole)
    first = run(*words, "-o", parts, "--rows", rows, "--max-minutes", 0)
    assert "--resume" in first.stdout
    written = rows.read_text()
    torn = '{"rounds": 3, "cut'
    rows.write_text(written + written.replace('"rounds": 1', '"rounds": 2') + torn)
    run(*words, "-o", parts, "--rows", rows, "--resume")
    assert [row["rounds"] for row in read_rows(rows)] == [1, 2, 3]

    from fedjigsaw.deep import checkpoint

    assert checkpoint.load(parts).state.model == checkpoint.load(whole).state.model
    again = run(*words, "-o", parts, "--resume", "--json")  # nothing is left to do
    assert json.loads(again.stdout)["rounds"] == 3
    with pytest.raises(ParameterError, match="n_clusters=6"):
        run(*words, "-k", 7, "-o", parts, "--resume")
    with pytest.raises(DataError, match="already exists"):
        run(*words, "-o", parts)


def test_an_interrupted_run_keeps_its_last_round(run, data, tmp_path, monkeypatch):
    from fedjigsaw.deep import checkpoint, trainer

    words = [*TRAIN, "--data", data, "-k", 6, "--rounds", 3]
    whole, parts, rows = (tmp_path / name for name in ("whole.st", "parts.st", "parts.jsonl"))
    run(*words, "-o", whole)
    train, calls = trainer.Trainer.train, []

    def interrupted(*given, **more):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        if len(calls) == 5:  # in the second round of the next run
            signal.raise_signal(signal.SIGTERM)
        return train(*given, **more)

    monkeypatch.setattr(trainer.Trainer, "train", interrupted)
    for code, kept in ((130, False), (143, True)):
        result = invoke(*words, "-o", parts, "--rows", rows, "--resume")
        assert result.exit_code == code
        assert rows.exists() is kept  # or the next try may write there
    run(*words, "-o", parts, "--rows", rows, "--resume")
    assert [row["rounds"] for row in read_rows(rows)] == [1, 2, 3]
    assert checkpoint.load(parts).state.model == checkpoint.load(whole).state.model


def failing_in(round_, error, monkeypatch):
    """Have training fail in a round: 3 clients train in each."""
    from fedjigsaw.deep import trainer

    train, calls = trainer.Trainer.train, []

    def fail(*given, **more):
        calls.append(1)
        if len(calls) == 3 * round_ - 1:
            raise error
        return train(*given, **more)

    monkeypatch.setattr(trainer.Trainer, "train", fail)


@pytest.mark.parametrize("error", [MemoryError(), DivergedError("It diverged.")])
def test_a_run_that_fails_keeps_its_last_round(data, tmp_path, monkeypatch, error):
    from fedjigsaw.deep import checkpoint

    out = tmp_path / "run.st"
    failing_in(3, error, monkeypatch)
    result = invoke(*TRAIN, "--data", data, "-k", 6, "--rounds", 3, "-o", out)
    assert type(error).__name__ in repr(result.exception)
    assert ("--resume" in result.stderr) == isinstance(error, MemoryError)  # or it would again
    assert checkpoint.load(out).state.round == 2


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()])
def test_an_evaluation_that_fails_loses_no_round(run, data, tmp_path, monkeypatch, error):
    from fedjigsaw.deep import session

    def fail(*_):
        raise error

    rows = tmp_path / "rows.jsonl"
    words = [*TRAIN, "--data", data, "-k", 6, "--rounds", 3, "-o", tmp_path / "run.st"]
    words += ["--rows", rows, "--eval-every", 2]
    with monkeypatch.context() as patch:
        patch.setattr(session, "evaluate", fail)
        assert "ound 2 is kept" in invoke(*words).stderr
    run(*words, "--resume")
    found = read_rows(rows)
    assert [row["rounds"] for row in found] == [1, 2, 3]
    assert ["linear_accuracy" in row for row in found] == [False, False, True]


def test_collapsed_clusters_are_told_with_what_helps(run, data, tmp_path, monkeypatch):
    from fedjigsaw.deep import state

    monkeypatch.setattr(state, "COLLAPSED_SPREAD", 2.0)
    result = run(*TRAIN, "--data", data, "-k", 6, "--rounds", 1, "-o", tmp_path / "run.st")
    assert "collapsed" in result.stderr


def test_a_warning_of_many_rounds_is_printed_once(run, data, tmp_path, monkeypatch):
    from fedjigsaw.deep import session

    def warned(*_):
        warn("Few clusters (n_rounds=2).", FewerClustersWarning)
        return {}

    monkeypatch.setattr(session, "evaluate", warned)
    words = ["--data", data, "-k", 6, "--rounds", 2, "-o", tmp_path / "run.st", "--eval-every", 1]
    assert run(*TRAIN, *words).stderr.count("Few clusters") == 1


def test_a_run_whose_checkpoint_cannot_be_written_says_so(data, tmp_path, monkeypatch):
    from fedjigsaw.deep import session

    def full(*given):
        raise DataError("Cannot write run.st: no space left on device.")

    monkeypatch.setattr(session, "save", full)
    failing_in(2, MemoryError(), monkeypatch)
    result = invoke(*TRAIN, "--data", data, "-k", 6, "--rounds", 2, "-o", tmp_path / "run.st")
    assert "MemoryError" in str(result.exception)  # the first one, not that of the last attempt
    assert "is kept" not in result.stderr


def test_a_second_signal_does_not_spoil_the_last_checkpoint(data, tmp_path, monkeypatch):
    from fedjigsaw.deep import checkpoint, session

    save = session.save

    def slow(*given):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        save(*given)

    monkeypatch.setattr(session, "save", slow)
    failing_in(2, KeyboardInterrupt(), monkeypatch)
    out = tmp_path / "run.st"
    words = [*TRAIN, "--data", data, "-k", 6, "--rounds", 2, "-o", out]
    result = CliRunner().invoke(cli.app, [str(w) for w in words])
    assert result.exit_code == 130
    assert "Interrupted: round 1 is kept" in result.stderr
    assert checkpoint.load(out).state.round == 1


def test_a_recipe_sets_what_no_option_sets(run, data, tmp_path):
    out, rows = tmp_path / "a.st", tmp_path / "rows.jsonl"
    words = [*TRAIN, "--data", data, "-o", out, "--rows", rows, "--rounds", 2]
    run(*words, "--recipe", "best", "-k", 6, "-s", "stored_share=0.5")
    config = read_rows(rows)[-1]["config"]
    assert (config["n_clusters"], config["n_rounds"], config["network"]) == (6, 2, "small")
    assert (config["clusterer"], config["targets"]) == ("jigsaw", "swapped")
    assert (config["stored_share"], config["batch_norm"]) == (0.5, "recalibrate")


def test_what_is_not_of_this_run_is_kept(run, data, tmp_path):
    words = [*TRAIN, "--data", data, "-k", 6, "--rounds", 2, "-o", tmp_path / "a.st"]
    run(*words, "--max-minutes", 0)
    notes = tmp_path / "notes.txt"
    notes.write_text('my notes\n{"rounds": 9}\n')
    with pytest.raises(DataError, match="notes.txt, line 1"):
        run(*words, "--rows", notes, "--resume")
    assert notes.read_text().startswith("my notes")
    with pytest.raises(ParameterError, match="fingerprint"):
        run(*words, "--resume", "--data", other(data))


def test_the_same_images_may_have_another_name(run, data, tmp_path):
    words = [*TRAIN, "-k", 6, "--rounds", 2, "-o", tmp_path / "a.st", "--rows", tmp_path / "rows"]
    run(*words, "--data", data, "--max-minutes", 0)
    moved = shutil.copy(data, tmp_path / "moved.npz")
    assert "round 2/2" in run(*words, "--data", moved, "--resume").stderr
    assert [row["dataset"] for row in read_rows(tmp_path / "rows")] == ["few", "moved"]


def test_a_forced_run_forgets_rows_once_it_has_its_own(run, data, tmp_path):
    rows = tmp_path / "rows.jsonl"
    words = [*TRAIN, "--data", data, "--rounds", 2, "-o", tmp_path / "a.st", "--rows", rows]
    run(*words, "-k", 6)
    before = rows.read_text()
    with pytest.raises(ParameterError, match="n_clusters"):
        run(*words, "-k", 9999, "--force")
    assert rows.read_text() == before
    run(*words, "-k", 5, "--force")
    assert [row["rounds"] for row in read_rows(rows)] == [1, 2]
    assert read_rows(rows)[-1]["config"]["n_clusters"] == 5


def other(data):
    """Images that differ by one byte, under the same name."""
    folder = data.parent / "other"
    folder.mkdir()
    with np.load(data) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["x_train"][0, 0, 0, 0] ^= 1
    np.savez(folder / data.name, **arrays)
    return folder / data.name


def test_features_do_not_go_over_their_model(run, data, tmp_path):
    model = tmp_path / "model.npy"
    run(*TRAIN, "--data", data, "-k", 6, "--rounds", 1, "-o", model)
    with pytest.raises(DataError, match="is an input"):
        run("deep", "embed", data, "--model", model, "-o", model, "--force")


@pytest.mark.parametrize("name", ["--out", "--rows"])
def test_training_does_not_write_over_its_images(run, data, tmp_path, name):
    path = shutil.copy(data, tmp_path / "few.npz")
    words = [*TRAIN, "--data", path, "-k", 6, "--rounds", 1, "--force", "-o", tmp_path / "run.st"]
    with pytest.raises(DataError, match="is an input"):
        run(*words, name, path)
    assert path.read_bytes() == data.read_bytes()


def test_the_largest_size_is_that_of_checkpoints(run, data, tmp_path):
    from fedjigsaw.deep.image_size import MOST

    words = ["--data", data, "-o", tmp_path / "x.st", "--size", MOST + 1]
    assert run(*TRAIN, *words).exit_code == 2


def test_images_without_labels(run, data, tmp_path):
    bare, out = tmp_path / "bare.npz", tmp_path / "b.st"
    with np.load(data) as file:
        np.savez(bare, images=file["x_train"])
    words = [*TRAIN, "--data", bare, "-k", 5, "--rounds", 1, "-o", out]
    with pytest.raises(DataError, match="no labels"):
        run(*words)
    result = run(*words, "--split", "iid")
    assert result.exit_code == 0
    assert "Linear" not in result.stdout
    with pytest.raises(DataError, match="no labels"):
        run("deep", "evaluate", out, "--data", bare)


BAD = {
    "-s x=1": "'x'",
    "-s temperature=0": "temperature",
    "-p x=1": "'x'",
    "--method x": "clusterer",
    "--data /nowhere": "/nowhere",
    "-s n_rounds=1": "--rounds",
    "-s clusterer=kfed": "--method",
    "-s ema": "--set",
    "--device cuda:77": "'cuda:77'",
    "--method central": "--split central",
    "--method feca --split central": "--method",
    "-s ema=0.9 -s batch_norm=recalibrate": "ema",
    "--max-minutes nan": "--max-minutes",
    "-s lanes=33": "lanes",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_options(run, data, tmp_path, words):
    with pytest.raises(FedJigsawError, match=BAD[words]) as caught:
        run(*TRAIN, "--data", data, "-o", tmp_path / "x.st", *words.split())
    assert caught.type is (DataError if "/nowhere" in words else ParameterError)
    assert not (tmp_path / "x.st").exists()


@pytest.mark.parametrize("wrong", ["20,six", "0", "20,", "-3", "2.5"])
def test_clusters_that_are_no_number(run, data, tmp_path, wrong):
    assert run(*TRAIN, "--data", data, "-o", tmp_path / "x.st", "-k", wrong).exit_code == 2


def test_a_client_with_one_image(run, data, tmp_path):
    run(*TRAIN, "--data", data, "-o", tmp_path / "x.st", "--subset", 12, "--clients", 8,
        "--min-size", 1, "-k", 2, "--rounds", 1)  # fmt: skip
    assert (tmp_path / "x.st").exists()


def test_evaluate(run, checkpoint, data):
    words = ["deep", "evaluate", checkpoint, "--data", data, "--device", "cpu", "--json"]
    row = json.loads(run(*words).stdout)
    assert 0.3 < row["linear_accuracy"] <= 1
    assert row["rounds"] == 1


def test_evaluate_adds_a_row_to_those_of_the_run(run, checkpoint, data, tmp_path):
    words = ["deep", "evaluate", checkpoint, "--data", data, "--device", "cpu", "--json"]
    rows = tmp_path / "rows.jsonl"
    first = json.loads(run(*words, "--rows", rows).stdout)
    run(*words, "--rows", rows)
    assert [json.loads(line) for line in rows.read_text().splitlines()] == [first, first]
    other = {**first, "config": {**first["config"], "temperature": 9.0}}
    split = json.dumps(first | {"split": "another"}) + "\n"
    for broken in (split, '{"rounds": 1, "cut', json.dumps(other) + "\n", json.dumps(first)):
        rows.write_text(broken)
        with pytest.raises(DataError, match=r"rows.jsonl, line 1"):
            run(*words, "--rows", rows)
        assert rows.read_text() == broken
    with pytest.raises(DataError, match="no folder"):
        run(*words, "--rows", tmp_path / "nowhere" / "rows.jsonl")


def test_embed_is_ready_for_summarize(run, checkpoint, data, tmp_path):
    for name in ("f.npy", "f.parquet"):
        file, summary = tmp_path / name, tmp_path / f"{name}.st"
        run("deep", "embed", data, "--model", checkpoint, "-o", file, "--part", "test")
        assert not run("summarize", file, "-k", 3, "-o", summary).exit_code
    table = pyarrow.parquet.read_table(tmp_path / "f.parquet").to_pandas().to_numpy()
    assert table.shape == (60, 64)
    np.testing.assert_array_equal(table, np.load(tmp_path / "f.npy"))


def test_embedded_files_are_named_and_no_name_leaves(run, checkpoint, tmp_path, rng):
    """Labels of images can be joined to their files; the names stay at the site."""
    from PIL import Image

    photos, features = tmp_path / "photos", tmp_path / "features.parquet"
    names = [f"{part}/{kind}/größe {i}.png" for part, kind, i in product(PARTS, "ab", range(8))]
    for name in names:
        path = photos / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(path)
    embed = ["deep", "embed", photos, "--model", checkpoint]
    for part in reversed(PARTS):
        run(*embed, "-o", features, "--part", part, "--force")
        own = [name for name in names if name.startswith(part)]
        assert pyarrow.parquet.read_table(features)["image_id"].to_pylist() == own
    run(*embed, "-o", tmp_path / "features.npy")
    sent = []
    for kind in ("npy", "parquet"):
        summary = tmp_path / f"{kind}.summary"
        run("summarize", tmp_path / f"features.{kind}", "-k", 2, "-o", summary, "--client", "bern")
        sent.append(summary.read_bytes())
    assert sent[0] == sent[1]  # columns have the same names
    assert not any(name in sent[1] for name in (b"image_id", "größe".encode()))
    model, labels = tmp_path / "model", tmp_path / "labels.csv"
    run("aggregate", summary, "-k", 2, "-o", model)
    assert b"image_id" not in model.read_bytes()
    run("assign", features, "--model", model, "-o", labels, "--id", "image_id")
    assert [line.split(",")[1].strip('"') for line in labels.read_text().splitlines()[1:]] == own


def test_images_have_the_size_of_training_by_default(run, data, tmp_path, rng):
    from PIL import Image

    photos, model = tmp_path / "photos", tmp_path / "run.st"
    for i in range(20):
        path = photos / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(256, size=(48, 48, 3), dtype=np.uint8)).save(path)
    words = ["--data", photos, "--size", 16, "--split", "iid", "-k", 2, "--rounds", 1, "-o", model]
    assert not run(*TRAIN, *words).exit_code

    def embed(*words):
        file = tmp_path / "features.npy"
        result = run("deep", "embed", *words, "--model", model, "-o", file, "--force")
        return np.load(file), result.stderr

    usual, said = embed(photos)
    assert "Warning" not in said
    (photos / "list.txt").write_text("0.png")
    assert "Left out 1 file" in embed(photos)[1]
    assert "Left out 1 file" in run(*TRAIN, *words, "--force").stderr
    np.testing.assert_array_equal(usual, embed(photos, "--size", 16)[0])
    assert not np.allclose(usual, embed(photos, "--size", 48)[0])
    found = ("deep", "evaluate", model, "--data", photos, "--json")
    assert json.loads(run(*found).stdout) == json.loads(run(*found, "--size", 16).stdout)
    assert "16 x 16 pixels" in " ".join(embed(data)[1].split())  # these have 8 x 8
    with pytest.raises(ParameterError):
        embed(data, "--size", 16)


def test_embed_refuses(run, checkpoint, data, tmp_path):
    for error, told, *words in (
        (ParameterError, "f.csv", checkpoint, "-o", tmp_path / "f.csv"),
        (ParameterError, "--weights", "timm:resnet18", "-o", tmp_path / "f.npy"),
        (ParameterError, "--weights", checkpoint, "--weights", data, "-o", tmp_path / "f.npy"),
        (DataError, "none.st", tmp_path / "none.st", "-o", tmp_path / "f.npy"),
    ):
        with pytest.raises(error, match=told):
            run("deep", "embed", data, "--model", *words)


def test_export(run, checkpoint, tmp_path):
    from safetensors.numpy import load_file

    run("deep", "export", checkpoint, "-o", tmp_path / "net.safetensors")
    arrays = load_file(tmp_path / "net.safetensors")
    assert arrays["stem.weight"].shape == (16, 3, 3, 3)
    with pytest.raises(ParameterError, match="net.pt"):
        run("deep", "export", checkpoint, "-o", tmp_path / "net.pt")
