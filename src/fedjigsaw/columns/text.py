"""Numbers as they are written in a file: decimal sign, thousands, marks for missing values."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedjigsaw._arrow import pc
from fedjigsaw._typing import Floats
from fedjigsaw.columns.words import UNKNOWN, spellings
from fedjigsaw.errors import ParameterError, invalid

Flags = npt.NDArray[np.bool_]
# Texts that stand for a missing value, at all sites alike. None of them can be a number, so that a
# column of numbers loses nothing; where one is a category of the schema, it is that.
MISSING = (
    *(
        "",
        "-",
        "--",
        "–",
        "—",
        "−",
        "?",
        ".",
        "NA",
        "N/A",
        "n/a",
        "n.a.",
        "NaN",
        "nan",
        "NaT",
        "<NA>",
    ),
    *("null", "NULL", "None", "k.A.", "k. A.", "o.A."),
    *("#N/A", "#NV", "#DIV/0!", "#NUM!", "#VALUE!"),
    *("0000-00-00", "0000-00-00 00:00:00", "00.00.0000", "00/00/0000"),
    *spellings(UNKNOWN),
)
# Those of them that could be an answer, so that a person is told of them.
TOLD = ("None", *spellings(UNKNOWN))
NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
MINUS = "−–"  # as people write it: a real minus, or a dash
# decimal sign or separator of thousands -> the signs that are read as such
SIGNS = {"": "", ".": ".", ",": ",", "'": "'’", " ": " \u00a0\u2009\u202f"}


@dataclass(frozen=True)
class TextFormat:
    """How numbers are written in a file.

    Attributes
    ----------
    decimal : "." or ","
    thousands : what separates thousands: nothing, ".", ",", "'" or a space
        An apostrophe or space stands for its typographic variants, too.
    missing : usual texts that stand for a missing value.
    marks : further ones, which a person named; among numbers, one that is a number is compared as
        a number, so that 999 and 999.0 are one.
    """

    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = MISSING
    marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise ParameterError(invalid("decimal", "TextFormat", '"." or ","', repr(self.decimal)))
        if self.thousands not in SIGNS or self.thousands == self.decimal:
            allowed = "nothing, a point, comma, apostrophe or space, and not the decimal sign"
            raise ParameterError(invalid("thousands", "TextFormat", allowed, repr(self.thousands)))

    def with_missing(self, marks: Iterable[str]) -> Self:
        """Return the same format with further texts that stand for a missing value."""
        return replace(self, marks=tuple(dict.fromkeys((*self.marks, *marks))))

    def keeping(self, categories: Iterable[str]) -> Self:
        """Return the same format without the usual texts that are categories of a column."""
        kept = set(categories)
        return replace(self, missing=tuple(text for text in self.missing if text not in kept))


def has_days(kind: pa.DataType) -> bool:
    """Tell whether values of a type are days: neither times of day nor durations are."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def to_numbers(values: pa.Array, text: TextFormat) -> Floats | None:
    """Cast to numbers, with NaN for missing values; None if a value is not a number.

    The result may be a view of the memory of Arrow, which is read-only.

    Examples
    --------
    >>> to_numbers(pa.array(["1.234,5", "-2", "k.A."]), TextFormat(",", "."))
    array([1234.5,   -2. ,    nan])
    >>> to_numbers(pa.array(["1,23,4"]), TextFormat(",")) is None
    True
    """
    values = plain(values)
    try:
        if is_text(values.type):
            cast = _cast_texts(without_missing(values, text), text)
        elif pa.types.is_decimal(values.type):  # by way of texts: Arrow's own cast is an ulp off
            cast = pc.cast(pc.cast(values, pa.string()), pa.float64())
        elif _is_numeric(values.type):
            cast = pc.cast(values, pa.float64(), safe=False)
        else:
            return None
    except pa.ArrowException:
        return None
    numbers: Floats = cast.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    marks = _as_numbers(text.marks) if text.marks else ()
    return np.where(np.isin(numbers, marks), np.nan, numbers) if marks else numbers


def whole(mark: str) -> str:
    """Return a mark as a category is read, so that 9.0 is 9.

    Examples
    --------
    >>> whole("9.0"), whole("9.5")
    ('9', '9.5')
    """
    return re.sub(r"^([+-]?[0-9]+)[.,]00?$", r"\1", mark)


@lru_cache(maxsize=64)
def _as_numbers(marks: tuple[str, ...]) -> tuple[float, ...]:
    """Return the numbers among marks, which are written with decimal points."""
    found = (to_numbers(pa.array([whole(mark)]), TextFormat(missing=())) for mark in marks)
    return tuple(float(number[0]) for number in found if number is not None)


def are_numbers(values: pa.Array, text: TextFormat) -> Flags:
    """Say of each text whether it is a finite number, or missing.

    Examples
    --------
    >>> are_numbers(pa.array(["1,5", "k.A.", "<5", "inf"]), TextFormat(",")).tolist()
    [True, True, False, False]
    """
    values = without_missing(plain(values), text)
    flags = pc.match_substring_regex(_rewrite(values, text), NUMBER).fill_null(True)
    found: Flags = flags.to_numpy(zero_copy_only=False)
    return found


def plain(values: pa.Array) -> pa.Array:
    """Replace indices into a dictionary by their values."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def is_text(kind: pa.DataType) -> bool:
    """Tell whether values of a type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_numeric(kind: pa.DataType) -> bool:
    tests = ("is_integer", "is_floating", "is_boolean", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)


def without_missing(values: pa.Array, text: TextFormat) -> pa.Array:
    """Trim spaces, and make marks for missing values null."""
    values = pc.utf8_trim_whitespace(values)
    missing = pc.is_in(values, value_set=_as_array((*text.missing, *text.marks), values.type))
    return pc.if_else(missing, pa.scalar(None, values.type), values)


@lru_cache(maxsize=64)  # it takes longer than to look for the words in a short column
def _as_array(words: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    """Return words in both ways of composing letters: values may have either."""
    forms = (normalize(form, word) for word in words for form in ("NFC", "NFD"))
    return pa.array(list(dict.fromkeys(forms)), kind)


def composed(values: pa.Array) -> pa.Array:
    """Return texts with each letter as one sign: a Mac may write "ü" as u and two dots.

    Examples
    --------
    >>> composed(pa.array(["Zu\\u0308rich"])).to_pylist() == ["Z\\u00fcrich"]
    True
    """
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return values
    coded = values.dictionary_encode()  # before pyarrow 26, pc.utf8_normalize composes nothing
    names = [normalize("NFC", name) for name in coded.dictionary.to_pylist()]
    return pa.array(names, values.type).take(coded.indices)


def count_told(values: pa.Array, text: TextFormat) -> Counter[str]:
    """Count words that stand for a missing value, but could be an answer.

    Examples
    --------
    >>> count_told(pa.array(["yes", " Unbekannt", "-", "None"]), TextFormat())
    Counter({'Unbekannt': 1, 'None': 1})
    """
    values = plain(values)
    if not is_text(values.type):
        return Counter()
    usual = {*text.missing} - {*text.marks}
    words = tuple(word for word in TOLD if word in usual)
    values = pc.utf8_trim_whitespace(values)
    found = values.filter(pc.is_in(values, value_set=_as_array(words, values.type)))
    return Counter(
        {entry["values"]: entry["counts"] for entry in pc.value_counts(found).to_pylist()}
    )


def _cast_texts(values: pa.Array, text: TextFormat) -> pa.Array:
    """Cast texts to numbers; raise if one is not a number in this format."""
    try:
        return pc.cast(_with_points(values, text.decimal), pa.float64())
    except pa.ArrowException:
        return pc.cast(_rewrite(values, text), pa.float64())


def _rewrite(values: pa.Array, text: TextFormat) -> pa.Array:
    """Write numbers as computers do; what is not a number in this format becomes no number."""
    values = pc.replace_substring_regex(values, f"^[{MINUS}]([0-9.,])", r"-\1")
    return _with_points(_joined(values, text) if text.thousands else values, text.decimal)


def _with_points(values: pa.Array, decimal: str) -> pa.Array:
    """Replace decimal commas by points; what was a point becomes no number."""
    if decimal == ".":
        return values
    return pc.replace_substring(pc.replace_substring(values, ".", ".."), ",", ".")


def _joined(values: pa.Array, text: TextFormat) -> pa.Array:
    """Remove what separates thousands; where it stands elsewhere, it stays."""
    sign = f"[{SIGNS[text.thousands]}]"
    grouped = rf"^[+-]?\d{{1,3}}({sign}\d{{3}})+([{text.decimal}]\d*)?([eE][+-]?\d+)?$"
    joined = pc.replace_substring_regex(values, sign, "")
    return pc.if_else(pc.match_substring_regex(values, grouped), joined, values)
