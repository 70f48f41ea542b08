"""Methods to compare with: their budgets, and what they find without noise."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from fedjigsaw.bench import feddp_kmeans, privacy_peers
from fedjigsaw.bench.feddp_kmeans import Budget, budget_for, epsilon_of, gaussian_multiplier
from fedjigsaw.bench.privacy_peers import LAPLACE_STEPS, PEERS, Peer, laplace_scale
from fedjigsaw.bench.private_problem import Mixture, Problem, mixture, site_of_rows

NO_NOISE = 20.0  # epsilon
OURS = ["laplace", "gaussian", "feddp"]
LIBRARIES = ["diffprivlib", "google"]


def posed(drawn: Mixture, epsilon: float, split: str = "iid", seed: int = 0) -> Problem:
    ids = site_of_rows(drawn.y, split, seed)
    sites = tuple(drawn.X[ids == site] for site in range(10))
    return Problem(sites, 15, epsilon, 1e-6, seed, server_rows=drawn.server_rows)


def toy(epsilon: float) -> Problem:
    """Two sites with many rows at two places: 2 and 8 in bounds from 0 to 10."""
    site = np.repeat([[2.0], [8.0]], [20_000, 10_000], axis=0)
    server = np.array([[2.0], [8.0], [5.0]])
    return Problem((site, site), 2, epsilon, 1e-6, 0, low=0.0, high=10.0, server_rows=server)


def needed(name: str) -> Peer:
    peer = PEERS[name]
    if peer.lacks():
        pytest.skip(peer.lacks())
    return peer


@pytest.mark.parametrize("name", OURS)
def test_two_places_are_found(name: str) -> None:
    centers = PEERS[name].fit(toy(NO_NOISE))
    assert np.allclose(np.sort(centers.ravel()), [2.0, 8.0], atol=0.01)


@pytest.mark.parametrize(("name", "limit"), [("laplace", 1.6), ("gaussian", 1.1), ("feddp", 1.02)])
def test_without_noise_clusters_are_nearly_those_of_kmeans(name: str, limit: float) -> None:
    drawn = mixture(2, "mid", 1, n_rows=10_000)
    assert drawn.ratio(PEERS[name].fit(posed(drawn, NO_NOISE))) < limit


@pytest.mark.parametrize("name", OURS)
def test_less_epsilon_is_more_noise(name: str) -> None:
    drawn = mixture(2, "tight", 1, n_rows=10_000)
    ratios = [drawn.ratio(PEERS[name].fit(posed(drawn, epsilon))) for epsilon in (0.1, NO_NOISE)]
    assert ratios[0] > 1.2 * ratios[1]


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_give_the_same_centers_again_within_bounds(name: str) -> None:
    peer, drawn = needed(name), mixture(2, "mid", 1, n_rows=5000)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two = (peer.fit(posed(drawn, 4.0, seed=3)) for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, peer.fit(posed(drawn, 4.0, seed=4)))
    assert one.shape[0] <= 15
    assert one.shape[1] == 2
    assert np.abs(one).max() <= 1
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_a_missing_library_is_named_with_its_command() -> None:
    assert Peer("ours", "nobody", PEERS["laplace"].fit).lacks() == ""
    lacking = Peer("X", "the server", PEERS["laplace"].fit, "no_such.module", "pip install x")
    assert lacking.lacks() == "X requires the module no_such.module: pip install x"


# ------------------------------------------------------------------------------------------ budgets


def test_laplace_noise_of_all_steps_adds_up_to_epsilon() -> None:
    for d in (2, 16):
        assert LAPLACE_STEPS * (1 + d) / laplace_scale(d, 0.7) == pytest.approx(0.7)


def test_noise_of_a_step_has_the_promised_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites without rows send noise alone: its mean absolute value is the scale."""
    sent = []

    def kept(points, k, *, rng, weights=None, **options):  # type: ignore[no-untyped-def]
        if weights is not None:
            sent.append(weights)
        return kmeans(points, k, rng=rng, weights=weights, **options)

    kmeans = privacy_peers.kmeans
    monkeypatch.setattr(privacy_peers, "kmeans", kept)
    empty = tuple(np.empty((0, 3)) for _ in range(30))
    PEERS["laplace"].fit(Problem(empty, 15, 1.0, 1e-6, 0))
    (weights,) = sent  # those above 0; values below 1 are set to 1
    scale = laplace_scale(3, 1.0)
    assert abs(weights.mean() / scale - 1) < 4 / np.sqrt(len(weights))


@pytest.mark.parametrize("projects", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_rounds_of_feddp_promise_epsilon_together(epsilon: float, projects: bool) -> None:
    """By an accountant that is told every release."""
    budget = budget_for(epsilon, 1e-6, projects=projects)
    accountant = PLDAccountant()
    for multiplier in budget.gaussians:
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
    for value in budget.laplaces:
        accountant.compose(dp_accounting.LaplaceDpEvent(1 / value))
    assert 0.98 * epsilon < accountant.get_epsilon(1e-6) <= epsilon * 1.001
    assert epsilon_of(budget, 1e-6) <= epsilon
    assert len(budget.gaussians) == 2 + projects
    assert len(budget.laplaces) == 3


def test_epsilons_of_feddp_have_the_published_proportions() -> None:
    budget = budget_for(1.0, 1e-6, projects=True)
    factor = budget.weights
    assert budget.counts == pytest.approx(factor / 2)
    assert budget.sums == pytest.approx(gaussian_multiplier(factor / 2, 1e-6))
    assert budget.outer == pytest.approx(gaussian_multiplier(factor, 1e-6))


def test_noise_of_feddp_has_the_promised_size() -> None:
    rng, budget = np.random.default_rng(0), Budget(None, sums=7.0, weights=0.5, counts=0.5)
    weights = feddp_kmeans._counted(np.empty((0, 1)), np.zeros((2000, 1)), budget.weights, rng)
    assert abs(np.abs(weights).mean() - 2) < 0.2
    X = np.zeros((1000, 2000))  # a count of nearly 1000, and sums that are noise
    (mean,) = feddp_kmeans._means(X, X, X[:1], budget, 3.0, rng)
    assert abs(mean.std() * 1000 / (7 * 3) - 1) < 0.1


def test_feddp_projects_to_the_main_directions() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [3.0, 0.1, 2.0, 0.1]
    V = feddp_kmeans._directions(X, 2, 0.0, rng)
    assert np.allclose(V.T @ V, np.eye(2))
    assert np.abs(V[[1, 3]]).max() < 0.1


def test_feddp_needs_rows_at_the_server() -> None:
    with pytest.raises(Exception, match="requires rows at the server"):
        PEERS["feddp"].fit(Problem((np.zeros((9, 1)),), 2, 1.0, 1e-6, 0))
