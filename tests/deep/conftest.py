"""Small images and small networks: all of it on one thread of a CPU, in seconds."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedjigsaw.deep import DeepFeCA, images, network, trainer  # noqa: E402


@pytest.fixture(scope="session")
def digits():
    return images.load("digits")


@pytest.fixture(scope="session")
def few(digits):
    """240 digits over three clients: images, client ids."""
    return digits.train[:240], np.arange(240) % 3


@pytest.fixture(scope="session")
def small():
    """An estimator for `few`, with whatever else a test wants."""

    def make(n_clusters=6, cls=DeepFeCA, **params):
        quick = {
            "network": "small",
            "n_rounds": 2,
            "local_epochs": 1,
            "batch_size": 32,
            "flip": 0.0,
            "device": "cpu",
            "random_state": 0,
        }
        return cls.from_settings({"n_clusters": n_clusters, **quick, **params})

    return make


@pytest.fixture
def shallow(monkeypatch):
    """Networks of two blocks instead of three, which take less time to compile."""

    def build(name, size, *, seed=0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return network.Network((16, 32), 1, 32, 32, 1)

    for module in (network, trainer):
        monkeypatch.setattr(module, "build", build)
    network.initial_model.cache_clear()
    yield
    network.initial_model.cache_clear()
