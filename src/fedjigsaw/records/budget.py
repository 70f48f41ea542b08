"""What the releases of a data set have spent, and what its limit leaves.

Releases add up by their multipliers (see :mod:`fedjigsaw.privacy.dp`), whatever epsilon and
delta each of them was stated with. The total is about rows: noise that protects all rows of a site
(``unit="site"``) protects each of them at least as well, so releases of both units are added.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from fedjigsaw.errors import BudgetError
from fedjigsaw.privacy.dp import ROUNDING, at_most, composed, epsilon_of, multiplier_for

DEFAULT_DELTA = 1e-6
MIN_MULTIPLIER = 0.01  # multiplier; less noise promises nothing


@dataclass(frozen=True)
class Release:
    """One release, as the ledger has it.

    Attributes
    ----------
    number : of its record in the ledger.
    time : when it was spent, in UTC.
    data_set, fingerprint : name and content of the data.
    what, to : what was released, and to whom.
    multiplier : of its noise; None for a release without privacy.
    epsilon, delta, unit : what it promises; infinite, None and None without privacy.
    confirmed : whether it is known that the result was written. It counts in any case.
    """

    number: int
    time: str
    data_set: str
    fingerprint: str
    what: str
    to: str
    multiplier: float | None
    epsilon: float
    delta: float | None
    unit: str | None
    confirmed: bool = False


@dataclass(frozen=True)
class Limit:
    """The largest epsilon that all releases of a data set may have together, at this delta."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Account:
    """All releases of the same data, and its limits.

    Attributes
    ----------
    names : every name that the data had.
    releases : in order.
    limits : all of them hold; usually there is one, or none.
    """

    names: tuple[str, ...]
    releases: tuple[Release, ...] = ()
    limits: tuple[Limit, ...] = ()

    @property
    def delta(self) -> float:
        """The delta at which the total is stated: the limit's, or else the smallest in use."""
        deltas = [limit.delta for limit in self.limits]
        deltas = deltas or [r.delta for r in self.releases if r.delta is not None]
        return min(deltas, default=DEFAULT_DELTA)

    @property
    def changed(self) -> bool:
        """Whether the data changed between releases."""
        return len({release.fingerprint for release in self.releases}) > 1

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon of all releases together."""
        return total((r.multiplier for r in self.releases), self.delta if delta is None else delta)

    def left(self, delta: float | None = None) -> float:
        """Return the largest epsilon that one more release may have at this delta."""
        at = self.delta if delta is None else delta
        return min((self._left(limit, at) for limit in self.limits), default=math.inf)

    def check(self, multiplier: float | None, delta: float | None, ledger: Path) -> None:
        """Raise a BudgetError if one more release would pass a limit."""
        before = [release.multiplier for release in self.releases]
        for limit in self.limits:
            after = math.inf if multiplier is None else total([*before, multiplier], limit.delta)
            if after > limit.epsilon * (1 + ROUNDING):
                raise BudgetError(self._refusal(limit, multiplier, delta, after, ledger))

    def _left(self, limit: Limit, delta: float) -> float:
        if not self.releases and delta == limit.delta:
            return limit.epsilon
        room = 1 / multiplier_for(limit.epsilon, limit.delta) ** 2
        for release in self.releases:
            room -= math.inf if release.multiplier is None else 1 / release.multiplier**2
        return total([1 / math.sqrt(room)], delta) if room > 0 else 0.0

    def _refusal(
        self,
        limit: Limit,
        multiplier: float | None,
        delta: float | None,
        after: float,
        ledger: Path,
    ) -> str:
        name = " = ".join(repr(name) for name in self.names[:3])
        start = f"The privacy budget of {name} does not allow this release"
        stated = f"the limit is epsilon {limit.epsilon:g} at delta {limit.delta:g}"
        if multiplier is None or delta is None:
            return (
                f"{start}: it would leave without noise, but {stated} "
                f"({ledger}). Only releases with an epsilon are possible."
            )
        adds = f"it has epsilon {total([multiplier], delta):.4g} at delta {delta:g}"
        spent = f"earlier releases have {in_words(self.spent(limit.delta))}"
        left = round_down(self.left(delta))
        rest = f"What is left allows epsilon {left:g} at delta {delta:g}." if left else ""
        advice = (
            f"To promise less, raise the limit: fedjigsaw privacy set-limit {quote(str(ledger))}"
        )
        if math.isinf(after):  # no limit is large enough
            advice = (
                "Something left without noise, so that no promise about these data is possible."
            )
        return (
            f"{start}: {adds}; {spent}; together they would have {in_words(after)}, but {stated}. "
            f"{rest or 'Nothing is left.'} {advice}"
        )


def total(multipliers: Iterable[float | None], delta: float) -> float:
    """Return the epsilon of releases with these multipliers together.

    Examples
    --------
    >>> round(total([9.062] * 4, 1e-6), 3), total([9.062, None], 1e-6), total([], 1e-6)
    (1.0, inf, 0.0)
    """
    values = []
    for multiplier in multipliers:
        if multiplier is None or multiplier < MIN_MULTIPLIER:
            return math.inf
        values.append(multiplier)
    if not values:
        return 0.0
    together = composed(values)
    return math.inf if together < MIN_MULTIPLIER else epsilon_of(together, delta)


def in_words(epsilon: float) -> str:
    """Return an epsilon as text, and never less.

    Examples
    --------
    >>> in_words(1.234321), in_words(math.inf)
    ('1.235', 'no bound')
    """
    return at_most(epsilon, 4) if math.isfinite(epsilon) else "no bound"


def round_down(epsilon: float) -> float:
    """Return an epsilon with three digits, and not more than this one.

    Examples
    --------
    >>> round_down(0.98765), round_down(1.23456), round_down(1e-5), round_down(0.0)
    (0.987, 1.23, 0.0, 0.0)
    """
    if not 1e-4 <= epsilon < math.inf:
        return 0.0 if epsilon < 1 else epsilon
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.floor(epsilon / step * (1 + ROUNDING)) * step:.3g}")
