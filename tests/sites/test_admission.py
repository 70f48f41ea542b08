"""Which summaries take part: bad files, majorities, look-alike names, and whose parameters count."""

import time
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import sites
from fedjigsaw.errors import (
    MessageError,
    ParameterError,
    QuorumError,
    SiteWarning,
)
from fedjigsaw.io import formats
from fedjigsaw.io.formats import encode


@pytest.fixture(scope="module")
def files(grid_sites):
    """Summaries of five sites, by file name."""
    return {f"{path.stem}.summary": sites.summarize(path, 5) for path in grid_sites[0]}


def named(file, client):
    return replace(file, summary=replace(file.summary, client=client))


def with_params(file, **params):
    return replace(file, params={**file.params, **params})


def without(files, name):
    return {other: file for other, file in files.items() if other != name}


class TestMinSites:
    def bad(self, file, kind):
        summary, none = file.summary, {"centers": np.empty((0, 2)), "counts": None, "sse": None}
        changes = {
            "unreadable": MessageError("2.summary is not a fedjigsaw file, or it is truncated."),
            "columns": {"columns": ("x", "z")},
            "method": {"method": "feca"},
            "unknown method": {"method": "poem"},
            "pools": {"method": "central"},
            "parameter": {"params": {**file.params, "color": "red"}},
            "rounds": {"params": {**file.params, "n_rounds": 3}},
            "count of zero": {"summary": {"counts": [0] * len(summary.counts)}},
            "counts": {"summary": {"counts": summary.counts * 1000}},
            "sse": {"summary": {"sse": np.full(len(summary.sse), 1e299)}},
            "no centers": {"summary": {**none, "tensors": {"a": np.zeros(1)}}},
        }[kind]
        if not isinstance(changes, dict):
            return changes
        if "summary" in changes:
            changes = {"summary": replace(summary, **changes["summary"])}
        return replace(file, **changes)

    KINDS = (
        "unreadable", "columns", "method", "unknown method", "pools", "parameter", "rounds",
        "count of zero", "counts", "sse", "no centers",
    )  # fmt: skip

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("which", ["0.summary", "2.summary"])
    def test_one_bad_file_costs_that_site_its_place(self, files, kind, which):
        mixed = {**files, which: self.bad(files[which], kind)}
        with pytest.warns(SiteWarning, match=rf"{which}.* takes no part: \S") as caught:
            model = sites.aggregate(mixed, 5, min_sites=4)
        assert len(caught) == 1
        assert encode(model) == encode(sites.aggregate(without(files, which), 5))

    @pytest.mark.parametrize("kind", KINDS)
    def test_by_default_it_is_an_error_that_names_file_and_remedy(self, files, kind):
        mixed = {**files, "2.summary": self.bad(files["2.summary"], kind)}
        with pytest.raises(MessageError, match=r"2\.summary.*min_sites=4"):
            sites.aggregate(mixed, 5)

    def test_too_few_remain(self, files):
        mixed = {**files, "2.summary": self.bad(files["2.summary"], "columns")}
        with pytest.raises(QuorumError, match="Only 4 of 5 .*2.summary"):
            sites.aggregate(mixed, 5, min_sites=5)
        with pytest.raises(QuorumError, match="Only 0 of 1"):
            sites.aggregate({"a": MessageError("a is empty.")}, 5, min_sites=1)

    def test_good_files_need_no_warning(self, files):
        with warnings.catch_warnings(action="error"):
            model = sites.aggregate(files, 5, min_sites=2)
        assert encode(model) == encode(sites.aggregate(files, 5))

    def test_it_is_at_least_one(self, files):
        with pytest.raises(ParameterError, match="min_sites"):
            sites.aggregate(files, 5, min_sites=0)

    def test_without_a_majority_people_must_decide(self, files):
        two = dict(list(files.items())[:2])
        two["1.summary"] = replace(two["1.summary"], columns=("x", "z"))
        with pytest.raises(MessageError, match="0.summary.*1.summary"):
            sites.aggregate(two, 5, min_sites=1)

    def test_files_are_read_one_by_one(self, files, tmp_path):
        formats.save(files["0.summary"], tmp_path / "0")
        (tmp_path / "1").write_bytes(b"nonsense")
        loaded = sites.read_summaries([tmp_path / "0", tmp_path / "1"])
        assert [type(found) for found in loaded.values()] == [formats.SummaryFile, MessageError]


class TestWhoseParameters:
    """What acts at the server comes from the coordinator, never from a summary."""

    @pytest.mark.parametrize("name", ["patience", "max_iter", "max_clusters", "n_init", "detail"])
    def test_a_summary_cannot_make_the_server_work_for_ever(self, files, name):
        """With these values the server once searched, or grew, without end."""
        liar = {n: with_params(file, **{name: 2**53}) for n, file in files.items()}
        started = time.process_time()
        model = sites.aggregate(liar, 5)
        assert time.process_time() - started < 20
        assert encode(model) == encode(sites.aggregate(files, 5))

    def test_the_coordinator_sets_them(self, files):
        model = sites.aggregate(files, 5, params={"patience": 0, "max_iter": 7})
        assert model.model.params["patience"] == 0
        assert model.model.params["max_iter"] == 7
        assert sites.aggregate(files, 5).model.params["patience"] is None

    def test_the_largest_k_is_the_coordinators(self, files):
        wide = {n: with_params(f, max_clusters=2**53, n_clusters="auto") for n, f in files.items()}
        curve = sites.aggregate(wide, "auto", params={"max_clusters": 3}).model.tensors["k_curve"]
        assert curve[:, 0].max() == 3

    def test_what_must_agree_is_taken_from_the_summaries(self, grid_sites):
        options = {"method": "feca", "params": {"radius": "theoretical"}}
        made = {path.stem: sites.summarize(path, 5, **options) for path in grid_sites[0]}
        assert sites.aggregate(made, 5).model.params["radius"] == "theoretical"


class TestLookAlikes:
    @pytest.fixture
    def two(self, files):
        first, second = list(files.values())[:2]
        return {"a": named(first, "bern"), "b": named(second, "lyon")}

    @pytest.mark.parametrize("twin", ["Bern", "BERN", "bern ", "bern\ufe0f", "\uff42ern"])
    def test_a_twin_is_refused(self, two, twin):
        """Leaving a site out does not leave its twin in."""
        files = {"a": two["a"], "b": named(two["b"], twin)}
        for options in ({}, {"without": ["bern"], "min_sites": 1}):
            with pytest.raises(MessageError, match="alike"):
                sites.aggregate(files, 3, **options)

    def test_scores_and_statistics_too(self, grid_sites):
        a, b = (replace(sites.measure(grid_sites[0][0]), client=n) for n in ("bern", "Bern"))
        with pytest.raises(MessageError, match="look alike"):
            sites.common_scaler({"a": a, "b": b})

    def test_names_of_another_alphabet_are_fine(self, two):
        moscow = named(two["b"], "\u041c\u043e\u0441\u043a\u0432\u0430")
        assert sites.aggregate({"a": two["a"], "b": moscow}, 3).clients[1] == moscow.summary.client


def test_sums_at_the_limit_of_what_is_allowed_are_no_crash(files):
    """The search for k once ended in a traceback, over squares of squares."""
    liar = files["0.summary"]
    sse = np.full(len(liar.summary.sse), 1e199)
    liar = replace(liar, summary=replace(liar.summary, sse=sse))
    assert np.isfinite(sites.aggregate({**files, "0.summary": liar}, "auto").model.centers).all()
