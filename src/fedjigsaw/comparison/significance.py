"""Which method is best, and which are not significantly worse.

Every method sees the same splits and seeds, so two methods are compared seed by seed, by a paired
t-test. The p-values of all methods that are compared with the best one are corrected by Holm
(1979), since the more methods there are, the more of them differ by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedjigsaw._typing import Floats

LEVEL = 0.05  # a p-value from which on a method is not significantly worse
SAME = 1e-9  # relative differences up to this are those of rounding
TEST = "paired t-test over seeds with Holm's correction"

Values = Mapping[int, float]  # seed -> number


@dataclass(frozen=True)
class Verdict:
    """What the seeds say about one number.

    Parameters
    ----------
    best : labels of the methods with the best mean: one, or several with the same mean.
    p_values : of the other methods, beside the best one; None if fewer than two seeds are common.
    """

    best: tuple[str, ...] = ()
    p_values: Mapping[str, float | None] | None = None

    @property
    def close(self) -> tuple[str, ...]:
        """Labels of methods that are not significantly worse than the best."""
        p_values = self.p_values or {}
        return tuple(label for label, p in p_values.items() if p is not None and p >= LEVEL)


def judge(values: Mapping[str, Values], *, least: bool) -> Verdict:
    """Find the best of several methods, and test the others against it.

    Parameters
    ----------
    values : for each method, a number for each seed.
    least : whether the smallest number is the best, not the largest.

    Examples
    --------
    >>> found = judge({"a": {0: 1.0, 1: 1.1}, "b": {0: 2.0, 1: 2.2}}, least=True)
    >>> found.best, found.close, round(found.p_values["b"], 3)
    (('a',), (), 0.03)
    """
    means = {label: float(np.mean(list(own.values()))) for label, own in values.items() if own}
    if len(means) < 2:
        return Verdict()
    top = min(means.values()) if least else max(means.values())
    best = tuple(label for label, mean in means.items() if _is_same(mean, top))
    others = [label for label in means if label not in best]
    p_values = {label: _p_value(values[best[0]], values[label]) for label in others}
    return Verdict(best, holm(p_values))


def paired_p(first: Floats, second: Floats) -> float:
    """Return the two-sided p-value of a paired t-test; 1 if all pairs are equal.

    Examples
    --------
    >>> paired_p(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    1.0
    >>> round(paired_p(np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.25, 3.75])), 4)
    0.0742
    """
    from scipy.special import stdtr

    scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
    differences = np.where(np.abs(first - second) <= SAME * scale, 0.0, first - second)
    if not differences.any():
        return 1.0
    spread = float(differences.std(ddof=1))
    if spread <= SAME * float(np.abs(differences).max()):  # the same difference with every seed
        return 0.0
    t = float(differences.mean()) / (spread / np.sqrt(len(differences)))
    return float(2 * stdtr(len(differences) - 1, -abs(t)))


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Correct p-values for their number, by the method of Holm.

    Examples
    --------
    >>> holm({"a": 0.03, "b": 0.01, "c": None})
    {'a': 0.03, 'b': 0.02, 'c': None}
    """
    known = sorted((p, label) for label, p in p_values.items() if p is not None)
    corrected: dict[str, float] = {}
    least = 0.0
    for place, (p, label) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - place)))
        corrected[label] = least
    return {label: corrected.get(label) for label in p_values}


def _p_value(first: Values, second: Values) -> float | None:
    common = sorted(first.keys() & second.keys())
    if len(common) < 2:
        return None
    return paired_p(*(np.array([own[seed] for seed in common]) for own in (first, second)))


def _is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))
