"""Tests of what computes on a GPU: here on one thread of a CPU, unless there is a GPU."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)  # tests run side by side; two threads each would only wait
