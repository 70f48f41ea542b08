"""Units that sites use for the same thing, and how one becomes the other.

Mass and amount of a substance are converted by its molar mass, which follows from its formula:
glucose, C6H12O6, has 180.156 g/mol, so that 1 mmol/l = 18.0156 mg/dl. Everything else is a factor
by definition (1 lb = 0.45359237 kg, 1 in = 2.54 cm), or a factor and an offset (32 °F = 0 °C). For
hemoglobin A1c it is the master equation of NGSP and IFCC: % = 0.09148 mmol/mol + 2.152.
"""

import re
from dataclasses import dataclass

from fedjigsaw.errors import ParameterError

MASS, AMOUNT = "mass concentration", "amount concentration"


@dataclass(frozen=True)
class Conversion:
    """How a value in one unit becomes one in another: ``factor * value + offset``."""

    factor: float
    offset: float = 0.0


@dataclass(frozen=True)
class Substance:
    """Something that is measured in several units.

    Attributes
    ----------
    words : parts of column names that mean it.
    molar_mass : in g/mol, or 0 for what is no substance.
    typical : unit -> where the median of a group of people lies, healthy or ill.
    """

    words: tuple[str, ...]
    molar_mass: float
    typical: dict[str, tuple[float, float]]


# unit -> what it measures, and value in the first unit of its group: factor * value + offset
UNITS: dict[str, tuple[str, float, float]] = {
    **{
        f"{mass}/{volume}": (MASS, m / v, 0.0)  # in g/l
        for mass, m in {"g": 1, "mg": 1e-3, "µg": 1e-6, "ng": 1e-9, "pg": 1e-12}.items()
        for volume, v in {"l": 1, "dl": 0.1, "ml": 1e-3}.items()
    },
    **{
        f"{amount}/l": (AMOUNT, m, 0.0)  # in mol/l
        for amount, m in {"mol": 1, "mmol": 1e-3, "µmol": 1e-6, "nmol": 1e-9, "pmol": 1e-12}.items()
    },
    **{u: ("mass", f, 0.0) for u, f in {"kg": 1, "g": 1e-3, "mg": 1e-6, "lb": 0.45359237}.items()},
    **{
        u: ("length", f, 0.0)
        for u, f in {"m": 1, "cm": 0.01, "mm": 1e-3, "in": 0.0254, "ft": 0.3048}.items()
    },
    **{u: ("pressure", f, 0.0) for u, f in {"kPa": 1, "mmHg": 0.133322387415}.items()},
    **{u: ("energy", f, 0.0) for u, f in {"kJ": 1, "kcal": 4.184}.items()},
    **{u: ("volume", f, 0.0) for u, f in {"l": 1, "dl": 0.1, "ml": 1e-3}.items()},
    **{
        u: ("time", f, 0.0)
        for u, f in {"days": 1, "hours": 1 / 24, "minutes": 1 / 1440, "weeks": 7}.items()
    },
    **{u: ("age", f, 0.0) for u, f in {"years": 1, "months": 1 / 12}.items()},
    **{u: ("share", f, 0.0) for u, f in {"1": 1, "%": 0.01}.items()},
    "°C": ("temperature", 1.0, 0.0),
    "K": ("temperature", 1.0, -273.15),
    "°F": ("temperature", 5 / 9, -160 / 9),
    "% HbA1c": ("hemoglobin A1c", 1.0, 0.0),
    "mmol/mol": ("hemoglobin A1c", 0.09148, 2.152),
}
# unit -> how people write it, too
SPELLINGS = {
    spelling: unit
    for unit, spellings in {
        "°C": "c, °c, celsius, degc",
        "°F": "f, °f, fahrenheit, degf",
        "K": "k, kelvin",
        "lb": "lbs, pound, pounds",
        "in": "inch, inches",
        "ft": "foot, feet",
        "years": "year, yr, yrs, y, a",
        "months": "month, mo",
        "weeks": "week, wk",
        "days": "day, d",
        "hours": "hour, h, hr, hrs",
        "minutes": "minute, min",
        "%": "percent, pct",
        "mmHg": "mm hg, torr",
    }.items()
    for spelling in spellings.split(", ")
}
# words at the end of a name that may be no units: visits per day, year of birth, left foot
AMBIGUOUS = "in|min|mo|foot|feet|year|yr|month|week|wk|day|hour|hr|minute"
IN_NAME = re.compile(
    r".*[\[(]\s*(?P<inside>[^\])]+?)\s*[\])]\s*"
    rf"|(?!.*[\s_](per|pro|par)[\s_]).*[\s_](?!({AMBIGUOUS})\s*$)(?P<last>[^\s_\d]{{2,}}|%)\s*",
    re.IGNORECASE,
)
SUBSTANCES: dict[str, Substance] = {
    "glucose": Substance(  # C6H12O6
        ("glucose", "glukose", "glu", "blutzucker", "glycemia"),
        180.156,
        {"mg/dl": (60, 350), "mmol/l": (3.3, 20)},
    ),
    "creatinine": Substance(  # C4H7N3O
        ("creatinine", "kreatinin", "crea", "krea", "creatinin"),
        113.12,
        {"mg/dl": (0.3, 12), "µmol/l": (30, 1100)},
    ),
    "cholesterol": Substance(  # C27H46O
        ("cholesterol", "cholesterin", "chol", "hdl", "ldl"),
        386.664,
        {"mg/dl": (25, 400), "mmol/l": (0.6, 10)},
    ),
    "triglycerides": Substance(  # of oleic acid, C57H104O6
        ("triglycerides", "triglyceride", "triglyzeride", "tg"),
        885.453,
        {"mg/dl": (40, 800), "mmol/l": (0.45, 9)},
    ),
    "bilirubin": Substance(  # C33H36N4O6
        ("bilirubin", "bili"), 584.673, {"mg/dl": (0.1, 2), "µmol/l": (3, 300)}
    ),
    "urea": Substance(  # CH4N2O
        ("urea", "harnstoff"), 60.056, {"mg/dl": (10, 200), "mmol/l": (1.5, 9)}
    ),
    "uric acid": Substance(  # C5H4N4O3
        ("uric", "urate", "harnsäure", "harnsaeure"),
        168.112,
        {"mg/dl": (2, 15), "µmol/l": (120, 900)},
    ),
    "calcium": Substance(("calcium", "kalzium"), 40.078, {"mg/dl": (7, 14), "mmol/l": (1.7, 3.5)}),
    "magnesium": Substance(("magnesium",), 24.305, {}),
    "iron": Substance(("iron", "eisen"), 55.845, {}),
    "lactate": Substance(("lactate", "laktat"), 90.078, {}),  # C3H6O3
    "hemoglobin": Substance(  # of one chain, as laboratories count it
        ("hemoglobin", "haemoglobin", "hämoglobin", "hb", "hgb"),
        16114.5,
        {"g/dl": (10, 20), "g/l": (80, 200), "mmol/l": (5, 9.9)},
    ),
    "hemoglobin A1c": Substance(("hba1c", "a1c"), 0.0, {"% HbA1c": (4, 15), "mmol/mol": (20, 140)}),
    "temperature": Substance(
        ("temperature", "temperatur", "temp"), 0.0, {"°C": (34, 42), "°F": (93, 108)}
    ),
    "weight": Substance(("weight", "gewicht"), 0.0, {"kg": (30, 120), "lb": (121, 350)}),
    "height": Substance(
        ("height", "größe", "groesse", "körpergröße"),
        0.0,
        {"cm": (100, 210), "m": (1.0, 2.1), "in": (45, 80)},
    ),
}


def find_unit(text: str, substance: str | None = None) -> str | None:
    """Return the unit that a text means, as this module writes it; None if it is not known.

    Examples
    --------
    >>> find_unit("mg/dL"), find_unit("umol/L"), find_unit("lbs"), find_unit("poods")
    ('mg/dl', 'µmol/l', 'lb', None)
    """
    plain = text.strip().replace("μ", "µ").replace("mcg", "µg")
    if plain == "%" and substance == "hemoglobin A1c":
        return "% HbA1c"
    lower = {unit.lower(): unit for unit in UNITS}
    found = plain.lower()
    for spelling in (found, found.replace("umol", "µmol").replace("ug/", "µg/")):
        name = SPELLINGS.get(spelling, spelling)
        if name in UNITS or name in lower:
            return name if name in UNITS else lower[name]
    return None


def find_substance(name: str) -> str | None:
    """Return what a column measures, by the words of its name.

    Examples
    --------
    >>> find_substance("Glucose [mg/dl]"), find_substance("HDL_chol"), find_substance("age")
    ('glucose', 'cholesterol', None)
    """
    words = set(re.split(r"[\W_]+", name.lower()))
    found = [key for key, substance in SUBSTANCES.items() if words & set(substance.words)]
    return found[0] if len(found) == 1 else None


def unit_in_name(name: str) -> str | None:
    """Return the unit that the name of a column ends with, as it is written there, or None.

    Without brackets, short words may mean anything: the c of "vitamin c" is no degree.

    Examples
    --------
    >>> [unit_in_name(name) for name in ("CRP [mg/l]", "CRP mg/dL", "weight_kg", "age (years)")]
    ['mg/l', 'mg/dL', 'kg', 'years']
    >>> [unit_in_name(name) for name in ("vitamin c", "kg", "birth_year", "beers per days")]
    [None, None, None, None]
    """
    told = IN_NAME.fullmatch(name)
    text = (told["inside"] or told["last"]) if told else ""
    return text if find_unit(text, find_substance(name)) else None


def other_unit(name: str, target_name: str, unit: str) -> str | None:
    """Return the unit that a column's name tells, if it is not that of the column it shall become.

    Examples
    --------
    >>> other_unit("CRP mg/dL", "CRP", "mg/l"), other_unit("CRP [mg/L]", "CRP", "mg/l")
    ('mg/dL', None)
    """
    told, substance = unit_in_name(name), find_substance(target_name)
    if told is None or not unit:
        return None
    same = find_unit(told, substance) == find_unit(unit, substance)
    return None if same or find_unit(unit, substance) is None else told


def conversion(name: str, source: str, target: str) -> Conversion:
    """Return how values of a column become those of another unit; an error says why it cannot."""
    substance = find_substance(name)
    units = [find_unit(unit, substance) for unit in (source, target)]
    for text, found in zip((source, target), units, strict=True):
        if found is None:
            raise ParameterError(
                f"Unit {text!r} of column {name!r} is not known. Give the factor instead "
                f"(Changes.factors[{name!r}])."
            )
    (kind, factor, offset), (goal, divisor, shift) = (UNITS[unit] for unit in units if unit)
    if kind != goal:
        molar_mass = SUBSTANCES[substance].molar_mass if substance else 0.0
        if {kind, goal} != {MASS, AMOUNT} or not molar_mass:
            raise ParameterError(
                f"Column {name!r}: there is no known way from {source} to {target}. Give the "
                f"factor instead (Changes.factors[{name!r}])."
            )
        factor = factor / molar_mass if kind == MASS else factor * molar_mass
    return Conversion(factor / divisor, (offset - shift) / divisor)


def likely_units(name: str, median: float) -> list[str]:
    """Return the units in which this median of a column is a usual one."""
    substance = find_substance(name)
    typical = SUBSTANCES[substance].typical if substance else {}
    return [unit for unit, (low, high) in typical.items() if low <= median <= high]


def fitting_units(
    name: str, unit: str, median: float, limits: tuple[float, float] | None
) -> list[str]:
    """Return units other than `unit` that a column seems to be in, by its median.

    That is where the median is usual in these and not in `unit`; or, of a column that has a range,
    outside of the range as it is and inside after conversion.
    """
    substance = find_substance(name)
    own = find_unit(unit, substance)
    if own is None:
        return []
    likely = likely_units(name, median)
    if likely:
        return [] if own in likely else [u for u in likely if converts(name, u, own)]
    if limits is None or limits[0] <= median <= limits[1]:
        return []
    found: dict[float, str] = {}  # one of those that mean the same, such as g/l and mg/ml
    for other in UNITS:
        if other != own and converts(name, other, own):
            way = conversion(name, other, own)
            value = way.factor * median + way.offset
            if limits[0] <= value <= limits[1]:
                found.setdefault(float(f"{value:.9g}"), other)
    return list(found.values())


def converts(name: str, source: str, target: str) -> bool:
    try:
        conversion(name, source, target)
    except ParameterError:
        return False
    return True
