"""Jigsaw under differential privacy, end to end: what is found, and what may leave."""

import numpy as np
import pytest

from fedjigsaw import Broadcast, Client, FeCA, Jigsaw, Privacy
from fedjigsaw.errors import (
    MessageError,
    NoiseWarning,
    ParameterError,
    PrivacyWarning,
)

PLACES = np.array([[-0.6, -0.6], [0.6, -0.5], [0.0, 0.7]])


def rows_of(n, seed=0, width=0.05):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    return np.clip(PLACES[labels] + width * rng.standard_normal((n, 2)), -1, 1), labels


def private(**changes):
    cells = None if "unit" in changes else "own"
    usual = {"epsilon": 1.0, "bounds": (-1, 1), "insecure_seed": 0, "cells": cells}
    return Privacy(**{**usual, **changes})


def fitted(privacy, n=6000, n_clients=3, **params):
    X, _ = rows_of(n)
    clients = np.arange(n) % n_clients
    return Jigsaw(3, random_state=0, **params).fit(X, clients=clients, privacy=privacy)


def distance_to_truth(model):
    return float(np.linalg.norm(PLACES[:, None] - model.cluster_centers_, axis=2).min(1).max())


def test_noise_of_the_operating_system_finds_the_clusters_and_never_the_same_numbers():
    first, again = (fitted(private(insecure_seed=None)) for _ in range(2))
    assert distance_to_truth(first) < 0.02
    assert distance_to_truth(again) < 0.02
    assert (first.cluster_centers_ != again.cluster_centers_).all()


def test_an_insecure_seed_gives_the_same_bits():
    assert fitted(private()).model_ == fitted(private()).model_
    assert fitted(private()).model_ != fitted(private(insecure_seed=1)).model_


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"cells": "shared"}, {"epsilon": 20, "unit": "site"}])
def test_shared_cells(changes):
    n_clients = 300
    model = fitted(private(**changes), n_clients=n_clients)
    assert distance_to_truth(model) < 0.1
    assert model.sites_ == []
    assert len(model.summaries_) == n_clients
    assert all(s.counts is None and s.sse is None for s in model.summaries_)


@pytest.mark.parametrize("cells", ["own", "shared"])
def test_the_number_of_clusters_is_found_from_noisy_summaries(cells):
    X, _ = rows_of(6000 if cells == "own" else 20_000)  # shared cells need more rows
    jigsaw = Jigsaw("auto", max_clusters=10, random_state=0)
    for seed in range(3):
        assert jigsaw.fit(X, privacy=private(cells=cells, insecure_seed=seed)).n_clusters_ == 3
    assert len(jigsaw.k_curve_["k"]) > 3


def test_later_rounds_keep_the_promise_together():
    one, three = fitted(private()), fitted(private(), n_rounds=3)
    assert three.n_iter_ == 3
    assert distance_to_truth(three) < 0.02
    # each round has a third of the budget, so its noise is root 3 times as large; the last release
    # of the search has a share of 0.3 of its round
    noise = [float(m.summaries_[0].tensors["noise"][0, 0]) for m in (one, three)]
    assert noise[1] / noise[0] == pytest.approx((3 * 0.3) ** 0.5)


@pytest.mark.parametrize("number", [1, 7])
def test_a_round_beyond_the_last_has_no_share_of_the_budget(number):
    X, _ = rows_of(300)
    client = Client("bern", X, Jigsaw(3), privacy=private())
    model = Jigsaw(3, random_state=0).fit(X).model_
    with pytest.raises(ParameterError, match="round of a question"):
        client.answer(Broadcast(number, 0, model))


def test_what_is_no_number_counts_as_a_row_in_the_middle():
    X, _ = rows_of(3000)
    X[0] = np.nan
    X[1] = np.inf
    with pytest.warns(NoiseWarning, match="2 of 3000 rows"):
        summary = Client("bern", X, Jigsaw(3), privacy=private()).answer(Broadcast(0, 0))
    assert abs(summary.n_samples - 3000) < 1000


def test_no_rows_are_like_few_rows():
    with pytest.warns(NoiseWarning):
        summary = Client("bern", np.zeros((0, 2)), Jigsaw(3), privacy=private()).answer(
            Broadcast(0, 0)
        )
    assert len(summary.centers) == 1


def test_nothing_leaves_but_noisy_numbers():
    X, _ = rows_of(2000)
    jigsaw = Jigsaw(3, random_state=0).fit(X, privacy=private())
    (summary,) = jigsaw.summaries_
    assert set(summary.tensors) == {"noise"}
    assert summary.radii is None
    assert summary.n_samples == summary.counts.sum() != 2000


def test_bounds_in_other_units_give_the_same_clusters():
    X, _ = rows_of(6000)
    low, high = np.array([1000.0, -50.0]), np.array([3000.0, 1950.0])
    moved = (X + 1) / 2 * (high - low) + low
    plain = Jigsaw(3, random_state=0).fit(X, privacy=private())
    other = Jigsaw(3, random_state=0).fit(moved, privacy=private(bounds=(low, high)))
    back = (other.cluster_centers_ - low) / (high - low) * 2 - 1
    assert back == pytest.approx(plain.cluster_centers_, abs=1e-3)


def test_the_site_is_told_of_clipped_rows():
    X, _ = rows_of(3000)
    X[:7] = 5.0
    with pytest.warns(NoiseWarning, match="7 of 3000 rows are outside the bounds"):
        model = Jigsaw(3, random_state=0).fit(X, privacy=private())
    assert np.abs(model.cluster_centers_).max() <= 1


def test_a_site_with_too_few_rows_is_told():
    X, _ = rows_of(30)
    with (
        pytest.warns(NoiseWarning, match="hardly more than noise.*shared cells"),
        pytest.warns(UserWarning, match="clusters"),
    ):
        Jigsaw(3, random_state=0).fit(X, privacy=private())


def test_a_site_is_told_of_a_delta_that_is_too_large_for_its_rows():
    with pytest.warns(PrivacyWarning, match="delta = 0.001 is not far below 1 / rows"):
        fitted(private(delta=1e-3))


def test_shared_cells_of_too_few_rows_are_an_error():
    X, _ = rows_of(30)
    with pytest.raises(MessageError, match="No cell stands out from the noise"):
        Jigsaw(3, random_state=0).fit(X, privacy=private(cells="shared"))


def test_what_cannot_be_private_says_so():
    X, _ = rows_of(300)
    with pytest.raises(ParameterError, match="'feca' has no differential privacy"):
        FeCA(3).fit(X, privacy=private())
    with pytest.raises(ParameterError, match="requires one round"):
        Jigsaw(3, n_rounds=2).fit(X, privacy=private(cells="shared"))
    with pytest.raises(ParameterError, match="number of centers of Jigsaw"):
        Jigsaw(3, n_local_clusters=8192).fit(X, privacy=private(cells="shared"))
    with pytest.raises(ParameterError, match="number of centers of Jigsaw"):
        Jigsaw(3, n_local_clusters=5000).fit(X, privacy=private())
    with pytest.raises(ParameterError, match="far narrower than those of another"):
        Jigsaw(3).fit(X, privacy=private(bounds=([-1, -1e-6], [1, 1e-6])))
    with pytest.raises(ParameterError, match="privacy of Jigsaw"):
        Jigsaw(3).fit(X, privacy=1.0)
    with pytest.raises(ParameterError, match="two lists of 2, one number per column"):
        Jigsaw(3).fit(X, privacy=private(bounds=([0, 0, 0], [1, 1, 1])))
