"""Differential privacy: what a site promises about its rows, and the noise that keeps the promise.

Two data sets are neighbors if one has one row more than the other (``unit="row"``), or if all rows
of one site were replaced by others (``unit="site"``). A release is (epsilon, delta)-differentially
private if, for any two neighbors and any set S of outputs, P(S) <= e^epsilon P'(S) + delta.
Everything that leaves a site under a :class:`Privacy` satisfies this, all parts of a message and
all rounds of a run together; the server is not trusted with more. Since every row is at one site,
the promise for a whole run is that of one site.

All noise is Gaussian, added to whole numbers. A release whose noise has standard deviation m times
its sensitivity has the *multiplier* m: it satisfies zero-concentrated differential privacy with
rho = 1 / (2 m^2), and the rho of several releases about the same rows add up, whatever each was
chosen to be after seeing the others. OpenDP turns rho into epsilon for a given delta.

Floating-point noise gives rows away in its low-order bits: not every float can be reached from
every other. So sums are whole numbers on a grid, and the noise is OpenDP's discrete Gaussian, drawn
without any rounding from the random numbers of the operating system.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from fedjigsaw._typing import Floats, Ints
from fedjigsaw.errors import (
    ExtraError,
    ParameterError,
    PrivacyWarning,
    invalid,
    requires_extra,
    warn,
)
from fedjigsaw.messages import OWN, SHARED, Broadcast, Summary
from fedjigsaw.parameters import integer, one_of, real
from fedjigsaw.random import stream
from fedjigsaw.validation import MAX_MAGNITUDE

ROW, SITE = "row", "site"
GRID = 2**20  # steps of 1 in the sums that noise is added to
NARROWEST = 1 / MAX_MAGNITUDE  # bounds, so that rows can be divided by their width
MAX_EPSILON, MAX_DELTA = 100.0, 0.01  # beyond these, what promises nothing looks like a promise
MAX_ROWS_LOST = 0.1  # delta times rows
ROUNDING = 1e-9  # relative: four releases with half the budget's noise fill it exactly
STATED = ("epsilon", "delta", "bounds", "unit", "cells", "rows_per_site")  # in a file
PRECISION = 1e-6  # relative, of a multiplier
LARGEST = 1e9  # multiplier: more noise than any data can bear
Limits = tuple[float, ...]


@dataclass(frozen=True)
class Privacy:
    """Differential privacy for the rows of each site.

    Parameters
    ----------
    epsilon : float
        How much one row may change the probability of any set of outputs: by a factor e^epsilon.
        1 is a strong promise, 10 a weak one.
    delta : float, default 1e-6
        Added to that bound. It must be well below 1 / rows.
    bounds : two numbers, or two lists with a number for each column
        Least and greatest value of the columns. They are public: take them from a schema or from
        knowledge of the field, never from the rows. Rows outside are clipped.
    unit : {"row", "site"}, default "row"
        Whose contribution is protected: one row's, or that of a whole site. "site" is for
        federations of very many small sites, such as phones.
    cells : {"own", "shared"} or None
        "own": each site looks for its clusters itself, which is best for sites with many rows.
        "shared": all sites describe the same cells of the bounds, which the server adds up: for
        many sites with few rows. None is chosen once for all sites, before anything leaves: in
        ``fit`` by `rows`, in a federation by the coordinator. With ``unit="site"`` it is "shared".
    rows_per_site : int, default 1
        With ``unit="site"``, the rows for which a site counts at most. 1 gives all sites the same
        weight.
    insecure_seed : int or None
        A seed for the noise, for tests and studies alone: whoever knows it can remove the noise.
        None draws the noise from the operating system's random numbers.
    rows : int or None
        Expected number of rows of all clients together, by which ``fit`` chooses `cells`. It is
        public, as is the number of clients: take it from what is known, and do not count for it.
        A factor of two hardly matters.

    Raises
    ------
    ParameterError
        If `bounds` are missing or low is not below high, if `epsilon` is not above 0 and at most
        100, if `delta` is not above 0 and at most 0.01, or if ``cells="own"`` is asked for with
        ``unit="site"``.

    Examples
    --------
    In a simulation, ``fit(X, clients=site, privacy=privacy)`` makes every client keep it.

    >>> from fedjigsaw import Privacy
    >>> privacy = Privacy(epsilon=1.0, bounds=(0, 120), rows=50_000)
    >>> privacy.sentence()
    'With or without any one row, any set of outputs is at most 2.72 times as likely, plus 1e-06.'
    """

    epsilon: float
    delta: float = 1e-6
    bounds: Any = None
    unit: str = ROW
    cells: str | None = None
    rows_per_site: int = 1
    insecure_seed: int | None = None
    rows: int | None = None
    half: ClassVar[str] = "summarize_privately"  # of a method, which this release asks

    def __post_init__(self) -> None:
        owner = "Privacy"
        real(0, MAX_EPSILON, inclusive=False).check("epsilon", owner, self.epsilon)
        real(0, MAX_DELTA, inclusive=False).check("delta", owner, self.delta)
        one_of(ROW, SITE).check("unit", owner, self.unit)
        integer(1).check("rows_per_site", owner, self.rows_per_site)
        integer(0, or_none=True).check("insecure_seed", owner, self.insecure_seed)
        integer(1, or_none=True).check("rows", owner, self.rows)
        if self.cells is None and self.unit == SITE:
            object.__setattr__(self, "cells", SHARED)
        if self.cells is not None:
            one_of(OWN, SHARED).check("cells", owner, self.cells)
        if self.unit == SITE and self.cells == OWN:
            text = invalid("cells", owner, "'shared' if the unit is a site", "'own'")
            raise ParameterError(text, parameter="cells")
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "bounds", _checked(self.bounds))

    def ready(self, data: Any, client: str) -> Any:
        """Return the data of a client as they may be summarized: as they are."""
        return data

    def summarize(
        self, method: Any, data: Any, broadcast: Broadcast, rng: np.random.Generator
    ) -> Any:
        """Let a method compute a summary of which all parts are noisy."""
        return method.summarize_privately(data, broadcast, rng, self)

    def leaving(self, summary: Summary, method: Any, data: Any, client: str) -> Summary:
        """Return what may leave of a noisy summary, with the client's name: all of it."""
        return replace(summary, client=client)

    def multiplier(self, n_rounds: int = 1) -> float:
        """Return the multiplier of one round, such that all rounds together keep the promise."""
        return multiplier_for(self.epsilon, self.delta) * math.sqrt(n_rounds)

    def limits(self, n_columns: int) -> tuple[Floats, Floats]:
        """Return the least and greatest value of each column."""
        low, high = (np.array(values, dtype=np.float64) for values in self.bounds)
        if len(low) not in (1, n_columns):
            allowed = f"two numbers, or two lists of {n_columns}, one number per column"
            got = f"lists of {len(low)}"
            raise ParameterError(invalid("bounds", "Privacy", allowed, got))
        return np.broadcast_to(low, n_columns), np.broadcast_to(high, n_columns)

    def within(self, centers: Floats) -> Floats:
        """Move centers that noise has pushed out of the bounds, which are public, to them."""
        low, high = self.limits(centers.shape[1])
        return np.clip(centers, low, high)

    def sentence(self) -> str:
        """State the promise in words."""
        if self.insecure_seed is not None:
            return "Nothing is promised: the noise is seeded, and who has the seed can remove it."
        who = "With or without any one row"
        if self.unit == SITE:
            who = "Whatever the rows of any one site are"
        return (
            f"{who}, any set of outputs is at most {factor_of(self.epsilon)} times as likely, "
            f"plus {self.delta:g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file's header, with the seed that voids a promise."""
        values = {name: getattr(self, name) for name in STATED}
        if self.insecure_seed is not None:
            values["insecure_seed"] = self.insecure_seed
        return values | {"bounds": [list(limits) for limits in self.bounds]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make the promise that a file states; a ParameterError if it is none."""
        if set(values) - {"insecure_seed"} != set(STATED):
            allowed = f"a table of {', '.join(STATED)}"
            raise ParameterError(invalid("privacy", "the file", allowed, sorted(values)))
        return cls(**values)

    def warn_of_large_delta(self, n_rows: int) -> None:
        """Warn a site whose delta is near 1 / rows; the number of rows must be a noisy one."""
        if n_rows * self.delta > MAX_ROWS_LOST:
            warn(
                f"delta = {self.delta:g} is not far below 1 / rows: a promise with such a delta "
                "may be kept by giving away single rows. Use a smaller one.",
                PrivacyWarning,
            )


def _checked(bounds: Any) -> tuple[Limits, Limits]:
    """Return bounds as two tuples; the first problem is a ParameterError."""
    try:
        low, high = (np.atleast_1d(np.asarray(values)) for values in bounds)
        numbers = low.dtype.kind in "iuf" and high.dtype.kind in "iuf"
        if numbers and low.ndim == 1 and low.shape == high.shape and len(low):
            low, high = low.astype(np.float64), high.astype(np.float64)
            good = (low < high) & (np.maximum(np.abs(low), np.abs(high)) <= MAX_MAGNITUDE)
            if good.all() and (high - low >= NARROWEST).all():
                return tuple(low.tolist()), tuple(high.tolist())
    except (TypeError, ValueError):
        pass
    allowed = (
        "two finite numbers, low < high, or two lists of them with one number per column; "
        "public values from a schema, not from the rows"
    )
    raise ParameterError(invalid("bounds", "Privacy", allowed, repr(bounds)))


def factor_of(epsilon: float) -> str:
    """Return e^epsilon as text, and never less.

    Examples
    --------
    >>> factor_of(1.0), factor_of(1.5), factor_of(1000.0)
    ('2.72', '4.49', 'above 1e+304')
    """
    return at_most(math.exp(epsilon), 3) if epsilon < 700 else "above 1e+304"


def at_most(value: float, n_digits: int) -> str:
    """Return a positive number as text with so many digits, rounded up: a bound stays one.

    Examples
    --------
    >>> at_most(4.4817, 3), at_most(2.0, 3), at_most(2.0 + 1e-12, 3), at_most(0.0, 3)
    ('4.49', '2', '2', '0')
    """
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - n_digits + 1)
    steps = math.ceil(value / step * (1 - ROUNDING))
    return f"{steps * step:.{n_digits}g}"


# ------------------------------------------------------------------------- accounting and noise


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
