"""Projections, calibration and training at one client."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedjigsaw.deep.deepcluster import ABSENT, Prototypes
from fedjigsaw.deep.network import FlatWeights, initial_model
from fedjigsaw.deep.trainer import OnDevice, Trainer, batches

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
    made.use(initial_model("small", "batch", 0), "weights")
    return made


@pytest.mark.parametrize(("precision", "rounds"), [("float32", False), ("auto", True)])
def test_float32_does_not_round_to_tensor_float_32(small, monkeypatch, precision, rounds):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not rounds)
    Trainer(small(precision=precision).recipe, [6], (3, 8, 8), CPU)
    assert torch.backends.cudnn.allow_tf32 == rounds


def test_images_of_64_pixels_are_learned(small, rng):
    """Their first convolution halves them; all else is as for small ones."""
    kinds = rng.integers(256, size=(4, 3, 8, 8), dtype=np.uint8).repeat(8, axis=2).repeat(8, axis=3)
    noise = rng.integers(-20, 20, size=(32, 3, 64, 64))
    images = np.clip(kinds[np.arange(32) % 4] + noise, 0, 255).astype(np.uint8)
    deep = small(4, n_rounds=3, local_epochs=4, batch_size=8, clusterer="jigsaw")
    states = list(deep.train(images, clients=np.arange(32) // 16))
    losses = [state.numbers["loss"] for state in states]
    assert losses[-1] < losses[0]
    features = deep.load_model(states[-1].model).transform(images)
    assert features.shape == (32, 64)
    own = [np.ptp(features[np.arange(32) % 4 == kind], axis=0).mean() for kind in range(4)]
    assert np.mean(own) < np.ptp(features, axis=0).mean()


def train(trainer, images, **options):
    z = trainer.project(images, None)
    prototypes = [Prototypes.of(z[:k], centered=False) for k in (4, 3)]
    labels = torch.stack([p.label(z) for p in prototypes])
    given = {"epochs": 3, "rate": 0.05, "rng": np.random.default_rng(0), **options}
    return trainer.train(images, labels, prototypes, **given)


def test_a_model_is_put_on_the_device_once_for_all(small, monkeypatch):
    """Also where the next model has the same weights, as after a step of clustering."""
    put, times = FlatWeights.flatten, []

    def counted(self, arrays):
        times.append(1)
        return put(self, arrays)

    monkeypatch.setattr(FlatWeights, "flatten", counted)
    shared = OnDevice()
    both = [Trainer(small([4, 3]).recipe, [4, 3], (3, 8, 8), CPU, shared) for _ in range(2)]
    model, other = (initial_model("small", "batch", seed) for seed in (0, 1))
    same = replace(model, centers=np.ones((3, model.centers.shape[1])))
    for given, n_times in ((model, 1), (same, 1), (other, 2), (model, 3)):
        for one in both:
            one.use(given, "weights")
            for name, array in one.weights.save().items():
                np.testing.assert_array_equal(array, given.tensors[f"weights.{name}"])
        assert len(times) == n_times


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
        trainer.use(initial_model("small", "batch", 0), "weights")
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
        trainer.use(initial_model("small", "batch", 0), "weights")
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


def test_the_proximal_term_keeps_weights_near(small, few):
    images = torch.from_numpy(few[0])
    moved = []
    for proximal in (0.0, 1.0):
        trainer = Trainer(small([4, 3], proximal=proximal).recipe, [4, 3], (3, 8, 8), CPU)
        trainer.use(initial_model("small", "batch", 0), "weights")
        n = trainer.weights.n_parameters
        before = trainer.weights.vector[:n].clone()
        train(trainer, images)
        moved.append(float((trainer.weights.vector[:n] - before).norm()))
    assert moved[1] < 0.8 * moved[0]


def test_small_crops_are_used(small, few):
    images = torch.from_numpy(few[0])
    trainer = Trainer(small([4, 3], small_crops=2).recipe, [4, 3], (3, 8, 8), CPU)
    trainer.use(initial_model("small", "batch", 0), "weights")
    assert math.isfinite(train(trainer, images))


def test_calibration_measures_the_images(trainer, few):
    images = torch.from_numpy(few[0])
    trainer.calibrate(images, 0)
    seen = []
    trainer.network.stem_norm.register_forward_hook(lambda m, i, o: seen.append(o.clone()))
    trainer.project(images, 1)
    out = torch.cat(seen)
    assert float(out.mean()) == pytest.approx(0, abs=0.1)
    assert float(out.var()) == pytest.approx(1, abs=0.2)


def test_projections_are_cached_until_the_weights_change(trainer, few):
    images = torch.from_numpy(few[0])
    first = trainer.cached_projections(images, 3)
    assert trainer.cached_projections(images, 3) is first
    assert not torch.equal(trainer.cached_projections(images, 4), first)
    trainer.weights.vector.mul_(1.5)
    assert not torch.equal(trainer.cached_projections(images, 3), first)


def test_projections_have_length_one(trainer, few):
    z = trainer.project(torch.from_numpy(few[0]), 5)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(len(z)))


def test_heads_with_fewer_centers_leave_their_places_empty(trainer):
    trainer._set_centers([torch.ones(2, 32), torch.full((3, 32), 2.0)])
    assert trainer._bias.tolist() == [0, 0, ABSENT, ABSENT, 0, 0, 0]
    assert trainer._centers[[0, 1, 4, 6], 0].tolist() == [1, 1, 2, 2]
