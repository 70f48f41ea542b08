"""Conversions follow from formulas and definitions."""

import re
from itertools import pairwise

import pytest

from fedjigsaw.columns.units import (
    SUBSTANCES,
    UNITS,
    conversion,
    find_substance,
    find_unit,
    fitting_units,
    likely_units,
)
from fedjigsaw.errors import ParameterError

WEIGHTS = {
    "C": 12.011,
    "H": 1.008,
    "N": 14.007,
    "O": 15.999,
    "Ca": 40.078,
    "Mg": 24.305,
    "Fe": 55.845,
}
FORMULAS = {
    "glucose": "C6H12O6",
    "creatinine": "C4H7N3O",
    "cholesterol": "C27H46O",
    "triglycerides": "C57H104O6",
    "bilirubin": "C33H36N4O6",
    "urea": "CH4N2O",
    "uric acid": "C5H4N4O3",
    "calcium": "Ca",
    "magnesium": "Mg",
    "iron": "Fe",
    "lactate": "C3H6O3",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_molar_masses_follow_from_formulas(name):
    atoms = re.findall(r"([A-Z][a-z]?)(\d*)", FORMULAS[name])
    mass = sum(WEIGHTS[atom] * int(n or 1) for atom, n in atoms)
    assert SUBSTANCES[name].molar_mass == pytest.approx(mass, abs=2e-3)


@pytest.mark.parametrize(
    ("column", "source", "target", "value", "expected"),
    [
        ("glucose", "mmol/l", "mg/dl", 5.5, 99.09),
        ("Glukose", "mmol/L", "mg/dL", 5.5, 99.09),
        ("creatinine", "µmol/l", "mg/dl", 88.4, 1.0),
        ("creatinine", "umol/L", "mg/dl", 88.4, 1.0),
        ("chol", "mmol/l", "mg/dl", 5.0, 193.3),
        ("hb", "g/dl", "mmol/l", 15.0, 9.31),
        ("hb", "g/l", "g/dl", 150.0, 15.0),
        ("temp", "°F", "°C", 98.6, 37.0),
        ("temp", "K", "°C", 310.15, 37.0),
        ("hba1c", "mmol/mol", "%", 53.0, 7.0),
        ("weight", "lb", "kg", 154.3236, 70.0),
        ("height", "in", "cm", 70.0, 177.8),
        ("height", "m", "cm", 1.78, 178.0),
        ("bp", "kPa", "mmHg", 16.0, 120.01),
        ("age", "months", "years", 18.0, 1.5),
    ],
)
def test_conversions_known_to_everyone(column, source, target, value, expected):
    way = conversion(column, source, target)
    assert way.factor * value + way.offset == pytest.approx(expected, rel=2e-3)
    back = conversion(column, target, source)
    there = way.factor * value + way.offset
    assert back.factor * there + back.offset == pytest.approx(value)


def test_what_cannot_be_converted_is_told():
    with pytest.raises(
        ParameterError,
        match="Unit 'poods' of column 'weight' is not known.*Changes.factors\\['weight'\\]",
    ):
        conversion("weight", "poods", "kg")
    with pytest.raises(ParameterError, match="no known way from mmol/l to mg/dl"):
        conversion("x", "mmol/l", "mg/dl")  # of which substance?
    with pytest.raises(ParameterError, match="no known way from kg to cm"):
        conversion("weight", "kg", "cm")


def test_every_typical_unit_is_known_and_converts():
    for name, substance in SUBSTANCES.items():
        units = list(substance.typical)
        assert set(units) <= set(UNITS)
        for unit in units[1:]:
            assert conversion(substance.words[0], unit, units[0]).factor > 0, name


def test_typical_ranges_of_two_units_never_overlap():
    for substance in SUBSTANCES.values():
        ranges = sorted(substance.typical.values())
        assert all(a[1] <= b[0] for a, b in pairwise(ranges))


def test_units_are_suspected_by_the_median():
    assert fitting_units("glucose", "mg/dl", 5.6, (0, 500)) == ["mmol/l"]
    assert fitting_units("glucose", "mg/dl", 101.0, (0, 500)) == []
    assert fitting_units("glucose", "", 5.6, (0, 500)) == []  # nothing to compare with
    assert fitting_units("dose", "mg/l", 0.05, (10, 100)) == ["g/l"]  # mg/ml is the same
    assert fitting_units("bmi", "kg/m2", 3.0, (10, 60)) == []
    assert likely_units("temp", 98.6) == ["°F"]


def test_names_are_read_by_words():
    assert find_substance("HbA1c (%)") == "hemoglobin A1c"
    assert find_substance("templates") is None
    assert find_unit("MMHG") == "mmHg"
    assert find_unit("mcg/l") == "µg/l"
