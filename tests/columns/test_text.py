"""Texts of a file as numbers."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from fedjigsaw.columns.text import MISSING, TextFormat, composed, to_numbers
from fedjigsaw.errors import ParameterError

GERMAN, SWISS, FRENCH = TextFormat(",", "."), TextFormat(".", "'"), TextFormat(",", " ")


@pytest.mark.parametrize(
    ("text", "written", "number"),
    [
        (TextFormat(), "1234.5", 1234.5),
        (TextFormat(), "1e3", 1000),
        (TextFormat(","), "-1234,5", -1234.5),
        (TextFormat(","), "1,5e3", 1500),
        (TextFormat(","), ",5", 0.5),
        (TextFormat(",", "."), "1.234.567,5", 1234567.5),
        (TextFormat(",", "."), "1234567,5", 1234567.5),
        (TextFormat(",", "."), "-12.345", -12345),
        (TextFormat(".", ","), "1,234,567.5", 1234567.5),
        (SWISS, "1'234'567.5", 1234567.5),
        (SWISS, "1’234.5", 1234.5),
        (FRENCH, "1 234,5", 1234.5),
        (FRENCH, "1\u00a0234\u202f567,5", 1234567.5),
        (FRENCH, " 12 ", 12),
    ],
)
def test_numbers_are_read_as_they_are_written(text, written, number):
    assert to_numbers(pa.array([written]), text).tolist() == [number]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((TextFormat(), word) for word in ("1,5", "1'000", "1 000", "1_000", "12%", "x", "0x1f")),
        *((TextFormat(","), word) for word in ("1.5", "1,23,4", "1.234,5", "1 000")),
        *((GERMAN, word) for word in ("1.5", "1.23", "1234.567", "1.234,5.6", "1,234.567", ".123")),
        *((TextFormat(".", ","), word) for word in ("1,23,4", "1.234,567", "1234,567", "1,,234")),
        *((FRENCH, word) for word in ("1 23", "12 34 56", "1 234.5")),
    ],
)
def test_other_texts_are_no_numbers(text, written):
    assert to_numbers(pa.array(["1", written]), text) is None


@pytest.mark.parametrize("text", [TextFormat(), GERMAN, SWISS, FRENCH])
def test_marks_for_missing_values(text):
    assert np.isnan(to_numbers(pa.array([*MISSING, " k.A. ", None]), text)).all()
    hides = [to_numbers(pa.array([mark]), TextFormat(missing=())) is not None for mark in MISSING]
    assert {mark for mark, hidden in zip(MISSING, hides, strict=True) if hidden} <= {"NaN", "nan"}


def test_other_types_are_read_as_they_are():
    assert to_numbers(pa.array([1, None], pa.int8()), GERMAN).tolist()[0] == 1
    assert to_numbers(pa.array(["1,5", "2"]).dictionary_encode(), GERMAN).tolist() == [1.5, 2]
    assert to_numbers(pa.array([0], pa.date32()), GERMAN) is None


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_letters_are_composed_and_nothing_else_is_changed(kind):
    texts = ["u\u0308", None, "plain", "\u00fc", "u\u0308", ""]
    found = composed(pa.array(texts, kind))
    assert found.type == kind
    assert found.to_pylist() == ["\u00fc", None, "plain", "\u00fc", "\u00fc", ""]
    for unchanged in (["plain", None], [None], []):
        assert composed(pa.array(unchanged, kind)).to_pylist() == unchanged


@pytest.mark.parametrize("signs", [("x", ""), ("", ""), (".", "."), (",", ","), (".", "_")])
def test_impossible_formats_are_refused(signs):
    with pytest.raises(ParameterError, match="of TextFormat must be"):
        TextFormat(*signs)


def test_decimals_are_the_numbers_that_their_texts_are():
    texts = [f"{cents // 100}.{cents % 100:02}" for cents in range(0, 2_000_000, 1999)]
    decimals = pa.array([*map(Decimal, texts), None], pa.decimal128(20, 2))
    found = to_numbers(decimals, TextFormat())
    assert found[:-1].tolist() == list(map(float, texts))
    assert np.isnan(found[-1])
