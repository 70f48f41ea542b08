"""How much noise a promise needs, and what several releases promise together.

All noise of this package is Gaussian, added to whole numbers. A release whose noise has standard
deviation m times its sensitivity has the *multiplier* m: it satisfies zero-concentrated
differential privacy with rho = 1 / (2 m^2), and the rho of several releases about the same rows add
up, whatever each was chosen to be after seeing the others. OpenDP turns rho into epsilon for a
given delta.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import Any

from fedjigsaw.errors import ExtraError, ParameterError, requires_extra

PRECISION = 1e-6  # relative, of a multiplier
LARGEST = 1e9  # multiplier: more noise than any data can bear


def load_opendp() -> ModuleType:
    """Import OpenDP, or say how to install it."""
    try:
        # not its prelude, which imports scikit-learn and polars, too
        import opendp.combinators
        import opendp.domains
        import opendp.measurements
        import opendp.metrics
        import opendp.mod
    except ImportError as error:
        text = requires_extra("Differential privacy", "opendp", "privacy")
        raise ExtraError(text) from error
    opendp.mod.enable_features("contrib")
    return opendp


def gaussian(scale: float) -> Any:
    """Return OpenDP's discrete Gaussian noise for whole numbers, with this standard deviation."""
    opendp = load_opendp()
    numbers = opendp.domains.vector_domain(opendp.domains.atom_domain(T="i64"))
    distance = opendp.metrics.l2_distance(T=float)
    return opendp.measurements.make_gaussian(numbers, distance, scale=float(scale))


@lru_cache(maxsize=4096)
def epsilon_of(multiplier: float, delta: float) -> float:
    """Return the epsilon that noise with this multiplier gives at this delta.

    Examples
    --------
    >>> round(epsilon_of(4.531, 1e-6), 3)
    1.0
    """
    combinators = load_opendp().combinators
    noise = combinators.make_zCDP_to_approxDP(gaussian(multiplier))
    return float(noise.map(1.0).epsilon(delta))


@lru_cache(maxsize=256)
def multiplier_for(epsilon: float, delta: float) -> float:
    """Return the smallest multiplier that gives at most this epsilon at this delta.

    Examples
    --------
    >>> round(multiplier_for(1.0, 1e-6), 2)
    4.53
    """
    low, high = 1e-3, 1.0
    while epsilon_of(high, delta) > epsilon:
        low, high = high, high * 4
        if high > LARGEST:
            raise ParameterError(f"No noise is large enough for epsilon = {epsilon:g}.")
    while high > low * (1 + PRECISION):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon_of(middle, delta) <= epsilon else (middle, high)
    return high


def composed(multipliers: Iterable[float]) -> float:
    """Return the multiplier of one release that promises what all of these promise together.

    Examples
    --------
    >>> composed([2.0, 2.0, 2.0, 2.0])
    1.0
    """
    return 1 / math.sqrt(sum(1 / multiplier**2 for multiplier in multipliers))
