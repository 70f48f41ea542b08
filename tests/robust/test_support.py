"""Who is unlike all others is told, and with `liars` what too few others support stays out."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import FeCA, Jigsaw, Summary
from fedjigsaw.errors import ConspicuousSiteWarning, MessageError, ParameterError
from fedjigsaw.kernels.kmeans import nearest_centers
from fedjigsaw.messages import Broadcast
from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.robust.influence import OUTSIDE, UNSUPPORTED
from fedjigsaw.robust.support import aggregate

CORNERS = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])


def site(rng, groups=(0, 1, 2, 3), n=60):
    return np.concatenate([CORNERS[g] + rng.normal(size=(n, 2)) for g in groups])


@pytest.fixture
def sites(rng):
    return {name: site(rng) for name in ("bern", "lyon", "oslo", "rome", "wien")}


def told_by(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit()
    texts = [str(w.message) for w in caught if w.category is ConspicuousSiteWarning]
    return fitted, texts


def inertia_of(others, centers):
    rows = np.concatenate(list(others.values()))
    return float((nearest_centers(rows, centers)[1] ** 2).sum())


def assert_close(a, b, most=0.2):
    assert nearest_centers(a, b)[1].max() < most
    assert nearest_centers(b, a)[1].max() < most


def lie(sites, change):
    told = {name: rows for name, rows in sites.items() if name != "oslo"}
    return {**sites, "oslo": change(sites["oslo"])}, told


LIES = {
    "doubled": lambda X: 2 * X,
    "mirrored": lambda X: -X,
    "another unit": lambda X: X * [1, 10],
    "far": lambda X: X + 40,
}


class TestByDefault:
    @pytest.mark.parametrize("change", LIES.values(), ids=LIES)
    def test_the_strange_site_is_told_and_nobody_else(self, sites, change):
        data, _ = lie(sites, change)
        fitted, texts = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        assert [report.client for report in fitted.sites_ if report.reason] == ["oslo"]
        assert len(texts) == 1
        assert all(word in texts[0] for word in ("'oslo'", "vouch", "liars"))

    def test_what_is_told_changes_no_bit(self, sites):
        data, _ = lie(sites, LIES["doubled"])
        fitted, _ = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        silent = Jigsaw(4, vouch=["oslo"], random_state=0).fit_clients(data)
        quick = Jigsaw(4, random_state=0)
        quick.for_reports = False
        quick.fit_clients(data)
        assert np.array_equal(fitted.cluster_centers_, silent.cluster_centers_)
        assert np.array_equal(fitted.cluster_centers_, quick.cluster_centers_)

    def test_nobody_is_told_where_all_are_alike(self, sites):
        fitted, texts = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(sites))
        assert not texts
        assert not any(report.reason for report in fitted.sites_)

    def test_groups_far_apart_support_each_other(self):
        """Squared distances of centers that are so far from the middle have few digits."""
        for seed in range(5):
            rng = np.random.default_rng(seed)
            groups = CORNERS * [1e9 / 9, 1]
            data = [np.concatenate([g + rng.normal(size=(60, 2)) for g in groups]) for _ in "abcde"]
            fitted = Jigsaw(4, random_state=0).fit_clients(data)
            assert fitted.model_.tensors["site_costs"].max() == 0

    def test_who_is_vouched_for_is_not_told(self, sites):
        data, _ = lie(sites, LIES["far"])
        _, texts = told_by(lambda: Jigsaw(4, vouch=["oslo"], random_state=0).fit_clients(data))
        assert not texts

    def test_a_client_is_vouched_for_by_its_number(self, sites):
        data = dict(enumerate(lie(sites, LIES["far"])[0].values()))
        fitted, texts = told_by(lambda: Jigsaw(4, vouch=[2], random_state=0).fit_clients(data))
        assert not texts
        numpy = Jigsaw(4, vouch=(np.int64(2),), random_state=0).fit_clients(data)
        assert numpy.model_ == fitted.model_

    def test_who_is_vouched_for_is_a_client(self, sites):
        with pytest.raises(ParameterError, match=r"vouch .*'bern'.*'olso'"):
            Jigsaw(4, vouch=["olso"]).fit_clients(sites)

    def test_many_times_the_rows_of_the_next_are_told(self, sites):
        data, _ = lie(sites, lambda X: np.repeat(X, 20, axis=0))
        fitted, texts = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        assert len(texts) == 1
        assert [report.client for report in fitted.sites_ if report.reason] == ["oslo"]

    def test_advice_fits_the_parameters(self, sites):
        data, _ = lie(sites, LIES["far"])
        for params in ({"n_clusters": "auto"}, {"n_clusters": 4, "n_rounds": 2}):
            _, texts = told_by(lambda p=params: Jigsaw(**p, random_state=0).fit_clients(data))
            assert len(texts) == 1
            assert "liars" not in texts[0]

    def test_three_sites_cannot_tell_who_is_strange(self, sites):
        data, _ = lie(sites, LIES["far"])
        few = {name: data[name] for name in ("bern", "lyon", "oslo")}
        _, texts = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(few))
        assert not texts

    def test_influence_is_computed_when_it_is_asked_for(self, sites):
        data, _ = lie(sites, LIES["doubled"])
        fitted, _ = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        assert "site_influence" not in fitted.model_.tensors
        by_name = {report.client: report.influence for report in fitted.sites_}
        assert max(by_name, key=by_name.get) == "oslo"
        assert by_name["oslo"] > 1.5


class TestLiars:
    @pytest.mark.parametrize("change", LIES.values(), ids=LIES)
    def test_the_others_get_what_they_would_get_without_the_liar(self, sites, change):
        data, others = lie(sites, change)
        alone = Jigsaw(4, detail=3, random_state=0).fit_clients(others)
        plain, _ = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        safe, texts = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        best = inertia_of(others, alone.cluster_centers_)
        assert inertia_of(others, plain.cluster_centers_) > 1.5 * best
        assert inertia_of(others, safe.cluster_centers_) < 1.05 * best
        assert all("'oslo'" in text for text in texts)

    def test_liars_that_agree(self, sites, rng):
        names = [*"abcdefg"]
        honest = {name: site(rng) for name in names}
        data = {**honest, **{name: site(rng) + 40 for name in "xyz"}}
        safe, _ = told_by(lambda: Jigsaw(4, liars=3, random_state=0).fit_clients(data))
        plain = Jigsaw(4, random_state=0).fit_clients(honest)
        best = inertia_of(honest, plain.cluster_centers_)
        assert inertia_of(honest, safe.cluster_centers_) < 1.05 * best

    def test_a_group_that_one_site_alone_has_is_a_lone_cluster(self, sites, rng):
        fifth = np.array([40.0, 0.0]) + rng.normal(size=(70, 2))
        data = {**sites, "oslo": np.r_[sites["oslo"], fifth]}
        safe, _ = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        assert safe.lone_clients_ == ["oslo"]
        assert np.abs(safe.lone_centers_ - fifth.mean(axis=0)).max() < 0.5
        assert safe.cluster_centers_.shape == (4, 2)
        assert safe.n_clusters_ == 4
        assert (safe.predict(fifth) == 4).all()
        assert (safe.predict(CORNERS) < 4).all()
        assert safe.support_["points"][4] == pytest.approx(70, abs=3)
        assert safe.transform(fifth).shape == (70, 5)

    def test_two_sites_that_claim_one_place_each_have_their_own_lone_cluster(self, rng):
        claimed = {name: np.array([40.0, 0.0]) + rng.normal(size=(90, 2)) for name in "xy"}
        data = {name: np.r_[site(rng), claimed.get(name, np.zeros((0, 2)))] for name in "abcdexy"}
        safe, _ = told_by(lambda: Jigsaw(4, liars=2, random_state=0).fit_clients(data))
        assert sorted(safe.lone_clients_) == ["x", "y"]
        assert safe.support_["clients"][4:].tolist() == [1, 1]
        assert safe.support_["points"][4:].tolist() == [90, 90]

    def test_lone_clusters_are_saved(self, sites, rng, tmp_path):
        fifth = np.array([40.0, 0.0]) + rng.normal(size=(70, 2))
        data = {**sites, "oslo": np.r_[sites["oslo"], fifth]}
        safe, _ = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        safe.save(tmp_path / "model.fjs")
        loaded = Jigsaw.load(tmp_path / "model.fjs")
        assert loaded.lone_clients_ == ["oslo"]
        assert np.array_equal(loaded.lone_centers_, safe.lone_centers_)
        assert np.array_equal(loaded.cluster_centers_, safe.cluster_centers_)
        assert np.array_equal(loaded.predict(fifth), safe.predict(fifth))

    def test_nobody_counts_for_more_rows_than_the_next(self, sites):
        data, others = lie(sites, lambda X: np.repeat(X, 50, axis=0) + 0.3)
        safe, texts = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        assert len(texts) == 1
        assert "vouch=['oslo']" in texts[0]
        assert safe.support_["points"].sum() == pytest.approx(5 * 240, rel=0.01)
        vouched = Jigsaw(4, liars=1, vouch=["oslo"], random_state=0).fit_clients(data)
        assert vouched.support_["points"].sum() == pytest.approx(54 * 240, rel=0.01)
        del others

    def test_too_few_liars_for_the_split_are_told(self, rng):
        data = {str(g): site(rng, (g,), n=100) for g in range(4)}
        data |= {"x": CORNERS[0] + 40 + rng.normal(size=(100, 2))}
        _, texts = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        assert any("smaller number of liars" in text for text in texts)
        assert not re.search(r"\b1 (clients|others)\b", " ".join(texts))

    def test_order_and_translation_change_nothing(self, sites):
        data, _ = lie(sites, LIES["doubled"])
        first, _ = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        moved = {name: rows + 1000.0 for name, rows in reversed(data.items())}
        second, _ = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(moved))
        np.testing.assert_allclose(
            second.cluster_centers_ - 1000, first.cluster_centers_, atol=1e-6
        )

    def test_a_lie_about_spread_vouches_for_nobody(self, sites):
        """A huge sum of squares makes no liar's center reach those of others."""
        data, _ = lie(sites, LIES["doubled"])
        method = Jigsaw(4, liars=1, random_state=0)
        fitted, _ = told_by(lambda: method.fit_clients(data))
        sent = [
            Summary(s.n_samples, s.centers, counts=s.counts, client=s.client,
                    sse=s.sse * (1e9 if s.client == "oslo" else 1))
            for s in fitted.summaries_
        ]  # fmt: skip
        with pytest.warns(ConspicuousSiteWarning):
            model = aggregate(method, sent, Broadcast(0, 0), np.random.default_rng(0))
        assert model.tensors["site_notes"][2] & OUTSIDE
        assert_close(model.centers[:4], fitted.cluster_centers_)

    def test_a_center_at_the_edge_of_numbers(self, sites):
        fitted = Jigsaw(4, detail=3, random_state=0).fit_clients(sites)
        sent = list(fitted.summaries_)
        far = np.array(sent[2].centers)
        far[0] = 1e90
        sent[2] = Summary(240, far, counts=sent[2].counts, sse=sent[2].sse, client="oslo")
        for liars, note in ((0, UNSUPPORTED), (1, OUTSIDE)):
            method = Jigsaw(4, liars=liars, random_state=0)
            with pytest.warns(ConspicuousSiteWarning, match="'oslo'"):
                model = aggregate(method, sent, Broadcast(0, 0), np.random.default_rng(0))
            assert model.tensors["site_notes"].tolist() == [0, 0, note, 0, 0]
        assert_close(model.centers[:4], fitted.cluster_centers_)

    def test_a_lie_about_squares_moves_little(self, sites):
        method = Jigsaw(4, liars=1, random_state=0)
        fitted, _ = told_by(lambda: method.fit_clients(sites))
        sent = [
            replace(s, sse=s.sse * (1e3 if s.client == "oslo" else 1)) for s in fitted.summaries_
        ]
        model = aggregate(method, sent, Broadcast(0, 0), np.random.default_rng(0))
        assert_close(model.centers[:4], fitted.cluster_centers_)

    def test_columns_of_yes_and_no(self, rng):
        """Local clusters without spread: only equal centers support each other."""
        honest = {name: rng.integers(0, 2, (100, 2)).astype(float) for name in "abcd"}
        data = {**honest, "oslo": 10 * rng.integers(0, 2, (100, 2))}
        safe, texts = told_by(lambda: Jigsaw(4, liars=1, random_state=0).fit_clients(data))
        assert inertia_of(honest, safe.cluster_centers_) < 1e-9
        assert len(texts) == 1
        _, texts = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        assert len(texts) == 1

    @pytest.mark.parametrize("liars", [0, 1])
    def test_the_tail_of_a_column_is_no_reason_to_tell(self, liars):
        """Honest rows of skewed columns, dealt at random: the largest are at one site alone."""
        told = 0
        for seed in range(5):
            X = np.exp(np.random.default_rng(seed).normal(size=(1500, 4)))
            fit = Jigsaw(10, liars=liars, random_state=0).fit
            told += len(told_by(lambda X=X, fit=fit: fit(X, clients=np.arange(1500) % 5))[1])
        assert told <= 1


class TestRefusals:
    @pytest.mark.parametrize("without", ["counts", "sse"])
    def test_one_bad_summary_is_its_senders_fault(self, sites, without):
        method = Jigsaw(4, liars=1, random_state=0)
        sent = Jigsaw(4, detail=3, random_state=0).fit_clients(sites).summaries_
        method.check_answer(sent[0], Broadcast(0, 0))
        bare = replace(sent[0], **{without: None})
        with pytest.raises(MessageError):
            method.check_answer(bare, Broadcast(0, 0))
        with pytest.raises(MessageError):
            aggregate(method, [bare, *sent[1:]], Broadcast(0, 0), np.random.default_rng(0))

    def test_without_sums_a_strange_site_is_told_all_the_same(self, sites):
        data, _ = lie(sites, LIES["doubled"])
        fitted, _ = told_by(lambda: Jigsaw(4, random_state=0).fit_clients(data))
        sent = [replace(s, sse=None) if s.client == "oslo" else s for s in fitted.summaries_]
        with pytest.warns(ConspicuousSiteWarning, match="'oslo'"):
            aggregate(fitted, sent, Broadcast(0, 0), np.random.default_rng(0))

    def test_too_few_sites(self, sites):
        two = {name: sites[name] for name in ("bern", "lyon")}
        with pytest.raises(ParameterError, match="at least 3"):
            Jigsaw(4, liars=1).fit_clients(two)

    @pytest.mark.parametrize("options", [{"n_clusters": "auto"}, {"shape": "any"}, {"n_rounds": 2}])
    def test_what_does_not_go_with_liars(self, sites, options):
        with pytest.raises(ParameterError, match="liars"):
            Jigsaw(**{"n_clusters": 4, **options}, liars=1).fit_clients(sites)

    def test_privacy(self, sites):
        with pytest.raises(ParameterError, match="liars"):
            Jigsaw(4, liars=1).fit_clients(
                sites, privacy=Privacy(epsilon=1.0, bounds=(-20, 20), cells="own")
            )

    def test_a_method_that_sends_neither(self):
        with pytest.raises(ParameterError):
            FeCA.from_settings({"n_clusters": 4, "liars": 1})
