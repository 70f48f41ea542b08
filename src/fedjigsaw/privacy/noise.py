"""Noise on whole numbers, from OpenDP's exact sampler.

Floating-point noise gives rows away in its low-order bits: not every float can be reached from
every other. So sums are whole numbers on a grid, and the noise is the discrete Gaussian, drawn
without any rounding from the random numbers of the operating system.
"""

from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Ints
from fedjigsaw.privacy.accounting import gaussian
from fedjigsaw.privacy.guarantee import Privacy
from fedjigsaw.random import stream


@dataclass(frozen=True)
class Noise:
    """Where the noise of one answer comes from.

    Parameters
    ----------
    insecure : Generator or None
        Seeded random numbers, for tests and studies alone. None is OpenDP's sampler.
    """

    insecure: np.random.Generator | None = None

    @classmethod
    def for_answer(cls, privacy: Privacy, round_number: int, client: str) -> "Noise":
        """Return the noise for a client's answer in one round."""
        if privacy.insecure_seed is None:
            return cls()
        return cls(stream(privacy.insecure_seed, round_number, f"noise of {client}"))

    def add(self, values: Ints, scale: float) -> Ints:
        """Add independent discrete Gaussian noise of this standard deviation to each number."""
        if self.insecure is not None:
            drawn = np.rint(self.insecure.normal(0.0, scale, values.shape))
            return values + drawn.astype(np.int64)
        drawn = gaussian(scale)(values.ravel().tolist())
        return np.array(drawn, dtype=np.int64).reshape(values.shape)
