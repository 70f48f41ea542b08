"""Copies of clients' arrays on the server's device, made once for several passes over them."""

import numpy as np
import torch
from torch import Tensor

KEPT_BYTES = 2**31  # of copies that stay on a device


class Copies:
    """Arrays on a device. Each is copied once, as long as all copies are small enough to be kept.

    On a CPU, a tensor is a view of its array, and nothing is copied or kept.

    Examples
    --------
    >>> Copies(torch.device("cpu")).of(np.zeros(3, np.float32)).dtype
    torch.float32
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._kept: dict[int, tuple[np.ndarray, Tensor]] = {}
        self._left = KEPT_BYTES

    def of(self, array: np.ndarray) -> Tensor:
        """Return the array as a tensor on the device."""
        if id(array) in self._kept:
            return self._kept[id(array)][1]
        copy = torch.from_numpy(array).to(self.device)
        if self.device.type != "cpu" and array.nbytes <= self._left:
            self._left -= array.nbytes
            self._kept[id(array)] = array, copy  # the array as well: its id stays its own
        return copy
