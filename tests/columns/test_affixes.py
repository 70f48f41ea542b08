"""Values that are nearly numbers or dates are named, with what to do."""

import pyarrow as pa
import pytest

from fedjigsaw.columns.affixes import unit_beside
from fedjigsaw.columns.recognition import Sighting, recognize
from fedjigsaw.columns.schema import Column
from fedjigsaw.columns.text import TextFormat
from fedjigsaw.columns.values import BadValueError, read_values


def seen(values):
    sighting = Sighting("x")
    sighting.add(pa.array(values), TextFormat())
    sighting.end_of_file()
    return recognize(sighting, 5)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *[("62.5 kg", "kg"), ("5mg", "mg"), ("98 %", "%"), ("1,234.50 €", "€"), ("CHF 20", "CHF")],
        *[("-3 °C", "°C"), ("120 mmHg", "mmHg"), ("7 mg/dl", "mg/dl"), ("5 d", "d")],
        *[("E11", ""), ("Ward 3", ""), ("2m", ""), ("5-10", ""), ("12:30", ""), ("3 of 5", "")],
        *[("Dr. 5", ""), ("mg", ""), ("", ""), ("3rd", "")],
    ],
)
def test_units_beside_numbers(text, unit):
    assert unit_beside(text) == unit


def test_numbers_with_units_are_told():
    many = seen([f"{60 + i / 10:.1f} kg" for i in range(60)])
    assert (many.kind, many.why) == ("ignore", 'numbers beside "kg"')
    assert 'CHECK: "kg" beside numbers. Write the numbers alone' in many.notes[0]
    few = seen(["5 mg", "10 mg", "20"] * 20)
    assert (few.kind, few.categories) == ("category", ("10 mg", "20", "5 mg"))
    assert 'CHECK: "mg" beside numbers.' in few.notes[0]
    for codes in (["T1", "T2x", "N3"], ["10-19", "20-29", "30+"], ["3a", "3b", "2a"]):
        assert not seen(codes * 20).notes


def test_limits_among_numbers_are_numbers_that_somebody_must_choose():
    found = seen([*["<5"] * 25, *(f"{5 + i / 3:.1f}" for i in range(50))])
    assert found.kind == "number"
    assert any("limits such as <5 are refused" in note for note in found.notes)
    assert seen(["<5", "5-10", ">10"] * 20).kind == "category"


def test_days_of_excel():
    found = seen([str(45_000 + 7 * i) for i in range(30)] * 2)
    assert any("days as Excel counts them (45000 is 2023-03-15)" in note for note in found.notes)
    assert not any("Excel" in note for note in seen([str(1000 * i) for i in range(60)]).notes)


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        ("number", "<5", "Write a number in place of such limits, chosen alike at all sites."),
        ("number", "5 mg", "Write the numbers alone, without units and signs."),
        ("number", "high", "count it as missing"),
        ("date", "45589", "format the column as dates there, and export it again."),
        ("date", "99999", "set the format of the column"),
    ],
)
def test_errors_say_what_to_do(kind, value, advice):
    with pytest.raises(BadValueError) as error:
        read_values(Column("x", kind), pa.array([value]), TextFormat())
    assert advice in error.value.advice
