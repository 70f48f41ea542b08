"""Values that are nearly numbers or dates: <5, and years of two digits."""

import re

from fedjigsaw.columns.schema import DATE, NUMBER

LIMIT = re.compile(r"(<|>|≤|≥)=? ?[0-9][0-9.,]*")
SHORT_YEAR = re.compile(r"[0-9]{1,2}([./-])([0-9]{1,2}|[A-Za-z]{3})\1[0-9]{2}( .*)?")
LIMIT_ADVICE = "Write a number in place of such limits, chosen alike at all sites."
YEAR_ADVICE = "Write years with four digits: 45 may be 1945 or 2045."


def is_limit(text: str) -> bool:
    """Tell whether a text says that a value is below or above a number.

    Examples
    --------
    >>> is_limit("<5"), is_limit(">= 0,3"), is_limit("5")
    (True, True, False)
    """
    return LIMIT.fullmatch(text) is not None


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
    >>> advice_for("number", "<5")
    'Write a number in place of such limits, chosen alike at all sites.'
    """
    text = text.strip()
    if kind == NUMBER and is_limit(text):
        return LIMIT_ADVICE
    return YEAR_ADVICE if kind == DATE and has_short_year(text) else ""
