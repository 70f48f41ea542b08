"""Random numbers for compiled functions: SplitMix64, one state for each start of a search."""

import numpy as np

from fedjigsaw.kernels.compiled._jit import compiled

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
PER_UNIT = 1.0 / 2**53


@compiled
def mixed(word):
    """Mix the bits of a word."""
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))


@compiled
def start_state(seed, start):
    """Return the state of one start; starts of one seed are independent of each other."""
    state = np.empty(1, np.uint64)
    state[0] = mixed(mixed(np.uint64(seed)) + np.uint64(start) * STEP)
    return state


@compiled
def uniform(state):
    """Draw a number from [0, 1), and advance the state."""
    state[0] += STEP
    return np.float64(np.int64(mixed(state[0]) >> np.uint64(11))) * PER_UNIT
