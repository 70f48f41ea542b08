"""Training with soft targets, at one client and in a federation."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedjigsaw.deep import client
from fedjigsaw.deep.losses import Balance, assign
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.trainer import Trainer
from fedjigsaw.errors import ParameterError

CPU = torch.device("cpu")


def train(trainer, images, **options):
    z = trainer.project(images, None)
    centers = [z[:k] for k in (4, 3)]
    given = {"epochs": 1, "rate": 0.05, "rng": np.random.default_rng(0), **options}
    return trainer.train(images, client.label(z, centers), centers, **given)


def ready(small, few, sizes=(4, 3), **options):
    """Make a trainer with a batch in its buffers."""
    made = Trainer(small(list(sizes), **options).recipe, sizes, (3, 8, 8), CPU)
    made.use(initial_model("small", 0), "weights")
    images = torch.from_numpy(few[0][:32])
    z = made.project(images, None)
    made._set_centers([z[:k] for k in sizes])
    made._images.copy_(images)
    made._labels.copy_(torch.stack([torch.arange(32) % k for k in sizes]))
    made._start_soft_targets(made._labels, 0.0)
    made._balance.running.copy_(made._balance.wanted)
    made._draws.uniform_(generator=torch.Generator().manual_seed(1))
    made.network.train()
    return made


def predictions(trainer, which=None):
    """Return each view's log-probabilities and soft assignment, before a step changes the balance."""
    draws = trainer._draws if which is None else trainer._draws[which]
    x = trainer._augment(trainer._images.repeat(len(draws) // 32, 1, 1, 1), draws)
    z = F.normalize(trainer.network(x), dim=1)
    logits = trainer._bias + z @ trainer._centers.T / trainer.recipe.objective.temperature
    parts = (F.log_softmax(part, dim=1) for part in logits.split(trainer.sizes, dim=1))
    softness = trainer.recipe.objective.target_softness
    balance = Balance(trainer._balance.wanted, trainer._balance.running.clone())
    given = (z, trainer._centers, trainer._bias, trainer.sizes)
    return torch.cat(list(parts), dim=1), assign(*given, softness, balance)


@pytest.mark.parametrize("sizes", [(4, 4), (4, 3)])
def test_a_view_must_predict_the_other(small, few, sizes):
    trainer = ready(small, few, sizes, targets="swapped")
    logs, found = predictions(trainer)
    loss = trainer.loss()
    by_hand = -(found.roll(32, dims=0) * logs).sum() / (64 * 2)
    assert float(loss.detach()) == pytest.approx(float(by_hand.detach()), rel=1e-5)
    own = -(found * logs).sum() / (64 * 2)
    assert float(own) < float(by_hand) - 0.01  # so the test can tell them apart
    gradients = torch.autograd.grad(loss, trainer.weights.parameters)
    expected = torch.autograd.grad(  # targets carry no gradient
        -(found.roll(32, dims=0).detach() * logs).sum() / (64 * 2), trainer.weights.parameters
    )
    for got, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-3)


def test_of_three_views_the_mean_of_the_others_is_predicted(small, few):
    trainer = ready(small, few, views=3, targets="swapped")
    logs, found = predictions(trainer)
    loss = trainer.loss()
    others = (found.roll(32, dims=0) + found.roll(64, dims=0)) / 2
    assert float(loss.detach()) == pytest.approx(float(-(others * logs).sum() / 192), rel=1e-5)


def test_small_crops_predict_the_large_views(small, few):
    """If the large views are all the same, the mean of their assignments is that of each."""
    trainer = ready(small, few, small_crops=2, targets="swapped")
    trainer._draws[32:64].copy_(trainer._draws[:32])
    logs, found = predictions(trainer, slice(64))
    loss = float(trainer.loss().detach())
    large = float(-(found * logs).sum() / (64 * 2))
    x = trainer._augment_small(trainer._images.repeat(2, 1, 1, 1), trainer._draws[64:])
    z = F.normalize(trainer.network(x), dim=1)
    logits = trainer._bias + z @ trainer._centers.T / trainer.recipe.objective.temperature
    logs = torch.cat([part.log_softmax(1) for part in logits.split(trainer.sizes, 1)], dim=1)
    crops = float(-(found * logs).sum() / (64 * 2))
    assert loss == pytest.approx((large + crops) / 2, rel=1e-5)
    assert abs(large - crops) > 0.01


@pytest.mark.parametrize("targets", ["swapped", "teacher"])
def test_a_share_of_one_is_the_loss_of_stored_labels(small, few, targets):
    losses = []
    for kind in ("stored", targets):
        trainer = ready(small, few, targets=kind, small_crops=1)
        trainer._stored_share.fill_(1.0)
        losses.append(float(trainer.loss().detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_teacher_follows_slowly(small, few):
    """It starts each round at the client's weights; with a momentum of 0 it equals them."""
    images = torch.from_numpy(few[0])
    apart = []
    for momentum in (0.0, 0.9, 1.0):
        options = {"targets": "teacher", "teacher_momentum": momentum}
        trainer = Trainer(small([4, 3], **options).recipe, [4, 3], (3, 8, 8), CPU)
        trainer.use(initial_model("small", 0), "weights")
        n = trainer.weights.n_parameters
        start = trainer.weights.vector[:n].clone()
        train(trainer, images, epochs=1)
        teacher = trainer._teacher_weights.vector[:n]
        apart.append(float((teacher - trainer.weights.vector[:n]).norm()))
    assert torch.equal(teacher, start)
    assert apart[0] == 0 < apart[1] < apart[2]


def test_the_teacher_makes_the_targets(small, few):
    same, other = (ready(small, few, targets=t) for t in ("swapped", "teacher"))
    assert float(same.loss().detach()) == pytest.approx(float(other.loss().detach()), rel=1e-5)
    other._balance.running.copy_(other._balance.wanted)
    other._teacher_weights.vector.mul_(1.3)
    assert abs(float(same.loss().detach()) - float(other.loss().detach())) > 1e-3


@pytest.mark.parametrize("targets", ["swapped", "teacher"])
def test_training_with_soft_targets_is_repeatable(small, few, targets):
    """Nothing is left from an earlier round: shares, teacher and running means start anew."""
    images = torch.from_numpy(few[0])
    trainer = Trainer(small([4, 3], targets=targets).recipe, [4, 3], (3, 8, 8), CPU)
    trainer.use(initial_model("small", 0), "weights")
    start = trainer.weights.vector.clone()
    first = train(trainer, images, epochs=1)
    once = trainer.weights.vector.clone()
    trainer.weights.load(start)
    assert train(trainer, images, epochs=1) == first
    assert torch.equal(trainer.weights.vector, once)
    trainer.weights.load(start)
    assert train(trainer, images, epochs=1, stored_share=0.5) != first


# ---------------------------------------------------------------------------------- federations


@pytest.fixture(scope="module")
def plain(small, few):
    """The losses without any other option."""
    images, clients = few
    return {
        targets: small(targets=targets).fit(images, clients=clients).model_.tensors["report.loss"]
        for targets in ("swapped", "teacher")
    }


@pytest.mark.parametrize(
    "option",
    [
        {"targets": "stored"}, {"target_softness": 1.0}, {"stored_share": 0.5},
        {"warmup_rounds": 1},
        {"targets": "teacher"}, {"targets": "teacher", "teacher_momentum": 0.5},
    ],
    ids=lambda option: "-".join(map(str, option.values())),
)  # fmt: skip
def test_every_option_of_soft_targets_matters(small, few, plain, option):
    images, clients = few
    found = small(**{"targets": "swapped", **option}).fit(images, clients=clients).model_.tensors
    assert all(np.isfinite(a).all() for a in found.values())
    others = "teacher" if "teacher_momentum" in option else "swapped"
    assert plain[others] != found["report.loss"]


def test_warmup_rounds_have_stored_labels(small, few):
    images, clients = few
    stored, swapped = (
        small(warmup_rounds=1, n_rounds=2, targets=t).fit(images, clients=clients).states_
        for t in ("stored", "swapped")
    )
    assert stored[0]["loss"] == pytest.approx(swapped[0]["loss"], rel=1e-5)
    assert abs(stored[1]["loss"] - swapped[1]["loss"]) > 1e-3


@pytest.mark.parametrize("targets", ["swapped", "teacher"])
def test_lanes_and_a_resumed_run_give_the_same_bits(small, few, targets):
    images, clients = few
    options = {"targets": targets, "n_rounds": 2}
    first, last = small([6, 4], **options).train(images, clients=clients)
    for given in ({"start": first}, {}):
        again = small([6, 4], lanes=1 if given else 3, **options)
        *_, state = again.train(images, clients=clients, **given)
        assert all(
            a.tobytes() == state.model.tensors[name].tobytes()
            for name, a in last.model.tensors.items()
        )


@pytest.mark.parametrize("targets", ["swapped", "teacher"])
def test_soft_targets_need_two_views(small, targets):
    with pytest.raises(
        ParameterError, match=f"views of DeepFeCA must be at least 2 with targets='{targets}'"
    ):
        small(targets=targets, views=1)
