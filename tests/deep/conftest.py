"""Small images and small networks: all of it on one thread of a CPU, in seconds."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedjigsaw.deep import DeepFeCA, images  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)  # tests run side by side; two threads each would only wait


@pytest.fixture(scope="session")
def digits():
    return images.load("digits")


@pytest.fixture(scope="session")
def few(digits):
    """240 digits over three clients: images, client ids."""
    return digits.train[:240], np.arange(240) % 3


@pytest.fixture
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
