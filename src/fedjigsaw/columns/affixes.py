"""Values that are nearly numbers or dates: 5 mg, 98 %, <5, and days as Excel counts them."""

import re

from fedjigsaw.columns.schema import DATE, NUMBER
from fedjigsaw.columns.units import find_unit

CURRENCIES = ("$", "€", "£", "EUR", "USD", "CHF", "GBP")
LIMIT = re.compile(r"(<|>|≤|≥)=? ?[0-9][0-9.,]*")
BESIDE = re.compile(
    r"(?P<before>[^0-9\s.,+-]*)\s?[+-]?[0-9][0-9.,' ]*?(?P<blank>\s?)(?P<behind>[^0-9\s.,:-]\S*)?"
)
EXCEL_DAYS = 36_526, 49_674  # the years 2000 to 2035, as Excel counts days
AS_DATES = "format the column as dates there, and export it again."  # in Excel
SHORT_YEAR = re.compile(r"[0-9]{1,2}([./-])([0-9]{1,2}|[A-Za-z]{3})\1[0-9]{2}( .*)?")
ADVICE = {
    "limit": "Write a number in place of such limits, chosen alike at all sites.",
    "unit": "Write the numbers alone, without units and signs.",
    "year": "Write years with four digits: 45 may be 1945 or 2045.",
    "day": f"Days are counted as in Excel: {AS_DATES}",
}


def is_limit(text: str) -> bool:
    """Tell whether a text says that a value is below or above a number.

    Examples
    --------
    >>> is_limit("<5"), is_limit(">= 0,3"), is_limit("5")
    (True, True, False)
    """
    return LIMIT.fullmatch(text) is not None


def unit_beside(text: str) -> str:
    """Return the unit, percent sign or currency beside a number; empty if there is none.

    A letter that follows at once is no unit: 3a and T2 are codes.

    Examples
    --------
    >>> [unit_beside(t) for t in ("5 mg", "98%", "$1,234.50", "T2", "3a", "30+", "10-19", "5")]
    ['mg', '%', '$', '', '', '', '', '']
    """
    found = BESIDE.fullmatch(text)
    if found is None:
        return ""
    before, behind = found["before"], found["behind"] or ""
    if bool(before) == bool(behind):
        return ""
    if before:
        return before if before in CURRENCIES else ""
    known = behind in ("%", *CURRENCIES) or find_unit(behind) is not None
    sure = len(behind) > 1 or found["blank"] or not behind.isalpha()
    return behind if known and sure else ""


def is_day_of_excel(number: float) -> bool:
    """Tell whether a number may be a day of our times, as Excel counts them."""
    return EXCEL_DAYS[0] <= number <= EXCEL_DAYS[1] and number == int(number)


def has_short_year(text: str) -> bool:
    """Tell whether a text is a date whose year has two digits.

    Examples
    --------
    >>> has_short_year("01.02.45"), has_short_year("01.02.1945")
    (True, False)
    """
    return SHORT_YEAR.fullmatch(text) is not None


def advice_for(kind: str, text: str) -> str:
    """Say what to do with a value that is nearly one of its column's kind; empty if it is not.

    Examples
    --------
    >>> advice_for("number", "5 mg"), advice_for("number", "high")
    ('Write the numbers alone, without units and signs.', '')
    """
    text = text.strip()
    if kind == NUMBER and is_limit(text):
        return ADVICE["limit"]
    if kind == NUMBER and unit_beside(text):
        return ADVICE["unit"]
    if kind == DATE and has_short_year(text):
        return ADVICE["year"]
    if kind == DATE and re.fullmatch("[0-9]{5}", text) and is_day_of_excel(int(text)):
        return ADVICE["day"]
    return ""
