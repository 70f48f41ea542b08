"""A site by its options, and when it gives up."""

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import pytest

from fedjigsaw import FeCA
from fedjigsaw.errors import DataError, ParameterError
from fedjigsaw.flower import site
from fedjigsaw.flower.records import Question, category
from fedjigsaw.flower.site import LateError, Site, TimeLimitedSite, load_site
from fedjigsaw.io import formats
from fedjigsaw.io.tables import from_array
from fedjigsaw.messages import Broadcast


def question(method="feca", timeout=60.0):
    return Question(Broadcast(0, 0), method, {"n_clusters": 1}, timeout)


def test_rows_by_options(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv"), "columns": ["y"]}
    (tmp_path / "policy.toml").write_text("least_cluster_size = 1")
    options |= {
        "min_cluster_size": 1,
        "max_rows": 5,
        "folder": str(tmp_path),
        "accept_policy": True,
    }
    file = load_site(json.loads(json.dumps(options))).answer(question())
    assert file.summary.centers.tolist() == [[3.0]]
    assert file.columns == ("y",)


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


def test_skipped_rows_are_told_in_the_log_of_the_site_only(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("x\n" + "1\n" * 8 + "NA\n" * 3)
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv"), "drop_missing": True}
    with caplog.at_level(logging.INFO, logger="fedjigsaw"):
        file = load_site(options).answer(question())
    assert "a.csv: 11 rows, 3 of them skipped (missing values)" in caplog.text
    assert b"n_skipped" not in formats.encode(file)


def test_a_warning_of_a_method_is_not_told_as_one_about_the_rows(tmp_path, caplog, monkeypatch):
    summarize = FeCA.summarize

    def warn(*given):
        warnings.warn("of its own", FutureWarning, stacklevel=2)
        return summarize(*given)

    monkeypatch.setattr(FeCA, "summarize", warn)
    (tmp_path / "a.csv").write_text("x\n" + "1\n2\n" * 8)
    load_site({"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv")}).answer(question())
    told = "a warning while the rows were summarized: of its own"
    assert told in caplog.messages


def test_warnings_of_a_method_that_fails_are_in_the_log(tmp_path, caplog, monkeypatch):
    def fail(*given):
        warnings.warn("overflow in a sum", RuntimeWarning, stacklevel=2)
        raise ZeroDivisionError

    monkeypatch.setattr(FeCA, "summarize", fail)
    (tmp_path / "a.csv").write_text("x\n" + "1\n2\n" * 8)
    site = load_site({"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv")})
    with pytest.raises(ZeroDivisionError):
        site.answer(question())
    assert "a warning while the rows were summarized: overflow in a sum" in caplog.messages


def test_bad_rows_are_found_before_the_first_question(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    options = {"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv"), "columns": ["z"]}
    with pytest.raises(DataError):
        load_site(options).check()


def test_a_site_of_rows_does_not_load_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fedjigsaw.deep.site", None)
    (tmp_path / "a.csv").write_text("x\n1\n")
    load_site({"kind": "rows", "name": "a", "data": str(tmp_path / "a.csv")}).check()


@pytest.mark.parametrize("method", ["deepfeca", "none"])
def test_a_site_of_rows_runs_methods_for_rows(method):
    with pytest.raises(ParameterError, match=f"holds rows: it can run feca, .*, not {method}"):
        Site("a", from_array([[1.0]])).answer(question(method))


def test_a_method_that_pools_rows_is_refused_at_the_site_too():
    with pytest.raises(ParameterError, match="cannot run in a federation"):
        Site("bern", from_array([[1.0]])).answer(question("central"))


def test_a_site_has_a_name():
    with pytest.raises(DataError, match="name of a client"):
        Site("", from_array([[1.0]]))


def test_a_site_gives_up_when_the_server_no_longer_waits(monkeypatch):
    monkeypatch.setattr(Site, "answer", lambda self, question: time.sleep(60))
    with pytest.raises(LateError, match="within 0.1 s"):
        TimeLimitedSite(Site("a", Path("a.csv"))).answer(question(timeout=0.1))


def test_the_last_resort_is_called_off_whenever_the_alarm_comes(monkeypatch):
    """Otherwise the process would end half a minute later, whatever it does then."""
    armed = []

    class SlowToArm:
        def dump_traceback_later(self, seconds, **options):
            armed.append(seconds)
            time.sleep(0.01)

        cancel_dump_traceback_later = armed.clear

    monkeypatch.setattr(site, "faulthandler", SlowToArm())
    for seconds in (1e-6, 1e-5, 1e-4, 1e-3):
        with pytest.raises(LateError, match=r"within 0\.01 s"), site.in_time(seconds):
            time.sleep(1)
        assert not armed
