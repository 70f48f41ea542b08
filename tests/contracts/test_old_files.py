"""Files that an earlier version wrote are still read, with the same content."""

from pathlib import Path

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.io import formats
from fedjigsaw.kernels import scaling

OLD = Path(__file__).parents[1] / "data" / "format-1"


def test_an_old_summary_is_read():
    file = formats.load(OLD / "berlin.summary", formats.SummaryFile)
    assert file.method == "jigsaw"
    assert file.columns == ("age", "weight")
    assert file.summary.client == "berlin"
    assert file.summary.n_samples == 90
    assert file.summary.counts.tolist() == [30, 30, 30]


def test_an_old_model_assigns_the_rows_that_it_was_made_from():
    file = formats.load(OLD / "both.model", formats.ModelFile)
    assert file.clients == ("berlin", "paris")
    (labels,) = sites.assign(OLD / "berlin.csv", file)
    assert np.bincount(labels.labels.to_numpy()).tolist() == [30, 30, 30]


def test_old_summaries_are_put_together_to_the_old_model():
    files = {
        name: formats.load(OLD / f"{name}.summary", formats.SummaryFile)
        for name in ("berlin", "paris")
    }
    model = sites.aggregate(files, 3).model
    old = formats.load(OLD / "both.model", formats.ModelFile).model
    np.testing.assert_allclose(model.centers, old.centers, rtol=1e-9)


def test_an_old_scaler_and_old_statistics_are_read():
    scaler = formats.load_scaler(OLD / "common.scaler")
    stats = formats.load(OLD / "berlin.stats", scaling.Stats)
    assert scaler.columns == stats.columns == ("age", "weight")
    assert stats.n_samples == 90


def test_an_old_score_is_read_and_keeps_its_bytes():
    score = formats.load(OLD / "berlin.score", formats.Score)
    assert score.profile is None
    assert score.privacy is None
    assert formats.encode(score) == (OLD / "berlin.score").read_bytes()


def test_an_old_checkpoint_goes_on(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("FEDJIGSAW_BACKEND", "sklearn")  # that of the old run
    from fedjigsaw.deep.checkpoint import load
    from fedjigsaw.privacy.guard import Guard

    monkeypatch.setattr(Guard, "round", lambda _, summary, *more: summary)  # centers left as found
    checkpoint = load(OLD / "after-one-round.checkpoint")
    assert checkpoint.state.round == 1
    assert checkpoint.about == {"data": "noise", "split": "iid"}
    images = np.random.default_rng(0).integers(256, size=(60, 3, 8, 8), dtype=np.uint8)
    (last,) = checkpoint.method.train(images, clients=[0, 1] * 30, start=checkpoint.state)
    assert last.round == 2
    assert float(last.model.tensors["report.loss"]) == pytest.approx(1.3508235812, abs=1e-3)
