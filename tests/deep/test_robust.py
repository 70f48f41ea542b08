"""What a lying client sends: numbers that no network has are refused, and heads find liars."""

from dataclasses import replace

import numpy as np
import pytest

from fedjigsaw.deep.network import initial_model
from fedjigsaw.errors import MessageError
from fedjigsaw.messages import Broadcast, Summary

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


@pytest.mark.parametrize(("n_images", "factor"), [(10**6, 1.0), (100, 1000.0)])
def test_what_clients_send_counts_as_it_is(small, before, n_images, factor):
    """A client with very many images, or with a long step, is as honest as the others."""
    sent = answers(before, 5)
    start = {n: a for n, a in before.tensors.items() if n.startswith("weights.")}
    long = {n: (a + factor * (sent[0].tensors[n] - a)).astype(np.float32) for n, a in start.items()}
    sent[0] = replace(sent[0], n_samples=n_images, tensors={**sent[0].tensors, **long})
    found = small().aggregate(sent, Broadcast(TRAIN, 0, before), np.random.default_rng(0))
    total = sum(s.n_samples for s in sent)
    for name in start:
        mean = sum(s.tensors[name].astype(float) * (s.n_samples / total) for s in sent)
        np.testing.assert_allclose(found.tensors[name], mean, rtol=1e-6, atol=1e-7)


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
