"""Reports about clients, as a model keeps them."""

import numpy as np
import pytest

from fedjigsaw import FederatedClusterer, Jigsaw, Summary
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import LONE_SITES, Model
from fedjigsaw.methods._fitted import site_tensors
from fedjigsaw.robust.influence import UNSUPPORTED, lone_clients, site_reports

TABLE = np.array([[5.0, 5.0, 0.0], [5.0, 0.0, 7.0], [0.0, 0.0, 0.0]])
SITES = ["bern", "lyon", "oslo"]


def model(**changes):
    tensors = {
        **site_tensors([10.0, 12.0, 1e9], TABLE),
        "site_notes": np.array([0, 0, UNSUPPORTED]),
        "site_costs": np.array([0.0, 0.1, 7.0]),
        "site_influence": np.array([1.0, 1.2, 99.0]),
    }
    return Model([[0.0], [1.0], [2.0]], tensors={**tensors, **changes})


def test_by_hand():
    bern, lyon, oslo = site_reports(model(), SITES)
    assert (bern.rows, bern.clusters, bern.alone, bern.influence) == (10, 2, 1, 1.0)
    assert (lyon.alone, lyon.reason) == (1, "")
    assert oslo.clusters == 0
    assert "7" in oslo.reason


def test_without_influence():
    tensors = site_tensors([10.0], TABLE[:1])
    (report,) = site_reports(Model([[0.0]], tensors=tensors), ["bern"])
    assert report.influence is None


def test_a_model_without_reports():
    assert site_reports(Model([[0.0]]), ["bern"]) is None


def test_a_site_that_missed_the_last_round():
    assert site_reports(model(), [*SITES, "rome"]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"site_rows": np.ones(2)},
        {"site_rows": np.ones((3, 1))},
        {"site_influence": np.array([1.0, np.nan, 1.0])},
        {"site_notes": np.array([0, -1, 0])},
        {"site_notes": np.array([0, 16, 0])},
        {"site_notes": np.array([0.0, 0.5, 0.0])},
        {"site_rows": np.array([10, 2**60, 10])},
        {"site_costs": np.array([0.0, 1e200, 0.0])},
        {"site_costs": np.array([0.0, np.inf, 0.0])},
    ],
)
def test_a_foreign_model(changes):
    with pytest.raises(MessageError, match="of a model"):
        model(**changes)


@pytest.mark.parametrize("sites", [[3], [-1], [[0]], [0.5]])
def test_lone_clusters_of_nobody(sites):
    with pytest.raises(MessageError, match=LONE_SITES):
        lone_clients(model(**{LONE_SITES: np.array(sites)}), SITES)


class Own(FederatedClusterer):
    """A method with a parameter of a name that the screen knows, and no more."""

    sends = ("counts",)

    def __init__(self, n_clusters=8, *, liars=0, random_state=None):
        super().__init__(n_clusters, random_state=random_state)
        self.liars = liars

    def summarize(self, X, broadcast, rng):
        return Summary(len(X), X.mean(axis=0, keepdims=True), counts=[len(X)])

    def aggregate(self, summaries, broadcast, rng):
        return self.make_model(np.concatenate([summary.centers for summary in summaries])[:1])

    def describe(self):
        return "mine"


def test_an_own_method_with_a_parameter_liars_is_not_screened():
    assert Own(1).fit(np.eye(4), clients=[0, 0, 1, 1]).sites_ == []


def test_reports_are_of_the_fit_whatever_was_set_since():
    rng = np.random.default_rng(0)
    X, clients = rng.normal(size=(90, 2)) + 9 * rng.integers(3, size=(90, 1)), np.arange(90) % 3
    fitted = Jigsaw(3, random_state=0).fit(X, clients=clients)
    before = fitted.sites_
    assert fitted.set_params(n_clusters="auto", max_iter=0).sites_ == before
