"""Numbers and names as people read them."""

from collections.abc import Sequence
from datetime import date
from math import isfinite

from fedjigsaw.errors import counted
from fedjigsaw.report.units import percent

MONTHS = (  # those of the standard library follow the language of the machine
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
LONGEST_NAME = 80  # characters of a name that are shown


def plain(text: str) -> str:
    """Return a text without control characters or signs that turn the direction of writing.

    Examples
    --------
    >>> plain("a\\u202eb\\n")
    'a\\\\u202eb '
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)


def short(name: str, most: int = LONGEST_NAME) -> str:
    """Return a plain name, cut if it is very long.

    Examples
    --------
    >>> short("abcdefghij", 6)
    'abcde…'
    """
    name = plain(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Join names as in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 others')
    """
    shown = [short(name) for name in names[:most]]
    if len(names) > most:
        shown.append(counted(len(names) - most, "other"))
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def share(part: float, whole: float) -> str:
    """Return a part in percent.

    Examples
    --------
    >>> share(1, 3), share(1, 1000), share(0, 0)
    ('33 %', '0.1 %', '0 %')
    """
    return percent(part / whole if whole else 0.0)


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a period.

    Examples
    --------
    >>> sentence("higher age")
    'Higher age.'
    """
    return text[:1].upper() + text[1:] + "."


def signed(difference: float) -> str:
    """Return a difference with its sign.

    Examples
    --------
    >>> signed(1.234), signed(-0.04), signed(float("nan")), signed(123.4)
    ('+1.2', '0', '', '+123')
    """
    if not isfinite(difference):
        return ""
    text = f"{difference:+.1f}" if abs(difference) < 100 else f"{difference:+.3g}"
    return "0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def day_in_words(day: date) -> str:
    """Return a date.

    Examples
    --------
    >>> day_in_words(date(2026, 11, 6))
    'November 6, 2026'
    """
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def size(n_bytes: int) -> str:
    """Return a number of bytes.

    Examples
    --------
    >>> size(900), size(12_345), size(3_400_000)
    ('900 bytes', '12.3 kB', '3.4 MB')
    """
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    return f"{n_bytes / 1e3:.1f} kB" if n_bytes < 1e6 else f"{n_bytes / 1e6:.1f} MB"
