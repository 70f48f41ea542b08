r"""Noisy column statistics, for a common scaler under differential privacy.

A row is clipped to the bounds, and each of its d values is moved to u in (-1, 1). Then it adds

.. math:: (1, u_1, 2 u_1^2 - 1, \dots, u_d, 2 u_d^2 - 1)

to one table of 1 + 2d sums. No entry is larger than 1, so a row's vector is at most
:math:`\sqrt{1 + 2d}` long: the sensitivity of the table. Sums are whole numbers on a grid, and the
noise is that of :mod:`fedjigsaw.privacy.noise`. With a noisy count n and noisy sums A and B of a
column, its mean is A / n and its mean square (1 + B / n) / 2.
"""

import math
from collections.abc import Iterable

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.columns.scaling import Stats
from fedjigsaw.errors import ParameterError
from fedjigsaw.privacy.accounting import multiplier_for
from fedjigsaw.privacy.guarantee import ROW, Privacy, warn_of_large_delta
from fedjigsaw.privacy.noise import Noise
from fedjigsaw.privacy.releases import GRID


def check_unit(privacy: Privacy) -> None:
    """Raise a ParameterError if statistics cannot keep this promise."""
    if privacy.unit != ROW:
        raise ParameterError(
            "Statistics protect each row, not a whole site. Make the scaler from the bounds "
            "instead, which costs nothing: `fedjigsaw scaler --bounds columns.json`"
        )


def count_outside(rows: Floats, privacy: Privacy) -> int:
    """Count the rows that are clipped."""
    low, high = privacy.limits(rows.shape[1])
    return int(((rows < low) | (rows > high)).any(axis=1).sum())


def exact_table(blocks: Iterable[Floats], privacy: Privacy, n_columns: int) -> Ints:
    """Return the exact sums, on the grid: the count, then both sums of each column."""
    low, high = privacy.limits(n_columns)
    table: Ints = np.zeros(1 + 2 * n_columns, dtype=np.int64)
    for rows in blocks:
        u = (np.clip(rows, low, high) - (low / 2 + high / 2)) / (high / 2 - low / 2)
        u = np.clip(u, -1, 1)
        table[0] += len(rows) * GRID
        table[1::2] += np.rint(GRID * u).astype(np.int64).sum(axis=0)
        table[2::2] += np.rint(GRID * (2 * u**2 - 1)).astype(np.int64).sum(axis=0)
    return table


def sensitivity(n_columns: int) -> float:
    """Return the largest length of the vector that a row adds to the table."""
    return GRID * math.sqrt(1 + 2 * n_columns)


def release(table: Ints, privacy: Privacy, client: str, columns: tuple[str, ...]) -> Stats:
    """Add noise to exact sums, and return the statistics that they stand for.

    A spread that is smaller than the noise is stated as the noise.
    """
    check_unit(privacy)
    scale = multiplier_for(privacy.epsilon, privacy.delta) * sensitivity(len(columns))
    noisy = Noise.for_answer(privacy, 0, client).add(table, scale) / GRID
    n = max(1, round(float(noisy[0])))
    warn_of_large_delta(privacy, n)
    mean = np.clip(noisy[1::2] / n, -1, 1)
    square = np.clip((1 + noisy[2::2] / n) / 2, 0, 1)
    noise = scale / GRID / n
    # noise makes the square of a mean larger; on average, by its own square
    spread = np.clip(square - mean**2 + noise**2, min(1.0, noise), 1)
    low, high = privacy.limits(len(columns))
    half = high / 2 - low / 2
    return Stats(client, columns, n, low / 2 + high / 2 + mean * half, n * spread * half**2)
