"""A site by its options, and when it gives up."""

import time
from pathlib import Path

import pytest

from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.flower.records import Question, category
from fedjigsaw.flower.site import LateError, Site, TimeLimitedSite, load_site
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import Broadcast


def question(method="feca", timeout=60.0):
    return Question(Broadcast(0, 0), method, {"n_clusters": 1}, timeout)


@pytest.mark.parametrize(
    "policy", ["rounds = 9", "rounds = [", "bounds = 2", 'privacy = "required"', "counts = 0"]
)
def test_a_policy_that_was_changed_is_told_to_the_server_as_one(tmp_path, policy):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "policy.toml").write_text(policy)  # while the site runs: each question reads it
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv")}
    with pytest.raises(ParameterError) as caught:
        load_site({**options, "folder": str(tmp_path)})
    assert category(caught.value) == "policy"


def test_the_decimal_sign_of_a_site_is_that_of_its_answers_and_labels(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n" + "7.470;1\n" * 8)
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv"), "labels": "l.csv"}
    with pytest.raises(DataError, match="7470"):
        load_site(options).check()
    for sign, value in ((".", 7.47), (",", 7470)):
        site = load_site({**options, "labels": str(tmp_path / "l.csv"), "decimal": sign})
        site.check()
        assert site.answer(question()).summary.centers[0, 0] == value


@pytest.mark.parametrize("method", ["deepfeca", "none"])
def test_a_site_of_rows_runs_methods_for_rows(method):
    with pytest.raises(ParameterError, match=f"holds rows: it can run feca, .*, not {method}"):
        Site("a", from_array([[1.0]])).answer(question(method))


def test_a_method_that_pools_rows_is_refused_at_the_site_too():
    with pytest.raises(ParameterError, match="cannot run in a federation"):
        Site("bern", from_array([[1.0]])).answer(question("central"))


def test_a_site_gives_up_when_the_server_no_longer_waits(monkeypatch):
    monkeypatch.setattr(Site, "answer", lambda self, question: time.sleep(60))
    with pytest.raises(LateError, match="within 0.1 s"):
        TimeLimitedSite(Site("a", Path("a.csv"))).answer(question(timeout=0.1))
