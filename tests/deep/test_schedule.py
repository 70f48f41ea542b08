"""The plan of communication steps, and the learning rate."""

import pytest

from fedjigsaw.deep import DeepFeCA, Schedule
from fedjigsaw.deep.schedule import Step, n_steps, plan


def test_the_plan_of_a_clusterer_that_takes_two_rounds():
    deep = DeepFeCA(
        2, clusterer="fuzzy", clusterer_params={"n_rounds": 1}, schedule=Schedule(n_rounds=2)
    )
    assert deep.plan() == (
        Step(0, "calibrate"),
        Step(0, "cluster", 0), Step(0, "cluster", 1), Step(0, "train"),
        Step(1, "cluster", 0), Step(1, "cluster", 1), Step(1, "train"),
    )  # fmt: skip
    assert deep.total_rounds == 7
    assert deep.plan() is deep.plan()  # not computed again for every message


@pytest.mark.parametrize("batch_norm", ["average", "recalibrate"])
@pytest.mark.parametrize(("rounds", "inner"), [(1, 1), (7, 2), (6, 1), (2, 4)])
def test_steps_are_counted_as_they_are_planned(batch_norm, rounds, inner):
    schedule = Schedule(n_rounds=rounds, batch_norm=batch_norm)
    assert n_steps(schedule, inner) == len(plan(schedule, inner))


def test_statistics_are_measured_again_after_every_round():
    schedule = Schedule(n_rounds=2, batch_norm="recalibrate")
    kinds = [step.kind for step in plan(schedule, 1)]
    assert kinds == ["calibrate", *["cluster", "train", "calibrate"] * 2]


def test_the_learning_rate_rises_then_falls():
    schedule = Schedule(10, warmup_rounds=2, learning_rate=0.3, final_learning_rate=0.1)
    rates = [schedule.learning_rate_at(t) for t in range(10)]
    assert rates[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert rates[6] == pytest.approx(0.2)  # half the way
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert min(rates[2:]) > 0.1


def test_batches_of_a_round():
    """80 images are two batches of 32, and a client with fewer than a batch fills one up."""
    assert Schedule(batch_size=32, local_epochs=3).n_batches([80, 5]) == (2 + 1) * 3
