"""Weights that travel in bfloat16: rounded on the way, exact at the server."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedjigsaw.deep import DeepFeCA, images, wire
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.site import ImageSite
from fedjigsaw.errors import MessageError, ParameterError
from fedjigsaw.messages import Broadcast, Model, Summary
from fedjigsaw.methods import build

pytestmark = pytest.mark.deep
QUICK = {
    "n_clusters": 5, "network": "small", "n_rounds": 2, "local_epochs": 1, "batch_size": 32,
    "device": "cpu", "random_state": 0, "clusterer": "jigsaw",
}  # fmt: skip
KERNEL, MEAN = "weights.stem.weight", "weights.stem_norm.running_mean"


@pytest.fixture(scope="module")
def digits():
    return images.load("digits").train[:120], np.arange(120) % 3


def made(**settings):
    return DeepFeCA.from_settings({**QUICK, **settings})


def test_rounding_is_that_of_torch():
    some = np.random.default_rng(0).normal(size=1000) * np.logspace(-40, 37, 1000)
    ties = np.uint32([0x3F808000, 0x3F818000, 0xBF808000, 0x00008000]).view(np.float32)
    values = np.concatenate([some, ties, [0.0, -0.0]]).astype(np.float32)
    expected = torch.from_numpy(values).bfloat16().float().numpy()
    np.testing.assert_array_equal(wire.from_bf16(wire.to_bf16(values)), expected)
    table = values[:1000].reshape(4, 5, 50).transpose(2, 0, 1)  # not contiguous
    assert wire.from_bf16(wire.to_bf16(table)).shape == table.shape
    np.testing.assert_array_equal(
        wire.from_bf16(wire.to_bf16(table)), expected[:1000].reshape(4, 5, 50).transpose(2, 0, 1)
    )


def test_half_the_bytes_travel_and_the_result_is_exact(digits):
    plain, half = (
        made(wire=name).fit(digits[0], clients=digits[1]) for name in ("float32", "bf16")
    )
    for side in ("bytes_up", "bytes_down"):
        sent = [getattr(deep.transcript_, side) for deep in (half, plain)]
        assert sent[0] < 0.6 * sent[1]
    assert half.model_.tensors.keys() == plain.model_.tensors.keys()
    assert {half.model_.tensors[n].dtype for n in (KERNEL, MEAN)} == {np.dtype(np.float32)}
    kernels = [deep.model_.tensors[KERNEL] for deep in (half, plain)]
    assert np.abs(kernels[0] - kernels[1]).max() > 0
    np.testing.assert_allclose(*kernels, atol=0.05)
    rounded = wire.from_bf16(wire.to_bf16(kernels[0]))
    assert (rounded != kernels[0]).mean() > 0.9  # the server's weights were never rounded


def test_a_client_that_learns_nothing_changes_nothing():
    before = Model([[0.0]], tensors={KERNEL: np.float32([1.003, -7.1e-5]), MEAN: np.float32([2.7])})
    sent = replace(before, tensors=wire.packed(before.tensors))
    seen = sent.for_clients()
    assert seen.tensors[KERNEL].dtype == np.uint16
    assert seen.tensors.keys() == before.tensors.keys()
    trained = wire.exact(seen.tensors)
    answer = Summary(1, [[0.0]], tensors=wire.differences(trained, seen.tensors))
    assert answer.tensors[MEAN].tolist() == before.tensors[MEAN].tolist()
    assert wire.unpacked(sent) == before
    assert wire.received(answer, wire.unpacked(sent)).tensors[KERNEL].tolist() == (
        before.tensors[KERNEL].tolist()
    )


def test_steps_without_training_leave_the_exact_weights(digits):
    deep, rng = made(wire="bf16"), np.random.default_rng(0)
    model = None
    for number in range(2):  # calibrate, cluster
        sent = None if model is None else model.for_clients()
        summary = deep.summarize(digits[0], Broadcast(number, 0, sent), rng)
        model = deep.aggregate([summary], Broadcast(number, 0, model), rng)
    before = initial_model("small", "batch", 0)
    assert model.for_clients().tensors[KERNEL].dtype == np.uint16
    np.testing.assert_array_equal(wire.unpacked(model).tensors[KERNEL], before.tensors[KERNEL])


def test_steps_far_smaller_than_the_weights_arrive():
    before = {KERNEL: np.float32([1.0, -300.0])}
    step = np.float32([1e-6, 1e-4])  # bfloat16 has none between 1 and 1.0078
    sent = wire.differences({KERNEL: before[KERNEL] + step}, before)
    np.testing.assert_allclose(wire.from_bf16(sent[KERNEL]), step, rtol=0.3)


@pytest.mark.parametrize("more", [{}, {"ema": 0.5, "server_momentum": 0.3}, {"norm": "group"}])
def test_a_run_goes_on_from_any_round(digits, more):
    first, *_, last = made(wire="bf16", **more).train(digits[0], clients=digits[1])
    assert first.model.for_clients().tensors[KERNEL].dtype == np.uint16
    (again,) = made(wire="bf16", **more).train(digits[0], clients=digits[1], start=first)
    assert again.model == last.model
    rounded = made(wire="bf16", **more).load_model(first.model.for_clients())
    exactly = made(**more).load_model(wire.unpacked(first.model))
    features = [deep.transform(digits[0]) for deep in (rounded, exactly)]
    np.testing.assert_allclose(*features, atol=0.1 * np.abs(features[1]).max())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a: wire.from_bf16(a), "as float32"),
        (lambda a: a[:1], "of shape"),
        (lambda a: np.full_like(a, 0x7FC0), "NaN or infinity"),
    ],
)
def test_what_a_client_must_send(digits, spoil, message):
    deep = made(wire="bf16")
    model = None
    rng = np.random.default_rng(0)
    for number in range(3):  # calibrate, cluster, train
        broadcast = Broadcast(number, 0, model)
        sent = None if model is None else model.for_clients()
        summary = deep.summarize(digits[0], Broadcast(number, 0, sent), rng)
        deep.check_answer(summary, broadcast)
        if number < 2:
            model = deep.aggregate([summary], broadcast, rng)
    tensors = {**summary.tensors, KERNEL: spoil(summary.tensors[KERNEL])}
    with pytest.raises(MessageError, match=message):
        deep.check_answer(replace(summary, tensors=tensors), broadcast)


def test_a_site_refuses_weights_that_are_no_numbers(digits, tmp_path):
    np.savez(tmp_path / "a.npz", images=digits[0])
    site = ImageSite("a", str(tmp_path / "a.npz"), device="cpu")
    deep = made(wire="bf16")
    model = Model([[0.0]], tensors={KERNEL: np.full(3, 0x7FC0, np.uint16)})
    question = type("Question", (), {})()
    question.method, question.params = deep.method, deep.configuration()
    question.broadcast = Broadcast(1, 0, model)
    with pytest.raises(MessageError, match="The server sent NaN"):
        site.answer(question)


def test_resnet18_with_a_teacher_fits_into_a_message():
    settings = {"n_clusters": [300] * 3, "ema": 0.9, "server_momentum": 0.5}
    build("deepfeca", {**settings, "wire": "bf16"}).check_federated()
    with pytest.raises(ParameterError, match="Use wire='bf16'"):
        build("deepfeca", settings).check_federated()
