"""Arrays of clients on the server's device."""

import numpy as np
import pytest
import torch

from fedjigsaw.deep import copies as module
from fedjigsaw.deep.copies import Copies

ELSEWHERE = torch.device("meta")  # a device that is no CPU, on every machine


def test_on_a_cpu_nothing_is_copied():
    array = np.zeros(3, np.float32)
    Copies(torch.device("cpu")).of(array)[0] = 5
    assert array[0] == 5


def test_an_array_is_copied_once():
    one, other = np.zeros(3, np.float32), np.zeros(3, np.float32)
    copies = Copies(ELSEWHERE)
    assert copies.of(one) is copies.of(one)
    assert copies.of(other) is not copies.of(one)


def test_a_new_array_never_gets_the_copy_of_one_that_is_gone():
    copies = Copies(ELSEWHERE)
    shapes = [copies.of(np.zeros(n, np.float32)).shape for n in range(1, 50)]
    assert shapes == [(n,) for n in range(1, 50)]


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 20)
    kept, too_much = np.zeros(3, np.float32), np.zeros(3, np.float32)
    copies = Copies(ELSEWHERE)
    assert copies.of(kept) is copies.of(kept)
    assert copies.of(too_much) is not copies.of(too_much)
