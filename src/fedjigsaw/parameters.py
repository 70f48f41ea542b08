"""Rules for the values of parameters, for authors of methods.

A method lists its parameters in a table, one :class:`Rule` per parameter. A value that breaks its
rule raises a ParameterError that names the parameter and what is allowed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real

import numpy as np

from fedjigsaw.errors import ParameterError, invalid


@dataclass(frozen=True)
class Rule:
    """One row of a parameter table: which values pass, and how to say so."""

    allowed: str
    accepts: Callable[[object], bool]

    def check(self, name: str, owner: str, value: object) -> None:
        if not self.accepts(value):
            raise ParameterError(invalid(name, owner, self.allowed, repr(value)))


def is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def integer(low: int, *, or_none: bool = False, or_word: str | None = None) -> Rule:
    return Rule(
        f"an integer >= {low}" + " or None" * or_none + (f" or {or_word!r}" if or_word else ""),
        lambda value: (
            (value is None and or_none)
            or (isinstance(value, str) and value == or_word)
            or (is_integer(value) and int(value) >= low)  # type: ignore[call-overload]
        ),
    )


def real(low: float, *, inclusive: bool = True) -> Rule:
    def accepts(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
            return False
        try:
            number = float(value)
        except OverflowError:  # an integer beyond all floats
            return False
        return isfinite(number) and (number >= low if inclusive else number > low)

    return Rule(f"a finite number {'>=' if inclusive else '>'} {low:g}", accepts)


def fraction(*, zero: bool = True, one: bool = True) -> Rule:
    """Accept numbers from 0 to 1, with or without the two ends."""
    number = real(0, inclusive=zero)
    return Rule(
        f"a number {'>=' if zero else '>'} 0 and {'<=' if one else '<'} 1",
        lambda v: number.accepts(v) and (float(v) <= 1 if one else float(v) < 1),  # type: ignore[arg-type]
    )


def one_of(*choices: str) -> Rule:
    return Rule(
        "one of " + ", ".join(map(repr, choices)),
        lambda value: isinstance(value, str) and value in choices,
    )


def boolean() -> Rule:
    return Rule("True or False", lambda value: isinstance(value, (bool, np.bool_)))


def seed_source() -> Rule:
    return Rule(
        "an integer >= 0, a numpy RandomState or Generator, or None",
        lambda value: (
            value is None
            or isinstance(value, (np.random.RandomState, np.random.Generator))
            or (is_integer(value) and int(value) >= 0)  # type: ignore[call-overload]
        ),
    )


def check_parameters(owner: str, rules: Mapping[str, Rule], values: Mapping[str, object]) -> None:
    """Hold every value against its row of the table; the first that fails is named."""
    for name, rule in rules.items():
        rule.check(name, owner, values[name])
