"""Rules for the values of parameters, for authors of methods.

A method lists its parameters in a table, with one :class:`Rule` per parameter. A value that breaks
its rule raises a ParameterError that names the parameter and the allowed values.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from math import inf, isfinite
from numbers import Integral, Real

import numpy as np

from fedjigsaw.errors import ParameterError, invalid


@dataclass(frozen=True)
class Rule:
    """Rule for the values of a parameter: a description for errors, and a test.

    Parameters
    ----------
    allowed : str
        The allowed values, in words that follow "must be".
    accepts : callable
        Says whether a value is allowed.

    Examples
    --------
    >>> from fedjigsaw.parameters import Rule
    >>> Rule("even", lambda value: value % 2 == 0).check("size", "Pairs", 3)
    Traceback (most recent call last):
    fedjigsaw.errors.ParameterError: size of Pairs must be even; got 3.
    """

    allowed: str
    accepts: Callable[[object], bool]

    def check(self, name: str, owner: str, value: object) -> None:
        """Raise a ParameterError if the value is not allowed for parameter `name` of `owner`."""
        if not self.accepts(value):
            text = invalid(name, owner, self.allowed, repr(value))
            raise ParameterError(text, parameter=name)


def is_integer(value: object) -> bool:
    """Whether a value is an integer of Python or NumPy, and not a boolean.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.parameters import is_integer
    >>> is_integer(np.int64(3)), is_integer(3.0), is_integer(True)
    (True, False, False)
    """
    if type(value) is int:  # nearly always; an abstract class takes longer to ask
        return True
    return isinstance(value, Integral) and not isinstance(value, bool)


def integer(
    low: int, high: int | None = None, *, or_none: bool = False, or_word: str | None = None
) -> Rule:
    """Allow integers >= `low`, at most `high` if given, and also None or one word if asked.

    Parameters
    ----------
    low, high : int
        Least and greatest value; `high` None is no limit.
    or_none : bool, default False
        Whether None is allowed, too.
    or_word : str or None
        A text that is allowed, too, such as "auto".

    Examples
    --------
    >>> from fedjigsaw.parameters import integer
    >>> integer(1, or_word="auto").allowed
    "an integer >= 1 or 'auto'"
    """
    most = "" if high is None else f" and <= {high}"
    others = " or None" * or_none + (f" or {or_word!r}" if or_word else "")

    def accepts(value: object) -> bool:
        if is_integer(value):
            return low <= int(value) and (high is None or int(value) <= high)  # type: ignore[call-overload]
        return or_none if value is None else isinstance(value, str) and value == or_word

    return Rule(f"an integer >= {low}{most}{others}", accepts)


def real(low: float, high: float = inf, *, inclusive: bool = True) -> Rule:
    """Allow finite numbers >= `low`, or > `low` if not `inclusive`, and at most `high`.

    Examples
    --------
    >>> from fedjigsaw.parameters import real
    >>> real(0, 5, inclusive=False).allowed
    'a finite number > 0 and <= 5'
    """

    def accepts(value: object) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        with suppress(OverflowError):  # an integer too large for a float
            number = float(value)
            return isfinite(number) and low <= number <= high and (inclusive or number > low)
        return False

    most = "" if high == inf else f" and <= {high:g}"
    return Rule(f"a finite number {'>=' if inclusive else '>'} {low:g}{most}", accepts)


def fraction(*, zero: bool = True, one: bool = True) -> Rule:
    """Allow numbers from 0 to 1; 0 itself only with `zero`, 1 itself only with `one`.

    Examples
    --------
    >>> from fedjigsaw.parameters import fraction
    >>> fraction(zero=False).allowed
    'a number > 0 and <= 1'
    """
    number = real(0, 1, inclusive=zero)
    allowed = f"a number {'>=' if zero else '>'} 0 and {'<=' if one else '<'} 1"
    return Rule(allowed, lambda value: number.accepts(value) and (one or value != 1))


def one_of(*choices: str) -> Rule:
    """Allow the strings that are given as `choices`.

    Examples
    --------
    >>> from fedjigsaw.parameters import one_of
    >>> one_of("ward", "single").allowed
    "one of 'ward', 'single'"
    """
    allowed = "one of " + ", ".join(map(repr, choices))
    return Rule(allowed, lambda value: isinstance(value, str) and value in choices)


def boolean() -> Rule:
    """Allow True and False.

    Examples
    --------
    >>> from fedjigsaw.parameters import boolean
    >>> boolean().accepts(True), boolean().accepts(1)
    (True, False)
    """
    return Rule("True or False", lambda value: isinstance(value, (bool, np.bool_)))


def seed_source() -> Rule:
    """Allow what scikit-learn allows for `random_state`, and generators of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from fedjigsaw.parameters import seed_source
    >>> seed_source().accepts(np.random.default_rng(0)), seed_source().accepts(-1)
    (True, False)
    """
    kinds = (np.random.RandomState, np.random.Generator)
    return Rule(
        "an integer >= 0, a numpy RandomState or Generator, or None",
        lambda value: isinstance(value, kinds) or integer(0, or_none=True).accepts(value),
    )


def names() -> Rule:
    """Allow lists of texts and integers, as clients may be named, and None.

    Examples
    --------
    >>> from fedjigsaw.parameters import names
    >>> names().accepts(["bern", 3]), names().accepts("bern")
    (True, False)
    """

    def accepts(value: object) -> bool:
        listed = isinstance(value, (list, tuple))
        return value is None or (
            listed and all(isinstance(one, str) or is_integer(one) for one in value)  # type: ignore[attr-defined]
        )

    return Rule("a list of names or None", accepts)


def check_parameters(owner: str, rules: Mapping[str, Rule], values: Mapping[str, object]) -> None:
    """Check every value against its rule; the first one that fails raises a ParameterError.

    Parameters
    ----------
    owner : str
        Name of the class, for the error.
    rules, values : mapping
        The rule and the value of each parameter, by its name.

    Examples
    --------
    >>> from fedjigsaw.parameters import check_parameters, integer
    >>> check_parameters("Pairs", {"size": integer(1)}, {"size": 0})
    Traceback (most recent call last):
    fedjigsaw.errors.ParameterError: size of Pairs must be an integer >= 1; got 0.
    """
    for name, rule in rules.items():
        if name not in values:
            raise ParameterError(
                f"{owner} has a rule for {name!r}, which is no parameter of its __init__."
            )
        rule.check(name, owner, values[name])


def anything() -> Rule:
    """Allow every value: for parameters that a method checks itself, or not at all.

    Examples
    --------
    >>> from fedjigsaw.parameters import anything
    >>> anything().accepts(object())
    True
    """
    return Rule("any value", lambda value: True)


def complete_rules(
    init: Callable[..., object], rules: Mapping[str, Rule], inherited: Mapping[str, Rule]
) -> dict[str, Rule]:
    """Return rules for all parameters of an ``__init__``, of which some may have none.

    A parameter without a rule has that of the parent class. New ones are not checked, but for
    `n_clusters`, which is an integer >= 1 (or its default, if that is a word such as "auto"), and
    `random_state`.

    Examples
    --------
    >>> from fedjigsaw.parameters import complete_rules
    >>> def init(self, n_clusters=8, *, linkage="ward"): ...
    >>> {name: rule.allowed for name, rule in complete_rules(init, {}, {}).items()}
    {'n_clusters': 'an integer >= 1', 'linkage': 'any value'}
    """
    made = dict(rules)
    for given in list(signature(init).parameters.values())[1:]:
        name, default, inherits = given.name, given.default, inherited.get(given.name)
        if name in made or given.kind not in (given.POSITIONAL_OR_KEYWORD, given.KEYWORD_ONLY):
            continue
        if inherits and (default is given.empty or inherits.accepts(default)):
            made[name] = inherits
        elif name == "n_clusters":
            made[name] = integer(1, or_word=default if isinstance(default, str) else None)
        else:
            made[name] = seed_source() if name == "random_state" else anything()
    return made
