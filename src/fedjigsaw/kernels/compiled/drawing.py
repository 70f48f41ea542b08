"""Random numbers for compiled functions: SplitMix64, one state for each start of a search."""

import numpy as np
from numba.extending import register_jitable

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
PER_UNIT = 1.0 / 2**53


@register_jitable
def mixed(word):
    """Mix the bits of a word, or of many."""
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))


def start_states(seeds, n_starts):
    """Return states, shape (m, n_starts): starts of one seed are independent of each other."""
    starts = np.arange(n_starts, dtype=np.uint64) * STEP
    return mixed(mixed(seeds.astype(np.uint64))[:, None] + starts)


@register_jitable
def uniform(state):
    """Return the number in [0, 1) of a state; each number takes a `STEP` to the next one."""
    return np.float64(np.int64(mixed(state) >> np.uint64(11))) * PER_UNIT
