"""Limits among numbers, and years of two digits, are named, with what to do."""

import pyarrow as pa
import pytest

from fedjigsaw.columns.recognition import Sighting, recognize
from fedjigsaw.columns.schema import Column
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.columns.values import BadValueError, read_values


def seen(values):
    sighting = Sighting("x")
    sighting.add(pa.array(values), TextFormat())
    sighting.end_of_file()
    return recognize(sighting, 5)


def test_limits_among_numbers_are_numbers_that_somebody_must_choose():
    found = seen([*["<5"] * 25, *(f"{5 + i / 3:.1f}" for i in range(50))])
    assert found.kind == "number"
    assert any("limits such as <5 are refused" in note for note in found.notes)
    assert seen(["<5", "5-10", ">10"] * 20).kind == "category"


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        ("number", "<5", "Write a number in place of such limits, chosen alike at all sites."),
        ("number", "5 mg", "count it as missing"),
        ("date", "01.02.45", "Write years with four digits"),
        ("date", "99999", "set the format of the column"),
    ],
)
def test_errors_say_what_to_do(kind, value, advice):
    with pytest.raises(BadValueError) as error:
        read_values(Column("x", kind), pa.array([value]), TextFormat())
    assert advice in error.value.advice
