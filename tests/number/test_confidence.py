from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw import Jigsaw
from fedjigsaw.errors import MessageError, UncertainNumberWarning
from fedjigsaw.messages import Model
from fedjigsaw.number.confidence import Doubt, KFindings
from fedjigsaw.privacy.guard import Guard

SURE = KFindings(
    confidence=0.97,
    runner_up=4,
    closest=(0, 2),
    background=0.0,
    elongation=np.ones(3),
    columns=np.zeros(0, dtype=np.int64),
    doubts=Doubt(0),
    separation=np.array([0.9, 1.0, 0.9]),
)


def model_of(findings, **tensors):
    return Model([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], tensors={**findings.tensors(), **tensors})


def test_findings_survive_in_a_model():
    odd = replace(SURE, doubts=Doubt.OVERLAP | Doubt.STEPS, columns=np.array([1]), runner_up=None)
    for given in (SURE, odd, replace(SURE, closest=None)):
        found = KFindings.from_model(model_of(given))
        assert found is not None
        for name in vars(given):
            assert np.array_equal(getattr(found, name), getattr(given, name)), name


def test_a_model_without_findings():
    assert KFindings.from_model(Model([[0.0]])) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k_confidence", np.array([1.5])),
        ("k_confidence", np.array([np.nan])),
        ("k_confidence", np.array([0.5, 0.5])),
        ("k_runner_up", np.array([-1])),
        ("k_closest", np.array([0, 3])),
        ("k_closest", np.array([0])),
        ("k_background", np.array([2.0])),
        ("k_elongation", np.ones(2)),
        ("k_columns", np.array([2])),
        ("k_columns", np.array([[0]])),
        ("k_doubts", np.array([2 * max(Doubt)])),
        ("support_separation", np.array([0.5, 0.5, 2.0])),
    ],
)
def test_findings_of_others_are_checked(name, value):
    with pytest.raises(MessageError, match=f"{name} of a model must be"):
        KFindings.from_model(model_of(SURE, **{name: value}))


def test_missing_parts_are_refused():
    tensors = SURE.tensors()
    del tensors["k_closest"]
    with pytest.raises(MessageError, match="k_closest of a model"):
        KFindings.from_model(Model(np.zeros((3, 2)), tensors=tensors))


def test_many_rows_of_few_values_are_not_called_few_rows():
    rows = np.random.default_rng(0).integers(0, 4, (5000, 2)).astype(float)
    with pytest.warns(UncertainNumberWarning, match="1 cluster .*: each site has few different"):
        Jigsaw("auto", random_state=0).fit(rows, clients=np.arange(5000) % 5)


def test_advice():
    assert SURE.advice() == []
    long = replace(SURE, elongation=np.array([1.0, 8.2, 4.0])).advice()
    assert "Clusters 1, 2 are elongated (up to 8 times as long as wide)" in long[0]
    alone = replace(SURE, elongation=np.array([1.0, 8.2, 1.0])).advice()
    assert alone[0].startswith("Cluster 1 is elongated")
    assert "may cut it." in alone[0]
    assert "may cut them." in long[0]
    bent = replace(SURE, elongation=np.array([1.0, 8.2, 1.0]), doubts=Doubt.CRITERIA).advice()
    assert bent[1].startswith("If it may be a piece of a bent cluster, ")
    assert "About 5% of the rows lie outside" in replace(SURE, background=0.05).advice()[0]
    few = replace(SURE, columns=np.array([1]), doubts=Doubt.COLUMNS).advice(("age", "dose"))
    assert "seem to have clusters: dose." in few[0]


def phones(k, d, seed=0, n_rows=1800):
    rng = np.random.default_rng(seed)
    centers = 30 * rng.uniform(-1, 1, (k, d))
    return centers[rng.integers(0, k, n_rows)] + rng.normal(size=(n_rows, d))


class TestSmallClients:
    def test_cells_of_several_clusters_are_no_clusters(self):
        """150 clients with 12 rows of eight clusters: most of their cells are mixed."""
        fitted = Jigsaw("auto", random_state=0).fit(phones(8, 5), clients=np.arange(1800) // 12)
        assert fitted.n_clusters_ == 8

    def test_under_a_guard(self):
        """Most of 200 clients with nine rows have no five that are alike."""
        X, clients = phones(4, 3), np.arange(1800) // 9
        fitted = Jigsaw("auto", random_state=0).fit(X, clients=clients, guard=Guard())
        assert fitted.n_clusters_ == 4
        assert len(np.unique(fitted.predict(X))) == 4


class TestFitted:
    def test_order_of_clusters(self, rng):
        """Two clusters overlap: the last two in the order of their centers."""
        X = np.concatenate([rng.normal([x, 0], 1, (300, 2)) for x in (20.0, -30.0, 24.0)])
        fitted = Jigsaw("auto", random_state=0).fit(X, clients=np.arange(900) % 4)
        assert fitted.cluster_centers_[:, 0] == pytest.approx([-30, 20, 24], abs=0.5)
        assert KFindings.from_model(fitted.model_).closest == (1, 2)
        separation = fitted.support_["separation"]
        assert separation[0] > separation[1] == separation[2]

    def test_long_clusters_are_not_cut_across(self, rng):
        """k-means would prefer to cut three long bars into pieces; no site harms the others."""
        X = np.concatenate([rng.normal(size=(400, 2)) * [9, 1] + [0, y] for y in (0, 7, 14)])
        fitted = Jigsaw("auto", random_state=0).fit(X, clients=np.arange(1200) % 4)
        assert np.sort(fitted.cluster_centers_[:, 1]) == pytest.approx([0, 7, 14], abs=0.5)
        assert max(site.influence for site in fitted.sites_) < 1.1

    def test_elongation_is_in_the_same_order(self, rng):
        X = np.concatenate([rng.normal(size=(400, 2)) * [1, 9], rng.normal([-30, 0], 1, (400, 2))])
        fitted = Jigsaw("auto", random_state=0).fit(X, clients=np.arange(800) % 4)
        assert fitted.n_clusters_ == 2
        first, second = KFindings.from_model(fitted.model_).elongation
        assert first < 2
        assert second > 7
        assert "Cluster 1 is elongated" in fitted.k_advice_[0]

    def test_a_warning_where_it_is_in_doubt(self, rng):
        X = rng.normal(size=(30, 3))
        with pytest.warns(UncertainNumberWarning, match="The number of clusters is in doubt: 1"):
            fitted = Jigsaw("auto", random_state=0).fit(X, clients=np.arange(30) % 3)
        assert fitted.k_confidence_ < 0.5
        assert fitted.k_sentence_.startswith("1 cluster (confidence 0.")

    def test_nothing_where_k_was_given(self, rng):
        fitted = Jigsaw(2, random_state=0).fit(rng.normal(size=(30, 3)))
        for name in ("k_confidence_", "k_sentence_", "k_advice_", "k_runner_up_"):
            assert not hasattr(fitted, name)
        assert "separation" not in fitted.support_
