"""FedAvg and its relatives on numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedjigsaw.deep import server
from fedjigsaw.deep.network import initial_model
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Broadcast, Model, Summary

CPU = torch.device("cpu")


def sent(n, client="a", **tensors):
    named = {
        f"weights.{name}": np.array(value, dtype=np.float32) for name, value in tensors.items()
    }
    return Summary(n, np.zeros((1, 2)), client=client, tensors=named)


def test_the_average_of_equal_models_is_the_model():
    weights = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    found = server.average([sent(n, w=weights) for n in (3, 7, 11)], CPU)
    np.testing.assert_array_equal(found["weights.w"], weights)


def test_the_average_of_two_is_weighted_by_images():
    found = server.average([sent(1, w=[0.0, 4.0]), sent(3, "b", w=[4.0, 0.0])], CPU)
    np.testing.assert_array_equal(found["weights.w"], np.float32([3.0, 1.0]))


MODEL = Model([[0.0]], tensors=sent(1, w=[1.0], **{"n.running_mean": [0.0]}).tensors)
LARGE = replace(sent(1, "b"), tensors={**MODEL.tensors, "weights.w": np.array([1e300])})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (sent(1, "b", v=[1.0]), "Client 'b' sent 1 tensors that do not match the model's 2"),
        (sent(1, "b", w=[1.0, 2.0], **{"n.running_mean": [0.0]}), "Client 'b' sent"),
        (sent(1, "b", w=[1.0]), "Client 'b' sent"),
        (sent(1, "b"), "Client 'b' sent"),
        (sent(1, "b", w=[np.nan], **{"n.running_mean": [0.0]}), "Client 'b' sent NaN or infinity"),
        (LARGE, "Client 'b' sent weights.w as float64, not float32"),
    ],
)
def test_weights_that_do_not_fit_are_refused(other, message):
    good = sent(1, w=[2.0], **{"n.running_mean": [0.0]})
    server.check_weights(good, MODEL, statistics_only=False)
    with pytest.raises(MessageError, match=message):
        server.check_weights(other, MODEL, statistics_only=False)


def test_a_variance_is_not_negative():
    good, bad = (sent(1, "b", **{"n.running_var": [value]}) for value in (1.0, -1.0))
    server.check_weights(good, Model([[0.0]], tensors=good.tensors), statistics_only=True)
    with pytest.raises(MessageError, match="Client 'b' sent a negative variance"):
        server.check_weights(bad, Model([[0.0]], tensors=good.tensors), statistics_only=True)


def test_statistics_come_alone():
    alone, more = sent(1, **{"n.running_mean": [1.0]}), sent(1, w=[1.0])
    server.check_weights(alone, MODEL, statistics_only=True)
    for wrong in (more, replace(alone, tensors={**alone.tensors, **more.tensors})):
        with pytest.raises(MessageError, match="the model's 1 batch-norm statistics"):
            server.check_weights(wrong, MODEL, statistics_only=True)


GOOD_REPORT = {
    "report.loss": np.array(1.0),
    "report.sizes": np.array([1, 2]),
    "report.mean_projection": np.array([0.5]),
}


@pytest.mark.parametrize(
    "change",
    [
        {"report.loss": None},
        {"report.sizes": None},
        {"report.mean_projection": None},
        {"report.loss": np.array([1.0])},
        {"report.loss": np.array(np.inf)},
        {"report.sizes": np.array([1])},
        {"report.sizes": np.array([1, -2])},
        {"report.sizes": np.array([1, 4])},
        {"report.sizes": np.array([1.0, 2.0])},
        {"report.mean_projection": np.array([0.5, 0.5])},
        {"report.mean_projection": np.array([np.nan])},
        {"report.mean_projection": np.array([2.0])},
    ],
    ids=str,
)
def test_a_report_that_is_not_in_order(change):
    model = Model([[0.0], [1.0]])
    server.check_report(Summary(3, np.zeros((0, 1)), tensors=GOOD_REPORT), model)
    tensors = {n: a for n, a in {**GOOD_REPORT, **change}.items() if a is not None}
    tensors["report.more"] = np.zeros(1)  # a summary without centers must carry something
    with pytest.raises(MessageError, match="Client 'a' (must report|reported)"):
        server.check_report(Summary(3, np.zeros((0, 1)), tensors=tensors, client="a"), model)


def test_statistics_are_those_of_all_images():
    rows = np.random.default_rng(0).normal(3, 2, size=(40, 2))
    parts = [
        sent(len(part), **{"n.running_mean": part.mean(0), "n.running_var": part.var(0)})
        for part in (rows[:10], rows[10:])
    ]
    found = server.pooled_statistics(parts)
    np.testing.assert_allclose(found["weights.n.running_mean"], rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found["weights.n.running_var"], rows.var(0), rtol=1e-5)


def test_server_momentum_by_hand():
    model = Model(
        [[0.0]],
        tensors={"weights.w": np.float32([1.0]), "weights.n.running_var": np.float32([1.0])},
    )
    averaged = {"weights.w": np.float32([3.0]), "weights.n.running_var": np.float32([5.0])}
    assert server.with_momentum(model, averaged, 0.0) == averaged
    first = server.with_momentum(model, averaged, 0.5)
    assert first["weights.w"] == 3.0  # no step before: just the average
    after = Model([[0.0]], tensors=first)
    second = server.with_momentum(after, averaged, 0.5)  # the average is where we are
    assert second["weights.w"] == 3.0 + 0.5 * 2.0
    assert second["weights.n.running_var"] == 5.0  # statistics have no momentum


def test_teacher_weights_by_hand():
    model = Model([[0.0]], tensors={"weights.w": np.float32([0.0])})
    assert server.teacher(model, {"weights.w": np.float32([1.0])}, 0.0) == {}
    once = server.teacher(model, {"weights.w": np.float32([1.0])}, 0.75)
    assert once["teacher.w"] == 0.25
    twice = server.teacher(
        Model([[0.0]], tensors=once | {"weights.w": np.float32([1.0])}),
        {"weights.w": np.float32([1.0])},
        0.75,
    )
    assert twice["teacher.w"] == pytest.approx(0.75 * 0.25 + 0.25)


def test_the_first_model_follows_from_the_seed():
    a = initial_model("small", 1)
    initial_model.cache_clear()
    assert initial_model("small", 1) == a
    assert initial_model("small", 2) != a


def test_fill_up_adds_the_farthest_and_no_copies():
    model = Model([[1.0, 0.0]])
    candidates = np.array([[2.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [0.0, 1.0]])
    assert server.fill_up(model, candidates, 1) == model
    np.testing.assert_array_equal(
        server.fill_up(model, candidates, 3).centers, [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]
    )
    assert len(server.fill_up(model, candidates, 99).centers) == 4  # [2, 0] is [1, 0] again


def test_fill_up_replaces_centers_that_coincide():
    model = Model([[1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    found = server.fill_up(model, np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), 3)
    np.testing.assert_array_equal(found.centers, [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("gap", [0.0, 1e-12, 9e-7, 2e-6, 1e-4, 1.0])
@pytest.mark.parametrize("at", [[0.0, 0.0], [1.0, 0.0]], ids=str)
def test_fill_up_replaces_duplicates_only(gap, at):
    """Centers at the origin have no direction, and are duplicates of each other."""
    centers = np.array([at, [at[0], at[0] * gap], [0.0, -1.0]])
    found = server.fill_up(Model(centers), np.array([[-1.0, 0.0]]), 3).centers
    unchanged = at[0] > 0 and gap > server.SAME
    np.testing.assert_array_equal(found[-1], [0.0, -1.0] if unchanged else [-1.0, 0.0])


def test_centers_are_means_of_unit_projections(small, few):
    deep = small([6, 5], n_rounds=1)
    model = deep.aggregate(
        [deep.summarize(few[0], Broadcast(0, 0), np.random.default_rng(0))],
        Broadcast(0, 0),
        np.random.default_rng(0),
    )
    asked = Broadcast(1, 0, model)
    honest = deep.summarize(few[0], asked, np.random.default_rng(0))
    deep.check_answer(honest, asked)
    for wrong in (2 * honest.centers / np.linalg.norm(honest.centers[0]), honest.centers[:, :3]):
        with pytest.raises(MessageError, match="sent centers"):
            deep.check_answer(replace(honest, centers=wrong), asked)
