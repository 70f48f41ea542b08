"""Compare values of JSON with the types of a dataclass's fields."""

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

WORDS: dict[Any, str] = {
    str: "a text",
    int: "a number without decimals",
    float: "a number",
    bool: "true or false",
    NoneType: "nothing",
    Mapping: "names with values",
}


def fits(value: object, kind: Any) -> bool:
    """Return whether a value of JSON has a type. Types that JSON cannot hold fit nothing.

    Examples
    --------
    >>> fits([1, 2], Sequence[int]), fits(True, int), fits(None, int | None), fits(1, float)
    (True, False, True, True)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin in (Sequence, list, tuple):
        of = inner[0] if inner else Any
        return isinstance(value, list) and all(fits(one, of) for one in value)
    if origin in (Mapping, dict):
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if kind is float:
        return type(value) in (int, float)
    return kind in (str, int, bool, NoneType) and type(value) is kind


def describe(kind: Any) -> str:
    """Return a type in words.

    Examples
    --------
    >>> describe(int | None), describe(Sequence[str])
    ('a number without decimals, or nothing', 'a list of texts')
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return ", or ".join(map(describe, inner))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin in (Sequence, list, tuple):
        return "a list of texts" if inner[:1] == (str,) else "a list"
    return WORDS.get(origin or kind, "something else")
