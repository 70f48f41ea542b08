r"""Noisy profiles of clusters, for a score under differential privacy.

A row is clipped to the bounds and is in the cluster of its nearest center, which depends on nothing
but the row and the model. It adds one vector to the sums of that cluster, and nothing to those of
the others:

.. math:: (1, \; m_1, u_1, q_1, \; \dots, \; m_d, u_d, q_d, \; e_1, \dots, e_c)

For a column of numbers with a value, m = 0, u in (-1, 1) is the value moved by the bounds, and
:math:`q = 2 u^2 - 1`: with :math:`t = u^2`, the square of the length of (m, u, q) is
:math:`t + (2 t - 1)^2 = 4 t^2 - 3 t + 1 \le 2` for t from 0 to 1. Without a value, it is (1, 0, 0),
of length 1. For a column of categories, e has a 1 at the row's level, or none. So a row's vector is
at most :math:`\sqrt{1 + 2d + c}` long, which is the sensitivity of all sums together: with the row
or without it, they differ by that vector. Sums are whole numbers on a grid, and the noise is that
of :mod:`fedjigsaw.privacy.noise`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.profiles import Profile
from fedjigsaw.errors import ParameterError
from fedjigsaw.privacy.accounting import multiplier_for
from fedjigsaw.privacy.guarantee import ROW, Privacy, warn_of_large_delta
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.releases import GRID

CLEAR = 2.0  # a cell with fewer rows than this, in standard deviations of the noise, is left out


def check_unit(privacy: Privacy) -> None:
    """Raise a ParameterError if a profile cannot keep this promise."""
    if privacy.unit != ROW:
        raise ParameterError(
            "A profile protects each row, not a whole site. Use rows as the unit, or no profile.",
            parameter="unit",
        )


@dataclass
class Sums:
    """Exact sums over the rows of each cluster, on the grid; they never leave without noise.

    Parameters
    ----------
    n_clusters, numbers, levels : as of the profile.
    privacy : its bounds are those of the columns of numbers.
    """

    n_clusters: int
    numbers: Sequence[str]
    levels: Mapping[str, Sequence[str]]
    privacy: Privacy
    table: Ints = field(init=False)

    def __post_init__(self) -> None:
        check_unit(self.privacy)
        n_levels = sum(map(len, self.levels.values()))
        width = 1 + 3 * len(self.numbers) + n_levels
        self.table = np.zeros((self.n_clusters, width), dtype=np.int64)

    @property
    def sensitivity(self) -> float:
        """The largest length of the vector that a row adds."""
        return GRID * math.sqrt(1 + 2 * len(self.numbers) + len(self.levels))

    def add(self, labels: Ints, rows: Floats, codes: Ints | None = None) -> None:
        """Add rows, as in :meth:`fedjigsaw.columns.profiles.Collector.add`."""
        low, high = self.privacy.limits(len(self.numbers))
        np.add.at(self.table[:, 0], labels, GRID)
        for j in range(len(self.numbers)):
            u = (rows[:, j] - (low[j] / 2 + high[j] / 2)) / (high[j] / 2 - low[j] / 2)
            missing = np.isnan(u)
            u = np.where(missing, 0.0, np.clip(u, -1, 1))
            square = np.where(missing, 0.0, 2 * u**2 - 1)
            for part, values in enumerate((missing, u, square)):
                whole = np.rint(GRID * values.astype(np.float64)).astype(np.int64)
                np.add.at(self.table[:, 1 + 3 * j + part], labels, whole)
        start = 1 + 3 * len(self.numbers)
        for j, names in enumerate(self.levels.values()):
            assert codes is not None
            there = codes[:, j] >= 0
            np.add.at(self.table, (labels[there], start + codes[there, j]), GRID)
            start += len(names)


def release(sums: Sums, client: str) -> tuple[Ints, Profile]:
    """Add noise to the sums, and return the sizes of clusters and the profile that they stand for.

    Cells whose number of rows is lost in the noise are left out, and a spread that is smaller than
    the noise is stated as the noise.
    """
    privacy, d = sums.privacy, len(sums.numbers)
    scale = multiplier_for(privacy.epsilon, privacy.delta) * sums.sensitivity
    noisy = Noise.for_answer(privacy, 0, client).add(sums.table, scale) / GRID
    deviation = scale / GRID
    sizes: Ints = np.maximum(0, np.rint(noisy[:, 0])).astype(np.int64)
    sizes[sizes.argmax()] = max(1, sizes.max())
    warn_of_large_delta(privacy, int(sizes.sum()))
    missing, sum_u, sum_q = (noisy[:, 1 + part : 1 + 3 * d : 3] for part in range(3))
    # a column without missing values would only get more noise from their number
    missing = np.where(missing > CLEAR * deviation, missing, 0.0)
    count = np.clip(np.rint(sizes[:, None] - missing), 0, sizes[:, None]).astype(np.int64)
    count[count < CLEAR * deviation] = 0
    mean, squares = _moments(count, sum_u, sum_q, deviation, privacy)
    start, counts = 1 + 3 * d, {}
    for column, names in sums.levels.items():
        found = np.maximum(0, noisy[:, start : start + len(names)])
        counts[column] = _at_most(found, sizes)
        start += len(names)
    levels = {column: tuple(names) for column, names in sums.levels.items()}
    return sizes, Profile(tuple(sums.numbers), count, mean, squares, levels, counts)


def _at_most(counts: Floats, sizes: Ints) -> Ints:
    """Return whole numbers that add up to no more rows than the clusters have."""
    total = counts.sum(axis=1)
    share = np.where(total > sizes, sizes / np.maximum(total, 1), 1.0)
    whole: Ints = np.floor(counts * share[:, None]).astype(np.int64)
    return whole


def _moments(
    count: Ints, sum_u: Floats, sum_q: Floats, deviation: float, privacy: Privacy
) -> tuple[Floats, Floats]:
    """Return means and sums of squares in the units of the columns."""
    n, there = np.maximum(count, 1), count > 0
    mean = np.clip(sum_u / n, -1, 1)
    square = np.clip((1 + sum_q / n) / 2, 0, 1)
    noise = deviation / n
    # noise makes the square of a mean larger; on average, by its own square
    spread = np.clip(square - mean**2 + noise**2, np.minimum(1.0, noise), 1)
    low, high = privacy.limits(count.shape[1])
    half = high / 2 - low / 2
    means = np.where(there, low / 2 + high / 2 + mean * half, 0.0)
    return means, np.where(there, count * spread * half**2, 0.0)
