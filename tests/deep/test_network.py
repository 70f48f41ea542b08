"""Networks and their weights as one vector."""

import numpy as np
import pytest
import torch

from fedjigsaw.deep.network import NETWORKS, FlatWeights, build
from fedjigsaw.errors import MessageError, ParameterError

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", NETWORKS)
def test_shapes(name):
    network = build(name, (32, 32)).eval()
    x = torch.zeros(2, 3, 32, 32)
    assert network.features(x).shape == (2, network.n_features)
    assert network(x).shape == (2, network.n_projections)


def test_larger_images_are_halved_once_more():
    small, large = build("small", (32, 32)), build("small", (64, 64))
    assert small.stem.stride == (1, 1)
    assert large.stem.stride == (2, 2)
    shapes = [{n: t.shape for n, t in net.state_dict().items()} for net in (small, large)]
    assert shapes[0] == shapes[1]  # so the server need not know how large images are


def test_the_seed_makes_the_weights_and_leaves_torch_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    a, b, c = (
        build("small", (8, 8), seed=1),
        build("small", (8, 8), seed=1),
        build("small", (8, 8), seed=2),
    )
    assert torch.rand(1) == expected
    assert torch.equal(a.stem.weight, b.stem.weight)
    assert not torch.equal(a.stem.weight, c.stem.weight)


def test_unknown_network():
    with pytest.raises(ParameterError, match="network of DeepFeCA"):
        build("vgg", (32, 32))


@pytest.fixture
def flat():
    network = build("small", (8, 8), seed=3)
    return network, FlatWeights(network, CPU)


def test_the_network_computes_the_same_from_its_vector():
    x = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    network = build("small", (8, 8), seed=3).eval()
    before = network(x).detach()
    FlatWeights(network, CPU)
    torch.testing.assert_close(network(x).detach(), before)


def test_a_change_of_the_vector_is_a_change_of_the_network(flat):
    network, weights = flat
    weights.load(torch.zeros_like(weights.vector))
    assert all(not p.any() for p in network.parameters())
    assert not network.stem_norm.running_var.any()


def test_save_and_flatten_are_inverse(flat):
    _, weights = flat
    arrays = weights.save()
    assert all(not a.flags.writeable and a.base is None for a in arrays.values())
    assert torch.equal(weights.flatten(arrays), weights.vector)
    reference = {
        n: t
        for n, t in build("small", (8, 8), seed=3).state_dict().items()
        if t.is_floating_point()
    }
    assert arrays.keys() == reference.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, reference[name].numpy())


def test_weights_of_another_network_are_refused(flat):
    _, weights = flat
    arrays = weights.save()
    with pytest.raises(MessageError, match="model.s weights do not fit the network"):
        weights.flatten({**arrays, "stem.weight": np.zeros((2, 2))})
    with pytest.raises(MessageError, match="do not fit the network"):
        weights.flatten({})
