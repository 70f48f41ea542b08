"""Projections, calibration and training at one client."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedjigsaw.deep import client
from fedjigsaw.deep.network import initial_model
from fedjigsaw.deep.trainer import Trainer, batches

CPU = torch.device("cpu")


def test_batches_go_through_all_images_once_per_epoch(rng):
    table = batches(10, 3, 2, rng)
    assert table.shape == (6, 3)
    for epoch in (table[:3], table[3:]):
        assert len(np.unique(epoch)) == 9  # the tenth would not fill a batch


def test_a_small_client_fills_its_batch_up(rng):
    table = batches(4, 6, 3, rng)
    assert table.shape == (3, 6)
    assert all(set(row) == {0, 1, 2, 3} for row in table)


@pytest.fixture
def trainer(small):
    made = Trainer(small([4, 3]).recipe, [4, 3], (3, 8, 8), CPU)
    made.use(initial_model("small", 0), "weights")
    return made


@pytest.mark.parametrize(("precision", "rounds"), [("float32", False), ("auto", True)])
def test_float32_does_not_round_to_tensor_float_32(small, monkeypatch, precision, rounds):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not rounds)
    Trainer(small(precision=precision).recipe, [6], (3, 8, 8), CPU)
    assert torch.backends.cudnn.allow_tf32 == rounds


def train(trainer, images, **options):
    z = trainer.project(images, None)
    centers = [z[:k] for k in (4, 3)]
    given = {"epochs": 3, "rate": 0.05, "rng": np.random.default_rng(0), **options}
    return trainer.train(images, client.label(z, centers), centers, **given)


def test_features_are_the_same_where_training_is_in_half_precision(trainer, few):
    images = torch.from_numpy(few[0])
    features, projections = trainer.features(images), trainer.project(images, None)
    trainer.half = True
    assert torch.equal(trainer.features(images), features)
    assert not torch.equal(trainer.project(images, None), projections)


def test_training_lowers_the_loss_and_is_repeatable(trainer, few):
    images = torch.from_numpy(few[0])
    start = trainer.weights.vector.clone()
    first = train(trainer, images, epochs=1)
    once = trainer.weights.vector.clone()
    trainer.weights.load(start)
    assert train(trainer, images, epochs=1) == first
    assert torch.equal(trainer.weights.vector, once)
    trainer.weights.load(start)
    assert train(trainer, images, epochs=8) < first


def test_a_rate_of_zero_changes_only_statistics(trainer, few):
    before = trainer.weights.vector.clone()
    train(trainer, torch.from_numpy(few[0]), rate=0.0)
    n = trainer.weights.n_parameters
    assert torch.equal(trainer.weights.vector[:n], before[:n])
    assert not torch.equal(trainer.weights.vector[n:], before[n:])


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_a_step_is_that_of_torchs_sgd(small, few, momentum):
    """Two steps of ours beside torch.optim.SGD on the same batches and views."""
    made = small([4], momentum=momentum, weight_decay=0.01, batch_size=16)
    ours, theirs = (Trainer(made.recipe, [4], (3, 8, 8), CPU) for _ in range(2))
    images = torch.from_numpy(few[0][:16])
    for trainer in (ours, theirs):
        trainer.use(initial_model("small", 0), "weights")
        trainer._set_centers(
            [F.normalize(torch.randn(4, 32, generator=torch.Generator().manual_seed(0)))]
        )
        trainer._images.copy_(images)
        trainer._labels.copy_(torch.arange(16)[None] % 4)
        trainer._draws.uniform_(generator=torch.Generator().manual_seed(1))
        trainer._rate.fill_(0.1)
        trainer.network.train()
    options = {"lr": 0.1, "momentum": momentum, "weight_decay": 0.01}
    solver = torch.optim.SGD(theirs.network.parameters(), **options)
    for _ in range(2):
        ours._step()
        solver.zero_grad()
        theirs.loss().backward()
        solver.step()
    torch.testing.assert_close(ours.weights.vector, theirs.weights.vector, atol=1e-6, rtol=1e-4)


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize("half", [False, True])
def test_compiled_training_is_the_same_and_compiled_once(small, few, monkeypatch, half):
    """All that torch.compile does but the last step, code of its own: that takes a minute."""
    from torch._dynamo import lookup_backend  # takes seconds to import

    graphs = []

    def quick(graph, inputs):
        graphs.append(graph)
        return lookup_backend("aot_eager_decomp_partition")(graph, inputs)

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=quick, fullgraph=True))
    torch.compiler.reset()
    images, vectors = torch.from_numpy(few[0][:64]), []
    for compiled in (False, True, True):  # what one trainer compiled serves the next
        trainer = Trainer(small([4, 3], compile=compiled).recipe, [4, 3], (3, 8, 8), CPU)
        trainer.use(initial_model("small", 0), "weights")
        trainer.half = half
        start = trainer.weights.vector.clone()
        train(trainer, images, epochs=1, rate=0.01)
        vectors.append(trainer.weights.vector)
    assert len(graphs) == 1
    assert torch.equal(vectors[1], vectors[2])
    n = trainer.weights.n_parameters
    for part in (slice(n), slice(n, None)):  # parameters, statistics
        plain, other, origin = (v[part] for v in (*vectors[:2], start))
        assert (other - plain).norm() < (0.1 if half else 1e-2) * (plain - origin).norm()


def test_calibration_measures_the_images(trainer, few):
    images = torch.from_numpy(few[0])
    trainer.calibrate(images, 0)
    seen = []
    trainer.network.stem_norm.register_forward_hook(lambda m, i, o: seen.append(o.clone()))
    trainer.project(images, 1)
    out = torch.cat(seen)
    assert float(out.mean()) == pytest.approx(0, abs=0.1)
    assert float(out.var()) == pytest.approx(1, abs=0.2)
