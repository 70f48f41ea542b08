"""What comes in from outside is checked here: parameters, data, client ids, seeds."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite, isinf, isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from fedjigsaw.errors import DataError, DataTypeError, ParameterError, complaint

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rows = Ints | slice  # some rows of an array
RandomState = int | np.random.RandomState | np.random.Generator | None

MAX_NAME_LENGTH = 200
MAX_MAGNITUDE = 1e100  # squares, summed over rows, stay finite


# ---------------------------------------------------------------------------------- parameters


@dataclass(frozen=True)
class Rule:
    """One row of a parameter table: which values pass, and how to say so."""

    allowed: str
    accepts: Callable[[object], bool]

    def check(self, name: str, owner: str, value: object) -> None:
        if not self.accepts(value):
            raise ParameterError(complaint(name, owner, self.allowed, repr(value)))


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


# ---------------------------------------------------------------------------------------- data


def check_data(estimator: Any, X: Any, *, owner: str, reset: bool) -> Floats:
    """Return the rows as finite float64, or say whose data are wrong, where, and why.

    Parameters
    ----------
    estimator : scikit-learn estimator that learns (``reset``) or knows the number and names of
        the columns.
    owner : how an error names the data, for instance ``"client 'a'"``.
    """
    try:
        rows: Floats = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False
        )
    except (TypeError, ValueError, OverflowError) as error:
        allowed = "a table of numbers: rows, at least one, of the same columns everywhere"
        reason = " ".join(str(error).split()).rstrip(".")
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(complaint("data", owner, allowed, f"this problem: {reason}")) from error
    size = np.abs(rows)
    if 0 < size.max(initial=0) < 1 / MAX_MAGNITUDE:
        got, advice = f"{size.max():g} as the largest", "Rescale them first."
        allowed = f"zero or at least {1 / MAX_MAGNITUDE:g} in size"
        raise DataError(complaint("data", owner, allowed, got, advice))
    bad = np.argwhere(~(size <= MAX_MAGNITUDE))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        value = float(rows[row, column])
        shown = "NaN" if isnan(value) else "infinity (inf)" if isinf(value) else f"{value:g}"
        got = f"{shown} in row {row}, column {column} ({len(bad)} such values in all)"
        allowed = f"finite, at most {MAX_MAGNITUDE:g} in size"
        advice = (
            "Drop or fill in those rows first." if not isfinite(value) else "Rescale them first."
        )
        raise DataError(complaint("data", owner, allowed, got, advice))
    return rows


# ---------------------------------------------------------------------------------- client ids


def check_name(name: str) -> str:
    """A client's name is what the transcript shows and what its random stream hangs on."""
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        allowed = f"printable and 1 to {MAX_NAME_LENGTH} characters long"
        raise DataError(complaint("name", "a client", allowed, repr(name)))
    return name


def name_clients(ids: Iterable[Hashable], *, owner: str) -> list[str]:
    """Turn integer or string ids into names; two ids must not share a name."""
    names = []
    for client in ids:
        if not (isinstance(client, str) or is_integer(client)):
            allowed = "integers or strings"
            advice = "Convert whole numbers to integers first." if isinstance(client, float) else ""
            raise DataTypeError(complaint("client ids", owner, allowed, repr(client), advice))
        names.append(check_name(str(client)))
    repeated = (
        {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else None
    )
    if repeated:
        raise DataError(
            complaint("client ids", owner, "different from one another", sorted(repeated))
        )
    return names


def rows_by_client(n_rows: int, clients: Any, *, owner: str) -> dict[str, Rows]:
    """Which rows each client holds, in ascending order; None is a single client."""
    if clients is None:
        return {"0": slice(None)}
    try:
        mixed = (
            isinstance(clients, (list, tuple)) and len({isinstance(c, str) for c in clients}) > 1
        )
        ids = np.asarray(clients, dtype=object if mixed else None)
    except ValueError as error:
        raise DataError(complaint("clients", owner, "one id per row", error)) from error
    if ids.shape != (n_rows,):
        allowed = f"one id per row, shape ({n_rows},)"
        raise DataError(complaint("clients", owner, allowed, f"shape {ids.shape}"))
    if ids.dtype.kind == "O":  # one by one: what is no id at all, and in which row
        for row, client in enumerate(ids):
            if not (isinstance(client, str) or is_integer(client)):
                got = f"{client!r} in row {row}"
                raise DataTypeError(complaint("client ids", owner, "integers or strings", got))
        if len({isinstance(client, str) for client in ids}) > 1:
            allowed = "all integers or all strings"
            raise DataTypeError(complaint("client ids", owner, allowed, "both"))
        ids = ids.astype(str)
    different, block = np.unique(ids, return_inverse=True)
    names = name_clients(different.tolist(), owner=owner)
    order = np.argsort(block, kind="stable")
    cuts = np.cumsum(np.bincount(block))[:-1]
    return dict(zip(names, np.split(order, cuts), strict=True))


# ---------------------------------------------------------------------------------- randomness


def generator(rng: object, owner: str) -> np.random.Generator:
    """A random generator from a generator or an integer."""
    if isinstance(rng, np.random.Generator):
        return rng
    integer(0).check("rng", owner, rng)
    return np.random.default_rng(int(rng))  # type: ignore[call-overload]


def resolve_seed(random_state: RandomState) -> int:
    """One integer per run: everything random in it follows from this number."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63 - 1))
    return int(random_state)


def stream(seed: int, round_number: int, client: str | None = None) -> np.random.Generator:
    """The random stream of one client (or, without a name, of the server) in one round.

    It depends on the client's *name*, not on its place in a list, so that who else takes part,
    and in which order, changes nothing.

    Examples
    --------
    >>> a, b = (int(stream(0, 0, "berlin").integers(1000)) for _ in range(2))
    >>> a == b != int(stream(0, 0, "paris").integers(1000))
    True
    """
    key: tuple[int, ...] = (round_number,)
    if client is not None:
        digest = blake2b(client.encode(), digest_size=16).digest()
        key += tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
