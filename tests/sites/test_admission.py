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
    RefusedFileWarning,
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
        summary = file.summary
        return {
            "unreadable": MessageError("2.summary is not a fedjigsaw file, or it is truncated."),
            "columns": replace(file, columns=("x", "z")),
            "method": replace(file, method="feca"),
            "unknown method": replace(file, method="poem"),
            "pools": replace(file, method="central"),
            "parameter": with_params(file, color="red"),
            "rounds": with_params(file, n_rounds=3),
            "count of zero": replace(
                file, summary=replace(summary, counts=[0] * len(summary.counts))
            ),
            "counts": replace(file, summary=replace(summary, counts=summary.counts * 1000)),
            "sse": replace(file, summary=replace(summary, sse=np.full(len(summary.sse), 1e299))),
            "no centers": replace(
                file,
                summary=replace(
                    summary,
                    centers=np.empty((0, 2)),
                    counts=None,
                    sse=None,
                    tensors={"a": np.zeros(1)},
                ),
            ),
        }[kind]

    KINDS = (
        "unreadable", "columns", "method", "unknown method", "pools", "parameter", "rounds",
        "count of zero", "counts", "sse", "no centers",
    )  # fmt: skip

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("which", ["0.summary", "2.summary"])
    def test_one_bad_file_costs_that_site_its_place(self, files, kind, which):
        mixed = {**files, which: self.bad(files[which], kind)}
        with pytest.warns(RefusedFileWarning, match=rf"{which}.* takes no part: \S") as caught:
            model = sites.aggregate(mixed, 5, min_sites=4)
        assert len(caught) == 1
        assert encode(model) == encode(sites.aggregate(without(files, which), 5))

    @pytest.mark.parametrize("kind", KINDS)
    def test_by_default_it_is_an_error_that_names_file_and_remedy(self, files, kind):
        mixed = {**files, "2.summary": self.bad(files["2.summary"], kind)}
        with pytest.raises(MessageError, match=r"2\.summary.* go on without it: min_sites=4\."):
            sites.aggregate(mixed, 5)

    def test_too_few_remain(self, files):
        mixed = {**files, "2.summary": self.bad(files["2.summary"], "columns")}
        with pytest.raises(QuorumError, match=r"Only 4 of 5 files .* 2.summary: .* columns"):
            sites.aggregate(mixed, 5, min_sites=5)
        with pytest.raises(QuorumError, match="Only 0 of 1 files can be used"):
            sites.aggregate({"a": MessageError("a is empty.")}, 5, min_sites=1)

    def test_good_files_need_no_warning(self, files):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert encode(sites.aggregate(files, 5, min_sites=2)) == encode(
                sites.aggregate(files, 5)
            )

    def test_it_is_at_least_one(self, files):
        with pytest.raises(ParameterError, match="min_sites of aggregate must be an integer >= 1"):
            sites.aggregate(files, 5, min_sites=0)

    def test_without_a_majority_people_must_decide(self, files):
        two = dict(list(files.items())[:2])
        two["1.summary"] = replace(two["1.summary"], columns=("x", "z"))
        with pytest.raises(
            MessageError, match="0.summary has the columns 'x', 'y'; 1.summary has 'x', "
        ):
            sites.aggregate(two, 5, min_sites=1)

    def test_two_files_of_one_site_are_for_people_to_decide(self, files):
        one = files["0.summary"]
        with pytest.raises(MessageError, match="a and b are both from client '0'"):
            sites.aggregate({"a": one, "b": one}, 5, min_sites=1)

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
        curve = sites.aggregate(wide, "auto", params={"max_clusters": 6}).model.tensors["k_curve"]
        assert curve[:, 0].max() == 6

    def test_others_are_the_sites(self, files):
        with pytest.raises(
            ParameterError, match="'n_init' is not a parameter of Jigsaw at the ser"
        ):
            sites.aggregate(files, 5, params={"n_init": 3})

    def test_what_must_agree_is_taken_from_the_summaries(self, grid_sites):
        made = {
            path.stem: sites.summarize(path, 5, method="feca", params={"radius": "theoretical"})
            for path in grid_sites[0]
        }
        assert sites.aggregate(made, 5).model.params["radius"] == "theoretical"


class TestLookAlikes:
    @pytest.fixture
    def two(self, files):
        first, second = list(files.values())[:2]
        return {"a": named(first, "bern"), "b": named(second, "lyon")}

    @pytest.mark.parametrize("twin", ["Bern", "BERN", " bern", "bern ", "bern\ufe0f", "\uff42ern"])
    def test_a_twin_is_refused(self, two, twin):
        with pytest.raises(MessageError, match="a and b are from clients whose names look alike"):
            sites.aggregate({"a": two["a"], "b": named(two["b"], twin)}, 3)

    def test_leaving_a_site_out_does_not_leave_its_twin_in(self, two):
        with pytest.raises(MessageError, match="look alike"):
            sites.aggregate(
                {"a": two["a"], "b": named(two["b"], "Bern")}, 3, without=["bern"], min_sites=1
            )

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
