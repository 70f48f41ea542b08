"""Options of `federation run` for scaler, scores and labels: what they make of files."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from fedjigsaw import Model
from fedjigsaw.cli import _run_tasks as module
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.errors import ParameterError
from fedjigsaw.flower import job_tasks
from fedjigsaw.flower.scaler_values import scaler_from
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile, Score

SCALER = Scaler(("age", "dose"), np.array([40.0, 1 / 3]), np.array([10.0, 2.0]))
MODEL = Model(np.zeros((2, 2)), "jigsaw", {}, SCALER.columns)


def values(scaler=None, *, score=None, assign=False, old=None):
    return module.task_values(0, False, scaler, score, assign, old)


def test_a_scaler_comes_from_its_file_or_from_a_model(tmp_path):
    formats.save_scaler(SCALER, tmp_path / "scaler.json")
    formats.save(ModelFile(MODEL, SCALER, ("bern",), 9), tmp_path / "last.model")
    for name in ("scaler.json", "last.model"):
        found = scaler_from(values(tmp_path / name)["scaler"])
        assert found.fingerprint == SCALER.fingerprint
    formats.save(ModelFile(MODEL, None, ("bern",), 9), tmp_path / "unscaled.model")
    with pytest.raises(ParameterError, match="scaler"):
        values(tmp_path / "unscaled.model")


def test_the_earlier_model_travels_only_where_it_is_needed(tmp_path):
    old = ModelFile(MODEL, None, ("bern",), 9)
    assert values(old=old)["like"] is None
    assert values(old=old, assign=True)["like"] == job_tasks.model_text(old)


def test_scores_go_to_an_empty_folder(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old.score").touch()
    (tmp_path / "file").touch()
    for name in ("full", "file"):
        with pytest.raises(ParameterError, match="not an empty folder"):
            module.check_folder(tmp_path / name)
    module.check_folder(tmp_path / "new")


def test_results_are_taken_out_of_the_transcript(tmp_path, capsys):
    score = Score("bern", "0" * 16, np.array([3, 6]), np.array([1.0, 2.0]))
    text = job_tasks._text(formats.encode(score))
    transcript = {"rounds": [], "scores": {"bern": text}, "labeled": []}
    found = module.take_results(transcript, tmp_path / "scores")
    assert transcript == {"rounds": []}
    assert formats.load(tmp_path / "scores" / "bern.score", Score).counts.tolist() == [3, 6]
    shown = module.result_values(*found)
    assert shown["score"] == {"inertia": 3.0, "cluster_sizes": [3, 6], "sites": {"bern": [3, 6]}}
    assert shown["labeled"] == []
    module.print_results(*found, tmp_path / "scores", ModelFile(MODEL, None, ("bern",), 9))
    assert "Rows per cluster: 3, 6" in " ".join(capsys.readouterr().out.split())
    assert module.result_values(*module.take_results({"rounds": []}, None)) == {}
