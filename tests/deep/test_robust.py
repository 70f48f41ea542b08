"""Lying clients must not take over the average of networks; honest runs are the same bits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedjigsaw.deep import robust, server
from fedjigsaw.deep.copies import Copies
from fedjigsaw.deep.network import initial_model
from fedjigsaw.engine import SerialEngine
from fedjigsaw.errors import ConspicuousSiteWarning, MessageError
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.messages import Broadcast, Summary
from fedjigsaw.report.trust import reports_of

CPU = torch.device("cpu")
TRAIN = 2  # number of the first step of training: after calibrate and cluster
pytestmark = pytest.mark.filterwarnings("ignore::fedjigsaw.errors.ConspicuousSiteWarning")


@pytest.fixture(scope="module")
def before():
    start = initial_model("small", "batch", 0)
    centers = np.eye(6, start.centers.shape[1])
    return replace(start, centers=centers, tensors={**start.tensors, "head": np.zeros(6, int)})


def answers(before, n_clients, *, seed=0):
    """Updates of honest clients of very different size: a common part, and one of their own."""
    rng = np.random.default_rng(seed)
    common = {n: rng.normal(0, 0.01, a.shape) for n, a in before.tensors.items()}
    found = []
    for m in range(n_clients):
        long = 4.0 if m == n_clients - 1 else 1.0
        tensors = {
            name: (array + long * np.abs(common[name] + rng.normal(0, 0.01, array.shape))).astype(
                np.float32
            )
            for name, array in before.tensors.items()
            if name.startswith("weights.")
        }
        images = 1000 if m == n_clients - 1 else 100
        tensors["report.loss"] = np.array(1.0)
        tensors["report.sizes"] = np.full(6, images // 6)
        tensors["report.mean_projection"] = np.zeros(before.centers.shape[1])
        found.append(
            Summary(
                images, np.zeros((0, before.centers.shape[1])), client=f"s{m:02}", tensors=tensors
            )
        )
    return found


def weights(tensors):
    return {n: a for n, a in tensors.items() if n.startswith("weights.")}


def step_of(method, summaries, before):
    broadcast = Broadcast(TRAIN, 0, before)
    found = server.aggregate(method, summaries, broadcast, np.random.default_rng(0))[1]
    return np.concatenate(
        [(a - before.tensors[n]).ravel() for n, a in sorted(weights(found).items())]
    )


def moved(summary, before, factor):
    """Return the summary with a multiple of its update."""
    new = {
        n: (before.tensors[n] + factor * (a - before.tensors[n])).astype(np.float32)
        for n, a in weights(summary.tensors).items()
    }
    new |= {n: np.abs(a) for n, a in new.items() if n.endswith("running_var")}
    return replace(summary, tensors={**summary.tensors, **new})


def all_images(summary, before):
    return replace(moved(summary, before, -1), n_samples=2**40)


def far(summary, before):
    return moved(summary, before, -1e6)


def everything(summary, before):
    return replace(far(summary, before), n_samples=2**40)


def huge(summary, before):
    largest = {n: np.full(a.shape, 3e38, np.float32) for n, a in weights(summary.tensors).items()}
    return replace(summary, n_samples=2**40, tensors={**summary.tensors, **largest})


def infinite(summary, before):
    name = next(iter(weights(summary.tensors)))
    array = summary.tensors[name].copy()
    array.flat[0] = np.inf
    return replace(summary, tensors={**summary.tensors, name: array})


LIES = [all_images, far, everything, huge, infinite]


@pytest.mark.parametrize("rule", ["mean", "trimmed", "median"])
@pytest.mark.parametrize(("n_clients", "n_liars"), [(4, 1), (10, 3)])
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_liars_do_not_take_over(small, before, lie, n_clients, n_liars, rule):
    honest = answers(before, n_clients)
    told = [lie(s, before) for s in honest[:n_liars]] + honest[n_liars:]
    truth = step_of(small(robust_average="off"), honest[n_liars:], before)
    found = step_of(small(robust_average=rule), told, before)
    assert np.isfinite(found).all()
    # within limits a liar still pulls the mean, but no more than some honest updates
    most = 1.0 if rule != "mean" or lie in (all_images, infinite) else 4.0 * n_liars
    assert np.linalg.norm(found - truth) < most * np.linalg.norm(truth)


@pytest.mark.parametrize(("n_clients", "n_liars"), [(4, 1), (10, 3)])
def test_within_the_limits_liars_move_weights_by_ten_typical_updates(
    small, before, n_clients, n_liars
):
    """As many images and as long an update as nobody notices: the worst that they can do."""
    honest = answers(before, n_clients)
    lies = [replace(moved(s, before, -9.9), n_samples=1990) for s in honest[:n_liars]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = step_of(small(robust_average="mean"), lies + honest[n_liars:], before)
    typical = np.median([np.linalg.norm(step_of(small(robust_average="off"), [s], before)) for s in honest])  # fmt: skip
    assert 4 * typical < np.linalg.norm(found) < 10 * typical


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_liars_are_told_by_name(small, before, lie):
    honest = answers(before, 10)
    told = [lie(honest[0], before), *honest[1:]]
    with pytest.warns(ConspicuousSiteWarning) as caught:
        robust.limited(told, before, Copies(CPU))
    assert [str(w.message).split(": ")[0] for w in caught] == ["Client 's00' is conspicuous"]


@pytest.mark.parametrize("n_clients", [1, 3, 4, 10])
def test_honest_steps_are_the_same_bits(small, before, n_clients):
    honest = answers(before, n_clients)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, limited = (step_of(small(robust_average=r), honest, before) for r in ("off", "mean"))
    np.testing.assert_array_equal(plain, limited)


@pytest.mark.parametrize("block", [robust.BLOCK, 1])
def test_lengths_are_those_of_weights_and_of_statistics(before, block, monkeypatch):
    monkeypatch.setattr(robust, "BLOCK", block)
    sent = answers(before, 3)
    only = {n: a for n, a in weights(sent[1].tensors).items() if n.endswith(robust.STATISTICS)}
    sent[1] = replace(sent[1], tensors=only)  # as to calibrate
    found = robust._lengths(sent, before, Copies(CPU))
    for statistics, lengths in found.items():
        wanted = [
            np.sqrt(
                sum(
                    ((a.astype(float) - before.tensors[n]) ** 2).sum()
                    for n, a in weights(summary.tensors).items()
                    if n.endswith(robust.STATISTICS) == statistics
                )
            )
            for summary in sent
        ]
        np.testing.assert_allclose(lengths, wanted, rtol=1e-12)


def test_all_weights_infinite(small, before):
    with pytest.raises(MessageError, match="weights of all clients have NaN or infinity"):
        step_of(small(), [infinite(s, before) for s in answers(before, 2)], before)


def test_what_no_network_can_have_is_refused(small, before):
    (good,) = answers(before, 1)
    broadcast = Broadcast(TRAIN, 0, before)
    small().check_answer(good, broadcast)
    name = next(n for n in good.tensors if n.endswith("running_var"))
    for change, words in (
        ({name: -good.tensors[name]}, "Client 's00' sent a negative variance in weights"),
        ({"report.sizes": np.full(6, 2**60)}, "reported a cluster of more images than it has"),
    ):
        with pytest.raises(MessageError, match=words):
            small().check_answer(replace(good, tensors={**good.tensors, **change}), broadcast)


def test_means_without_extremes_by_hand():
    sent = [np.float32([x, -x]) for x in (0, 1, 2, 3, 4, 5, 6, 7, 8, 1e30)]
    images = [1, 1, 1, 1, 1, 1, 1, 1, 1, 9]
    for rule, wanted in (("trimmed", 4.5), ("median", 4.5)):
        found = robust.without_extremes(sent, images, rule, CPU)
        np.testing.assert_allclose(found, [wanted, -wanted])
    found = robust.without_extremes(sent[:3], [5, 1, 1], "median", CPU)
    np.testing.assert_array_equal(found, [1, -1])


@pytest.mark.parametrize("rule", ["trimmed", "median"])
def test_statistics_without_extremes(rule):
    parts = []
    for m in range(10):
        mean, var = (
            (np.float32([1.0]), np.float32([4.0]))
            if m > 2
            else (np.float32([1e9]), np.float32([1e30]))
        )
        named = {"weights.n.running_mean": mean, "weights.n.running_var": var}
        parts.append(Summary(100, np.zeros((0, 2)), client=str(m), tensors=named))
    found = server.pooled_statistics(parts, rule)
    assert {n: a.tolist() for n, a in found.items()} == {
        "weights.n.running_mean": [1.0],
        "weights.n.running_var": [4.0],
    }


@pytest.fixture(scope="module")
def ten(digits):
    return digits.train[:200], np.arange(200) % 5


@pytest.mark.parametrize(
    "options", [{}, {"batch_norm": "recalibrate", "server_momentum": 0.5}], ids=str
)
def test_an_honest_run_is_the_same_bits(small, ten, options):
    images, clients = ten
    off, mean = (
        small(robust_average=r, **options).fit(images, clients=clients).model_
        for r in ("off", "mean")
    )
    for name, array in off.tensors.items():
        np.testing.assert_array_equal(array, mean.tensors[name])


class Lying(SerialEngine):
    """The first client claims everything, in every step."""

    def gather(self, broadcast):
        first, *others = super().gather(broadcast)
        if len(first.centers):
            return [first, *others]
        model = broadcast.model or initial_model("small", "batch", broadcast.seed)
        return [everything(first, model), *others]


@pytest.mark.parametrize("rule", ["mean", "trimmed"])
def test_a_run_with_a_liar_ends_and_names_it(small, ten, rule):
    images, clients = ten
    method = small(robust_average=rule)
    model = method.fit(images, clients=clients, engine=Lying).model_
    assert all(np.isfinite(a).all() for a in model.tensors.values())
    assert np.isfinite(method.transform(images[:9])).all()
    file = ModelFile(model, None, tuple("01234"), 200)
    told = {report.client: report.reason for report in reports_of(file)}
    assert "many times the rows of a typical site" in told.pop("0")
    assert set(told.values()) == {""}


@pytest.mark.parametrize("clusterer", ["jigsaw", "feca"])
def test_a_head_finds_liars_and_computes_nothing_for_reports(small, clusterer):
    """Heads compute everything that decides what is used, and nothing that is only reported."""
    rng = np.random.default_rng(0)
    rows = 10 * rng.integers(0, 5, (7, 90, 2)) + rng.normal(0, 0.2, (7, 90, 2))
    of_head = small(clusterer=clusterer).make_clusterer(0)
    first = Broadcast(0, 0)
    sent = [
        replace(of_head.summarize(own, first, rng), client=str(m)) for m, own in enumerate(rows)
    ]
    sent[0] = replace(sent[0], centers=sent[0].centers + 1e5 * rng.normal(size=(6, 2)))
    found = of_head.aggregate(sent, first, np.random.default_rng(0))
    of_head.for_reports = True
    reported = of_head.aggregate(sent, first, np.random.default_rng(0))
    assert found.tensors["site_notes"][0] > 0 == found.tensors["site_notes"][1:].max()
    shown = {"site_influence"} | ({"support_margin"} if clusterer == "jigsaw" else set())
    assert shown <= set(reported.tensors)
    assert not shown & set(found.tensors)
    others = {n: t for n, t in reported.tensors.items() if n not in shown}
    assert found == replace(reported, tensors=others)
