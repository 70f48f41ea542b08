"""Types of arrays."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = Ints | slice  # some rows of an array
RandomState = int | np.random.RandomState | np.random.Generator | None
