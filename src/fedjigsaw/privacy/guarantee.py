"""What a site promises about its rows: differential privacy with a stated epsilon and delta.

Two data sets are neighbors if one has one row more than the other (``unit="row"``), or if all rows
of one site were replaced by others (``unit="site"``). A release is (epsilon, delta)-differentially
private if, for any two neighbors and any set S of outputs, P(S) <= e^epsilon P'(S) + delta.
Everything that leaves a site under a :class:`Privacy` satisfies this, all parts of a message and
all rounds of a run together; the server is not trusted with more. Since every row is at one site,
the promise for a whole run is that of one site.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fedjigsaw._typing import Floats
from fedjigsaw.errors import ParameterError, PrivacyWarning, invalid, warn
from fedjigsaw.messages import OWN, SHARED
from fedjigsaw.parameters import fraction, integer, one_of, real
from fedjigsaw.validation import MAX_MAGNITUDE

ROW, SITE = "row", "site"
NARROWEST = 1 / MAX_MAGNITUDE  # bounds, so that rows can be divided by their width
MAX_EPSILON, MAX_DELTA = 100.0, 0.01  # beyond these, what promises nothing looks like a promise
MAX_ROWS_LOST = 0.1  # delta times rows
ROUNDING = 1e-9  # relative: four releases with half the budget's noise fill it exactly
STATED = ("epsilon", "delta", "bounds", "unit", "cells", "rows_per_site")  # in a file
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

    def __post_init__(self) -> None:
        owner = "Privacy"
        real(0, inclusive=False).check("epsilon", owner, self.epsilon)
        if float(self.epsilon) > MAX_EPSILON:
            allowed = f"at most {MAX_EPSILON:g}, since a larger one promises nothing"
            raise ParameterError(invalid("epsilon", owner, allowed, self.epsilon))
        fraction(zero=False, one=False).check("delta", owner, self.delta)
        if float(self.delta) > MAX_DELTA:
            allowed = f"at most {MAX_DELTA:g}; it should be well below 1 / rows"
            raise ParameterError(invalid("delta", owner, allowed, self.delta))
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

    def limits(self, n_columns: int) -> tuple[Floats, Floats]:
        """Return the least and greatest value of each column."""
        low, high = (np.array(values, dtype=np.float64) for values in self.bounds)
        for values in (low, high):
            if len(values) not in (1, n_columns):
                allowed = f"two numbers, or two lists of {n_columns}, one number per column"
                got = f"lists of {len(values)}"
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


def warn_of_large_delta(privacy: Privacy, n_rows: int) -> None:
    """Warn a site whose delta is near 1 / rows; the number of rows must be a noisy one."""
    if n_rows * privacy.delta > MAX_ROWS_LOST:
        warn(
            f"delta = {privacy.delta:g} is not far below 1 / rows: a promise with such a delta may "
            "be kept by giving away single rows. Use a smaller one.",
            PrivacyWarning,
        )


def _checked(bounds: object) -> tuple[Limits, Limits]:
    """Return bounds as two tuples; the first problem is a ParameterError."""
    allowed = (
        "two finite numbers, low < high, or two lists of them with one number per column; "
        "public values from a schema, not from the rows"
    )
    try:
        least, greatest = map(_limits, bounds)  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise ParameterError(invalid("bounds", "Privacy", allowed, repr(bounds))) from error
    low, high = np.array(least), np.array(greatest)
    if len(low) != len(high) or not len(low) or not (low < high).all():
        raise ParameterError(invalid("bounds", "Privacy", allowed, repr(bounds)))
    if not (np.abs([low, high]) <= MAX_MAGNITUDE).all() or not (high - low >= NARROWEST).all():
        raise ParameterError(invalid("bounds", "Privacy", allowed, repr(bounds)))
    return least, greatest


def _limits(values: object) -> Limits:
    if isinstance(values, (str, bytes, bool)):
        raise TypeError("not a number")
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise TypeError("not numbers")
    return tuple(float(value) for value in array)
