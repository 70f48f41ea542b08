"""The audit finds the real mechanism within its promise, and a broken one outside."""

import numpy as np
import pytest

from fedjigsaw import Broadcast, Jigsaw, Privacy
from fedjigsaw.engine import Client
from fedjigsaw.privacy.dp import Noise, epsilon_of, multiplier_for
from fedjigsaw.privacy.summaries import PrivateRound
from fedjigsaw.random import stream
from reproduction.experiments.audit import (
    Witness,
    audit,
    gaussian_epsilon,
    neighbors,
    plain_bound,
    promised,
    verdict,
    watch,
)

RUNS = {"own": 120, "rounds": 120, "shared": 500, "site": 500}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", RUNS)
def test_the_real_mechanism_is_within_its_promise_and_half_the_noise_is_not(mechanism):
    n = RUNS[mechanism]
    rows = [audit(mechanism, strength, n, 0, epsilon=4.0) for strength in (1.0, 0.5)]
    real, broken = (verdict([row]) for row in rows)
    assert real.lower < 4.0 < broken.lower
    assert real.plain < 4.0
    # the canary is the worst case: nearly all that the promise allows can be seen
    allowed = 1 / multiplier_for(4.0, 1e-6)
    assert real.mu == pytest.approx(allowed, abs=3 * (2 / n) ** 0.5)
    # without the canary, the statistic is a standard normal number
    assert abs(rows[0]["without"]["sum"]) < 4 * n**0.5
    assert abs(rows[0]["without"]["squares"] - n) < 4 * (2 * n) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["own", "shared"])
def test_a_promise_is_kept_with_the_noise_of_the_operating_system(mechanism):
    n = {"own": 15, "shared": 80}[mechanism]
    case = neighbors(mechanism, promised(mechanism, 4.0))
    values = [
        np.array([case.statistic(None, 1.0, held=held) for _ in range(n)]) for held in (False, True)
    ]
    assert abs(values[0].mean()) < 6 / n**0.5
    assert abs(values[1].mean() - 1 / multiplier_for(4.0, 1e-6)) < 6 / n**0.5
    assert 0.5 < np.std([*values[0], *(values[1] - values[1].mean())]) < 1.7


def test_bounds_by_hand():
    none, all_ = np.zeros(5, dtype=int), np.full(5, 1000)
    # 1000 of 1000 right, 0 wrong, 5 thresholds: 1 - 0.0025^(1/1000) = 0.00597 at most
    assert plain_bound(none, all_, 1000, 0.0) == pytest.approx(np.log(0.99403 / 0.00597), abs=0.01)
    assert plain_bound(all_ // 2, all_ // 2, 1000, 1e-6) == 0
    assert gaussian_epsilon(-0.1, 1e-6) == 0
    # what OpenDP says is never below what a Gaussian really gives, and close to it
    for multiplier in (1.0, 4.0, 9.0):
        exact, said = gaussian_epsilon(1 / multiplier, 1e-6), epsilon_of(multiplier, 1e-6)
        assert 0.9 * said < exact < said


def test_the_audit_watches_the_real_answer():
    privacy = Privacy(1.0, cells="own", bounds=(-1, 1), insecure_seed=3)
    rows = neighbors("own", privacy).rows
    jigsaw = Jigsaw(2, n_local_clusters=4)
    answer = Client("a", rows, jigsaw, privacy=privacy).answer(Broadcast(0, 0))
    question = PrivateRound(privacy, 1, Broadcast(0, 0, client="a"), 4, 4, 4)
    witness = Witness(Noise.for_answer(privacy, 0, "a").insecure)
    watched = watch(question, rows, witness, stream(0, 0, "a"))
    assert watched.centers.tolist() == answer.centers.tolist()
    assert watched.counts.tolist() == answer.counts.tolist()
    assert len(witness.releases) == 5
